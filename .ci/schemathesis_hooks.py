"""Gives Schemathesis live ids for the variables of paths, and records the statuses of every operation.

A case with a valid path gets the id of an object in the state that the operation needs, created over HTTP. One
case in ten keeps its generated id. The examples of the description always get a live id.
"""

import atexit
import collections
import hashlib
import hmac
import json
import os
import random
import re
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping

import schemathesis
from schemathesis.core import NotSet

READY = json.load(open(os.environ["READY_FILE"]))
BASE, KEY, TOKEN = READY["base_url"], READY["test_api_key"], READY["dashboard"]["token"]
LOG_IN = {name: READY["dashboard"][name] for name in ("email", "password")}
# The path of the URL at which the bank reports payments.
CALLBACK = re.fullmatch(r".*/(?P<account>[^/]+)/(?P<token>[^/]+)", os.environ["CALLBACK_URL"]).groupdict()
MED_SECRET = os.environ["MED_SECRET"].encode()
STATUSES = collections.defaultdict(collections.Counter)
CHOICE = random.Random(1)
ADVANCED_SECONDS = 0
# The ids of the endpoints that exist, oldest first.
OPEN_ENDPOINTS = collections.deque()
# By operation, the object in the paths of requests that the service refuses. They don't change it.
FOR_INVALID = {}


def request(method, url, body=None, headers=None):
    """Sends a request. Returns the parsed JSON of a successful response. After a 429, sends it once more."""
    data = None if body is None else (body if isinstance(body, bytes) else json.dumps(body).encode())
    headers = {"apikey": KEY, "content-type": "application/json"} if headers is None else headers
    url = url if url.startswith("http") else BASE + url
    sent = urllib.request.Request(url, method=method, data=data, headers=headers)
    try:
        response = urllib.request.urlopen(sent, timeout=30)
    except urllib.error.HTTPError as error:
        if error.code != 429:
            raise
        advance_clock(int(error.headers["Retry-After"]))
        response = urllib.request.urlopen(sent, timeout=30)
    with response:
        text = response.read()
    return json.loads(text) if text[:1] in (b"{", b"[") else None


def with_token(method, url, body=None):
    return request(method, url, body, {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"})


def advance_clock(seconds):
    """Moves the service's clock, so that no test waits for the end of a limit's period."""
    global ADVANCED_SECONDS
    ADVANCED_SECONDS += seconds
    request("POST", "/_local/clock/advance", {"seconds": seconds}, {"content-type": "application/json"})


def new_key():
    return str(uuid.UUID(int=CHOICE.getrandbits(128), version=4))


def charge():
    headers = {"apikey": KEY, "content-type": "application/json", "idempotency-key": new_key()}
    return request("POST", "/v1/pix/charges", {"amount": 1990}, headers)["id"]


def paid():
    new = charge()
    request("POST", f"/v1/sandbox/charges/{new}/pay", {})
    return new


def payment(method):
    body = {"amount": 1990, "paymentMethods": [method], "idempotencyKey": new_key()}
    return request("POST", "/v1/payments", body)["id"]


def held_for_review():
    headers = {"apikey": KEY, "content-type": "application/json", "idempotency-key": new_key()}
    body = {"amount": 1990, "expected_payer_tax_id": "52998224725", "customer": {"name": "Ana"}}
    new = request("POST", "/v1/pix/charges", body, headers)["id"]
    request("POST", f"/v1/sandbox/charges/{new}/pay", {"payer_tax_id": None})
    return new


def refund():
    body = {"idempotencyKey": new_key(), "strategy": "devolution", "reason": "sandbox:hold"}
    return request("POST", f"/v1/payments/{paid()}/refund", body)["id"]


def case():
    return request("POST", f"/v1/sandbox/charges/{paid()}/med-cases", {})["id"]


def uploaded():
    """A case and the id of an uploaded file that is not yet confirmed."""
    claimed, image = case(), b"\x89PNG\r\n\x1a\n" + bytes(100)
    body = {"file_name": "a.png", "file_size": len(image), "mime_type": "image/png"}
    ticket = request("POST", f"/v1/med/cases/{claimed}/evidence", body)
    request("PUT", ticket["upload_url"], image, ticket["upload_headers"])
    return {"id": claimed, "evidence_id": ticket["id"]}


def endpoint():
    # The service emits this event only for payouts, of which there are none. So the endpoint gets test events alone.
    body = {"url": "http://127.0.0.1:9/hook", "events": ["payout.created"]}
    new = request("POST", "/v1/webhooks/endpoints", body)["id"]
    remember_endpoint(new)
    return new


def remember_endpoint(new):
    """Keeps few endpoints, because an account has at most 50, and each gets the events of all charges."""
    OPEN_ENDPOINTS.append(new)
    if len(OPEN_ENDPOINTS) > 5:
        try:
            request("DELETE", f"/v1/webhooks/endpoints/{OPEN_ENDPOINTS.popleft()}")
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise


def recovery():
    """An endpoint and its recovery. They end at once, because nothing failed."""
    recovered = endpoint()
    headers = {"apikey": KEY, "content-type": "application/json", "idempotency-key": new_key()}
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + ADVANCED_SECONDS - 60))
    made = request("POST", f"/v1/webhooks/endpoints/{recovered}/recoveries", {"since": since}, headers)
    return {"id": recovered, "recovery_id": made["id"]}


def delivery():
    return request("POST", f"/v1/webhooks/endpoints/{endpoint()}/test")["id"]


def event():
    for _ in range(100):
        events = request("GET", "/v1/events?limit=1")["data"]
        if events:
            return events[0]["id"]
        paid()
    raise RuntimeError("no event")


def failed_request():
    """The id of a request in the log. A function logs 60 a minute, so the clock moves until it logs this one."""
    for _ in range(10):
        try:
            request("GET", "/v1/charges?color=red")
        except urllib.error.HTTPError as error:
            made = error.headers["X-Request-Id"]
        if request("GET", f"/v1/requests?request_id={made}")["data"]:
            return made
        advance_clock(60)
    raise RuntimeError("no logged request")


def api_key():
    return with_token("POST", "/v1/api-keys", {"test": True})["id"]


def report():
    headers = {"apikey": KEY, "content-type": "application/json", "idempotency-key": new_key()}
    body = {"type": "fees", "format": "csv", "from": "2026-11-01", "to": "2026-11-02"}
    return request("POST", "/v1/reports", body, headers)["id"]


def payment_link():
    headers = {"apikey": KEY, "content-type": "application/json", "idempotency-key": new_key()}
    return request("POST", "/v1/payment_links", {"amount": 1000, "payment_methods": ["PIX"]}, headers)["id"]


def report_schedule():
    """An account has at most five."""
    found = request("GET", "/v1/reports/schedules")["data"]
    body = {"interval": "daily", "type": "fees", "format": "csv"}
    return found[0]["id"] if found else request("POST", "/v1/reports/schedules", body)["id"]


def once(create):
    """Creates an object at its first use, for operations that don't change it."""
    made = []

    def get():
        if not made:
            made.append(create())
        return made[0]

    return get


READ_CHARGE, READ_PAID, READ_CASE = once(charge), once(paid), once(case)
ONE_DELIVERY, ONE_EVENT, ONE_REQUEST = once(delivery), once(event), once(failed_request)
RAW = lambda create: lambda: create().removeprefix("ch_")
CREDIT_CARD = once(lambda: payment("CREDIT_CARD"))

# What the path of an operation gets. The first entry whose text begins the operation counts.
OBJECTS = [
    ("GET /v1/charges/", READ_CHARGE),
    ("POST /v1/payments/{id}/cancel", charge),
    ("POST /v1/payments/{id}/refund", paid),
    ("GET /v1/payments/{id}/receipt", READ_PAID),
    ("POST /v1/payments/", READ_PAID),
    ("GET /v1/payments/", READ_CHARGE),
    ("POST /v1/sandbox/charges/{id}/med-cases", paid),
    ("POST /v1/sandbox/charges/{id}/review", held_for_review),
    ("POST /v1/sandbox/charges/", charge),
    ("POST /v1/sandbox/refunds/", refund),
    ("POST /v1/sandbox/med/", case),
    ("GET /v1/med/", READ_CASE),
    ("GET /v1/infractions/", READ_CASE),
    ("POST /v1/med/cases/{id}/evidence/{evidence_id}", uploaded),
    ("POST /v1/infractions/{id}/evidence/{evidence_id}", uploaded),
    ("POST /v1/med/", case),
    ("POST /v1/infractions/", case),
    ("DELETE /v1/webhooks/endpoints/", endpoint),
    ("POST /v1/webhooks/endpoints/{id}/test", endpoint),
    ("POST /v1/webhooks/deliveries/", delivery),
    ("GET /v1/webhooks/deliveries/", ONE_DELIVERY),
    ("GET /v1/webhooks/endpoints/{id}/recoveries/{recovery_id}", recovery),
    ("POST /v1/webhooks/endpoints/{id}/recoveries/{recovery_id}", recovery),
    ("GET /v1/webhooks/endpoints/", endpoint),
    ("PATCH /v1/webhooks/endpoints/", endpoint),
    ("POST /v1/webhooks/endpoints/", endpoint),
    ("GET /v1/events/", ONE_EVENT),
    ("GET /v1/requests/", ONE_REQUEST),
    ("GET /v1/payment_links/", once(payment_link)),
    ("PATCH /v1/payment_links/", once(payment_link)),
    ("DELETE /v1/reports/schedules/", report_schedule),
    ("DELETE /v1/reports/", report),
    ("GET /v1/reports/", once(report)),
    ("DELETE /v1/api-keys/", api_key),
    ("POST /v1/api-keys/", api_key),
    ("GET /checkout/{raw_id}/boleto.pdf", once(RAW(lambda: payment("BOLETO")))),
    ("GET /checkout/{raw_id}/crypto.png", once(RAW(lambda: payment("CRYPTO")))),
    ("POST /checkout/{raw_id}/card", RAW(CREDIT_CARD)),
    ("GET /checkout/{raw_id}/card", RAW(CREDIT_CARD)),
    ("POST /checkout/", RAW(charge)),
    ("GET /checkout/", RAW(READ_CHARGE)),
    ("POST /v1/acquirer-events/", lambda: CALLBACK),
]


@schemathesis.hook
def before_call(context, case, kwargs):
    operation = case.operation.label
    if operation == "POST /v1/auth/login" and is_valid(case, "body") and (is_example(case) or CHOICE.random() < 0.2):
        case.body = LOG_IN
    if operation == "POST /v1/auth/logout" and case.headers.get("Authorization") == f"Bearer {TOKEN}":
        # A log-out ends its token, and the other operations need theirs.
        case.headers["Authorization"] = f"Bearer {other_token()}"
    if is_example(case):
        # The example of a cursor names no object of this account.
        case.query.pop("starting_after", None)
    if case.path_parameters and is_valid(case, "path") and (is_example(case) or CHOICE.random() < 0.9):
        set_live_ids(case)
    if isinstance(case.body, dict) and case.body.get("metadata") == []:
        # The service takes an empty array for an empty object, as PHP writes one.
        case.body["metadata"] = [0]
    if CHOICE.random() < 0.9:
        # With the same key, the service would compare the bodies and answer 409.
        replace_key(case.headers, "Idempotency-Key")
        replace_key(case.body, "idempotencyKey")
    if operation.endswith("/med") and is_valid(case, "header"):
        case.headers["X-Signature"] = sign(case.body)


def replace_key(fields, name):
    """Replaces a valid idempotency key by a new one."""
    if isinstance(fields, Mapping) and isinstance(fields.get(name), str) and 8 <= len(fields[name]) <= 128:
        fields[name] = new_key()


def set_live_ids(case):
    operation = case.operation.label
    create = next((create for start, create in OBJECTS if operation.startswith(start)), None)
    if create is None:
        return
    if is_valid_request(case):
        made = create()
    else:
        made = FOR_INVALID[operation] = FOR_INVALID.get(operation) or create()
    if isinstance(made, dict):
        case.path_parameters.update(made)
    else:
        case.path_parameters[next(iter(case.path_parameters))] = made


def other_token():
    return request("POST", "/v1/auth/login", LOG_IN)["token"]


def sign(body):
    """The signature of a MED notice, whose time is that of the service's clock."""
    at = int(time.time()) + ADVANCED_SECONDS
    if isinstance(body, NotSet):
        text = b""
    else:
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
    signature = hmac.new(MED_SECRET, f"{at}.".encode() + text, hashlib.sha256).hexdigest()
    return f"t={at},v1={signature}"


def is_valid(case, location):
    """Whether this part of the request conforms to the description."""
    components = case.meta.components if case.meta else {}
    info = next((info for at, info in components.items() if at.value == location), None)
    return info is None or info.mode.is_positive


def is_valid_request(case):
    return case.meta is None or case.meta.generation.mode.is_positive


def is_example(case):
    return case.meta is not None and case.meta.phase.name.value == "examples"


@schemathesis.hook
def after_call(context, case, response):
    STATUSES[case.operation.label][response.status_code] += 1
    if case.operation.label == "POST /v1/webhooks/endpoints" and response.status_code == 201:
        remember_endpoint(response.json()["id"])
    if response.status_code == 429:
        advance_clock(int(response.headers["retry-after"][0]))


@atexit.register
def write_statuses():
    with open(os.environ["STATUSES_FILE"], "w") as file:
        json.dump(STATUSES, file)
