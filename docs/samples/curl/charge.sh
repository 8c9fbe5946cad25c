#!/usr/bin/env bash
# Creates a charge and pays it in the sandbox. Needs curl 7.76 or later.
# Usage: SERVICE_URL=… API_KEY=ak_test_… charge.sh ORDER_ID AMOUNT
set -euo pipefail
order=$1 amount=$2
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT

# curl repeats the request after a time-out, a refused connection, a 429 and a 5xx. It waits as `Retry-After`
# says, else 1, 2, 4, … seconds. It empties the file before each attempt.
call() {
    curl --silent --fail-with-body --max-time 30 --retry 5 --retry-connrefused --output "$answer" \
        --header "apikey: $API_KEY" --header "Content-Type: application/json" "$@" ||
        { cat "$answer" >&2; exit 1; }
}

# Prints a text of the answer: the first with this name, and this beginning. Use jq if you have it.
text() { grep -oE "\"$1\":\"${2:-}[^\"]*" "$answer" | head -n 1 | cut -d'"' -f4; }

# The key is derived from the order, so the order has one charge, however often this program runs.
call "$SERVICE_URL/v1/pix/charges" --header "Idempotency-Key: order-$order" \
    --data "{\"amount\": $amount, \"description\": \"Order $order\"}"
text br_code
id=$(text id ch_)

# Only a test key can do this. A live charge is paid in the app of a bank.
call --request POST "$SERVICE_URL/v1/sandbox/charges/$id/pay"
echo "$id"
