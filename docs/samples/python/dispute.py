"""Answers a MED case: uploads a file as evidence, then appeals. If it fails, run it again.

Usage: SERVICE_URL=… API_KEY=… python3 dispute.py CASE_ID FILE REASON
"""

import sys
from pathlib import Path

from client import call, send

TYPES = {".pdf": "application/pdf", ".png": "image/png", ".jpg": "image/jpeg"}


def upload(case: str, file: Path) -> None:
    content = file.read_bytes()
    ticket = call(
        "POST",
        f"/v1/med/cases/{case}/evidence",
        {"file_name": file.name, "file_size": len(content), "mime_type": TYPES[file.suffix]},
    )
    # Without the API key: the URL is the credential.
    send(ticket["upload_method"], ticket["upload_url"], content, ticket["upload_headers"])
    call("POST", f"/v1/med/cases/{case}/evidence/{ticket['id']}/complete")


def main() -> None:
    case, file, reason = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    status = call("GET", f"/v1/med/cases/{case}")["status"]
    if status == "open":  # else it was answered, and a second appeal would be refused
        evidence = call("GET", f"/v1/med/cases/{case}/evidence")["data"]
        if file.name not in [uploaded["file_name"] for uploaded in evidence]:
            upload(case, file)
        status = call("POST", f"/v1/med/cases/{case}/appeal", {"reason": reason})["status"]
    print(case, status)


main()
