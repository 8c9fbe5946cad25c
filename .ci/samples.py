"""Runs the programs of docs/samples, and checks what they did. The argument is a directory for files.

In each language: a charge is created through a proxy that loses the first response, so the program must repeat the
request. The receiver gets the events of the charge, a duplicate and forged deliveries. After it has stopped, the
program that catches up gets the events of a second charge.
"""

import hashlib
import hmac
import http.client
import http.server
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

WORK = pathlib.Path(sys.argv[1]).resolve()
SAMPLES = pathlib.Path("docs/samples").resolve()
WAIT_SECONDS = 60
AMOUNT = 1990
PAST = "2020-01-01T00:00:00Z"


class Language:
    """The commands of a language. `{port}` stands for the port of the receiver."""

    def __init__(self, name, charge, catch_up, receiver):
        self.name, self.charge, self.catch_up, self.receiver = name, charge, catch_up, receiver


LANGUAGES = [
    Language("curl", ["bash", "charge.sh"], ["bash", "catch_up.sh"], None),
    Language("node", ["node", "charge.mjs"], ["node", "catch_up.mjs"], ["node", "receiver.mjs"]),
    Language("python", ["python3", "charge.py"], ["python3", "catch_up.py"], ["python3", "receiver.py"]),
    Language(
        "php", ["php", "charge.php"], ["php", "catch_up.php"], ["php", "-S", "127.0.0.1:{port}", "receiver.php"]
    ),
    Language("java", ["java", "Charge.java"], ["java", "CatchUp.java"], ["java", "Receiver.java"]),
]
# CI fails without these. The others are skipped if they are not installed.
REQUIRED = {"curl", "node", "python"}


def wait(doing, condition):
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"FAILED: {doing}: not after {WAIT_SECONDS} s")
        time.sleep(0.05)


def check(is_right, message):
    if not is_right:
        sys.exit(f"FAILED: {message}")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def accepts_connections(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


class LossyProxy:
    """Forwards requests. Answers the first one with 503, after the service has carried it out."""

    def __init__(self, target):
        self.lost = 0
        self.replayed = 0
        proxy, host = self, urllib.parse.urlsplit(target).netloc

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                service = http.client.HTTPConnection(host, timeout=30)
                headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
                service.request("POST", self.path, body, headers)
                response = service.getresponse()
                content = response.read()
                proxy.replayed += response.headers.get("Idempotent-Replayed") == "true"
                is_lost, proxy.lost = proxy.lost == 0, 1
                self.send_response(503 if is_lost else response.status)
                if is_lost:
                    content = b""
                    self.send_header("Retry-After", "1")
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Recorder:
    """A merchant's server that keeps each delivery."""

    def __init__(self):
        deliveries = self.deliveries = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                deliveries.append((self.headers["X-Service-Signature"], body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Service:
    def __init__(self, ready):
        self.url, self.key = ready["base_url"], ready["test_api_key"]

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode() if body else None, method=method)
        request.add_header("apikey", self.key)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)

    def register(self, url):
        return self.call("POST", "/v1/webhooks/endpoints", {"url": url, "events": ["charge.created", "charge.paid"]})


def run(language, command, arguments, environment):
    process = subprocess.run(
        [*command, *arguments],
        cwd=SAMPLES / language.name,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        timeout=WAIT_SECONDS,
    )
    check(process.returncode == 0, f"{language.name}: {command[-1]} ended with {process.returncode}")
    return process.stdout


def create_charge(service, language, order):
    """Runs the program that creates and pays a charge. Returns the charge's id."""
    proxy = LossyProxy(service.url)
    environment = {"SERVICE_URL": proxy.url, "API_KEY": service.key}
    output = run(language, language.charge, [order, str(AMOUNT)], environment)
    proxy.server.shutdown()
    check(proxy.replayed == 1, f"{language.name}: the request was not repeated with its key")
    br_code, charge = output.splitlines()
    read = service.call("GET", f"/v1/charges/{charge}")
    check(read["status"] == "paid" and read["amount"] == AMOUNT, f"{language.name}: {read}")
    check(read["pix"]["br_code"] == br_code, f"{language.name}: another br_code")
    return charge


def stored(inbox, charge):
    """Returns the types of a charge's canonical events in the inbox."""
    types = []
    for file in inbox.glob("*.json"):
        try:
            event = json.loads(file.read_bytes())
        except ValueError:
            continue  # The program is writing the file.
        if event.get("object") == "event" and event["data"]["object"]["id"] == charge:
            types.append(event["type"])
    return sorted(types)


def post(port, signature, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", "/hook", body, {"X-Service-Signature": signature} if signature else {})
    response = connection.getresponse()
    response.read()
    return response.status


def signed(secret, body, t):
    return f"t={t},v1={hmac.new(secret.encode(), f'{t}.'.encode() + body, hashlib.sha256).hexdigest()}"


def receive(service, language, inbox):
    """Runs the receiver while a charge is created, then sends it a duplicate and forged deliveries."""
    port = free_port()
    endpoint = service.register(f"http://127.0.0.1:{port}/hook")
    secret = endpoint["secret"]
    command = [part.format(port=port) for part in language.receiver]
    environment = {**os.environ, "WEBHOOK_SECRET": secret, "PORT": str(port), "INBOX": str(inbox)}
    log = open(WORK / f"{language.name}.log", "wb")
    receiver = subprocess.Popen(
        command, cwd=SAMPLES / language.name, env=environment, stdout=log, stderr=subprocess.STDOUT
    )
    try:
        wait(f"{language.name}: the receiver starts", lambda: accepts_connections(port))
        charge = create_charge(service, language, f"{language.name}-1")
        wait(f"{language.name}: events", lambda: stored(inbox, charge) == ["charge.created", "charge.paid"])
        file = next(inbox.glob("*.json"))
        body, before = file.read_bytes(), len(list(inbox.glob("*.json")))
        now = int(time.time())
        check(post(port, signed(secret, body, now), body) == 204, f"{language.name}: a duplicate is answered 204")
        forged = body.replace(b'"evt_', b'"evt_0', 1)
        for name, signature in {
            "no signature": None,
            "a malformed signature": "t=,v1=",
            "another body": signed(secret, body, now),
            "another secret": signed("0" * 64, forged, now),
            "an old signature": signed(secret, forged, now - 400),
        }.items():
            check(post(port, signature, forged) == 400, f"{language.name}: {name} is answered 400")
        check(len(list(inbox.glob("*.json"))) == before, f"{language.name}: a refused delivery was stored")
    finally:
        receiver.terminate()
        receiver.wait()
        service.call("DELETE", f"/v1/webhooks/endpoints/{endpoint['id']}")


def verify_by_curl(service, language):
    """Verifies a delivery by the shell."""
    recorder = Recorder()
    endpoint = service.register(recorder.url)
    create_charge(service, language, f"{language.name}-1")
    wait("curl: a delivery", lambda: recorder.deliveries)
    signature, body = recorder.deliveries[0]
    for secret, given, is_right in [
        (endpoint["secret"], body, True),
        (endpoint["secret"], body + b" ", False),
        ("0" * 64, body, False),
    ]:
        result = subprocess.run(
            ["bash", SAMPLES / "curl/verify.sh", signature],
            input=given,
            env={**os.environ, "WEBHOOK_SECRET": secret},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        check((result.returncode == 0) == is_right, f"curl: verify.sh: expected {is_right}")
    service.call("DELETE", f"/v1/webhooks/endpoints/{endpoint['id']}")


def try_language(service, language):
    inbox = WORK / f"inbox-{language.name}"
    inbox.mkdir()
    if language.receiver:
        receive(service, language, inbox)
    else:
        verify_by_curl(service, language)
    missed = create_charge(service, language, f"{language.name}-2")
    check(stored(inbox, missed) == [], f"{language.name}: an event arrived without an endpoint")
    environment = {"SERVICE_URL": service.url, "API_KEY": service.key, "INBOX": str(inbox)}

    def catch_up():
        run(language, language.catch_up, [PAST], environment)
        return stored(inbox, missed) == ["charge.created", "charge.paid"]

    # An event appears in the list some moments after its change.
    wait(f"{language.name}: catching up", catch_up)


def main():
    command = ["cargo", "run", "--quiet", "--locked", "--", "--in-memory", "--port", "0"]
    with open(WORK / "service.log", "wb") as output:
        service = subprocess.Popen(
            [*command, "--ready-file", WORK / "ready.json"], stdout=output, stderr=subprocess.STDOUT
        )
    try:
        wait("the service starts", (WORK / "ready.json").exists)
        for language in LANGUAGES:
            program = language.charge[0] if language.name != "curl" else "curl"
            if shutil.which(program) is None:
                check(language.name not in REQUIRED, f"{program} is not installed")
                print(f"{language.name}: skipped: needs {program}")
                continue
            start = time.monotonic()
            try_language(Service(json.loads((WORK / "ready.json").read_text())), language)
            received = "received and deduplicated" if language.receiver else "verified"
            seconds = time.monotonic() - start
            print(f"{language.name}: created with a retry, paid, {received}, caught up in {seconds:.1f} s")
    finally:
        service.terminate()
        service.wait()


main()
