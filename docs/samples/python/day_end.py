"""Compares a day of the shop's table with the service, and prints each difference. Ends with 1 if there is one.

Usage: SERVICE_URL=… API_KEY=… ORDERS=orders.json python3 day_end.py 2026-11-21 OPENING

The day is one in São Paulo. OPENING is all money of the wallet at its start: the closing of the day before, or 0.
"""

import datetime
import json
import os
import sys
from pathlib import Path

from client import call, items

OUTCOMES = {"REFUNDED": "succeeded", "FAILED": "failed"}


def main() -> None:
    day, opening = datetime.date.fromisoformat(sys.argv[1]), int(sys.argv[2])
    # São Paulo is 3 hours behind UTC all year. All times have the same form, so they compare as text.
    start, end = (f"{date}T03:00:00.000Z" for date in (day, day + datetime.timedelta(days=1)))
    table = json.loads(Path(os.environ["ORDERS"]).read_bytes())
    differences = []

    def row_of(charge: str) -> dict:
        return table.get(charge, {"amount": None, "status": None, "refunds": {}, "cases": {}})

    def compare(what: str, ours: object, theirs: object) -> None:
        if ours != theirs:
            differences.append(f"{what}: {ours} in the table, {theirs} at the service")

    # 1. The charges of the day. A MED case changes the charge without an event of the charge.
    charges = {charge["id"]: charge for charge in items("/v1/charges", created_after=str(day), created_before=str(day))}
    ours = {charge for charge, row in table.items() if start <= (row["created_at"] or "") < end}
    for charge in sorted({*charges, *ours}):
        row, shown = row_of(charge), charges.get(charge, {"amount": None, "status": None})
        compare(f"{charge} amount", row["amount"], shown["amount"])
        if shown["status"] != "disputed" or not row["cases"]:
            compare(f"{charge} status", row["status"], shown["status"])

    # 2. The statement since the start of the day, and the refunds that it names.
    movements = list(items("/v1/wallets/transactions", created_after=str(day)))
    settled = {entry["charge_id"]: entry["amount"] for entry in movements if entry["type"] == "settlement"}
    paid = {charge for charge in ours if table[charge]["status"] == "paid"}
    for charge in sorted({*settled, *paid}):
        compare(f"{charge} credited", row_of(charge)["amount"], settled.get(charge))
    for charge in sorted({entry["charge_id"] for entry in movements if entry["refund_id"]}):
        for refund in call("GET", f"/v1/payments/{charge}/refunds")["data"]:
            noted = row_of(charge)["refunds"].get(refund["id"], {}).get("status")
            compare(f"{refund['id']} of {charge}", noted, OUTCOMES.get(refund["status"], "created"))

    # 3. The balance: the opening and all movements since then.
    balance = call("GET", "/v1/wallets/balance")
    closing = opening + sum(entry["net"] for entry in movements if entry["created_at"] < end)
    later = sum(entry["net"] for entry in movements if entry["created_at"] >= end)
    money = balance["available"] + balance["pending"] + balance["retained"]
    if closing + later != money:
        differences.append(f"the wallet has {money}, the opening and the statement make {closing + later}")

    # 4. The MED cases since the start of the day, and those that the table has as unfinished. The API decides,
    # because an event of a case can be lost.
    cases = {case["id"]: case for case in items("/v1/med/cases", created_after=str(day))}
    for row in table.values():
        for case, entry in row["cases"].items():
            if entry["status"] in ("open", "appealed") and case not in cases:
                cases[case] = call("GET", f"/v1/med/cases/{case}")
    for case, shown in sorted(cases.items()):
        noted = row_of(shown["charge_id"])["cases"].get(case, {})
        for field in ("status", "money_outcome"):
            compare(f"{case} {field}", noted.get(field), shown[field])
        if shown["status"] == "open":
            print(f"answer {case} before {shown['response_deadline'] or 'its unknown deadline'}")

    print("\n".join(differences) or f"{day}: no difference")
    print(f"closing {closing}")
    sys.exit(1 if differences else 0)


main()
