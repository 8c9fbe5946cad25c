#!/usr/bin/env python3
"""Measures requests and webhooks a second on one machine. README.md describes the method."""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
RECEIVER = "http://127.0.0.1:9801"
# wrk and the measurement end if the number of deliveries does not change for this time, in seconds.
STALLED_AFTER = 20


def call(method, url, body=None, headers=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **(headers or {})}
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


class Receiver:
    """nginx. It counts all requests, also those of `received`, which are subtracted."""

    def __init__(self, directory):
        self.nginx = subprocess.Popen(
            ["nginx", "-p", directory, "-c", HERE / "nginx.conf", "-g", "daemon off;"], stderr=subprocess.DEVNULL
        )
        self.own = 0
        wait(lambda: self.total() is not None, "nginx")
        self.start = self.total()
        self.own = 0

    def total(self):
        try:
            text = urllib.request.urlopen(RECEIVER + "/stat", timeout=5).read().decode()
        except OSError:
            return None
        return int(text.split("\n")[2].split()[2])

    def received(self):
        self.own += 1
        return self.total() - self.start - self.own

    def stop(self):
        self.nginx.terminate()
        self.nginx.wait()


def wait(condition, name, seconds=60):
    end = time.time() + seconds
    while time.time() < end:
        if condition():
            return
        time.sleep(0.05)
    sys.exit(f"{name} did not start within {seconds} s")


def cpu_seconds(pid):
    """Returns the CPU time of a process and of its children that have ended."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(int(fields[n]) for n in (11, 12)) / os.sysconf("SC_CLK_TCK")


def cpu_of_threads(pid):
    """Returns the CPU time of each thread name of a process."""
    times = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        name, fields = (task / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
        seconds = sum(int(fields.split()[n]) for n in (11, 12)) / os.sysconf("SC_CLK_TCK")
        times[name] = times.get(name, 0) + seconds
    return times


def load(name, script, url, variables, receiver, servers, arguments):
    """Runs wrk, waits until each accepted request has led to a delivery, and prints the rates."""
    cpu_before = {server: cpu_seconds(pid) for server, pid in servers.items()}
    threads_before = {server: cpu_of_threads(pid) for server, pid in servers.items()}
    before = receiver.received()
    started = time.time()
    wrk = subprocess.Popen(
        ["wrk", "-t2", f"-c{arguments.connections}", f"-d{arguments.seconds}s", "--latency", "-s", HERE / script, url],
        env={**os.environ, **variables, "RUN": str(time.time_ns())},
        stdout=subprocess.PIPE,
        text=True,
    )
    output, _ = wrk.communicate()
    ended = time.time()
    at_end_of_input = receiver.received() - before
    requests = int(re.search(r"(\d+) requests in", output).group(1))
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", output)
    accepted = requests - (int(refused.group(1)) if refused else 0)
    delivered, last_change = at_end_of_input, ended
    while delivered < accepted and time.time() - last_change < STALLED_AFTER:
        time.sleep(0.1)
        now = receiver.received() - before
        if now != delivered:
            delivered, last_change = now, time.time()
    median = re.search(r"^ +50% +(\S+)", output, re.MULTILINE).group(1)
    p99 = re.search(r"^ +99% +(\S+)", output, re.MULTILINE).group(1)
    print(f"{name}:")
    print(f"  accepted {accepted} in {ended - started:.1f} s: {accepted / (ended - started):.0f} requests/s")
    print(f"  refused {requests - accepted}; latency: median {median}, p99 {p99}")
    print(f"  delivered {delivered} until {last_change - started:.1f} s: {delivered / (last_change - started):.0f} webhooks/s")
    print(f"  delivered at the end of the input: {at_end_of_input}")
    for server, pid in servers.items():
        used = cpu_seconds(pid) - cpu_before[server]
        print(f"  CPU of {server}: {used:.1f} s, {1000 * used / max(delivered, 1):.2f} ms for each webhook")
        threads = {
            thread: seconds - threads_before[server].get(thread, 0)
            for thread, seconds in cpu_of_threads(pid).items()
        }
        busy = {thread: round(seconds, 1) for thread, seconds in threads.items() if seconds >= 0.5}
        print(f"    by thread, s: {busy}")
    sys.stdout.flush()


def measure_service(arguments, in_memory, receiver, directory):
    """Measures this service."""
    state = pathlib.Path(directory) / ("memory" if in_memory else "file")
    state.mkdir()
    ready_file = state / "ready.json"
    command = [arguments.local.resolve(), "--port", "0", "--ready-file", ready_file]
    log = open(state / "log", "w")
    service = subprocess.Popen(command + (["--in-memory"] if in_memory else []), cwd=state, stdout=log, stderr=log)
    try:
        wait(ready_file.exists, "the service")
        ready = json.loads(ready_file.read_text())

        def admin(*words):
            words = [arguments.admin.resolve(), *words, "--ready-file", ready_file]
            return subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout

        key = {"apikey": ready["test_api_key"]}
        for account in map(json.loads, admin("accounts", "list").splitlines()):
            limit = ["--per-minute", "60000", "--actor", "measure", "--reason", "measurement"]
            admin("accounts", "set-rate-limit", account["id"], *limit)
        endpoint = {"url": RECEIVER + "/hook", "events": ["charge.created"]}
        call("POST", ready["base_url"] + "/v1/webhooks/endpoints", endpoint, key)
        name = "service, state in memory" if in_memory else "service, state in a file"
        variables = {"API_KEY": ready["test_api_key"]}
        servers = {"the service": service.pid}
        for _ in range(arguments.repeat):
            load(name, "charges.lua", ready["base_url"], variables, receiver, servers, arguments)
    finally:
        service.terminate()
        service.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--local", type=pathlib.Path, default=pathlib.Path("target/release/local"))
    parser.add_argument("--admin", type=pathlib.Path, default=pathlib.Path("target/release/admin"))
    parser.add_argument("--state", choices=["file", "memory", "both"], default="both")
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--repeat", type=int, default=1, help="runs against the same service")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        receiver = Receiver(directory)
        try:
            for state in ["file", "memory"]:
                if arguments.state in (state, "both"):
                    measure_service(arguments, state == "memory", receiver, directory)
        finally:
            receiver.stop()


if __name__ == "__main__":
    main()
