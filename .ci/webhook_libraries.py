"""Collects deliveries of the service, and verifies them by the samples in Python of docs/guide/webhooks.md
and docs/samples/python.

Writes into the directory of the first argument: `cases.json`, the deliveries and what must be accepted, and
`samples.js`, the samples in Node. `.ci/webhook_libraries.js` reads both.
"""

import base64
import hashlib
import hmac
import http.server
import json
import pathlib
import re
import subprocess
import sys
import threading
import time
import urllib.request

from local_service import running, wait

WORK = pathlib.Path(sys.argv[1])
EVENTS = [
    "charge.created", "charge.paid", "charge.failed", "charge.expired",
    "payout.created", "payout.paid", "payout.failed",
    "med_case.created", "med_case.updated", "med_case.deadline_approaching", "med.resolved",
    "report.ready",
]
# These cause all events.
TRIGGERED = [
    "charge.failed", "charge.expired", "payout.paid", "payout.failed", "med.resolved", "med_case.deadline_approaching",
    "report.ready", "webhook.test",
]
# Longer than the 5 minutes that each sample accepts.
OLD_SECONDS = 400


class Receiver:
    """A merchant's server that keeps each delivery."""

    def __init__(self):
        deliveries = self.deliveries = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                deliveries.append((dict(self.headers.items()), body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *args):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_port}/hook"
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def names(self):
        return {header(headers, "x-service-event-type") for headers, _ in self.deliveries}


def header(headers, name):
    return {key.lower(): value for key, value in headers.items()}[name]


def call(ready, path, body):
    request = urllib.request.Request(ready["base_url"] + path, json.dumps(body).encode())
    request.add_header("apikey", ready["test_api_key"])
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def trigger(event):
    command = ["cargo", "run", "--quiet", "--locked", "--", "trigger", event]
    subprocess.run([*command, "--ready-file", WORK / "ready.json"], check=True, stdout=subprocess.DEVNULL)


def signed_by_hand(shown, headers, body, t):
    """Returns the headers of the same event, signed at `t`."""
    event = header(headers, "webhook-id")
    key, time_and_body = shown["secret"].encode(), f"{t}.".encode() + body
    v1 = hmac.new(key, time_and_body, hashlib.sha256).hexdigest()
    standard = hmac.new(key, f"{event}.".encode() + time_and_body, hashlib.sha256).digest()
    return {
        "X-Service-Signature": f"t={t},v1={v1}",
        "webhook-id": event,
        "webhook-timestamp": str(t),
        "webhook-signature": "v1," + base64.b64encode(standard).decode(),
    }


def cases_of(shown, other, headers, body):
    """Returns what a verification gets of one delivery: name, secrets, headers, body, whether it is right."""
    now = int(time.time())
    changed = body.replace(b'"event"', b'"Event"', 1)
    assert changed != body
    return [
        ("as it arrived", shown, headers, body, True),
        ("signed by this script", shown, signed_by_hand(shown, headers, body, now), body, True),
        ("a changed body", shown, headers, changed, False),
        ("a body with a line break", shown, headers, body + b"\n", False),
        ("another secret", other, headers, body, False),
        ("an old signature", shown, signed_by_hand(shown, headers, body, now - OLD_SECONDS), body, False),
    ]


def collect(ready):
    """Registers an endpoint, causes each event, rotates the secret, and causes events again."""
    receiver = Receiver()
    first = call(ready, "/v1/webhooks/endpoints", {"url": receiver.url, "events": EVENTS})
    for event in TRIGGERED:
        trigger(event)
    expected = {*EVENTS, "webhook.test"}
    wait(f"deliveries of {expected}", lambda: expected <= receiver.names())
    before = list(receiver.deliveries)
    second = call(ready, f"/v1/webhooks/endpoints/{first['id']}/rotate-secret", {})
    receiver.deliveries.clear()
    trigger("charge.paid")
    wait("a delivery after the rotation", lambda: "charge.paid" in receiver.names())
    after = list(receiver.deliveries)
    cases = []
    for shown, other, deliveries in [(first, second, before), (second, first, after)]:
        for headers, body in deliveries:
            cases += cases_of(shown, other, headers, body)
    return [first, second], len(before) + len(after), cases


def samples(language):
    page = pathlib.Path("docs/guide/webhooks.md").read_text(encoding="utf-8")
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL))


def outcome(verify, refusal):
    """Returns whether the sample accepts. An exception of another type is an error of this test."""
    try:
        return verify() is not False
    except refusal:
        return False


def verify_in_python(cases):
    sample = {}
    exec(pathlib.Path("docs/samples/python/signature.py").read_text(encoding="utf-8"), sample)
    exec(samples("python"), sample)
    import standardwebhooks.webhooks
    import stripe

    for name, shown, headers, body, is_right in cases:
        secret, encoded = shown["secret"], shown["standardWebhooksSecret"]
        signature = header(headers, "x-service-signature")
        given = {**headers, "X-Service-Signature": signature}
        for verifier, accepts in {
            "no library": outcome(lambda: sample["is_ours"](secret, signature, body), ()),
            "stripe": outcome(
                lambda: sample["event_by_stripe"](secret, given, body), stripe.SignatureVerificationError
            ),
            "standardwebhooks": outcome(
                lambda: sample["event_by_standard_webhooks"](encoded, headers, body),
                standardwebhooks.webhooks.WebhookVerificationError,
            ),
        }.items():
            if accepts != is_right:
                sys.exit(f"FAILED: Python, {verifier}: {name}: accepted: {accepts}, expected: {is_right}")


def main():
    with running(WORK) as ready:
        endpoints, deliveries, cases = collect(ready)
    text = (WORK / "service.log").read_text()
    for shown in endpoints:
        if shown["secret"] in text or shown["standardWebhooksSecret"] in text:
            sys.exit("FAILED: a secret is in the service's log")
    verify_in_python(cases)
    print(f"Python: {deliveries} deliveries, {len(cases)} cases, each by stripe, standardwebhooks and no library")
    (WORK / "samples.js").write_text(samples("js"))
    names = ["name", "shown", "headers", "body", "isRight"]
    rows = [[name, shown, headers, base64.b64encode(body).decode(), right] for name, shown, headers, body, right in cases]
    (WORK / "cases.json").write_text(json.dumps([dict(zip(names, row)) for row in rows]))


main()
