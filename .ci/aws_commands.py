#!/usr/bin/env python3
"""Compares commands of the AWS CLI with the service models of botocore: those in docs/*.md, docs/operations/*.md
and README.md, and those of `admin doctor`, whose sample answers are compared too. No command is run.

A name in the models is PascalCase, and the CLI's option is its kebab-case. A value is not checked.

Also compares OnCallPolicy of template.yaml with the commands of runbooks and of `admin`."""

import json
import pathlib
import re
import shlex
import sys

import botocore.session
from botocore import xform_name
from samtranslator.yaml_helper import yaml_parse

# Commands that the CLI itself implements.
OWN_COMMANDS = {"configure", "s3", "cloudtrail validate-logs"}
# Names that the CLI changes.
SERVICES = {"s3api": "s3"}
OPTIONS = {("sns", "subscribe", "notification-endpoint"): "endpoint"}
# Options of every command.
GLOBAL_OPTIONS = {"output", "region", "query", "profile", "no-paginate", "max-items"}
# Commands that operators on call run: all of these pages, and some of another. The others are for a deployer.
RUNBOOKS = {"alarms.md", "emails.md", "events.md", "ledger.md"}
ON_CALL = {"lambda list-versions-by-function", "lambda update-alias"}
NOT_ON_CALL = {
    "dynamodb get-item", "dynamodb put-item", "dynamodb update-item", "sesv2 create-email-identity", "sns publish",
    "sns subscribe", "sts get-caller-identity",
}
# Actions of IAM with other names than the operation.
ACTIONS = {"Invoke": "InvokeFunction", "ListObjectsV2": "ListBucket"}
ACTION_SERVICES = {"sesv2": "ses", "s3api": "s3"}
SAMPLES = pathlib.Path("admin/tests/commands/doctor-answers.json")

session = botocore.session.get_session()
faults = []


def kebab(name):
    return xform_name(name, "-")


def model_of(words):
    """Returns the model of a command's operation, or None after a fault."""
    service, operation = SERVICES.get(words[0], words[0]), words[1]
    if service not in session.get_available_services():
        return faults.append(f"aws {' '.join(words)}: there is no service {service}")
    model = session.get_service_model(service)
    operations = {kebab(name): name for name in model.operation_names}
    if operation == "wait":
        waiters = session.get_waiter_model(service)
        names = {kebab(name): waiters.get_waiter(name).operation for name in waiters.waiter_names}
        operations, operation = names, words[2]
    if operation not in operations:
        return faults.append(f"aws {' '.join(words)}: {service} has no operation {operation}")
    return model.operation_model(operations[operation])


def check_command(words, is_complete=True):
    """Returns the model of a command's operation. A command within a sentence may lack parameters."""
    if OWN_COMMANDS & {words[0], " ".join(words[:2])}:
        return None
    operation = model_of(words)
    if operation is None:
        return None
    members = {kebab(name): name for name in operation.input_shape.members} if operation.input_shape else {}
    given = {word[2:].split("=")[0] for word in words if word.startswith("--")} - GLOBAL_OPTIONS
    given = {OPTIONS.get((words[0], words[1], option), option) for option in given}
    for option in given:
        name = option.removeprefix("no-") if option not in members else option
        if name not in members:
            faults.append(f"aws {' '.join(words)}: {operation.name} has no parameter --{option}")
    required = {kebab(name) for name in (operation.input_shape.required_members if operation.input_shape else [])}
    for option in sorted(required - given):
        if is_complete and words[1] != "wait":
            faults.append(f"aws {' '.join(words)}: {operation.name} needs --{option}")
    return operation


def check_answer(where, shape, answer):
    if shape.type_name == "structure":
        for name, value in answer.items():
            if name not in shape.members:
                faults.append(f"{where}: there is no {name}")
            else:
                check_answer(f"{where}.{name}", shape.members[name], value)
    elif shape.type_name == "list":
        for value in answer:
            check_answer(where, shape.member, value)
    elif shape.type_name == "map":
        for name, value in answer.items():
            if getattr(shape.key, "enum", None) and name not in shape.key.enum:
                faults.append(f"{where}: there is no {name}")
            check_answer(where, shape.value, value)
    elif shape.type_name == "string":
        if not isinstance(answer, str) or (getattr(shape, "enum", None) and answer not in shape.enum):
            faults.append(f"{where}: {answer} is not a value of {shape.name}")


def commands_of(text):
    """Yields the words of each `aws` command in blocks and in spans of code, and whether it is in a block."""
    # Blocks in a language have no commands.
    text = re.sub(r"^```\w+\n.*?^```$", "", text, flags=re.S | re.M)
    joined = re.sub(r"\\\n\s*", " ", text)
    blocks = re.findall(r"^```\n(.*?)^```", joined, re.S | re.M)
    spans = re.findall(r"`(aws [a-z0-9-]+ [^`]*)`", re.sub(r"^```\n.*?^```", "", joined, flags=re.S | re.M))
    lines = [(line, True) for block in blocks for line in block.splitlines()]
    for line, is_block in lines + [(span, False) for span in spans]:
        # A placeholder such as <ARN of the topic>, or the output of another command, is one word.
        line = re.sub(r"<[^>]*>|\$\((?!aws )[^()]*\)", "PLACEHOLDER", line.split("  #")[0])
        # Commands also begin in functions, substitutions and loops.
        for command in re.findall(r"""(?:^(?:\$ )?|\$\(|\{ |\| )(aws (?:'[^']*'|"[^"]*"|[^)|;'"])*)""", line.strip()):
            yield shlex.split(command)[1:], is_block


def action(words, operation):
    return f"{ACTION_SERVICES.get(words[0], words[0])}:{ACTIONS.get(operation.name, operation.name)}"


count = 0
used = set()
PAGES = [pathlib.Path("README.md"), *pathlib.Path("docs").glob("*.md"), *pathlib.Path("docs/operations").glob("*.md")]
for page in sorted(PAGES):
    for words, is_block in commands_of(page.read_text()):
        count += 1
        operation = check_command(words, is_block)
        name = " ".join(words[:2])
        if operation is not None and (page.name in RUNBOOKS or name in ON_CALL) and name not in NOT_ON_CALL:
            used.add(action(words, operation))
for sample in json.loads(SAMPLES.read_text()):
    count += 1
    operation = check_command(sample["command"])
    if operation is not None:
        check_answer(" ".join(sample["command"][:2]), operation.output_shape, sample["answer"])
        if " ".join(sample["command"][:2]) not in NOT_ON_CALL:
            used.add(action(sample["command"], operation))
policy = yaml_parse(pathlib.Path("template.yaml").read_text())["Resources"]["OnCallPolicy"]["Properties"]
granted = set()
for statement in policy["PolicyDocument"]["Statement"]:
    granted |= {statement["Action"]} if isinstance(statement["Action"], str) else set(statement["Action"])
# A test of `admin` compares the rights on rows and those of `events replay`. StartMessageMoveTask needs two more.
by_admin = {"kms:Decrypt", "s3:DeleteObject", "s3:GetObject", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:SendMessage"}
for name in sorted(used ^ {name for name in granted - by_admin if not name.startswith("dynamodb:")}):
    faults.append(f"OnCallPolicy: {name} is {'not granted' if name in used else 'granted, and no command uses it'}")
if faults:
    sys.exit("\n".join(faults))
print(f"{count} commands of the AWS CLI agree with the service models")
