//! Reads the template's YAML values, and resolves the intrinsic functions of CloudFormation in them.
//!
//! The parameter `at` is the location of a value for error messages, such as
//! `ChargesFunction.Environment.TABLE_NAME`.

use serde_json::{Map, Value};
use serde_yaml_ng::Value as Yaml;

use super::{Template, TemplateValues, bucket_name, queue_url};
use crate::embedded::{ACCOUNT, REGION};
use crate::error::{Context, Error, Result};

/// Reads a template as JSON. A tag is the only field of an object, such as `{"!Ref": "StateTable"}`.
pub(super) fn json(text: &str) -> Result<Value> {
    let yaml: Yaml = serde_yaml_ng::from_str(text).context("the template is not YAML")?;
    serde_json::to_value(yaml).context("reading the template")
}

/// `None`: the value is not an intrinsic function.
fn intrinsic(value: &Value) -> Option<(&str, &Value)> {
    let (name, argument) = value.as_object()?.iter().next()?;
    name.starts_with('!').then_some((name.as_str(), argument))
}

/// Returns the resource of a `GetAtt`, whose attribute must be `wanted`.
pub(super) fn get_att_resource<'a>(value: Option<&'a Value>, wanted: &str, at: &str) -> Result<&'a str> {
    let target = value.and_then(|value| value.get("!GetAtt")?.as_str()?.split_once('.'));
    match target {
        Some((resource, attribute)) if attribute == wanted => Ok(resource),
        _ => Err(Error::new(format!("{at}: expected !GetAtt with the {wanted} of a resource"))),
    }
}

pub(super) fn object<'a>(value: Option<&'a Value>, at: &str) -> Result<&'a Map<String, Value>> {
    value.and_then(Value::as_object).ok_or_else(|| Error::new(format!("{at}: expected a mapping")))
}

pub(super) fn string<'a>(value: Option<&'a Value>, at: &str) -> Result<&'a str> {
    match value {
        Some(Value::String(text)) => Ok(text),
        other => match other.and_then(intrinsic) {
            Some((name, _)) => Err(unsupported(name, at)),
            None => Err(Error::new(format!("{at}: expected a string"))),
        },
    }
}

pub(super) fn number(value: Option<&Value>, at: &str) -> Result<Option<u64>> {
    match value {
        None => Ok(None),
        Some(value) => {
            let number = scalar(value).and_then(|text| text.parse().ok());
            Ok(Some(number.ok_or_else(|| Error::new(format!("{at}: expected a number, found {value}")))?))
        }
    }
}

/// `None`: the value is something else.
pub(super) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

pub(super) fn unsupported(what: &str, at: &str) -> Error {
    Error::new(format!("{at}: {what} is not supported on this machine"))
}

pub(super) struct Resolver<'a> {
    pub(super) template: &'a Template,
    pub(super) values: &'a TemplateValues,
    pub(super) at: &'a str,
}

impl Resolver<'_> {
    /// Replaces a dynamic reference to a secret by the secret's value.
    pub(super) fn environment_value(&self, value: &Value) -> Result<String> {
        let text = self.resolve(value)?;
        let reference =
            text.strip_prefix("{{resolve:secretsmanager:").and_then(|rest| rest.strip_suffix("}}"));
        let Some(secret) = reference else { return Ok(text) };
        let value = self.values.secrets.get(secret);
        value.cloned().ok_or_else(|| self.error(&format!("the secret {secret} has no value")))
    }

    fn error(&self, text: &str) -> Error {
        Error::new(format!("{}: {text}", self.at))
    }

    fn resolve(&self, value: &Value) -> Result<String> {
        if let Some(text) = scalar(value) {
            return Ok(text);
        }
        match intrinsic(value) {
            Some(("!Ref", Value::String(target))) => self.reference(target),
            Some(("!Sub", Value::String(pattern))) => self.substitute(pattern),
            Some((name, _)) => Err(unsupported(name, self.at)),
            None => Err(self.error("expected a string or an intrinsic function")),
        }
    }

    fn reference(&self, target: &str) -> Result<String> {
        match target {
            "AWS::Region" => return Ok(REGION.to_owned()),
            "AWS::AccountId" => return Ok(ACCOUNT.to_owned()),
            "AWS::Partition" => return Ok("aws".to_owned()),
            // There is no stack. So the functions write no metrics, which would be for CloudWatch.
            "AWS::StackName" => return Ok(String::new()),
            _ => {}
        }
        let template = self.template;
        if let Some(parameter) = template.parameters.get(target) {
            let value = self.values.parameters.get(target).or(parameter.as_ref());
            return value.cloned().ok_or_else(|| self.error(&format!("the parameter {target} has no value")));
        }
        let is_table = template.tables.iter().any(|table| table.logical_id == target);
        if is_table || template.secrets.iter().any(|secret| secret == target) {
            return Ok(target.to_owned());
        }
        if template.queues.iter().any(|queue| queue.logical_id == target) {
            return Ok(queue_url(&self.values.sqs_url, target));
        }
        if template.buckets.iter().any(|bucket| bucket == target) {
            return Ok(bucket_name(target));
        }
        Err(self.error(&format!("{target} is not a parameter, table, queue, bucket or secret")))
    }

    fn substitute(&self, pattern: &str) -> Result<String> {
        let mut text = String::new();
        let mut rest = pattern;
        while let Some((before, after)) = rest.split_once("${") {
            let (name, after) =
                after.split_once('}').ok_or_else(|| self.error("a ${ in !Sub has no closing }"))?;
            text.push_str(before);
            text.push_str(&self.reference(name)?);
            rest = after;
        }
        text.push_str(rest);
        Ok(text)
    }
}
