<?php
// Answers a MED case: uploads a file as evidence, then appeals. If it fails, run it again.
// Usage: SERVICE_URL=… API_KEY=… php dispute.php CASE_ID FILE REASON

require __DIR__ . '/client.php';

const TYPES = ['pdf' => 'application/pdf', 'png' => 'image/png', 'jpg' => 'image/jpeg'];

function upload(string $case, string $file): void
{
    $content = file_get_contents($file);
    $ticket = call('POST', "/v1/med/cases/$case/evidence", [
        'file_name' => basename($file),
        'file_size' => strlen($content),
        'mime_type' => TYPES[pathinfo($file, PATHINFO_EXTENSION)],
    ]);
    // Without the API key: the URL is the credential.
    $headers = [];
    foreach ($ticket->upload_headers as $name => $value) {
        $headers[] = "$name: $value";
    }
    send($ticket->upload_method, $ticket->upload_url, $content, $headers);
    call('POST', "/v1/med/cases/$case/evidence/$ticket->id/complete");
}

[, $case, $file, $reason] = $argv;
$status = call('GET', "/v1/med/cases/$case")->status;
if ($status === 'open') { // else it was answered, and a second appeal would be refused
    $evidence = call('GET', "/v1/med/cases/$case/evidence")->data;
    if (!in_array(basename($file), array_column($evidence, 'file_name'), true)) {
        upload($case, $file);
    }
    $status = call('POST', "/v1/med/cases/$case/appeal", ['reason' => $reason])->status;
}
echo "$case $status\n";
