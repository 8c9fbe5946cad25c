// Stores every event since a time in the inbox, unless the inbox has it. Needs Node 18 or later.
// Usage: SERVICE_URL=… API_KEY=… INBOX=inbox node catch_up.mjs 2026-11-21T10:00:00Z

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

const { SERVICE_URL, API_KEY, INBOX } = process.env;
const query = new URLSearchParams({ limit: "100", created_after: process.argv[2] });
await mkdir(INBOX, { recursive: true });

for (;;) {
  const response = await fetch(`${SERVICE_URL}/v1/events?${query}`, {
    headers: { apikey: API_KEY },
    signal: AbortSignal.timeout(30_000),
  });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  const page = await response.json();
  for (const event of page.data) {
    await writeFile(join(INBOX, `${event.id}.json`), JSON.stringify(event), { flag: "wx" }).catch((error) => {
      if (error.code !== "EEXIST") throw error; // else received by a webhook
    });
  }
  if (!page.has_more) break;
  query.set("starting_after", page.next_cursor);
}
