<?php
// Stores every event since a time in the inbox, unless the inbox has it. Replaces broken files.
// Usage: SERVICE_URL=… API_KEY=… INBOX=inbox php catch_up.php 2026-11-21T10:00:00Z

require __DIR__ . '/client.php';
require __DIR__ . '/inbox.php';

$inbox = getenv('INBOX');
is_dir($inbox) || mkdir($inbox, recursive: true);
remove_parts($inbox);
foreach (items('/v1/events', ['created_after' => $argv[1]]) as $event) {
    store($inbox, $event->id, json_encode($event, JSON_THROW_ON_ERROR));
}
