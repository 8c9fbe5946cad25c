<?php
// Brings the shop's table of orders up to date with the inbox, and prints what the shop must do.
// Usage: INBOX=inbox ORDERS=orders.json php orders.php
//
// The table is a file here. In your program it is a table of your database, changed in a transaction.

require __DIR__ . '/inbox.php';

const KINDS = ['charge', 'refund', 'med_case'];
const NEW_ROW = [
    'order' => null, 'amount' => null, 'status' => null, 'created_at' => null, 'at' => '', 'released' => false,
    'refunds' => [], 'cases' => [],
];

/** Applies an event to the row of its charge. An event shows its object after the change. */
function apply(array &$row, string $kind, string $name, array $shown, string $at): void
{
    if ($kind === 'charge') {
        if ($at >= $row['at']) {
            $row['order'] = $shown['metadata']['order_id'] ?? null;
            [$row['amount'], $row['status']] = [$shown['amount'], $shown['status']];
            [$row['created_at'], $row['at']] = [$shown['created_at'], $at];
        }
        return;
    }
    $list = $kind === 'refund' ? 'refunds' : 'cases';
    if ($at >= ($row[$list][$shown['id']]['at'] ?? '')) {
        $state = $kind === 'refund'
            ? ['status' => $name] // created, succeeded or failed
            : ['status' => $shown['status'], 'money_outcome' => $shown['money_outcome']];
        $row[$list][$shown['id']] = ['amount' => $shown['amount'], 'at' => $at, ...$state];
    }
}

$read = fn (string $path) => json_decode(file_get_contents($path), true, 128, JSON_THROW_ON_ERROR);
$orders = getenv('ORDERS');
$table = is_file($orders) ? $read($orders) : [];
// Without the legacy events, which have no type.
$events = array_filter(array_map($read, glob(getenv('INBOX') . '/*.json')), fn ($event) => isset($event['type']));
usort($events, fn ($a, $b) => $a['created_at'] <=> $b['created_at']);
foreach ($events as $event) {
    [$kind, $name] = explode('.', $event['type'], 2);
    $shown = $event['data']['object'];
    $charge = $kind === 'charge' ? $shown['id'] : ($shown['charge_id'] ?? null);
    if ($charge !== null && in_array($kind, KINDS, true)) {
        $table[$charge] ??= NEW_ROW;
        apply($table[$charge], $kind, $name, $shown, $event['created_at']);
    }
}
foreach ($table as $charge => &$row) {
    $disputed = array_filter($row['cases'], fn ($case) => $case['money_outcome'] !== 'refunded_to_merchant');
    if ($row['status'] === 'paid' && !$row['released'] && $disputed === []) {
        echo "release order {$row['order']}: $charge is paid\n";
        $row['released'] = true;
    }
    foreach ($row['cases'] as $id => $case) {
        if ($case['status'] === 'open') {
            echo "answer $id: the payer of order {$row['order']} claims {$case['amount']}\n";
        }
    }
}
write_whole($orders, json_encode($table, JSON_THROW_ON_ERROR | JSON_FORCE_OBJECT));
