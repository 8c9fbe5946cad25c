// Stores every event since a time in the inbox, unless the inbox has it. Replaces broken files.
// Usage: SERVICE_URL=… API_KEY=… INBOX=inbox node catch_up.mjs 2026-11-21T10:00:00Z

import { mkdir } from "node:fs/promises";
import { items } from "./client.mjs";
import { removeParts, store } from "./inbox.mjs";

const { INBOX } = process.env;
await mkdir(INBOX, { recursive: true });
await removeParts(INBOX);
for await (const event of items("/v1/events", { created_after: process.argv[2] })) {
  await store(INBOX, event.id, JSON.stringify(event));
}
