// Receives webhooks: verifies each, stores its event once, and answers.
// Usage: WEBHOOK_SECRET=… PORT=4000 INBOX=inbox node receiver.mjs

import { mkdirSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { isOurs } from "./signature.mjs";

const { WEBHOOK_SECRET, PORT, INBOX } = process.env;
const MAX_BYTES = 1_000_000;

async function statusOf(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > MAX_BYTES) return 413;
    chunks.push(chunk);
  }
  const body = Buffer.concat(chunks);
  if (!isOurs(WEBHOOK_SECRET, request.headers["x-service-signature"] ?? "", body)) return 400;
  const event = JSON.parse(body);
  try {
    // "wx" fails if the file exists. In a database: an insert whose key is the event's id.
    await writeFile(join(INBOX, `${event.id}.json`), body, { flag: "wx" });
  } catch (error) {
    if (error.code !== "EEXIST") throw error; // else a duplicate, which is answered like the first
  }
  return 204; // Another program processes the inbox, ordered by `created_at`.
}

mkdirSync(INBOX, { recursive: true });
createServer(async (request, response) => {
  const status = await statusOf(request).catch((error) => {
    console.error(error);
    return 500; // The service repeats the delivery.
  });
  response.writeHead(status).end();
}).listen(Number(PORT), "127.0.0.1");
