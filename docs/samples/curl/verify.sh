#!/usr/bin/env bash
# Verifies the signature of a received webhook. The standard input is the body, as it arrived.
# Usage: WEBHOOK_SECRET=… verify.sh 't=1763985600,v1=5f2b…' < body.json
#
# For a look at single requests only: openssl gets the secret as an argument, which other users of the
# machine can see.
set -euo pipefail

# At most 12 digits, and no leading zero, which would make the number octal.
[[ $1 =~ ^t=([1-9][0-9]{0,11}),v1=([0-9a-f]{64})$ ]] || { echo "malformed" >&2; exit 1; }
t=${BASH_REMATCH[1]} v1=${BASH_REMATCH[2]}
age=$(($(date +%s) - t))
((age <= 300 && age >= -300)) || { echo "not from the last 5 minutes" >&2; exit 1; }
expected=$({ printf '%s.' "$t"; cat; } | openssl dgst -sha256 -hmac "$WEBHOOK_SECRET" -r | cut -d' ' -f1)
[ "$expected" = "$v1" ] || { echo "wrong" >&2; exit 1; }
echo "right"
