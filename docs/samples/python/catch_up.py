"""Stores every event since a time in the inbox, unless the inbox has it.

Usage: SERVICE_URL=… API_KEY=… INBOX=inbox python3 catch_up.py 2026-11-21T10:00:00Z
"""

import json
import os
import sys
import urllib.parse
import urllib.request
from pathlib import Path


def main() -> None:
    inbox = Path(os.environ["INBOX"])
    inbox.mkdir(parents=True, exist_ok=True)
    query = {"limit": 100, "created_after": sys.argv[1]}
    while True:
        url = f"{os.environ['SERVICE_URL']}/v1/events?{urllib.parse.urlencode(query)}"
        request = urllib.request.Request(url, headers={"apikey": os.environ["API_KEY"]})
        with urllib.request.urlopen(request, timeout=30) as response:
            page = json.load(response)
        for event in page["data"]:
            try:
                with open(inbox / f"{event['id']}.json", "x", encoding="utf-8") as file:
                    json.dump(event, file)
            except FileExistsError:
                pass  # received by a webhook
        if not page["has_more"]:
            return
        query["starting_after"] = page["next_cursor"]


main()
