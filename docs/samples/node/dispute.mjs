// Answers a MED case: uploads a file as evidence, then appeals. If it fails, run it again.
// Usage: SERVICE_URL=… API_KEY=… node dispute.mjs CASE_ID FILE REASON

import { readFile } from "node:fs/promises";
import { basename, extname } from "node:path";
import { call, send } from "./client.mjs";

const TYPES = { ".pdf": "application/pdf", ".png": "image/png", ".jpg": "image/jpeg" };
const [id, file, reason] = process.argv.slice(2);
const name = basename(file);

async function upload() {
  const content = await readFile(file);
  const ticket = await call("POST", `/v1/med/cases/${id}/evidence`, {
    file_name: name,
    file_size: content.length,
    mime_type: TYPES[extname(file)],
  });
  // Without the API key: the URL is the credential.
  await send(ticket.upload_method, ticket.upload_url, content, ticket.upload_headers);
  await call("POST", `/v1/med/cases/${id}/evidence/${ticket.id}/complete`);
}

let { status } = await call("GET", `/v1/med/cases/${id}`);
// Else it was answered, and a second appeal would be refused.
if (status === "open") {
  const { data: evidence } = await call("GET", `/v1/med/cases/${id}/evidence`);
  if (!evidence.some((uploaded) => uploaded.file_name === name)) await upload();
  ({ status } = await call("POST", `/v1/med/cases/${id}/appeal`, { reason }));
}
console.log(id, status);
