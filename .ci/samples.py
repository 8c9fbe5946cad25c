"""Runs the programs of docs/samples, and checks what they did. The argument is a directory for files.

In each language: a charge is created through a proxy that loses the first responses, so the program must repeat the
request. The receiver gets the events of the charge, a duplicate, forged deliveries, and deliveries while its files
have a limit of size, as on a full disk. After it has stopped, the program that catches up gets the events of a second
charge, with such a limit first, and repairs broken files. The first charge is refunded in part, and the MED case of
the second is answered. At the end of the day the shop's table must agree with the service.
"""

import concurrent.futures
import datetime
import email.utils
import hashlib
import hmac
import http.client
import http.server
import json
import os
import pathlib
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

from local_service import WAIT_SECONDS, running, wait

WORK = pathlib.Path(sys.argv[1]).resolve()
SAMPLES = pathlib.Path("docs/samples").resolve()
AMOUNT = 1990
REFUNDED = 500
PAST = "2020-01-01T00:00:00Z"
# São Paulo is 3 hours behind UTC all year.
TODAY = (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=3)).date().isoformat()
# Smaller than every event, in bytes.
FILE_LIMIT = 200


class Language:
    """The commands of a language. `{port}` stands for the port of the receiver."""

    def __init__(self, name, needs, command, suffix, receiver):
        """`command` starts a program, whose name ends with `suffix`."""
        self.name, self.needs, self.command, self.suffix, self.receiver = name, needs, command, suffix, receiver

    def program(self, name):
        if self.name == "java":
            name = "".join(word.capitalize() for word in name.split("_"))
        return [*self.command, name + self.suffix]


CLASSES = ["java", "-cp", str(WORK / "classes")]
LANGUAGES = [
    Language("curl", "curl", ["bash"], ".sh", None),
    Language("node", "node", ["node"], ".mjs", ["node", "receiver.mjs"]),
    Language("python", "python3", ["python3"], ".py", ["python3", "receiver.py"]),
    Language("php", "php", ["php"], ".php", ["php", "-S", "127.0.0.1:{port}", "receiver.php"]),
    Language("java", "javac", CLASSES, "", [*CLASSES, "Receiver"]),
]
# CI fails without these. The others are skipped if they are not installed.
REQUIRED = {"curl", "node", "python"}
# The virtual machine's file of counters is larger than FILE_LIMIT. The other options shorten its start.
JAVA_OPTIONS = "-XX:-UsePerfData -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
ENVIRONMENT = {**os.environ, "JAVA_TOOL_OPTIONS": JAVA_OPTIONS, "PYTHONDONTWRITEBYTECODE": "1"}


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
    """Forwards requests. Answers the first ones with 503, after the service has carried them out."""

    def __init__(self, target, retry_after):
        """`retry_after` are the functions that make the headers of the lost responses."""
        self.times = []
        self.replayed = 0
        proxy, host = self, urllib.parse.urlsplit(target).netloc

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                proxy.times.append(time.monotonic())
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                service = http.client.HTTPConnection(host, timeout=30)
                headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
                service.request("POST", self.path, body, headers)
                response = service.getresponse()
                content = response.read()
                proxy.replayed += response.headers.get("Idempotent-Replayed") == "true"
                is_lost = len(proxy.times) <= len(retry_after)
                self.send_response(503 if is_lost else response.status)
                if is_lost:
                    content = b""
                    self.send_header("Retry-After", retry_after[len(proxy.times) - 1]())
                for name in ("Content-Type", "Content-Encoding"):
                    if not is_lost and response.headers[name]:
                        self.send_header(name, response.headers[name])
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
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, content, method=method)
        request.add_header("apikey", self.key)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)

    def register(self, url):
        return self.call("POST", "/v1/webhooks/endpoints", {"url": url, "events": ["charge.created", "charge.paid"]})


def run(language, name, arguments, environment, file_limit=None, succeeds=True):
    """Runs a program. Returns what it printed."""
    limit = ["prlimit", f"--fsize={file_limit}"] if file_limit else []
    process = subprocess.run(
        [*limit, *language.program(name), *arguments],
        cwd=SAMPLES / language.name,
        env={**ENVIRONMENT, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=WAIT_SECONDS,
        # A write beyond the limit fails like one to a full disk, instead of ending the program by SIGXFSZ.
        restore_signals=False,
    )
    message = f"{language.name}: {name} ended with {process.returncode}: {process.stdout}{process.stderr}"
    check((process.returncode == 0) == succeeds, message)
    return process.stdout


def create_charge(service, language, order, url=None):
    """Runs the program that creates and pays a charge. Returns the charge's id."""
    environment = {"SERVICE_URL": url or service.url, "API_KEY": service.key}
    br_code, charge = run(language, "charge", [order, str(AMOUNT)], environment).splitlines()
    read = service.call("GET", f"/v1/charges/{charge}")
    check(read["status"] == "paid" and read["amount"] == AMOUNT, f"{language.name}: {read}")
    check(read["pix"]["br_code"] == br_code, f"{language.name}: another br_code")
    return charge


def create_charge_with_retries(service, language, order):
    """Creates a charge while responses are lost: one with a date in `Retry-After`, one with nonsense."""
    # curl takes 400 digits for the longest time.
    nonsense = "soon" if language.name == "curl" else "9" * 400
    dates = [lambda: email.utils.formatdate(time.time() + 3, usegmt=True), lambda: nonsense]
    proxy = LossyProxy(service.url, dates)
    charge = create_charge(service, language, order, proxy.url)
    proxy.server.shutdown()
    check(proxy.replayed == 2, f"{language.name}: the request was not repeated with its key")
    check(proxy.times[1] - proxy.times[0] > 1.9, f"{language.name}: the date in Retry-After was ignored")
    return charge


def stored(inbox, charge):
    """Returns the types of a charge's canonical events in the inbox."""
    types = []
    for file in inbox.glob("*.json"):
        event = json.loads(file.read_bytes())
        if event.get("object") == "event" and event["data"]["object"]["id"] == charge:
            types.append(event["type"])
    return sorted(types)


def post(port, signature, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", "/hook", body, {"X-Service-Signature": signature} if signature else {})
    response = connection.getresponse()
    response.read()
    return response.status


def json_files(inbox):
    return {file.name: file.read_bytes() for file in inbox.glob("*.json")}


def with_id(event, event_id):
    """A copy of an event with another id, and as many bytes as it had or more."""
    return json.dumps({**json.loads(event), "id": event_id}).encode()


def signed(secret, body, t):
    return f"t={t},v1={hmac.new(secret.encode(), f'{t}.'.encode() + body, hashlib.sha256).hexdigest()}"


def refuse_forged(language, port, secret, event):
    """Sends forged deliveries of an event. Each must be answered 400."""
    now = int(time.time())
    digits = hashlib.sha256().hexdigest()
    for name, signature in {
        "no signature": None,
        "an empty time": "t=,v1=",
        "no fields": "=,=,t,v1",
        "another body": signed(secret, event + b" ", now),
        "another secret": signed("0" * 64, event, now),
        "an old signature": signed(secret, event, now - 400),
        "a future signature": signed(secret, event, now + 400),
        "a time of 400 digits": signed(secret, event, "9" * 400),
        "a time of 5,000 digits": f"t={'9' * 5000},v1={digits}",
        "a negative time": signed(secret, event, -now),
        "a fraction": signed(secret, event, f"{now}.5"),
        "a digit that is not ASCII": f"t={now}\xb2,v1={digits}",
        "a hash that is not ASCII": f"t={now},v1=" + "\xe9" * 64,
        "a short hash": signed(secret, event, now)[:-1],
        "a hash that is not hex": f"t={now},v1={'g' * 64}",
    }.items():
        status = post(port, signature, event)
        check(status == 400, f"{language.name}: {name} is answered {status}")


def receive_on_a_full_disk(language, receiver, port, secret, inbox, event):
    """Lets writes of the receiver fail. It must answer 500, and store the event when it is sent again."""
    body = with_id(event, "evt_0full")
    _, hard = resource.prlimit(receiver.pid, resource.RLIMIT_FSIZE, (FILE_LIMIT, resource.RLIM_INFINITY))
    status = post(port, signed(secret, body, int(time.time())), body)
    check(status == 500, f"{language.name}: on a full disk the answer is {status}")
    check(not (inbox / "evt_0full.json").exists(), f"{language.name}: an event was stored on a full disk")
    # Deliveries of other events may be arriving.
    wait(f"{language.name}: no part is left", lambda: not list(inbox.glob(".*.part")))
    resource.prlimit(receiver.pid, resource.RLIMIT_FSIZE, (hard, hard))
    # What a receiver that does not write so carefully left.
    for event_id, content in {"evt_0full": None, "evt_0empty": b"", "evt_0part": body[:300]}.items():
        file, body = inbox / f"{event_id}.json", with_id(event, event_id)
        if content is not None:
            file.write_bytes(content)
        for _ in range(2):
            status = post(port, signed(secret, body, int(time.time())), body)
            check(status == 204 and file.read_bytes() == body, f"{language.name}: {event_id} was not stored: {status}")
        file.unlink()


def receive(service, language, inbox, order):
    """Runs the receiver while a charge is created, then sends it deliveries that differ. Returns the charge."""
    port = free_port()
    endpoint = service.register(f"http://127.0.0.1:{port}/hook")
    secret = endpoint["secret"]
    command = [part.format(port=port) for part in language.receiver]
    environment = {**ENVIRONMENT, "WEBHOOK_SECRET": secret, "PORT": str(port), "INBOX": str(inbox)}
    # Another process writes the log, because the receiver's files get a limit.
    log = subprocess.Popen(["tee", WORK / f"{language.name}.log"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    receiver = subprocess.Popen(
        command,
        cwd=SAMPLES / language.name,
        env=environment,
        stdout=log.stdin,
        stderr=subprocess.STDOUT,
        restore_signals=False,
    )
    try:
        wait(f"{language.name}: the receiver starts", lambda: accepts_connections(port))
        charge = create_charge_with_retries(service, language, order)
        wait(f"{language.name}: events", lambda: stored(inbox, charge) == ["charge.created", "charge.paid"])
        before = json_files(inbox)
        event = next(content for content in before.values() if charge.encode() in content)
        check(post(port, signed(secret, event, int(time.time())), event) == 204, f"{language.name}: a duplicate")
        refuse_forged(language, port, secret, with_id(event, "evt_0forged"))
        receive_on_a_full_disk(language, receiver, port, secret, inbox, event)
        check(before.items() <= json_files(inbox).items(), f"{language.name}: a stored event was changed")
        check(not (inbox / "evt_0forged.json").exists(), f"{language.name}: a refused delivery was stored")
    finally:
        receiver.terminate()
        receiver.wait()
        # An event of another language may have been arriving: a stopped receiver leaves its part for an hour.
        for part in inbox.glob(".*.part"):
            part.unlink()
        log.stdin.close()
        log.wait()
        service.call("DELETE", f"/v1/webhooks/endpoints/{endpoint['id']}")
    return charge


def verify_by_curl(service, language, order):
    """Verifies a delivery by the shell. Returns the charge."""
    recorder = Recorder()
    endpoint = service.register(recorder.url)
    charge = create_charge_with_retries(service, language, order)
    wait("curl: a delivery", lambda: recorder.deliveries)
    signature, body = recorder.deliveries[0]
    for secret, given, header, is_right in [
        (endpoint["secret"], body, signature, True),
        (endpoint["secret"], body + b" ", signature, False),
        ("0" * 64, body, signature, False),
        (endpoint["secret"], body, signed(endpoint["secret"], body, "9" * 400), False),
        (endpoint["secret"], body, signed(endpoint["secret"], body, f"0{int(time.time())}"), False),
    ]:
        result = subprocess.run(
            ["bash", SAMPLES / "curl/verify.sh", header],
            input=given,
            env={**os.environ, "WEBHOOK_SECRET": secret},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        check((result.returncode == 0) == is_right, f"curl: verify.sh: expected {is_right}")
    service.call("DELETE", f"/v1/webhooks/endpoints/{endpoint['id']}")
    return charge


def catch_up(service, language, inbox, missed):
    """Catches up with the events of a charge: first without space on the disk, then with broken files."""
    environment = {"SERVICE_URL": service.url, "API_KEY": service.key, "INBOX": str(inbox)}
    check(stored(inbox, missed) == [], f"{language.name}: an event arrived without an endpoint")
    before = json_files(inbox)
    run(language, "catch_up", [PAST], environment, FILE_LIMIT, succeeds=False)
    left = [file.name for file in inbox.iterdir() if file.name not in before]
    check(left == [] and json_files(inbox) == before, f"{language.name}: catch_up left {left} on a full disk")

    def catches_up():
        run(language, "catch_up", [PAST], environment)
        return stored(inbox, missed) == ["charge.created", "charge.paid"]

    # An event appears in the list some moments after its change.
    wait(f"{language.name}: catching up", catches_up)
    whole = json_files(inbox)
    empty, part, other = sorted(whole)[:3]
    (inbox / empty).write_bytes(b"")
    (inbox / part).write_bytes(whole[part][:-20])
    (inbox / other).write_bytes(b"[]")
    for name, age in [(".old.part", 7200), (".new.part", 0)]:
        (inbox / name).touch()
        os.utime(inbox / name, (time.time() - age,) * 2)
    run(language, "catch_up", [PAST], environment)
    repaired = json_files(inbox)
    for name in whole:
        same = json.loads(repaired[name]) == json.loads(whole[name])
        check(same, f"{language.name}: catch_up did not repair {name}")
    parts = [file.name for file in inbox.glob(".*")]
    check(parts == [".new.part"], f"{language.name}: {parts} are left after catch_up")


def refund(service, language, order, charge):
    """Refunds a part of a charge. The second run must not refund again."""
    environment = {"SERVICE_URL": service.url, "API_KEY": service.key}
    arguments = [order, charge, str(REFUNDED)]
    ids = {run(language, "refund", arguments, environment).split()[0] for _ in range(2)}
    refunds = service.call("GET", f"/v1/payments/{charge}/refunds")["data"]
    check([shown["id"] for shown in refunds] == list(ids), f"{language.name}: {refunds} instead of {ids}")
    check(refunds[0]["amount"] == REFUNDED and refunds[0]["strategy"] == "devolution", f"{language.name}: {refunds}")


def refuse_amounts(service, language, charge):
    """Amounts that are none must not become others, or the whole charge."""
    environment = {"SERVICE_URL": service.url, "API_KEY": service.key}
    for amount in ["5.00", "NaN", ""]:
        run(language, "refund", ["wrong-1", charge, amount], environment, succeeds=False)
    check(len(service.call("GET", f"/v1/payments/{charge}/refunds")["data"]) == 1, f"{language.name}: a wrong refund")


def dispute(service, language, charge):
    """Answers a MED case. The second run must change nothing."""
    environment = {"SERVICE_URL": service.url, "API_KEY": service.key}
    opened = service.call("POST", f"/v1/sandbox/charges/{charge}/med-cases", {})
    arguments = [opened["id"], str(WORK / "invoice.pdf"), 'Delivered on Monday, "signed" by João']
    for _ in range(2):
        output = run(language, "dispute", arguments, environment)
        check(output.split() == [opened["id"], "appealed"], f"{language.name}: dispute printed {output}")
        case = service.call("GET", f"/v1/med/cases/{opened['id']}")
        check(case["evidence_count"] == 1 and case["appeal_reason"] == arguments[2], f"{language.name}: {case}")


def end_day(service, language, rows):
    """Brings the shop's table up to date and compares it with the service, then makes it wrong."""
    inbox, table = WORK / f"day-{language.name}", WORK / f"orders-{language.name}.json"
    service_only = {"SERVICE_URL": service.url, "API_KEY": service.key}
    environment = {**service_only, "INBOX": str(inbox), "ORDERS": str(table)}
    printed = []

    def agrees():
        run(language, "catch_up", [TODAY], environment)
        printed.extend(run(language, "orders", [], environment).splitlines())
        process = subprocess.run(
            [*language.program("day_end"), TODAY, "0"],
            cwd=SAMPLES / language.name,
            env={**ENVIRONMENT, **environment},
            stdout=subprocess.PIPE,
            text=True,
        )
        lines = process.stdout.splitlines()
        return process.returncode == 0 and lines[:-1] == [f"{TODAY}: no difference"]

    wait(f"{language.name}: the table agrees with the service", agrees)
    printed.extend(run(language, "orders", [], environment).splitlines())
    # Orders that a MED case holds are not released, and no order is released twice.
    released = sorted(line.split(":")[0] for line in printed if line.startswith("release"))
    expected = sorted(f"release order {order}" for order, _, _ in rows)
    check(released == expected, f"{language.name}: {released} instead of {expected}")
    net = sum(AMOUNT - REFUNDED + AMOUNT for _ in rows)
    closing = run(language, "day_end", [TODAY, "5"], environment, succeeds=False).splitlines()
    check(closing[-1] == f"closing {net + 5}", f"{language.name}: {closing[-1]} instead of {net + 5}")
    check(any(line.startswith(f"the wallet has {net}") for line in closing), f"{language.name}: {closing}")

    content = json.loads(table.read_bytes())
    (_, removed, disputed), (_, changed, _), *_ = rows
    del content[removed]
    content[changed]["amount"] += 1
    content[disputed]["cases"] = {}
    table.write_text(json.dumps(content))
    found = run(language, "day_end", [TODAY, "0"], environment, succeeds=False)
    for wrong in [f"{removed} amount", f"{removed} status", f"{removed} credited", f"{changed} amount", "med_"]:
        check(f"\n{wrong}" in f"\n{found}", f"{language.name}: {wrong} is not in {found}")


def try_language(service, language, order):
    """Returns the order, the charge that it paid and refunded in part, and the charge that is disputed."""
    start = time.monotonic()
    inbox = WORK / f"inbox-{language.name}"
    inbox.mkdir()
    if language.receiver:
        charge = receive(service, language, inbox, order)
    else:
        charge = verify_by_curl(service, language, order)
    missed = create_charge(service, language, f"{order}-disputed")
    catch_up(service, language, inbox, missed)
    refund(service, language, order, charge)
    refuse_amounts(service, language, charge)
    dispute(service, language, missed)
    received = "received and deduplicated" if language.receiver else "verified"
    seconds = time.monotonic() - start
    print(f"{language.name}: created with retries, paid, {received}, caught up, refunded, disputed in {seconds:.1f} s")
    return order, charge, missed


def installed(languages):
    for language in languages:
        if shutil.which(language.needs) is not None:
            yield language
        else:
            check(language.name not in REQUIRED, f"{language.needs} is not installed")
            print(f"{language.name}: skipped: needs {language.needs}")


def main():
    (WORK / "invoice.pdf").write_bytes(b"%PDF-1.4\n%%EOF\n")
    languages = list(installed(LANGUAGES))
    if any(language.name == "java" for language in languages):
        sources = sorted((SAMPLES / "java").glob("*.java"))
        subprocess.run(["javac", "-Xlint:all", "-Werror", "-d", WORK / "classes", *sources], check=True)
    with running(WORK) as ready:
        service = Service(ready)
        with concurrent.futures.ThreadPoolExecutor() as threads:
            # The orders 1 to 5 have the shortest keys.
            orders = map(str, range(1, len(languages) + 1))
            rows = list(threads.map(lambda args: try_language(service, *args), zip(languages, orders)))
            start = time.monotonic()
            # An order whose case is not in the list of events yet would be released.
            path = "/v1/events?type=med_case.updated&limit=100"
            wait("the events of the cases", lambda: len(service.call("GET", path)["data"]) >= len(rows))
            # The shell has no program for the table.
            list(threads.map(lambda language: end_day(service, language, rows), languages[1:]))
        print(f"the day ended without a difference in {time.monotonic() - start:.1f} s")


main()
