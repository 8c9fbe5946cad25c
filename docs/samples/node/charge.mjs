// Creates a charge and pays it in the sandbox. Needs Node 18 or later.
// Usage: SERVICE_URL=… API_KEY=ak_test_… node charge.mjs ORDER_ID AMOUNT

import { setTimeout as sleep } from "node:timers/promises";

const ATTEMPTS = 6;

// Posts a request. Repeats it after a failure of the network, a 429 and a 5xx.
async function call(path, body, headers = {}) {
  for (let attempt = 1; ; attempt += 1) {
    let wait = (0.5 + Math.random() / 2) * 2 ** (attempt - 1);
    try {
      const response = await fetch(process.env.SERVICE_URL + path, {
        method: "POST",
        headers: { apikey: process.env.API_KEY, "Content-Type": "application/json", ...headers },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(30_000),
      });
      if (response.ok) return await response.json();
      const refused = new Error(`${response.status}: ${await response.text()}`);
      refused.final = response.status !== 429 && response.status < 500;
      wait = Number(response.headers.get("Retry-After")) || wait;
      throw refused;
    } catch (error) {
      if (error.final || attempt === ATTEMPTS) throw error;
    }
    await sleep(wait * 1000);
  }
}

const [order, amount] = process.argv.slice(2);
// The key is derived from the order, so the order has one charge, however often this program runs.
const charge = await call(
  "/v1/pix/charges",
  { amount: Number(amount), description: `Order ${order}` },
  { "Idempotency-Key": `order-${order}` },
);
console.log(charge.pix.br_code);
// Only a test key can do this. A live charge is paid in the app of a bank.
const paid = await call(`/v1/sandbox/charges/${charge.id}/pay`, {});
if (paid.status !== "paid") throw new Error(`the charge is ${paid.status}`);
console.log(charge.id);
