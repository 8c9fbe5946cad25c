// Calls the API. Repeats a request after a failure of the network, a 429 and a 5xx. Needs Node 18 or later.
// The programs beside it read the environment variables SERVICE_URL and API_KEY.

import { setTimeout as sleep } from "node:timers/promises";

const ATTEMPTS = 6;
const MAX_WAIT_SECONDS = 60; // the rate limit counts by minutes

// How long to wait: as `Retry-After` says in seconds or as a date, else as the backoff.
function secondsOf(retryAfter, backoff) {
  const wait = /^[0-9]{1,9}$/.test(retryAfter) ? Number(retryAfter) : (Date.parse(retryAfter) - Date.now()) / 1000;
  return Number.isFinite(wait) ? Math.min(Math.max(wait, backoff), MAX_WAIT_SECONDS) : backoff;
}

export async function send(method, url, body, headers) {
  for (let attempt = 1; ; attempt += 1) {
    let wait = (0.5 + Math.random() / 2) * 2 ** (attempt - 1);
    try {
      const response = await fetch(url, { method, headers, body, signal: AbortSignal.timeout(30_000) });
      if (response.ok) return await response.text();
      const refused = new Error(`${response.status}: ${await response.text()}`);
      refused.final = response.status !== 429 && response.status < 500;
      wait = secondsOf(response.headers.get("Retry-After"), wait);
      throw refused;
    } catch (error) {
      if (error.final || attempt === ATTEMPTS) throw error;
    }
    await sleep(wait * 1000);
  }
}

export async function call(method, path, body, headers = {}) {
  const { SERVICE_URL, API_KEY } = process.env;
  const all = { apikey: API_KEY, "Content-Type": "application/json", ...headers };
  return JSON.parse(await send(method, SERVICE_URL + path, body && JSON.stringify(body), all));
}

// All objects of a list, newest first.
export async function* items(path, parameters) {
  const query = new URLSearchParams({ limit: "100", ...parameters });
  for (;;) {
    const page = await call("GET", `${path}?${query}`);
    yield* page.data;
    if (!page.has_more) return;
    query.set("starting_after", page.next_cursor);
  }
}

// JSON has no NaN: it would become null.
export function minorUnits(text) {
  if (!/^[1-9][0-9]{0,11}$/.test(text)) throw new Error(`${text} is not an amount in minor units`);
  return Number(text);
}
