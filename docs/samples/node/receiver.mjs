// Receives webhooks: verifies each, stores its event once, and answers.
// Usage: WEBHOOK_SECRET=… PORT=4000 INBOX=inbox node receiver.mjs

import { mkdirSync } from "node:fs";
import { createServer } from "node:http";
import { store } from "./inbox.mjs";
import { isOurs } from "./signature.mjs";

const { WEBHOOK_SECRET, PORT, INBOX } = process.env;
const MAX_BYTES = 1_000_000;

async function statusOf(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > MAX_BYTES) return 400;
    chunks.push(chunk);
  }
  const body = Buffer.concat(chunks);
  if (!isOurs(WEBHOOK_SECRET, request.headers["x-service-signature"] ?? "", body)) return 400;
  const { id } = JSON.parse(body);
  if (!/^evt_[0-9a-z]+$/.test(id)) return 400;
  await store(INBOX, id, body);
  return 204; // Another program processes the inbox, ordered by `created_at`.
}

mkdirSync(INBOX, { recursive: true });
createServer(async (request, response) => {
  const status = await statusOf(request).catch((error) => {
    console.error(error); // for example a full disk
    return 500; // The service repeats the delivery.
  });
  response.writeHead(status).end();
}).listen(Number(PORT), "127.0.0.1");
