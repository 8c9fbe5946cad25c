"""Verifies the signature of a canonical event."""

import hashlib
import hmac
import re
import time


def is_ours(secret: str, header: str, body: bytes) -> bool:
    """`header` is X-Service-Signature, `body` the bytes as they arrived."""
    # The limit of the digits keeps the number small enough for arithmetic.
    fields = re.fullmatch("t=([0-9]{1,12}),v1=([0-9a-f]{64})", header)
    if fields is None or abs(time.time() - int(fields[1])) > 300:
        return False
    expected = hmac.new(secret.encode(), fields[1].encode() + b"." + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, fields[2])
