// Brings the shop's table of orders up to date with the inbox, and prints what the shop must do.
// Usage: INBOX=inbox ORDERS=orders.json node orders.mjs
//
// The table is a file here. In your program it is a table of your database, changed in a transaction.

import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { writeWhole } from "./inbox.mjs";

const { INBOX, ORDERS } = process.env;
const NEW = { order: null, amount: null, status: null, created_at: null, at: "", released: false };

// Applies an event to the row of its charge. An event shows its object after the change.
function apply(row, kind, name, shown, at) {
  if (kind === "charge") {
    const { amount, status, created_at, metadata } = shown;
    if (at >= row.at) Object.assign(row, { order: metadata.order_id ?? null, amount, status, created_at, at });
    return;
  }
  const entry = (row[kind === "refund" ? "refunds" : "cases"][shown.id] ??= { at: "" });
  if (at < entry.at) return;
  Object.assign(entry, { amount: shown.amount, at });
  if (kind === "refund") entry.status = name; // created, succeeded or failed
  else Object.assign(entry, { status: shown.status, money_outcome: shown.money_outcome });
}

const table = existsSync(ORDERS) ? JSON.parse(await readFile(ORDERS)) : {};
const files = (await readdir(INBOX)).filter((name) => name.endsWith(".json"));
const events = await Promise.all(files.map(async (name) => JSON.parse(await readFile(join(INBOX, name)))));
events.sort((a, b) => (a.created_at < b.created_at ? -1 : Number(a.created_at > b.created_at)));
// Without the legacy events, which have no type.
for (const { type, created_at: at, data } of events.filter((event) => event.type)) {
  const [kind, name] = type.split(".");
  const shown = data.object;
  const charge = kind === "charge" ? shown.id : shown.charge_id;
  if (!charge || !["charge", "refund", "med_case"].includes(kind)) continue;
  apply((table[charge] ??= { ...NEW, refunds: {}, cases: {} }), kind, name, shown, at);
}
for (const [charge, row] of Object.entries(table)) {
  const cases = Object.entries(row.cases);
  const disputed = cases.some(([, entry]) => entry.money_outcome !== "refunded_to_merchant");
  if (row.status === "paid" && !row.released && !disputed) {
    console.log(`release order ${row.order}: ${charge} is paid`);
    row.released = true;
  }
  for (const [id, entry] of cases.filter(([, { status }]) => status === "open")) {
    console.log(`answer ${id}: the payer of order ${row.order} claims ${entry.amount}`);
  }
}
await writeWhole(dirname(ORDERS), basename(ORDERS), JSON.stringify(table, null, 1));
