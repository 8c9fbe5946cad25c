// Verifies the signature of a canonical event.

import { createHmac, timingSafeEqual } from "node:crypto";

// `header` is X-Service-Signature, `body` a Buffer with the bytes as they arrived.
export function isOurs(secret, header, body) {
  const fields = Object.fromEntries(header.split(",").map((field) => field.split("=")));
  const t = fields.t ?? "";
  if (!/^[0-9]+$/.test(t) || Math.abs(Date.now() / 1000 - Number(t)) > 300) return false;
  const expected = createHmac("sha256", secret).update(`${t}.`).update(body).digest();
  const v1 = Buffer.from(fields.v1 ?? "", "hex");
  return v1.length === expected.length && timingSafeEqual(v1, expected);
}
