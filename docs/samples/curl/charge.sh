#!/usr/bin/env bash
# Creates the charge of an order, and pays it in the sandbox.
# Usage: SERVICE_URL=… API_KEY=ak_test_… charge.sh ORDER_ID AMOUNT
. "$(dirname "$0")/client.sh"
order=$1 amount=$2

# The key is derived from the order, so the order has one charge, however often this program runs. A key has 8 to
# 128 characters. The prefix makes the key of order 1 long enough.
name=$(escaped "$order")
call /v1/pix/charges --header "Idempotency-Key: shop-order-$order" \
    --data "{\"amount\": $amount, \"description\": \"Order $name\", \"metadata\": {\"order_id\": \"$name\"}}"
text br_code
id=$(text id ch_)

# Only a test key can do this. A live charge is paid in the app of a bank.
call "/v1/sandbox/charges/$id/pay" --request POST
echo "$id"
