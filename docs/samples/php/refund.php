<?php
// Returns an amount of a paid charge to the payer.
// Usage: SERVICE_URL=… API_KEY=… php refund.php RETURN_ID CHARGE_ID AMOUNT

require __DIR__ . '/client.php';

[, $return_id, $charge, $amount] = $argv;
$refund = call('POST', "/v1/payments/$charge/refund", [
    // Derived from the return, so a return is paid once, however often this program runs.
    'idempotencyKey' => "shop-return-$return_id",
    'amount' => minor_units($amount),
    'strategy' => 'devolution',
    'reason' => "Return $return_id",
]);
// The refund is not complete yet. An event reports its end.
echo $refund->id, ' ', $refund->status, "\n";
