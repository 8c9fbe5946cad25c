#!/usr/bin/env bash
# Answers a MED case: uploads a PDF as evidence, then appeals. If it fails, run it again.
# Usage: SERVICE_URL=… API_KEY=… dispute.sh CASE_ID FILE REASON
. "$(dirname "$0")/client.sh"
case=/v1/med/cases/$1 file=$2 reason=$3
name=$(escaped "$(basename "$file")")

call "$case"
if [ "$(text status)" = open ]; then # else it was answered, and a second appeal would be refused
    call "$case/evidence"
    if ! grep -qF "\"file_name\":\"$name\"" "$answer"; then
        size=$(wc -c < "$file")
        call "$case/evidence" \
            --data "{\"file_name\": \"$name\", \"file_size\": $((size)), \"mime_type\": \"application/pdf\"}"
        evidence=$(text id mev_)
        # Without the API key: the URL is the credential. curl adds Content-Length itself.
        send "$(text upload_url)" --request PUT --header "Content-Type: application/pdf" --data-binary "@$file"
        call "$case/evidence/$evidence/complete" --request POST
    fi
    call "$case/appeal" --data "{\"reason\": \"$(escaped "$reason")\"}"
fi
echo "$1 $(text status)"
