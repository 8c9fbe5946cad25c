#!/usr/bin/env bash
# Returns an amount of a paid charge to the payer.
# Usage: SERVICE_URL=… API_KEY=… refund.sh RETURN_ID CHARGE_ID AMOUNT
. "$(dirname "$0")/client.sh"
return_id=$(escaped "$1") charge=$2 amount=$3

# The key is derived from the return, so a return is paid once, however often this program runs.
call "/v1/payments/$charge/refund" --data "{\"idempotencyKey\": \"shop-return-$return_id\", \"amount\": $amount,
    \"strategy\": \"devolution\", \"reason\": \"Return $return_id\"}"
# The refund is not complete yet. An event reports its end.
echo "$(text id re_) $(text status)"
