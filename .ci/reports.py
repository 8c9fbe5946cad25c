"""Makes statements with the service in each format, and compares what libraries read in them with the wallet.

Writes `statement.ofx` and `expected.json` into the directory of the first argument. `.ci/reports.js` reads both.
"""

import csv
import datetime
import decimal
import io
import json
import pathlib
import sys
import urllib.request
import uuid

import ofxparse
import openpyxl
from local_service import running, wait

WORK = pathlib.Path(sys.argv[1])
SALES = [(10_000, "1001", "José Açaí & <Filhos>"), (2_550, "=1002", "Ana"), (333, "1003", "Zoë")]


def expect(what, found, expected):
    if found != expected:
        sys.exit(f"FAILED: {what}: {found!r}, expected: {expected!r}")


class Service:
    def __init__(self, ready):
        self.base, self.key = ready["base_url"], ready["test_api_key"]

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"apikey": self.key, "Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4())}
        request = urllib.request.Request(self.base + path, data, headers, method=method)
        with urllib.request.urlopen(request) as response:
            return json.load(response)

    def sell(self, amount, order, name):
        body = {"amount": amount, "metadata": {"order_id": order}, "customer": {"name": name}}
        charge = self.call("POST", "/v1/pix/charges", body)["id"]
        self.call("POST", f"/v1/sandbox/charges/{charge}/pay", {})
        return charge

    def statement(self, file_format):
        now = datetime.datetime.now(datetime.timezone(datetime.timedelta(hours=-3)))
        body = {"type": "statement", "format": file_format, "from": now.date().isoformat(), "to": now.date().isoformat()}
        if file_format == "csv":
            body["locale"] = "pt-BR"
        asked = self.call("POST", "/v1/reports", body)
        read = lambda: self.call("GET", f"/v1/reports/{asked['id']}")
        report = wait(f"the {file_format} report", lambda: (one := read())["status"] != "pending" and one)
        expect(f"the status of {file_format}", report["status"], "ready")
        with urllib.request.urlopen(report["url"]) as response:
            return report, response.read()


def of_centavos(minor):
    return decimal.Decimal(minor) / 100


def check(service):
    first = [service.sell(*sale) for sale in SALES][0]
    refund = {"idempotencyKey": str(uuid.uuid4()), "amount": 1_234}
    service.call("POST", f"/v1/payments/{first}/refund", refund)
    balance = service.call("GET", "/v1/wallets/balance")
    money = of_centavos(balance["total"] + balance["retained"])
    movements = service.call("GET", "/v1/wallets/transactions?limit=100")["data"]
    expect("the net of the movements", sum(of_centavos(each["net"]) for each in movements), money)

    _, file = service.statement("ofx")
    (WORK / "statement.ofx").write_bytes(file)
    account = ofxparse.OfxParser.parse(io.BytesIO(file)).account
    statement = account.statement
    expect("the currency of the OFX file", statement.currency.upper(), "BRL")
    expect("the balance of the OFX file", statement.balance, money)
    expect("the sum of the OFX file", sum(each.amount for each in statement.transactions), money)
    ids = {each.id for each in statement.transactions}
    expect("the ids of the OFX file", ids, {each["id"] for each in movements if each["net"]})
    memos = " ".join(each.memo for each in statement.transactions)
    for name in ("José Açaí", "Zoë", "Devolução"):
        expect(f"{name} in {memos}", name in memos, True)

    report, file = service.statement("xlsx")
    sheet = openpyxl.load_workbook(io.BytesIO(file)).active
    header, opening, *lines, closing = list(sheet.iter_rows(values_only=True))
    expect("the columns of the sheet", len(header), 12)
    expect("the lines of the sheet", (len(lines), report["rows"]), (len(movements), len(movements)))
    expect("the balances of the sheet", (opening[10], closing[10]), (0, float(money)))
    for line in lines:
        types = [type(line[0]), *[type(cell) in (int, float) for cell in line[7:11]]]
        expect(f"the types of {line}", types, [datetime.datetime, True, True, True, True])
    expect("the net of the sheet", round(sum(line[9] for line in lines), 2), float(money))
    expect("a text of the sheet", "=1002" in [line[2] for line in lines], True)

    _, file = service.statement("csv")
    rows = list(csv.reader(io.StringIO(file.decode("utf-8-sig")), delimiter=";"))
    number = lambda cell: decimal.Decimal(cell.replace(",", "."))
    expect("the net of the CSV file", sum(number(row[9]) for row in rows[2:-1]), money)
    expect("the closing balance of the CSV file", number(rows[-1][10]), money)
    expect("a formula of the CSV file", "'=1002" in [row[2] for row in rows], True)

    _, file = service.statement("json")
    read = json.loads(file)
    expect("the net of the JSON file", sum(of_centavos(row["net"]) for row in read["data"][1:-1]), money)
    expect("the PDF file", service.statement("pdf")[1][:5], b"%PDF-")
    (WORK / "expected.json").write_text(json.dumps({"balance": str(money), "movements": len(ids)}))
    print(f"ofxparse, openpyxl, csv, json: {len(movements)} movements, {money} BRL")


with running(WORK) as ready:
    check(Service(ready))
