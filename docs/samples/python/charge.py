"""Creates a charge and pays it in the sandbox.

Usage: SERVICE_URL=… API_KEY=ak_test_… python3 charge.py ORDER_ID AMOUNT
"""

import http.client
import json
import os
import random
import sys
import time
import urllib.error
import urllib.request

ATTEMPTS = 6


def call(path: str, body: dict, headers: dict | None = None) -> dict:
    """Posts a request. Repeats it after a failure of the network, a 429 and a 5xx."""
    request = urllib.request.Request(os.environ["SERVICE_URL"] + path, json.dumps(body).encode())
    for name, value in {
        "apikey": os.environ["API_KEY"],
        "Content-Type": "application/json",
        **(headers or {}),
    }.items():
        request.add_header(name, value)
    for attempt in range(1, ATTEMPTS + 1):
        wait = random.uniform(0.5, 1) * 2 ** (attempt - 1)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            if attempt == ATTEMPTS or (error.code != 429 and error.code < 500):
                raise RuntimeError(f"{error.code}: {error.read().decode()}") from error
            wait = float(error.headers.get("Retry-After") or wait)
        except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError):
            if attempt == ATTEMPTS:
                raise
        time.sleep(wait)
    raise AssertionError("the last attempt returns or raises")


def main() -> None:
    order, amount = sys.argv[1], int(sys.argv[2])
    # The key is derived from the order, so the order has one charge, however often this program runs.
    charge = call(
        "/v1/pix/charges",
        {"amount": amount, "description": f"Order {order}"},
        {"Idempotency-Key": f"order-{order}"},
    )
    print(charge["pix"]["br_code"])
    # Only a test key can do this. A live charge is paid in the app of a bank.
    paid = call(f"/v1/sandbox/charges/{charge['id']}/pay", {})
    assert paid["status"] == "paid", paid
    print(charge["id"])


main()
