"""Verifies the signature of a canonical event."""

import hashlib
import hmac
import time


def is_ours(secret: str, header: str, body: bytes) -> bool:
    """`header` is X-Service-Signature, `body` the bytes as they arrived."""
    fields = dict(field.split("=", 1) for field in header.split(",") if "=" in field)
    t, v1 = fields.get("t", ""), fields.get("v1", "")
    if not t.isascii() or not t.isdigit() or abs(time.time() - int(t)) > 300:
        return False
    expected = hmac.new(secret.encode(), t.encode() + b"." + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), v1.encode())
