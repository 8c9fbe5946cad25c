"""Creates the charge of an order, and pays it in the sandbox.

Usage: SERVICE_URL=… API_KEY=ak_test_… python3 charge.py ORDER_ID AMOUNT
"""

import sys

from client import call


def main() -> None:
    order, amount = sys.argv[1], int(sys.argv[2])
    # The key is derived from the order, so the order has one charge, however often this program runs. A key has
    # 8 to 128 characters. The prefix makes the key of order 1 long enough.
    charge = call(
        "POST",
        "/v1/pix/charges",
        {"amount": amount, "description": f"Order {order}", "metadata": {"order_id": order}},
        {"Idempotency-Key": f"shop-order-{order}"},
    )
    print(charge["pix"]["br_code"])
    # Only a test key can do this. A live charge is paid in the app of a bank.
    paid = call("POST", f"/v1/sandbox/charges/{charge['id']}/pay", {})
    assert paid["status"] == "paid", paid
    print(charge["id"])


main()
