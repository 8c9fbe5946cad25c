"""Checks stand-ins/btcpay against judges that this project did not write.

- Each request that the stand-in accepts, each answer and each webhook is valid by BTCPay Server's published document
  (version 2.4.1), and has no field that the document does not know.
- Requests that the document forbids are refused: each accepted request is sent again with one parameter changed.
- The npm library btcpay-greenfield-node-client drives the stand-in through the same judge.

The first argument is the program `btcpay-stand-in`, the second the directory of npm's libraries, if there is one.
"""

import hashlib
import hmac
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.parse

import referencing
import referencing.jsonschema
from openapi_schema_validator import OAS30Validator
from stand_in import WAIT_SECONDS, Proxy, Receiver, fail, wait

KEY, STORE, SECRET = "ci-key", "9CiNzKoANXxmk5ayZngSXrHTiVvvgCrwrpFQd4m2K776", "ci-secret"
DIRECTORY = pathlib.Path("stand-ins/btcpay/swagger")

# Where the published document is wrong or silent. Each entry has a reason.
EXCEPTIONS = {
    "422": "The document says 400 for a request that is not valid. The server's code (CreateValidationError) answers 422 "
    "with the same body.",
    "missingPermission": "A 403 has no schema. The server's code (GreenfieldPermissionAPIError) adds this field to "
    "ProblemDetails.",
    "paymentMethods": "`includePaymentMethods` of one invoice adds the field, as in a list, but InvoiceData lacks it.",
    "additionalProperties": "Under `allOf`, `additionalProperties: false` forbids the fields of the other parts. Here it "
    "forbids what none of the parts has.",
    "nullable": "`nullable` beside `allOf` or `$ref` means that null is allowed, although the referred type forbids it.",
    "minutes": "A number in minutes has the format int32, so it must be an integer.",
    "server/info": "The file of this operation is not part of the copy. The answer is not validated.",
    "status": "The query parameter `status` is described as an array, but has the schema of one status.",
}


def read_document():
    """Returns the files as one document, as the server publishes it."""
    document = {"paths": {}, "components": {"schemas": {}, "parameters": {}}}
    webhooks = {}
    for path in sorted(DIRECTORY.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        document["paths"].update(content.get("paths", {}))
        webhooks.update(content.get("x-webhooks", {}) or content.get("webhooks", {}))
        for kind in ("schemas", "parameters"):
            document["components"][kind].update(content.get("components", {}).get(kind, {}))
    return document, webhooks


DOCUMENT, WEBHOOKS = read_document()


def readable(schema):
    """Returns the schema as the validator reads it. Unknown fields are searched by `unknown_field`, and null is an
    alternative, also beside `allOf`.
    """
    if isinstance(schema, list):
        return [readable(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    named = {name: readable(item) for name, item in schema.items() if name not in ("example", "default")}
    if isinstance(named.get("$ref"), str) and named["$ref"].startswith("#"):
        named["$ref"] = "urn:btcpay" + named["$ref"]
    if named.get("additionalProperties") is False:
        del named["additionalProperties"]
    if named.get("format") in ("int32", "minutes", "seconds") and named.get("type") == "number":
        named["type"] = "integer"
    if named.get("format") == "decimal":
        named["pattern"] = r"^-?\d+(\.\d+)?$"
    if named.pop("nullable", None) is True:
        return {"anyOf": [named, {"enum": [None]}]}
    return named


REGISTRY = referencing.Registry().with_resource(
    "urn:btcpay",
    referencing.Resource(contents=readable(DOCUMENT), specification=referencing.jsonschema.DRAFT4),
)


def resolve(item):
    while "$ref" in item:
        kind, name = item["$ref"].split("/")[-2:]
        item = DOCUMENT["components"][kind][name]
    return item


def known_fields(schema):
    """Returns the fields of all parts of a schema, and whether others are allowed."""
    schema = resolve(schema)
    fields, is_open = dict(schema.get("properties", {})), schema.get("additionalProperties", None) not in (None, False)
    for part in schema.get("allOf", []) + schema.get("anyOf", []) + schema.get("oneOf", []):
        inner, inner_is_open = known_fields(part)
        fields.update(inner)
        is_open |= inner_is_open
    return fields, is_open


def unknown_field(schema, value):
    """Returns the path of a field that the document does not have. None if there is none."""
    schema = resolve(schema)
    if isinstance(value, list):
        items = next((part["items"] for part in [schema, *map(resolve, schema.get("allOf", []))] if "items" in part), None)
        return next((found for item in value if items and (found := unknown_field(items, item))), None)
    if not isinstance(value, dict):
        return None
    fields, is_open = known_fields(schema)
    for name, item in value.items():
        if name in fields:
            if found := unknown_field(fields[name], item):
                return f"{name}.{found}"
        elif fields and not is_open:
            return name
    return None


def problem(schema, value):
    """Returns why a value is not valid by the document. None if it is."""
    errors = list(OAS30Validator(readable(schema), registry=REGISTRY).iter_errors(value))
    if errors:
        return f"{errors[0].json_path}: {errors[0].message[:300]}"
    unknown = unknown_field(schema, value)
    return f"the document has no field {unknown}" if unknown else None


def schema_of(name):
    return {"$ref": f"#/components/schemas/{name}"}


def check_the_validator():
    """Refuses to judge by a validator that finds nothing."""
    good = {"id": "x", "value": "1.5", "receivedDate": 1, "fee": "0", "status": "Settled", "destination": "a"}
    invoice = {"amount": "1.00", "metadata": {"any": [1]}, "checkout": {"speedPolicy": None, "expirationMinutes": 5}}
    for name, value in [("Payment", good), ("InvoiceData", invoice), ("CreateInvoiceRequest", {})]:
        assert problem(schema_of(name), value) is None, (name, problem(schema_of(name), value))
    bad = [
        ("Payment", {**good, **change})
        for change in [{"value": 1.5}, {"value": "1,5"}, {"status": "Paid"}, {"id": None}, {"receivedDate": "1"}, {"more": 1}]
    ]
    bad += [
        ("InvoiceData", {**invoice, **change})
        for change in [{"amount": 1}, {"other": 1}, {"metadata": None}, {"checkout": {"other": 1}}, {"status": "Paid"}]
    ]
    bad += [("CreateInvoiceRequest", {"checkout": {"expirationMinutes": 1.5}}), ("WebhookData", {"secret": "x"})]
    for name, value in bad:
        if problem(schema_of(name), value) is None:
            fail(f"the validator accepts as {name}: {value}")


def route_of(method, path):
    """Returns the path of the document and its operation. Paths with the store, which it had until 2.4, stand for those
    without.
    """
    path = re.sub(r"^/api/v1/stores/[^/]+/(invoices|webhooks)/", r"/api/v1/\1/", path)
    for known, operations in sorted(DOCUMENT["paths"].items(), key=lambda item: "{" in item[0]):
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", known), path) and method.lower() in operations:
            return known, operations[method.lower()]
    return None, None


def query_problem(operation, query):
    """Returns why the query is not valid by the document. Parameters that it does not know are ignored, as ASP.NET does."""
    parameters = {item["name"]: item["schema"] for item in map(resolve, operation.get("parameters", [])) if item["in"] == "query"}
    for name, text in urllib.parse.parse_qsl(query, keep_blank_values=True):
        schema = resolve(parameters.get(name, {}))
        schema = resolve(schema.get("items", schema))
        value = text
        if schema.get("type") == "number" and re.fullmatch(r"-?\d+", text):
            value = int(text)
        if schema.get("type") == "boolean" and text in ("true", "false"):
            value = text == "true"
        if name in parameters and (found := problem(schema, value)):
            return f"{name}: {found}"
    return None


class Judge(Proxy):
    """Validates each request and answer."""

    def __init__(self, target):
        super().__init__(target)
        self.called, self.count, self.refused, self.accepted = set(), 0, 0, {}

    def examine(self, method, path, _sent, body, status, headers, content):
        self.count += 1
        self.refused += status >= 400
        address = urllib.parse.urlsplit(path)
        route, operation = route_of(method, address.path)
        what = f"{method} {address.path} {status}"
        if content and headers.get_content_type() != "application/json":
            self.problems.append(f"{what}: an answer of the type {headers['Content-Type']}")
        answer = json.loads(content) if content else None
        if status >= 400:
            schema = schema_of("ValidationProblemDetails" if status == 422 else "ProblemDetails")
            shown = {name: value for name, value in answer.items() if name != "missingPermission"} if status == 403 else answer
            found = problem(schema, shown)
            if not answer or (isinstance(answer, dict) and not answer.get("code")):
                found = f"an error without code: {answer}"
        elif address.path == "/api/v1/server/info":
            self.called.add(f"{method} {address.path}")
            return
        elif operation is None:
            found = "the document has no such operation"
        else:
            found = self.accept(method, path, route, operation, body, answer)
        if found:
            self.problems.append(f"{what}: {found}\n{body.decode()[:1000]}\n{content.decode()[:3000]}")

    def accept(self, method, path, route, operation, body, answer):
        """Returns why an accepted request or its answer is not valid."""
        address = urllib.parse.urlsplit(path)
        declared = operation["responses"]["200"].get("content", {}).get("application/json", {}).get("schema")
        if (declared is None) != (answer is None):
            return f"the document declares {declared}, the answer is {answer}"
        if isinstance(answer, dict) and "includePaymentMethods=true" in address.query:
            answer = {name: value for name, value in answer.items() if name != "paymentMethods"}
        found = declared and problem(declared, answer)
        requested = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
        value = json.loads(body) if body else None
        found = found or (requested and value is not None and problem(requested, value)) or query_problem(operation, address.query)
        if not found:
            self.called.add(f"{method} {route}")
            shape = json.dumps(value, sort_keys=True) if len(body) < 60 else str(sorted(value))
            self.accepted.setdefault((method, route, shape, address.query), (method, path, value))
        return found


OTHERS = [None, "", "x", "-1", -1, 1.5, True, [], {}, [1], {"other": 1}, "x" * 30, 10**12]


def changed(value):
    """Yields bodies with one field added, left out, or of another value."""
    if isinstance(value, dict):
        yield {**value, "other": 1}
        for name, item in value.items():
            yield {key: kept for key, kept in value.items() if key != name}
            for other in OTHERS:
                yield {**value, name: other}
            for inner in changed(item):
                yield {**value, name: inner}
    if isinstance(value, list):
        for index, item in enumerate(value):
            for inner in [*OTHERS, *changed(item)]:
                yield [*value[:index], inner, *value[index + 1 :]]


class Check:
    def __init__(self, url, stand_in):
        self.url, self.stand_in = url, stand_in
        self.judge, self.receiver = Judge(url), Receiver("BTCPay-Sig")

    def call(self, method, path, body=None, expected=200, key=KEY):
        headers = {"Authorization": f"token {key}", "Content-Type": "application/json"}
        status, _, content = self.judge.send(method, path, b"" if body is None else json.dumps(body).encode(), headers)
        if status != expected:
            fail(f"{method} {path} {json.dumps(body)}: {status}, not {expected}: {content.decode()[:1000]}")
        return json.loads(content) if content else None

    def store(self, method, path, body=None, expected=200):
        return self.call(method, f"/api/v1/stores/{STORE}{path}", body, expected)

    def control(self, method, path, body=None):
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(self.url).netloc, timeout=WAIT_SECONDS)
        connection.request(method, f"/_local/btcpay{path}", None if body is None else json.dumps(body))
        answer = connection.getresponse()
        content = json.loads(answer.read())
        if answer.status != 200:
            fail(f"{method} {path} {body}: {answer.status} {content}")
        return content

    def advance(self, seconds):
        self.stand_in.stdin.write(f"{seconds}\n")
        self.stand_in.stdin.flush()
        time.sleep(0.1)

    def has_failure(self):
        return any(queue["not_before_ms"] for queue in self.control("GET", "/books")["webhook_queues"].values())

    def invoice(self, order, amount="100.00", **checkout):
        return self.store("POST", "/invoices", {
            "amount": amount,
            "currency": "BRL",
            "metadata": {"orderId": order, "itemDesc": "Pedido", "buyerEmail": None, "cart": [{"id": 1}]},
            "checkout": {"paymentMethods": ["BTC-CHAIN"], "defaultPaymentMethod": "BTC-CHAIN", **checkout},
            "receipt": {"enabled": True, "showQR": None, "showPayments": False},
            "additionalSearchTerms": [order],
        })["id"]

    def expect(self, invoice, status, additional="None"):
        """Reads an invoice by all operations, which the judge validates."""
        shown = self.store("GET", f"/invoices/{invoice}")
        if (shown["status"], shown["additionalStatus"]) != (status, additional):
            fail(f"{invoice} is {shown['status']} {shown['additionalStatus']}, not {status} {additional}")
        self.call("GET", f"/api/v1/invoices/{invoice}?includePaymentMethods=true")
        self.call("GET", f"/api/v1/invoices/{invoice}/payment-methods?onlyAccountedPayments=true")
        self.store("GET", f"/invoices/{invoice}/payment-methods?onlyAccountedPayments=false")

    def run(self):
        self.call("GET", "/api/v1/server/info")
        self.call("GET", "/api/v1/api-keys/current")
        self.store("GET", "")
        self.store("GET", "/payment-methods?onlyEnabled=true")
        self.call("GET", "/api/v1/api-keys/current", expected=401, key="other")
        webhook = self.store("POST", "/webhooks", {
            "url": self.receiver.url, "secret": SECRET, "enabled": True, "automaticRedelivery": True,
            "authorizedEvents": {"everything": False, "specificEvents": []},
        })
        assert webhook["secret"] == SECRET, webhook
        path = f"/api/v1/webhooks/{webhook['id']}"
        self.call("PUT", path, {
            "url": self.receiver.url, "enabled": True, "automaticRedelivery": True, "secret": None,
            "authorizedEvents": {"everything": True, "specificEvents": []},
        })
        self.call("GET", path)
        self.store("GET", "/webhooks")
        self.states()
        self.lists()
        self.rights()
        wait("all webhooks are sent", lambda: self.control("GET", "/books")["unsent_notifications"] == 0)
        types = self.verify()
        other = self.store("POST", "/webhooks", {"url": self.receiver.url, "secret": None})
        assert len(other["secret"]) > 20, other
        self.store("DELETE", f"/webhooks/{other['id']}")
        return types

    def states(self):
        paid = self.invoice("paid", speedPolicy="LowMediumSpeed", redirectURL="https://loja.example/done")
        self.expect(paid, "New")
        self.control("POST", "/pay", {"invoice": paid, "amount": "0.0001"})
        self.expect(paid, "New", "PaidPartial")
        self.control("POST", "/pay", {"invoice": paid})
        self.expect(paid, "Processing")
        self.control("POST", "/pay", {"order_id": "paid", "amount": "0.001"})
        self.expect(paid, "Processing", "PaidOver")
        self.control("POST", "/confirm", {"invoice": paid, "count": 2})
        self.expect(paid, "Settled", "PaidOver")
        fast = self.invoice("fast", "0.01", speedPolicy="HighSpeed", paymentTolerance=2.5)
        self.control("POST", "/pay", {"invoice": fast})
        self.expect(fast, "Settled")
        replaced = self.invoice("replaced")
        self.control("POST", "/pay", {"invoice": replaced})
        self.control("POST", "/replace", {"invoice": replaced})
        self.expect(replaced, "New")
        for order, status in [("marked-1", "Settled"), ("marked-2", "Invalid")]:
            marked = self.invoice(order)
            self.call("POST", f"/api/v1/invoices/{marked}/status", {"status": status})
            self.expect(marked, status, "Marked")
            self.call("POST", f"/api/v1/invoices/{marked}/status", {"status": status}, expected=422)
        late = self.invoice("late", expirationMinutes=1, monitoringMinutes=60)
        partial = self.invoice("partial", expirationMinutes=1, redirectAutomatically=True, defaultLanguage="en")
        unconfirmed = self.invoice("unconfirmed", expirationMinutes=1, monitoringMinutes=60, lazyPaymentMethods=False)
        self.control("POST", "/pay", {"invoice": partial, "amount": "0.00001"})
        self.control("POST", "/pay", {"invoice": unconfirmed})
        self.advance(61)
        self.expect(late, "Expired")
        self.expect(partial, "Expired", "PaidPartial")
        self.control("POST", "/pay", {"invoice": late, "confirmed": True})
        self.expect(late, "Expired", "PaidLate")
        self.advance(3600)
        self.expect(unconfirmed, "Invalid")
        metadata = {"metadata": {"orderId": "renamed", "posData": {"tip": 0.5}}}
        self.call("PUT", f"/api/v1/invoices/{late}", metadata)
        self.receiver.status = 503
        self.invoice("failing")
        wait("a delivery fails", self.has_failure)
        self.receiver.status = 200
        self.advance(10)

    def lists(self):
        orders = "orderId=paid&orderId=fast&status=Settled"
        found = self.store("GET", f"/invoices?{orders}&skip=0&take=10&includePaymentMethods=true")
        assert [item["metadata"]["orderId"] for item in found] == ["fast", "paid"], found
        self.store("GET", f"/invoices?startDate=1&endDate=4000000000&textSearch=paid&includePaymentMethods=false")
        self.store("GET", "/invoices?startDate=2&endDate=1", expected=422)
        for path in ["/invoices/none", "/webhooks/none"]:
            self.store("GET", path, expected=404)
        self.store("POST", "/invoices", {"amount": "1", "currency": "XAU"}, expected=400)
        self.store("POST", "/invoices", {"amount": "1"})

    def rights(self):
        before = self.control("GET", "/behaviour")["permissions"]
        self.control("POST", "/behaviour", {"permissions": []})
        for method, path, body in [("GET", "/invoices", None), ("POST", "/invoices", {}), ("GET", "/webhooks", None), ("GET", "", None)]:
            self.store(method, path, body, expected=403)
        assert self.call("GET", "/api/v1/api-keys/current")["permissions"] == []
        self.control("POST", "/behaviour", {"permissions": before})

    def verify(self):
        types = set()
        for signature, body in self.receiver.received:
            expected = "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
            assert hmac.compare_digest(signature, expected), "a webhook's signature is wrong"
            event = json.loads(body)
            schema = WEBHOOKS[event["type"]]["post"]["requestBody"]["content"]["application/json"]["schema"]
            missing = set(known_fields(schema)[0]) - set(event)
            found = problem(schema, event) or (missing and f"lacks {missing}")
            if found:
                fail(f"webhook {event['type']}: {found}\n{json.dumps(event, indent=1)}")
            types.add((event["type"], event["isRedelivery"]))
        names = {name for name, _ in types}
        if names != {name for name in WEBHOOKS if name.startswith("Invoice")} or ("InvoiceCreated", True) not in types:
            fail(f"only these webhooks arrived: {types}")
        return names


def send_changed(check):
    """Sends each accepted request again with one parameter changed. The judge validates those that are accepted."""
    judge = check.judge
    before, refused = judge.count, judge.refused
    headers = {"Authorization": f"token {KEY}", "Content-Type": "application/json"}
    for method, path, value in list(judge.accepted.values()):
        address = urllib.parse.urlsplit(path)
        pairs = urllib.parse.parse_qsl(address.query)
        paths = [path]
        for index, (name, _) in enumerate(pairs):
            for other in ["", "x", "-1", "1.5", "TRUE"]:
                other_pairs = [*pairs[:index], (name, other), *pairs[index + 1 :]]
                paths.append(f"{address.path}?{urllib.parse.urlencode(other_pairs)}")
        bodies = [None] if value is None else [*changed(value), [], None, 1]
        requests = [(path, body) for body in bodies] if method != "GET" else [(other, None) for other in paths]
        for other_path, body in requests:
            content = b"" if body is None else json.dumps(body).encode()
            status, _, answer = judge.send(method, other_path, content, headers)
            if status >= 500:
                fail(f"{method} {other_path} {body}: {status} {answer}")
    return judge.count - before, judge.refused - refused


SCRIPT = """
const { OpenAPI, InvoicesService, ApiKeysService, ServerInfoService, StoresService, WebhooksService } = require('btcpay-greenfield-node-client')
const assert = require('assert')
const [base, token, storeId] = process.argv.slice(1)
OpenAPI.BASE = base
OpenAPI.TOKEN = token
async function main() {
  const key = await ApiKeysService.getApiKeysService()
  assert.ok(key.permissions.includes('btcpay.store.canviewinvoices'))
  assert.ok((await ServerInfoService.serverInfoGetServerInfo()).fullySynched)
  assert.ok((await WebhooksService.webhokksGetWebhooks({ storeId })).length > 0)
  assert.strictEqual((await StoresService.storesGetStore({ storeId })).id, storeId)
  const requestBody = { amount: '25.50', currency: 'EUR', metadata: { orderId: 'npm' }, checkout: { speedPolicy: 'HighSpeed' } }
  const created = await InvoicesService.invoicesCreateInvoice({ storeId, requestBody })
  assert.strictEqual(created.status, 'New')
  const invoiceId = created.id
  const read = await InvoicesService.invoicesGetInvoice({ storeId, invoiceId })
  assert.deepStrictEqual(read, created)
  const listed = await InvoicesService.invoicesGetInvoices({ storeId })
  assert.strictEqual(listed[0].id, invoiceId)
  const [method] = await InvoicesService.invoicesGetInvoicePaymentMethods({ storeId, invoiceId })
  assert.ok(method.destination.startsWith('bcrt1q') && method.due === '0.00028334', JSON.stringify(method))
  const marked = await InvoicesService.invoicesMarkInvoiceStatus({ storeId, invoiceId, requestBody: { status: 'Settled' } })
  assert.deepStrictEqual([marked.status, marked.additionalStatus], ['Settled', 'Marked'])
  await assert.rejects(InvoicesService.invoicesGetInvoice({ storeId, invoiceId: 'none' }), error => error.status === 404)
  await assert.rejects(InvoicesService.invoicesCreateInvoice({ storeId, requestBody: { amount: '1', currency: 'XAU' } }), error => error.status === 400)
}
main().catch(error => { console.error(error); process.exit(1) })
"""


def main():
    program, libraries = sys.argv[1], sys.argv[2:]
    check_the_validator()
    arguments = [program, "0", KEY, STORE]
    stand_in = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    judge = None
    try:
        check = Check(stand_in.stdout.readline().strip(), stand_in)
        judge = check.judge
        types = check.run()
        print(
            f"BTCPay Server's document: {judge.count} requests and answers of {len(judge.called)} operations, "
            f"{judge.refused} of them refused, and {len(check.receiver.received)} webhooks of {len(types)} types"
        )
        routes = set(check.control("GET", "/requests"))
        called = {name.replace("/api/v1/", "") for name in judge.called}
        if routes != called:
            fail(f"these operations were not validated: {routes ^ called}")
        for library in libraries:
            before = judge.count
            environment = {**os.environ, "NODE_PATH": library}
            subprocess.run(["node", "-e", SCRIPT, judge.url, KEY, STORE], check=True, env=environment, timeout=120)
            print(f"npm btcpay-greenfield-node-client: {judge.count - before} requests and answers")
        sent, refused = send_changed(check)
        print(f"changed requests: {sent}, {refused} of them refused, the others valid by the document")
        print(f"exceptions from the document, with reasons in {__file__}: {', '.join(EXCEPTIONS)}")
    finally:
        stand_in.terminate()
        stand_in.wait()
        # What the judge found explains an assertion that failed.
        if judge and judge.problems:
            fail(f"{len(judge.problems)} problems:\n" + "\n".join(problem[:1500] for problem in judge.problems[:5]))


main()
