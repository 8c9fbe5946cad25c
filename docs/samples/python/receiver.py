"""Receives webhooks: verifies each, stores its event once, and answers.

Usage: WEBHOOK_SECRET=… PORT=4000 INBOX=inbox python3 receiver.py
"""

import json
import os
import re
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from inbox import store
from signature import is_ours

INBOX = Path(os.environ["INBOX"])
MAX_BYTES = 1_000_000


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        try:
            status = self.receive()
        except Exception:  # for example a full disk
            traceback.print_exc()
            status = 500  # The service repeats the delivery.
        self.send_response(status)
        self.end_headers()

    def receive(self) -> int:
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch("[0-9]{1,9}", length) or int(length) > MAX_BYTES:
            return 400
        body = self.rfile.read(int(length))
        if not is_ours(os.environ["WEBHOOK_SECRET"], self.headers.get("X-Service-Signature", ""), body):
            return 400
        event_id = json.loads(body)["id"]
        if not re.fullmatch("evt_[0-9a-z]+", event_id):
            return 400
        store(INBOX, event_id, body)
        return 204  # Another program processes the inbox, ordered by `created_at`.


INBOX.mkdir(parents=True, exist_ok=True)
ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Receiver).serve_forever()
