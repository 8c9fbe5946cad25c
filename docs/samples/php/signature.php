<?php
// Verifies the signature of a canonical event.

/** `$header` is X-Service-Signature, `$body` the bytes as they arrived. */
function is_ours(string $secret, string $header, string $body): bool
{
    if (!preg_match('/^t=([0-9]{1,12}),v1=([0-9a-f]{64})$/D', $header, $fields)) {
        return false;
    }
    [, $t, $v1] = $fields;
    return abs(time() - (int) $t) <= 300 && hash_equals(hash_hmac('sha256', "$t.$body", $secret), $v1);
}
