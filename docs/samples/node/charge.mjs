// Creates the charge of an order, and pays it in the sandbox.
// Usage: SERVICE_URL=… API_KEY=ak_test_… node charge.mjs ORDER_ID AMOUNT

import { call, minorUnits } from "./client.mjs";

const [order, amount] = process.argv.slice(2);
// The key is derived from the order, so the order has one charge, however often this program runs. A key has
// 8 to 128 characters. The prefix makes the key of order 1 long enough.
const charge = await call(
  "POST",
  "/v1/pix/charges",
  { amount: minorUnits(amount), description: `Order ${order}`, metadata: { order_id: order } },
  { "Idempotency-Key": `shop-order-${order}` },
);
console.log(charge.pix.br_code);
// Only a test key can do this. A live charge is paid in the app of a bank.
const paid = await call("POST", `/v1/sandbox/charges/${charge.id}/pay`, {});
if (paid.status !== "paid") throw new Error(`the charge is ${paid.status}`);
console.log(charge.id);
