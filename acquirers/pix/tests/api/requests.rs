//! Validates requests against the Central Bank's document, after its corrections.

use serde_json::Value;

use crate::proxy::Recorded;
use crate::schema::{check, document};

/// A route of the document, and the values of its path parameters.
struct Route {
    path: &'static str,
    parameters: Vec<(&'static str, String)>,
}

fn route(path: &str) -> Option<Route> {
    let segments: Vec<String> = path.split('/').skip(1).map(decode).collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (path, parameters): (_, Vec<(&str, &str)>) = match segments[..] {
        ["cob", txid] => ("/cob/{txid}", vec![("txid", txid)]),
        ["pix"] => ("/pix", vec![]),
        ["pix", id] => ("/pix/{e2eid}", vec![("e2eid", id)]),
        ["pix", e2eid, "devolucao", id] => {
            ("/pix/{e2eid}/devolucao/{id}", vec![("e2eid", e2eid), ("id", id)])
        }
        ["webhook", key] => ("/webhook/{chave}", vec![("chave", key)]),
        _ => return None,
    };
    Some(Route {
        path,
        parameters: parameters.into_iter().map(|(name, value)| (name, value.to_owned())).collect(),
    })
}

fn decode(segment: &str) -> String {
    // A plus sign is an ordinary character in a path, but a space in a form.
    let form = format!("{}=", segment.replace('+', "%2B"));
    url::form_urlencoded::parse(form.as_bytes()).next().map(|(name, _)| name.into_owned()).unwrap_or_default()
}

/// Checks a request. `extensions` are the parameters that the bank's profile requires. Returns why the request
/// is not valid.
pub(crate) fn validate(request: &Recorded, extensions: &[&str]) -> Result<(), String> {
    if request.path.starts_with("/pix-out/") {
        // An extension of the bank, which the document does not have.
        return Ok(());
    }
    let route = route(&request.path).ok_or_else(|| format!("no such route: {}", request.path))?;
    let item = &document()["paths"][route.path];
    let method = request.method.to_lowercase();
    let operation = &item[&method];
    if operation.is_null() {
        return Err(format!("{} has no {method}", route.path));
    }
    let path_pointer = format!("/paths/{}", route.path.replace('~', "~0").replace('/', "~1"));

    let mut known = Vec::new();
    for (owner, pointer) in [(item, path_pointer.clone()), (operation, format!("{path_pointer}/{method}"))] {
        for index in 0..owner["parameters"].as_array().map_or(0, Vec::len) {
            let mut pointer = format!("{pointer}/parameters/{index}");
            if let Some(reference) = document().pointer(&format!("{pointer}/$ref")) {
                reference.as_str().unwrap().trim_start_matches('#').clone_into(&mut pointer);
            }
            let parameter = document().pointer(&pointer).unwrap();
            let name = parameter["name"].as_str().unwrap().to_owned();
            let values = if parameter["in"] == "path" { &route.parameters_as_text() } else { &request.query };
            let value = values.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str());
            match value {
                None if parameter["required"] == true => return Err(format!("{name} is missing")),
                None => {}
                Some(value) => check_parameter(&format!("{pointer}/schema"), value)
                    .map_err(|error| format!("{name}: {error}"))?,
            }
            known.push(name);
        }
    }
    for (name, _) in &request.query {
        if !known.contains(name) && !extensions.contains(&name.as_str()) {
            return Err(format!("the document has no parameter {name}"));
        }
    }

    let Some(reference) = operation["requestBody"]["$ref"].as_str() else {
        return if request.body.is_null() { Ok(()) } else { Err("a body is not expected".to_owned()) };
    };
    if request.header("content-type") != Some("application/json") {
        return Err("the content type must be application/json".to_owned());
    }
    let pointer = format!("{}/content/application~1json/schema", reference.trim_start_matches('#'));
    check(&pointer, &request.body)
}

impl Route {
    fn parameters_as_text(&self) -> Vec<(String, String)> {
        self.parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }
}

/// Checks a parameter as a text, a number or a boolean: as what the schema allows.
fn check_parameter(pointer: &str, value: &str) -> Result<(), String> {
    let as_text = check(pointer, &value.into());
    match serde_json::from_str::<Value>(value) {
        Ok(other @ (Value::Number(_) | Value::Bool(_))) => as_text.or_else(|_| check(pointer, &other)),
        Ok(_) | Err(_) => as_text,
    }
}

#[test]
fn the_validator_finds_what_the_document_forbids() {
    let request = |method: &str, path: &str, query: &str, body: Value| Recorded {
        method: method.to_owned(),
        path: path.to_owned(),
        query: url::form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body,
    };
    let cob = |original: Value| serde_json::json!({"calendario": {"expiracao": 60}, "valor": {"original": original}, "chave": "key"});
    let txid = "a".repeat(26);
    let period = "inicio=2026-11-22T00:00:00Z&fim=2026-11-23T00:00:00Z";
    for (request, is_valid) in [
        (request("PUT", &format!("/cob/{txid}"), "", cob("1.00".into())), true),
        (request("PUT", &format!("/cob/{txid}"), "", cob("1.0".into())), false),
        (request("PUT", "/cob/short", "", cob("1.00".into())), false),
        (
            request("GET", "/pix", &format!("{period}&paginacao.itensPorPagina=100&app-key=1"), Value::Null),
            true,
        ),
        (request("GET", "/pix", &format!("{period}&devolucaoPresente=yes"), Value::Null), false),
        (request("GET", "/pix", &format!("{period}&other=1"), Value::Null), false),
        (request("GET", "/pix", "inicio=2026-11-22T00:00:00Z", Value::Null), false),
        (request("GET", "/other", "", Value::Null), false),
    ] {
        assert_eq!(validate(&request, &["app-key"]).is_ok(), is_valid, "{request:?}");
    }
}
