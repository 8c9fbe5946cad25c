"""Prints how often each operation answered each status. Fails if an operation never succeeded.

Arguments: the OpenAPI description, and the JSON file that `schemathesis_hooks.py` wrote. A form succeeds with a
303, which leads the browser to the next page.
"""

import json
import sys

description, statuses = (json.load(open(path)) for path in sys.argv[1:3])
without_success = []
for path, operations in description["paths"].items():
    for method in operations:
        operation = f"{method.upper()} {path}"
        counts = statuses.get(operation, {})
        print(f"{operation:60}", ", ".join(f"{status}: {count}" for status, count in sorted(counts.items())))
        if not any(status.startswith("2") or status == "303" for status in counts):
            without_success.append(operation)
if without_success:
    sys.exit("FAILED: never succeeded:\n" + "\n".join(without_success))
