#!/usr/bin/env bash
# Stores every event since a time in the inbox, unless the inbox has it. Replaces broken files. Needs python3 too,
# which splits the pages.
# Usage: SERVICE_URL=… API_KEY=… INBOX=inbox catch_up.sh 2026-11-21T10:00:00Z
. "$(dirname "$0")/client.sh"
mkdir -p "$INBOX"
# What a crash left, but nothing that another program may be writing.
find "$INBOX" -ignore_readdir_race -name '.*.part' -mmin +60 -delete

# Stores each event of the page, and prints the next cursor. A file is written under another name, which only a whole
# and synced file changes.
store='
import json, os, sys, tempfile
inbox = os.environ["INBOX"]
page = json.load(sys.stdin)
for event in page["data"]:
    path = os.path.join(inbox, event["id"] + ".json")
    try:
        with open(path, "rb") as file:
            if json.load(file)["id"] == event["id"]:
                continue
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        pass
    descriptor, part = tempfile.mkstemp(".part", ".", inbox)
    try:
        with open(descriptor, "w") as file:
            json.dump(event, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise
os.fsync(os.open(inbox, os.O_RDONLY))  # the names too
print(page["next_cursor"] or "")
'

cursor=()
while true; do
    call /v1/events --get --data limit=100 --data-urlencode "created_after=$1" "${cursor[@]}"
    next=$(python3 -c "$store" < "$answer")
    [ -n "$next" ] || break
    cursor=(--data "starting_after=$next")
done
