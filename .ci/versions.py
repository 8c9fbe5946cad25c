"""Checks how the template publishes versions of functions and moves the aliases to them.

1. A change of a parameter publishes a version of exactly the functions that use the parameter. SAM publishes
   a version when its logical id changes. Lambda refuses a version of a function that did not change.
2. Every route, event source and permission refers to an alias, never to a function.
3. With a gradual deployment, CodeDeploy moves each alias, and an alarm of the function's new version stops it.
4. Reserved concurrency is never lower than the maximum concurrency of the function's queues together. Otherwise
   Lambda would throttle the messages that the event sources receive.
5. samconfig.toml names each parameter, so that no value of an earlier deployment remains.

Needs the package aws-sam-translator, which aws-sam-cli installs.
"""

import json
import logging
import os
import re
import sys
import tomllib

logging.disable(logging.WARNING)
os.environ.setdefault("AWS_DEFAULT_REGION", "sa-east-1")

from samtranslator.translator.transform import transform  # noqa: E402
from samtranslator.yaml_helper import yaml_parse  # noqa: E402

ALIAS = "live"
REQUIRED = {"CheckoutBaseUrl": "https://pay.example.com/checkout"}
# `sam deploy` replaces the source directory by the address of the built function.
SOURCE = ("CodeUri: .\n", "CodeUri: s3://artifacts/function\n")


class NoManagedPolicies:
    """The policies of AWS by name; the template names none."""

    def load(self):
        return {}


def read(path="template.yaml"):
    with open(path, encoding="utf-8") as file:
        return yaml_parse(file.read().replace(*SOURCE))


def expand(**parameters):
    """Returns the template as CloudFormation receives it from SAM."""
    return transform(read(), {**REQUIRED, **parameters}, NoManagedPolicies())


def of_type(template, kind):
    return {name: r for name, r in template["Resources"].items() if r["Type"] == kind}


def another(declaration):
    """Returns a value of the parameter that is not its default."""
    default = declaration.get("Default")
    for value in declaration.get("AllowedValues", []):
        if value != default:
            return str(value)
    return str(int(default) + 1) if declaration["Type"] == "Number" else "another"


def references(value, conditions):
    """Returns what a value refers to, also by the conditions of its `Fn::If`."""
    if isinstance(value, list):
        return set().union(*(references(item, conditions) for item in value)) if value else set()
    if not isinstance(value, dict):
        return set()
    found = set()
    for key, item in value.items():
        if key == "Ref":
            found.add(item)
        elif key == "Condition" and isinstance(item, str):
            found |= references(conditions[item], conditions)
        elif key == "Fn::If":
            found |= references([conditions[item[0]], *item[1:]], conditions)
        elif key == "Fn::Sub":
            pattern, variables = item if isinstance(item, list) else (item, {})
            found |= set(re.findall(r"\$\{([\w:]+)", pattern)) | references(variables, conditions)
        else:
            found |= references(item, conditions)
    return found


def configuration(function):
    """Returns the properties that belong to a version. Of the tracing mode, only the first item of the list
    has an effect. Reserved concurrency belongs to the function."""
    properties = dict(function["Properties"])
    properties.pop("ReservedConcurrentExecutions", None)
    tracing = properties.pop("TracingConfig")["Mode"]
    return properties, tracing["Fn::Select"][1][0]


def versions(template):
    found = of_type(template, "AWS::Lambda::Version")
    return {r["Properties"]["FunctionName"]["Ref"]: name for name, r in found.items()}


def check_parameters():
    before = expand()
    functions = of_type(before, "AWS::Lambda::Function")
    for parameter, declaration in read()["Parameters"].items():
        after = expand(**{parameter: another(declaration)})
        for name, function in functions.items():
            properties, mode = configuration(function)
            mode_changes = mode != configuration(after["Resources"][name])[1]
            uses = parameter in references(properties, before["Conditions"]) or mode_changes
            publishes = versions(before)[name] != versions(after)[name]
            if uses and not publishes:
                yield f"{name} uses {parameter}, so its list of Tracing must contain it"
            if publishes and not uses:
                yield f"{name} does not use {parameter}, so its list of Tracing must not contain it"


def check_aliases():
    template = expand()
    functions = of_type(template, "AWS::Lambda::Function")
    invokers = {"AWS::Lambda::EventSourceMapping", "AWS::Lambda::Permission", "AWS::Events::Rule", "AWS::ApiGatewayV2::Api"}
    aliases = {f"{name}Alias{ALIAS}" for name in functions}
    if aliases != set(of_type(template, "AWS::Lambda::Alias")):
        yield f"not every function has an alias {ALIAS}"
    for name, resource in template["Resources"].items():
        used = references(resource["Properties"], template["Conditions"]) if resource["Type"] in invokers else set()
        for function in used & set(functions):
            yield f"{name} invokes {function} without its alias"


def check_rollback():
    template = expand(DeploymentType="Canary10Percent5Minutes")
    alarms = of_type(template, "AWS::CloudWatch::Alarm")
    names = {json.dumps(r["Properties"].get("AlarmName")) for r in alarms.values()}
    role = json.dumps(template["Resources"]["CodeDeployRole"])
    for function in versions(template):
        if f"${{{function}.Arn}}*" not in role:
            yield f"CodeDeployRole may not move the alias of {function}"
        if "UpdatePolicy" not in template["Resources"][f"{function}Alias{ALIAS}"]:
            yield f"CodeDeploy does not move the alias of {function}"
        group = template["Resources"][f"{function}DeploymentGroup"]["Properties"]
        used = [alarm["Name"] for alarm in group["AlarmConfiguration"]["Alarms"]]
        for alarm in used:
            if alarm.get("Ref") not in alarms and json.dumps(alarm) not in names:
                yield f"{function}: there is no alarm {alarm}"
        own = {"Name": "FunctionName", "Value": {"Ref": function}}
        texts = [json.dumps(alarms[a["Ref"]]["Properties"]) for a in used if a.get("Ref") in alarms]
        if not any(json.dumps(own) in text and '"Errors"' in text for text in texts):
            yield f"no alarm of the errors of {function} stops its deployment"


def check_concurrency():
    template = read()
    for name, function in template["Resources"].items():
        events = (function.get("Properties", {}).get("Events") or {}).values()
        queues = [event["Properties"] for event in events if event["Type"] == "SQS"]
        if not queues:
            continue
        maximums = [queue["ScalingConfig"]["MaximumConcurrency"] for queue in queues]
        default = lambda value: template["Parameters"][value["Ref"]]["Default"] if isinstance(value, dict) else value  # noqa: E731
        maximum = sum(default(value) for value in maximums)
        reserved = references(function["Properties"].get("ReservedConcurrentExecutions"), template["Conditions"])
        patterns = [template["Parameters"][p]["AllowedPattern"] for p in reserved if p in template["Parameters"]]
        if len(patterns) != 1:
            yield f"{name} must have a parameter for its reserved concurrency"
            continue
        accepts = lambda value: re.fullmatch(patterns[0], value) is not None  # noqa: E731
        accepted = [value for value in range(1, 5000) if accepts(str(value))]
        if not accepts("") or accepted[0] != maximum or "1000" not in map(str, accepted):
            yield f"{name}: reserved concurrency must be empty or at least {maximum}"


def check_settings():
    with open("samconfig.toml", "rb") as file:
        settings = tomllib.load(file)
    for environment in ("dev", "prod"):
        pairs = settings[environment]["deploy"]["parameters"]["parameter_overrides"]
        named = {pair.split("=")[0] for pair in pairs}
        for parameter in sorted(named ^ set(read()["Parameters"])):
            yield f"samconfig.toml: {environment} must name each parameter of the template and no other: {parameter}"


checks = (check_parameters, check_aliases, check_rollback, check_concurrency, check_settings)
failures = [f for check in checks for f in check()]
print(*failures or ["versions and aliases: no failure"], sep="\n")
sys.exit(bool(failures))
