"""Receives webhooks: verifies each, stores its event once, and answers.

Usage: WEBHOOK_SECRET=… PORT=4000 INBOX=inbox python3 receiver.py
"""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from signature import is_ours

INBOX = Path(os.environ["INBOX"])
MAX_BYTES = 1_000_000


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(min(length, MAX_BYTES))
        if not is_ours(os.environ["WEBHOOK_SECRET"], self.headers.get("X-Service-Signature", ""), body):
            return self.answer(400)
        event = json.loads(body)
        try:
            # "x" fails if the file exists. In a database: an insert whose key is the event's id.
            with open(INBOX / f"{event['id']}.json", "xb") as file:
                file.write(body)
        except FileExistsError:
            pass  # a duplicate, which is answered like the first
        self.answer(204)
        # Another program processes the inbox, ordered by `created_at`.

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.end_headers()


INBOX.mkdir(parents=True, exist_ok=True)
ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Receiver).serve_forever()
