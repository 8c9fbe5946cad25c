// Returns an amount of a paid charge to the payer.
// Usage: SERVICE_URL=… API_KEY=… node refund.mjs RETURN_ID CHARGE_ID AMOUNT

import { call, minorUnits } from "./client.mjs";

const [returnId, charge, amount] = process.argv.slice(2);
const refund = await call("POST", `/v1/payments/${charge}/refund`, {
  // Derived from the return, so a return is paid once, however often this program runs.
  idempotencyKey: `shop-return-${returnId}`,
  amount: minorUnits(amount),
  strategy: "devolution",
  reason: `Return ${returnId}`,
});
// The refund is not complete yet. An event reports its end.
console.log(refund.id, refund.status);
