<?php
// Creates the charge of an order, and pays it in the sandbox.
// Usage: SERVICE_URL=… API_KEY=ak_test_… php charge.php ORDER_ID AMOUNT

require __DIR__ . '/client.php';

[, $order, $amount] = $argv;
// The key is derived from the order, so the order has one charge, however often this program runs. A key has
// 8 to 128 characters. The prefix makes the key of order 1 long enough.
$charge = call(
    'POST',
    '/v1/pix/charges',
    ['amount' => minor_units($amount), 'description' => "Order $order", 'metadata' => ['order_id' => $order]],
    ["Idempotency-Key: shop-order-$order"],
);
echo $charge->pix->br_code, "\n";
// Only a test key can do this. A live charge is paid in the app of a bank.
$paid = call('POST', "/v1/sandbox/charges/$charge->id/pay", []);
if ($paid->status !== 'paid') {
    throw new RuntimeException("the charge is $paid->status");
}
echo $charge->id, "\n";
