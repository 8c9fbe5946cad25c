//! Reads form-encoded parameters with brackets, and validates them against the fields of a route.

use serde_json::{Value, json};

use crate::error::ApiError;

const TEXT_MAX: usize = 5_000;
const METADATA_KEY_MAX: usize = 40;
const METADATA_MAX: usize = 500;

/// A field that a request may have, as `routes.txt` describes it.
pub(crate) struct Field {
    /// The names. `[]` is an item of a list, `{}` a key of metadata.
    path: Vec<String>,
    is_required: bool,
    kind: &'static str,
}

/// Valid parameters. Places are JSON pointers, such as `/metadata`.
#[derive(Debug)]
pub(crate) struct Params(pub(crate) Value);

impl Params {
    pub(crate) fn text(&self, place: &str) -> Option<&str> {
        self.0.pointer(place).and_then(Value::as_str)
    }

    pub(crate) fn int(&self, place: &str) -> Option<i64> {
        self.0.pointer(place).and_then(Value::as_i64)
    }

    pub(crate) fn flag(&self, place: &str) -> Option<bool> {
        self.0.pointer(place).and_then(Value::as_bool)
    }

    pub(crate) fn items(&self, place: &str) -> &[Value] {
        self.0.pointer(place).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Returns a parameter, or null.
    pub(crate) fn value(&self, place: &str) -> Value {
        crate::values::at(&self.0, place)
    }
}

pub(crate) fn decode(text: &str) -> Vec<(String, String)> {
    url::form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

pub(crate) fn parse(fields: &[Field], pairs: &[(String, String)]) -> Result<Params, ApiError> {
    let mut root = json!({});
    for (name, text) in pairs {
        let unknown =
            || ApiError::invalid(name, "parameter_unknown", format!("Received unknown parameter: {name}"));
        let names: Vec<&str> = name.split('[').map(|part| part.strip_suffix(']').unwrap_or(part)).collect();
        let field = fields.iter().find(|field| field.has_name(&names)).ok_or_else(unknown)?;
        let value = field.value(name, text)?;
        if insert(&mut root, &field.path, &names, value).is_none() {
            return Err(ApiError::invalid(name, "", format!("Invalid or repeated parameter: {name}")));
        }
    }
    let mut required = fields.iter().filter(|field| field.is_required);
    match required.find_map(|field| missing(&root, &field.path, "")) {
        Some(name) => {
            Err(ApiError::invalid(&name, "parameter_missing", format!("Missing required param: {name}.")))
        }
        None => Ok(Params(root)),
    }
}

impl Field {
    pub(crate) fn parse(line: &'static str) -> Self {
        let (path, kind) = line.split_once(' ').unwrap_or((line, "text"));
        let is_required = path.ends_with('*');
        let path = path.trim_end_matches('*').replace("[]", ".[]");
        let path = if kind == "map" { format!("{path}.{{}}") } else { path };
        Self { path: path.split('.').map(str::to_owned).collect(), is_required, kind }
    }

    fn has_name(&self, names: &[&str]) -> bool {
        let is_name = |(expected, name): (&String, &&str)| match expected.as_str() {
            "[]" => name.is_empty() || name.parse::<usize>().is_ok(),
            "{}" => true,
            expected => expected == *name,
        };
        self.kind != "object" && names.len() == self.path.len() && self.path.iter().zip(names).all(is_name)
    }

    fn value(&self, name: &str, text: &str) -> Result<Value, ApiError> {
        let (kind, argument) = self.kind.split_once(':').unwrap_or((self.kind, ""));
        let invalid = |code, message: String| Err(ApiError::invalid(name, code, message));
        if kind == "map" {
            let key = name.rsplit('[').next().unwrap_or_default().trim_end_matches(']');
            let is_short = key.chars().count() <= METADATA_KEY_MAX && text.chars().count() <= METADATA_MAX;
            let limits =
                format!("Metadata has keys of {METADATA_KEY_MAX} and values of {METADATA_MAX} characters.");
            return if is_short { Ok(text.into()) } else { invalid("", limits) };
        }
        if text.is_empty() {
            return invalid("parameter_invalid_empty", format!("You passed an empty string for '{name}'."));
        }
        match kind {
            "int" => match text.parse::<i64>() {
                Ok(number) if !text.starts_with('+') => Ok(number.into()),
                _ => invalid("parameter_invalid_integer", format!("Invalid integer: {text}")),
            },
            "bool" => match text.parse::<bool>() {
                Ok(flag) => Ok(flag.into()),
                Err(_) => invalid("", format!("Invalid boolean: {text}")),
            },
            "enum" if argument.split('|').all(|allowed| allowed != text) => {
                invalid("", format!("Invalid {name}: must be one of {}", argument.replace('|', ", ")))
            }
            "url" if !url::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https")) => {
                invalid("url_invalid", format!("Not a valid URL: {text}"))
            }
            "text" if text.chars().count() > argument.parse().unwrap_or(TEXT_MAX) => {
                invalid("", format!("Invalid string; must be at most {argument} characters"))
            }
            _ => Ok(text.into()),
        }
    }
}

/// Puts a value at a place. `None` if the place has a value already, or if a list would have a gap.
fn insert(node: &mut Value, path: &[String], names: &[&str], value: Value) -> Option<()> {
    let (Some((expected, path)), Some((name, names))) = (path.split_first(), names.split_first()) else {
        return node.is_null().then(|| *node = value);
    };
    if node.is_null() {
        *node = if expected == "[]" { json!([]) } else { json!({}) };
    }
    let child = match node {
        Value::Array(items) => {
            let index = name.parse().unwrap_or(items.len());
            if index == items.len() {
                items.push(Value::Null);
            }
            items.get_mut(index)?
        }
        Value::Object(fields) => fields.entry(*name).or_insert(Value::Null),
        _ => return None,
    };
    insert(child, path, names, value)
}

/// Returns the name of a required field that is missing.
fn missing(node: &Value, path: &[String], name: &str) -> Option<String> {
    let (first, rest) = path.split_first()?;
    if first == "[]" {
        let mut items = node.as_array()?.iter().enumerate();
        return items.find_map(|(index, item)| missing(item, rest, &format!("{name}[{index}]")));
    }
    let name = if name.is_empty() { first.clone() } else { format!("{name}[{first}]") };
    match node.get(first) {
        Some(child) => missing(child, rest, &name),
        None if rest.is_empty() => Some(name),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: [&str; 9] = [
        "mode* enum:payment",
        "items* object",
        "items[].price.currency* text:3",
        "items[].price.amount int",
        "items[].quantity* int",
        "tags[]",
        "metadata map",
        "url url",
        "submit bool",
    ];

    fn read(text: &str) -> Result<Params, Value> {
        parse(&FIELDS.map(Field::parse), &decode(text)).map_err(|error| error.body("req_1")["error"].clone())
    }

    const GOOD: &str =
        "mode=payment&items[0][price][currency]=brl&items[0][price][amount]=5&items[0][quantity]=1";

    #[test]
    fn brackets_become_objects_and_lists() {
        let params =
            read(&format!("{GOOD}&tags[]=a&tags[1]=b&metadata[0]=zero&metadata[a]=&submit=true")).unwrap();
        let expected = json!({
            "mode": "payment",
            "items": [{"price": {"currency": "brl", "amount": 5}, "quantity": 1}],
            "tags": ["a", "b"],
            "metadata": {"0": "zero", "a": ""},
            "submit": true,
        });
        assert_eq!(params.0, expected);
    }

    #[test]
    fn an_invalid_parameter_is_named() {
        let long = format!("{GOOD}&metadata[{}]=1", "k".repeat(41));
        for (text, param, code) in [
            (format!("{GOOD}&other=1"), "other", Some("parameter_unknown")),
            (format!("{GOOD}&items[0][price][other]=1"), "items[0][price][other]", Some("parameter_unknown")),
            (format!("{GOOD}&items=1"), "items", Some("parameter_unknown")),
            ("items[0][quantity]=1".to_owned(), "mode", Some("parameter_missing")),
            ("mode=payment".to_owned(), "items", Some("parameter_missing")),
            (
                "mode=payment&items[0][price][amount]=1&items[0][quantity]=1".to_owned(),
                "items[0][price][currency]",
                Some("parameter_missing"),
            ),
            (
                format!("{GOOD}&items[1][quantity]=1.0"),
                "items[1][quantity]",
                Some("parameter_invalid_integer"),
            ),
            (format!("{GOOD}&tags[]="), "tags[]", Some("parameter_invalid_empty")),
            (format!("{GOOD}&url=ftp://a"), "url", Some("url_invalid")),
            (format!("{GOOD}&items[2][quantity]=1"), "items[2][quantity]", None),
            (format!("{GOOD}&mode=payment"), "mode", None),
            (format!("{GOOD}&submit=1"), "submit", None),
            (long.clone(), long.rsplit('&').next().unwrap().trim_end_matches("=1"), None),
        ] {
            let error = read(&text).unwrap_err();
            assert_eq!((error["param"].as_str(), error["code"].as_str()), (Some(param), code), "{text}");
        }
    }
}
