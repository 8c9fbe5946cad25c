"""Returns an amount of a paid charge to the payer.

Usage: SERVICE_URL=… API_KEY=… python3 refund.py RETURN_ID CHARGE_ID AMOUNT
"""

import sys

from client import call


def main() -> None:
    return_id, charge, amount = sys.argv[1], sys.argv[2], int(sys.argv[3])
    refund = call(
        "POST",
        f"/v1/payments/{charge}/refund",
        {
            # Derived from the return, so a return is paid once, however often this program runs.
            "idempotencyKey": f"shop-return-{return_id}",
            "amount": amount,
            "strategy": "devolution",
            "reason": f"Return {return_id}",
        },
    )
    # The refund is not complete yet. An event reports its end.
    print(refund["id"], refund["status"])


main()
