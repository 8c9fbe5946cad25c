<?php
// Creates a charge and pays it in the sandbox. Needs PHP 8.1 or later.
// Usage: SERVICE_URL=… API_KEY=ak_test_… php charge.php ORDER_ID AMOUNT

const ATTEMPTS = 6;

/** Posts a request. Repeats it after a failure of the network, a 429 and a 5xx. */
function call(string $path, array $body, array $headers = []): array
{
    $options = ['http' => [
        'method' => 'POST',
        'header' => ['apikey: ' . getenv('API_KEY'), 'Content-Type: application/json', ...$headers],
        'content' => json_encode((object) $body, JSON_THROW_ON_ERROR),
        'timeout' => 30,
        'ignore_errors' => true,
    ]];
    for ($attempt = 1; ; $attempt++) {
        $wait = random_int(500, 1000) / 1000 * 2 ** ($attempt - 1);
        $http_response_header = [];
        $answer = @file_get_contents(getenv('SERVICE_URL') . $path, false, stream_context_create($options));
        $status = (int) (explode(' ', $http_response_header[0] ?? '')[1] ?? 0);
        if ($answer !== false && $status >= 200 && $status < 300) {
            return json_decode($answer, true, 64, JSON_THROW_ON_ERROR);
        }
        $is_final = $status >= 400 && $status < 500 && $status !== 429;
        if ($is_final || $attempt === ATTEMPTS) {
            throw new RuntimeException("$status: $answer");
        }
        foreach ($http_response_header as $line) {
            if (preg_match('/^Retry-After: *([0-9]+)$/i', $line, $found)) {
                $wait = (int) $found[1];
            }
        }
        usleep((int) ($wait * 1_000_000));
    }
}

[, $order, $amount] = $argv;
// The key is derived from the order, so the order has one charge, however often this program runs.
$charge = call(
    '/v1/pix/charges',
    ['amount' => (int) $amount, 'description' => "Order $order"],
    ["Idempotency-Key: order-$order"],
);
echo $charge['pix']['br_code'], "\n";
// Only a test key can do this. A live charge is paid in the app of a bank.
$paid = call("/v1/sandbox/charges/{$charge['id']}/pay", []);
if ($paid['status'] !== 'paid') {
    throw new RuntimeException("the charge is {$paid['status']}");
}
echo $charge['id'], "\n";
