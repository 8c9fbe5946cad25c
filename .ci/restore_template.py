#!/usr/bin/env python3
"""Checks that template-restore.yaml declares the tables of template.yaml, without the settings that a restored
table lacks. Needs cfn-lint's Python packages."""

import json
import sys

from cfnlint.decode import decode

# A restore does not keep these settings. The key of the table of secrets belongs to the former stack.
LACKING = ["StreamSpecification", "TimeToLiveSpecification", "PointInTimeRecoverySpecification", "DeletionProtectionEnabled"]


def tables(file):
    template, errors = decode(file)
    assert not errors, errors
    found = {name: resource for name, resource in template["Resources"].items() if resource["Type"] == "AWS::DynamoDB::Table"}
    return json.loads(json.dumps(found))


expected = tables("template.yaml")
for name, table in expected.items():
    # Explains settings to checkov.
    table.pop("Metadata", None)
    for setting in LACKING:
        table["Properties"].pop(setting, None)
    if "SSEType" in table["Properties"]["SSESpecification"]:
        del table["Properties"]["SSESpecification"]
if tables("template-restore.yaml") != expected:
    sys.exit("the tables of template-restore.yaml differ from those of template.yaml")
