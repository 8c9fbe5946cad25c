"""Brings the shop's table of orders up to date with the inbox, and prints what the shop must do.

Usage: INBOX=inbox ORDERS=orders.json python3 orders.py

The table is a file here. In your program it is a table of your database, changed in a transaction.
"""

import json
import os
from pathlib import Path

from inbox import write_whole

INBOX, ORDERS = Path(os.environ["INBOX"]), Path(os.environ["ORDERS"])
NEW = {"order": None, "amount": None, "status": None, "created_at": None, "at": "", "released": False}


def apply(row: dict, kind: str, name: str, shown: dict, at: str) -> None:
    """Applies an event to the row of its charge. An event shows its object after the change."""
    if kind == "charge" and at >= row["at"]:
        order = shown["metadata"].get("order_id")
        row.update(order=order, amount=shown["amount"], status=shown["status"], created_at=shown["created_at"], at=at)
    elif kind in ("refund", "med_case"):
        entry = row["refunds" if kind == "refund" else "cases"].setdefault(shown["id"], {"at": ""})
        if at >= entry["at"]:
            entry.update(amount=shown["amount"], at=at)
            if kind == "refund":
                entry["status"] = name  # created, succeeded or failed
            else:
                entry.update(status=shown["status"], money_outcome=shown["money_outcome"])


def main() -> None:
    table = json.loads(ORDERS.read_bytes()) if ORDERS.exists() else {}
    events = [json.loads(file.read_bytes()) for file in INBOX.glob("*.json")]
    # Without the legacy events, which have no type.
    for event in sorted((event for event in events if "type" in event), key=lambda event: event["created_at"]):
        kind, name = event["type"].split(".", 1)
        shown = event["data"]["object"]
        charge = shown["id"] if kind == "charge" else shown.get("charge_id")
        if charge is not None and kind in ("charge", "refund", "med_case"):
            row = table.setdefault(charge, {**NEW, "refunds": {}, "cases": {}})
            apply(row, kind, name, shown, event["created_at"])
    for charge, row in table.items():
        disputed = any(entry["money_outcome"] != "refunded_to_merchant" for entry in row["cases"].values())
        if row["status"] == "paid" and not row["released"] and not disputed:
            print(f"release order {row['order']}: {charge} is paid")
            row["released"] = True
        for case, entry in row["cases"].items():
            if entry["status"] == "open":
                print(f"answer {case}: the payer of order {row['order']} claims {entry['amount']}")
    write_whole(ORDERS, json.dumps(table, indent=1).encode())


main()
