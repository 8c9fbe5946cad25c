#!/usr/bin/env bash
# Stores every event since a time in the inbox, unless the inbox has it. Needs curl and python3, which splits
# the pages.
# Usage: SERVICE_URL=… API_KEY=… INBOX=inbox catch_up.sh 2026-11-21T10:00:00Z
set -euo pipefail
since=$1 cursor=()

# Writes each event of the page into a file that does not exist yet, and prints the next cursor.
store='
import json, os, sys
page = json.load(sys.stdin)
for event in page["data"]:
    try:
        with open(os.path.join(os.environ["INBOX"], event["id"] + ".json"), "x") as file:
            json.dump(event, file)
    except FileExistsError:
        pass
print(page["next_cursor"] or "")
'

while
    page=$(curl --silent --show-error --fail --max-time 30 --retry 5 --retry-connrefused --get \
        --header "apikey: $API_KEY" --data limit=100 --data-urlencode "created_after=$since" \
        "${cursor[@]}" "$SERVICE_URL/v1/events")
    next=$(printf '%s' "$page" | python3 -c "$store")
    [ -n "$next" ]
do
    cursor=(--data "starting_after=$next")
done
