<?php
// Receives webhooks: verifies each, stores its event once, and answers. Needs PHP 8.1 or later.
// Usage: WEBHOOK_SECRET=… INBOX=inbox php -S 127.0.0.1:4000 receiver.php

require __DIR__ . '/signature.php';

$body = file_get_contents('php://input');
if (!is_ours(getenv('WEBHOOK_SECRET'), $_SERVER['HTTP_X_SERVICE_SIGNATURE'] ?? '', $body)) {
    http_response_code(400);
    return;
}
$event = json_decode($body, true, 64, JSON_THROW_ON_ERROR);
$path = getenv('INBOX') . "/{$event['id']}.json";
// "x" fails if the file exists. In a database: an insert whose key is the event's id.
$file = @fopen($path, 'x');
if ($file !== false) {
    fwrite($file, $body);
    fclose($file);
} elseif (!file_exists($path)) {
    http_response_code(500); // The service repeats the delivery.
    return;
}
http_response_code(204); // Another program processes the inbox, ordered by `created_at`.
