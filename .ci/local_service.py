"""What checks in Python share: the service on this machine, and a wait."""

import contextlib
import json
import subprocess
import sys
import time

WAIT_SECONDS = 60


def wait(doing, condition):
    """Waits until the condition's value is true, and returns the value."""
    end = time.monotonic() + WAIT_SECONDS
    while not (found := condition()):
        if time.monotonic() > end:
            sys.exit(f"FAILED: {doing}: not after {WAIT_SECONDS} s")
        time.sleep(0.05)
    return found


@contextlib.contextmanager
def running(directory):
    """Runs the service, which is built, until the end of the block. Gives the contents of its ready file. Its log is
    `service.log` in the directory."""
    ready = directory / "ready.json"
    command = ["cargo", "run", "--quiet", "--locked", "--", "--in-memory", "--port", "0", "--ready-file", ready]
    with open(directory / "service.log", "wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait("the service starts", ready.exists)
        yield json.loads(ready.read_text())
    finally:
        process.terminate()
        process.wait()
