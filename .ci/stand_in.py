"""What the checks of stand-ins share: a proxy that examines each exchange, and a receiver of notifications."""

import http.client
import http.server
import sys
import threading
import time
import urllib.parse

WAIT_SECONDS = 20


def fail(text):
    sys.exit(f"FAILED: {text}")


def wait(what, condition):
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        if time.monotonic() > end:
            fail(f"not within {WAIT_SECONDS} s: {what}")
        time.sleep(0.02)


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass


def serve(handler):
    """Serves on a free port. Returns the URL."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


class Proxy:
    """A proxy in front of a stand-in. A subclass has `examine`, which gets each request with its answer.

    `problems` has what was found, since the proxy's threads can't end the check.
    """

    def __init__(self, target):
        self.target, self.problems = urllib.parse.urlsplit(target).netloc, []
        proxy = self

        class Forward(Handler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                try:
                    status, headers, content = proxy.send(self.command, self.path, body, self.headers)
                except (http.client.HTTPException, ConnectionError):
                    # As a fault of the stand-in does, for which the client is to see the same.
                    self.close_connection = True
                    return
                self.send_response_only(status)
                for name, value in headers.items():
                    if name.lower() not in ("connection", "transfer-encoding"):
                        self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_PUT = do_DELETE = do_GET

        self.url = serve(Forward)

    def send(self, method, path, body, headers):
        connection = http.client.HTTPConnection(self.target, timeout=WAIT_SECONDS)
        kept = {name: value for name, value in headers.items() if name.lower() not in ("host", "connection")}
        connection.request(method, path, body or None, kept)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        try:
            self.examine(method, path, headers, body, answer.status, answer.headers, content)
        except Exception as error:
            self.problems.append(f"{method} {path}: {error!r}")
        return answer.status, answer.headers, content


class Receiver:
    """A server that keeps each notification, with the header of its signature. `status`: what it answers."""

    def __init__(self, signature):
        self.received, self.status = [], 200
        receiver = self

        class Keep(Handler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.received.append((self.headers[signature], body))
                self.send_response(receiver.status)
                self.end_headers()

        self.url = serve(Keep) + "/hook"
