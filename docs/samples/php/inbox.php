<?php
// Stores events as files, each once and never in part. In a database: an insert whose key is the event's id.
// Needs PHP 8.1 or later.

/** False if the file does not exist, or a full disk or a power failure cut it off. */
function is_whole(string $path, string $id): bool
{
    return is_file($path) && (json_decode((string) file_get_contents($path), true)['id'] ?? null) === $id;
}

/** Writes a file under another name, which only a whole and synced file changes. */
function write_whole(string $path, string $content): void
{
    $part = dirname($path) . '/.' . bin2hex(random_bytes(16)) . '.part';
    $file = @fopen($part, 'x');
    // A full disk shows in any of these. `fwrite` may also write a part without an error.
    $is_written = $file !== false && @fwrite($file, $content) === strlen($content) && fflush($file) && fsync($file);
    $is_closed = $file !== false && fclose($file);
    if (!$is_written || !$is_closed || !rename($part, $path)) {
        @unlink($part);
        throw new RuntimeException("$path could not be written");
    }
    $directory = fopen(dirname($path), 'r');
    if ($directory === false || !fsync($directory)) { // the name too
        throw new RuntimeException("$path could not be synced");
    }
}

/**
 * Returns when the event is on the disk. A stored event stays as it is. No error and no crash leaves a part of
 * an event under the name that makes the next delivery a duplicate.
 */
function store(string $inbox, string $id, string $event): void
{
    if (!is_whole("$inbox/$id.json", $id)) {
        write_whole("$inbox/$id.json", $event);
    }
}

/** Removes what a crash left, but nothing that another program may be writing. */
function remove_parts(string $inbox): void
{
    foreach (glob("$inbox/.*.part") as $part) {
        $modified = @filemtime($part); // false if it was renamed meanwhile
        if ($modified !== false && time() - $modified > 3600) {
            @unlink($part);
        }
    }
}
