// Compares a day of the shop's table with the service, and prints each difference. Ends with 1 if there is one.
// Usage: SERVICE_URL=… API_KEY=… ORDERS=orders.json node day_end.mjs 2026-11-21 OPENING
//
// The day is one in São Paulo. OPENING is all money of the wallet at its start: the closing of the day before, or 0.

import { readFile } from "node:fs/promises";
import { call, items } from "./client.mjs";

const [day, opening] = process.argv.slice(2);
// São Paulo is 3 hours behind UTC all year. All times have the same form, so they compare as text.
const start = new Date(`${day}T03:00:00Z`).toISOString();
const end = new Date(Date.parse(start) + 86_400_000).toISOString();
const table = JSON.parse(await readFile(process.env.ORDERS));
const OUTCOMES = { REFUNDED: "succeeded", FAILED: "failed" };
const differences = [];

const rowOf = (charge) => table[charge] ?? { amount: null, status: null, refunds: {}, cases: {} };
const compare = (what, ours = null, theirs = null) => {
  if (ours !== theirs) differences.push(`${what}: ${ours} in the table, ${theirs} at the service`);
};
const all = async (path, parameters) => {
  const objects = [];
  for await (const object of items(path, parameters)) objects.push(object);
  return objects;
};

// 1. The charges of the day. A MED case changes the charge without an event of the charge.
const listed = await all("/v1/charges", { created_after: day, created_before: day });
const charges = new Map(listed.map((charge) => [charge.id, charge]));
const ours = Object.keys(table).filter((id) => table[id].created_at >= start && table[id].created_at < end);
for (const id of new Set([...charges.keys(), ...ours])) {
  const row = rowOf(id);
  const { amount, status } = charges.get(id) ?? {};
  compare(`${id} amount`, row.amount, amount);
  if (status !== "disputed" || Object.keys(row.cases).length === 0) compare(`${id} status`, row.status, status);
}

// 2. The statement since the start of the day, and the refunds that it names.
const movements = await all("/v1/wallets/transactions", { created_after: day });
const settlements = movements.filter((entry) => entry.type === "settlement");
const settled = new Map(settlements.map((entry) => [entry.charge_id, entry.amount]));
const paid = ours.filter((id) => table[id].status === "paid");
for (const id of new Set([...settled.keys(), ...paid])) compare(`${id} credited`, rowOf(id).amount, settled.get(id));
for (const id of new Set(movements.filter((entry) => entry.refund_id).map((entry) => entry.charge_id))) {
  for (const refund of (await call("GET", `/v1/payments/${id}/refunds`)).data) {
    const noted = rowOf(id).refunds[refund.id]?.status;
    compare(`${refund.id} of ${id}`, noted, OUTCOMES[refund.status] ?? "created");
  }
}

// 3. The balance: the opening and all movements since then.
const { available, pending, retained } = await call("GET", "/v1/wallets/balance");
const sum = (entries) => entries.reduce((total, entry) => total + entry.net, 0);
const closing = Number(opening) + sum(movements.filter((entry) => entry.created_at < end));
const expected = closing + sum(movements.filter((entry) => entry.created_at >= end));
const money = available + pending + retained;
if (money !== expected) {
  differences.push(`the wallet has ${money}, the opening and the statement make ${expected}`);
}

// 4. The MED cases since the start of the day, and those that the table has as unfinished. The API decides,
// because an event of a case can be lost.
const opened = await all("/v1/med/cases", { created_after: day });
const cases = new Map(opened.map((shown) => [shown.id, shown]));
for (const [id, { status }] of Object.values(table).flatMap((row) => Object.entries(row.cases))) {
  const isFinal = status !== "open" && status !== "appealed";
  if (!isFinal && !cases.has(id)) cases.set(id, await call("GET", `/v1/med/cases/${id}`));
}
for (const [id, shown] of cases) {
  const noted = rowOf(shown.charge_id).cases[id];
  compare(`${id} status`, noted?.status, shown.status);
  compare(`${id} money_outcome`, noted?.money_outcome, shown.money_outcome);
  if (shown.status === "open") console.log(`answer ${id} before ${shown.response_deadline ?? "its unknown deadline"}`);
}

console.log(differences.join("\n") || `${day}: no difference`);
console.log(`closing ${closing}`);
process.exitCode = differences.length > 0 ? 1 : 0;
