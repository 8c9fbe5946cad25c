"""Stores every event since a time in the inbox, unless the inbox has it. Replaces broken files.

Usage: SERVICE_URL=… API_KEY=… INBOX=inbox python3 catch_up.py 2026-11-21T10:00:00Z
"""

import json
import os
import sys
from pathlib import Path

from client import items
from inbox import remove_parts, store


def main() -> None:
    inbox = Path(os.environ["INBOX"])
    inbox.mkdir(parents=True, exist_ok=True)
    remove_parts(inbox)
    for event in items("/v1/events", created_after=sys.argv[1]):
        store(inbox, event["id"], json.dumps(event).encode())


main()
