# Calls the API. The programs beside it source this file, and read the variables SERVICE_URL and API_KEY. Needs curl
# 7.76 or later.
set -euo pipefail
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT

# curl repeats the request after a time-out, a refused connection, a 429 and a 5xx. It waits as `Retry-After`
# says, else 1, 2, 4, … seconds. It empties the file before each attempt.
send() {
    curl --silent --fail-with-body --max-time 30 --retry 5 --retry-max-time 120 --retry-connrefused \
        --output "$answer" "$@" || { cat "$answer" >&2; exit 1; }
}

# The arguments are the path and options of curl.
call() {
    local path=$1
    shift
    send "$SERVICE_URL$path" --header "apikey: $API_KEY" --header "Content-Type: application/json" "$@"
}

# Prints a text of the answer: the first with this name, and this beginning. Use jq if you have it.
text() { grep -oE "\"$1\":\"${2:-}[^\"]*" "$answer" | head -n 1 | cut -d'"' -f4; }

# Escapes a text for JSON. The API refuses line breaks and other control characters.
escaped() { printf '%s' "$1" | sed 's/["\\]/\\&/g'; }
