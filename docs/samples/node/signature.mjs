// Verifies the signature of a canonical event.

import { createHmac, timingSafeEqual } from "node:crypto";

// `header` is X-Service-Signature, `body` a Buffer with the bytes as they arrived.
export function isOurs(secret, header, body) {
  const fields = /^t=([0-9]{1,12}),v1=([0-9a-f]{64})$/.exec(header);
  if (fields === null || Math.abs(Date.now() / 1000 - Number(fields[1])) > 300) return false;
  const expected = createHmac("sha256", secret).update(`${fields[1]}.`).update(body).digest();
  return timingSafeEqual(Buffer.from(fields[2], "hex"), expected);
}
