"""Calls the API. Repeats a request after a failure of the network, a 429 and a 5xx.

The programs beside it read the environment variables SERVICE_URL and API_KEY.
"""

from __future__ import annotations

import email.utils
import http.client
import json
import os
import random
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator

ATTEMPTS = 6
MAX_WAIT_SECONDS = 60  # the rate limit counts by minutes


def seconds_of(retry_after: str | None, backoff: float) -> float:
    """How long to wait: as `Retry-After` says in seconds or as a date, else as the backoff."""
    try:
        if re.fullmatch("[0-9]{1,9}", retry_after or ""):
            wait = float(retry_after)
        else:
            wait = email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time()
    except (TypeError, ValueError, OverflowError):
        return backoff
    return min(max(wait, backoff), MAX_WAIT_SECONDS)


def send(method: str, url: str, body: bytes | None, headers: dict) -> bytes:
    request = urllib.request.Request(url, body, headers, method=method)
    for attempt in range(1, ATTEMPTS + 1):
        wait = random.uniform(0.5, 1) * 2 ** (attempt - 1)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return response.read()
        except urllib.error.HTTPError as error:
            if attempt == ATTEMPTS or (error.code != 429 and error.code < 500):
                raise RuntimeError(f"{error.code}: {error.read().decode(errors='replace')}") from error
            wait = seconds_of(error.headers.get("Retry-After"), wait)
        except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError):
            if attempt == ATTEMPTS:
                raise
        time.sleep(wait)
    raise AssertionError("the last attempt returns or raises")


def call(method: str, path: str, body: dict | None = None, headers: dict | None = None) -> dict:
    headers = {"apikey": os.environ["API_KEY"], "Content-Type": "application/json", **(headers or {})}
    content = None if body is None else json.dumps(body, allow_nan=False).encode()
    return json.loads(send(method, os.environ["SERVICE_URL"] + path, content, headers))


def items(path: str, **query: str) -> Iterator[dict]:
    """All objects of a list, newest first."""
    while True:
        page = call("GET", f"{path}?{urllib.parse.urlencode({'limit': 100, **query})}")
        yield from page["data"]
        if not page["has_more"]:
            return
        query["starting_after"] = page["next_cursor"]
