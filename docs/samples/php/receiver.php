<?php
// Receives webhooks: verifies each, stores its event once, and answers.
// Usage: WEBHOOK_SECRET=… INBOX=inbox php -S 127.0.0.1:4000 receiver.php

require __DIR__ . '/inbox.php';
require __DIR__ . '/signature.php';

/** Returns the status of the answer. */
function receive(string $signature, string $body): int
{
    if (!is_ours(getenv('WEBHOOK_SECRET'), $signature, $body)) {
        return 400;
    }
    $id = json_decode($body, true, 128, JSON_THROW_ON_ERROR)['id'];
    if (!preg_match('/^evt_[0-9a-z]+$/D', $id)) {
        return 400;
    }
    store(getenv('INBOX'), $id, $body);
    return 204; // Another program processes the inbox, ordered by `created_at`.
}

// First, because PHP answers 200 if an error is displayed. The service repeats the delivery.
http_response_code(500);
try {
    http_response_code(receive($_SERVER['HTTP_X_SERVICE_SIGNATURE'] ?? '', file_get_contents('php://input')));
} catch (Throwable $error) { // for example a full disk
    error_log((string) $error);
}
