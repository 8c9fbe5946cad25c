<?php
// Stores every event since a time in the inbox, unless the inbox has it. Needs PHP 8.1 or later.
// Usage: SERVICE_URL=… API_KEY=… INBOX=inbox php catch_up.php 2026-11-21T10:00:00Z

$query = ['limit' => 100, 'created_after' => $argv[1]];
$context = stream_context_create(['http' => ['header' => ['apikey: ' . getenv('API_KEY')], 'timeout' => 30]]);
do {
    $answer = file_get_contents(getenv('SERVICE_URL') . '/v1/events?' . http_build_query($query), false, $context);
    if ($answer === false) {
        throw new RuntimeException('the events could not be read');
    }
    $page = json_decode($answer, flags: JSON_THROW_ON_ERROR);
    foreach ($page->data as $event) {
        $file = @fopen(getenv('INBOX') . "/$event->id.json", 'x');
        if ($file !== false) { // else received by a webhook
            fwrite($file, json_encode($event, JSON_THROW_ON_ERROR));
            fclose($file);
        }
    }
    $query['starting_after'] = $page->next_cursor;
} while ($page->has_more);
