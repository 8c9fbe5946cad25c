<?php
// Calls the API. Repeats a request after a failure of the network, a 429 and a 5xx. Needs PHP 8.1 or later.
// The programs beside it read the environment variables SERVICE_URL and API_KEY.

const ATTEMPTS = 6;
const MAX_WAIT_SECONDS = 60; // the rate limit counts by minutes

/** How long to wait: as `Retry-After` says in seconds or as a date, else as the backoff. */
function seconds_of(string $retry_after, float $backoff): float
{
    $date = DateTimeImmutable::createFromFormat('D, d M Y H:i:s \G\M\T', $retry_after, new DateTimeZone('UTC'));
    $wait = match (true) {
        (bool) preg_match('/^[0-9]{1,9}$/D', $retry_after) => (int) $retry_after,
        $date !== false => $date->getTimestamp() - time(),
        default => $backoff,
    };
    return min(max($wait, $backoff), MAX_WAIT_SECONDS);
}

/** `$headers` are lines. */
function send(string $method, string $url, string $body, array $headers): string
{
    $options = ['http' => [
        'method' => $method,
        'header' => $headers,
        'content' => $body,
        'timeout' => 30,
        'ignore_errors' => true,
    ]];
    for ($attempt = 1; ; $attempt++) {
        $wait = random_int(500, 1000) / 1000 * 2 ** ($attempt - 1);
        $http_response_header = [];
        $answer = @file_get_contents($url, false, stream_context_create($options));
        $status = (int) (explode(' ', $http_response_header[0] ?? '')[1] ?? 0);
        if ($answer !== false && $status >= 200 && $status < 300) {
            return $answer;
        }
        $is_final = $status >= 400 && $status < 500 && $status !== 429;
        if ($is_final || $attempt === ATTEMPTS) {
            throw new RuntimeException("$status: $answer");
        }
        foreach ($http_response_header as $line) {
            if (preg_match('/^Retry-After: *(.+)$/i', $line, $found)) {
                $wait = seconds_of($found[1], $wait);
            }
        }
        usleep((int) ($wait * 1_000_000));
    }
}

function call(string $method, string $path, ?array $body = null, array $headers = []): stdClass
{
    $all = ['apikey: ' . getenv('API_KEY'), 'Content-Type: application/json', ...$headers];
    $content = $body === null ? '' : json_encode((object) $body, JSON_THROW_ON_ERROR);
    // As objects, because an empty array and an empty object of JSON are the same array of PHP.
    return json_decode(send($method, getenv('SERVICE_URL') . $path, $content, $all), flags: JSON_THROW_ON_ERROR);
}

/** All objects of a list, newest first. */
function items(string $path, array $query): Generator
{
    do {
        $page = call('GET', "$path?" . http_build_query(['limit' => 100, ...$query]));
        foreach ($page->data as $object) {
            yield $object;
        }
        $query['starting_after'] = $page->next_cursor;
    } while ($page->has_more);
}

/** A cast would read `5.00` as 5. */
function minor_units(string $text): int
{
    if (!preg_match('/^[1-9][0-9]{0,11}$/D', $text)) {
        throw new InvalidArgumentException("$text is not an amount in minor units");
    }
    return (int) $text;
}
