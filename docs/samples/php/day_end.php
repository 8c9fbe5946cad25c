<?php
// Compares a day of the shop's table with the service, and prints each difference. Ends with 1 if there is one.
// Usage: SERVICE_URL=… API_KEY=… ORDERS=orders.json php day_end.php 2026-11-21 OPENING
//
// The day is one in São Paulo. OPENING is all money of the wallet at its start: the closing of the day before, or 0.

require __DIR__ . '/client.php';

const OUTCOMES = ['REFUNDED' => 'succeeded', 'FAILED' => 'failed'];
const NO_ROW = ['amount' => null, 'status' => null, 'refunds' => [], 'cases' => []];

[, $day, $opening] = $argv;
// São Paulo is 3 hours behind UTC all year. All times have the same form, so they compare as text.
[$start, $end] = ["{$day}T03:00:00.000Z", gmdate('Y-m-d', strtotime("$day UTC") + 86400) . 'T03:00:00.000Z'];
$table = json_decode(file_get_contents(getenv('ORDERS')), true, 128, JSON_THROW_ON_ERROR);
$differences = [];
$compare = function (string $what, mixed $ours, mixed $theirs) use (&$differences): void {
    if ($ours !== $theirs) {
        $differences[] = "$what: " . json_encode($ours) . ' in the table, ' . json_encode($theirs) . ' at the service';
    }
};
$all = fn (string $path, array $query) => iterator_to_array(items($path, $query), false);

// 1. The charges of the day. A MED case changes the charge without an event of the charge.
$charges = array_column($all('/v1/charges', ['created_after' => $day, 'created_before' => $day]), null, 'id');
$ours = array_filter($table, fn ($row) => $row['created_at'] >= $start && $row['created_at'] < $end);
foreach (array_keys($charges + $ours) as $id) {
    $row = $table[$id] ?? NO_ROW;
    $shown = $charges[$id] ?? null;
    $compare("$id amount", $row['amount'], $shown?->amount);
    if ($shown?->status !== 'disputed' || $row['cases'] === []) {
        $compare("$id status", $row['status'], $shown?->status);
    }
}

// 2. The statement since the start of the day, and the refunds that it names.
$movements = $all('/v1/wallets/transactions', ['created_after' => $day]);
$settled = array_column(array_filter($movements, fn ($entry) => $entry->type === 'settlement'), 'amount', 'charge_id');
$paid = array_filter($ours, fn ($row) => $row['status'] === 'paid');
foreach (array_keys($settled + $paid) as $id) {
    $compare("$id credited", ($table[$id] ?? NO_ROW)['amount'], $settled[$id] ?? null);
}
$refunded = array_column(array_filter($movements, fn ($entry) => $entry->refund_id !== null), 'charge_id');
foreach (array_unique($refunded) as $id) {
    foreach (call('GET', "/v1/payments/$id/refunds")->data as $refund) {
        $noted = $table[$id]['refunds'][$refund->id]['status'] ?? null;
        $compare("$refund->id of $id", $noted, OUTCOMES[$refund->status] ?? 'created');
    }
}

// 3. The balance: the opening and all movements since then.
$balance = call('GET', '/v1/wallets/balance');
$of_day = array_filter($movements, fn ($entry) => $entry->created_at < $end);
$closing = (int) $opening + array_sum(array_column($of_day, 'net'));
$expected = (int) $opening + array_sum(array_column($movements, 'net'));
$money = $balance->available + $balance->pending + $balance->retained;
if ($money !== $expected) {
    $differences[] = "the wallet has $money, the opening and the statement make $expected";
}

// 4. The MED cases since the start of the day, and those that the table has as unfinished. The API decides,
// because an event of a case can be lost.
$cases = array_column($all('/v1/med/cases', ['created_after' => $day]), null, 'id');
foreach ($table as $row) {
    foreach ($row['cases'] as $id => $case) {
        if (in_array($case['status'], ['open', 'appealed'], true)) {
            $cases[$id] ??= call('GET', "/v1/med/cases/$id");
        }
    }
}
foreach ($cases as $id => $shown) {
    $noted = $table[$shown->charge_id]['cases'][$id] ?? [];
    $compare("$id status", $noted['status'] ?? null, $shown->status);
    $compare("$id money_outcome", $noted['money_outcome'] ?? null, $shown->money_outcome);
    if ($shown->status === 'open') {
        echo "answer $id before ", $shown->response_deadline ?? 'its unknown deadline', "\n";
    }
}

echo implode("\n", $differences ?: ["$day: no difference"]), "\nclosing $closing\n";
exit($differences === [] ? 0 : 1);
