//! Rules that hold on every route of the description.

use axum::http::Method;
use serde_json::Value;

use crate::support::Service;

/// An id that no object has.
const UNKNOWN_ID: &str = "00000000-0000-4000-8000-000000000000";

/// Replaces the variables of a path.
fn with_ids(path: &str) -> String {
    let segments = path.split('/').map(|segment| if segment.starts_with('{') { UNKNOWN_ID } else { segment });
    segments.collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn every_route_checks_the_credential_then_the_query_then_the_id() {
    let service = Service::start().await;
    let (key, seed) = (service.key(), &service.stack.seed);
    let token = format!("Bearer {}", service.stack.owner_token(&seed.first).await.unwrap());
    let document = openapi::document();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let method: Method = method.to_ascii_uppercase().parse().unwrap();
            let (route, path) = (format!("{method} {path}"), with_ids(path));
            let has = |status: &str| operation["responses"].get(status).is_some();
            let request = async |path: &str, credential: &[(&str, &str)], body: &str| {
                let headers = [credential, &[("content-type", "application/json")]].concat();
                service.raw(method.clone(), path, &headers, body.to_owned()).await
            };
            let with_query = format!("{path}?nothing=1");
            let security = operation["security"].as_array().unwrap().first().and_then(Value::as_object);
            let credential = match security.and_then(|scheme| scheme.keys().next()).map(String::as_str) {
                Some("apiKey") => vec![("apikey", key.as_str())],
                Some(_) => vec![("authorization", token.as_str())],
                None if route.contains("/v1/acquirer-events/") => {
                    let answer = request(&path, &[], r#"{"pix": []}"#).await;
                    assert_eq!(answer.problem(), (401, "authentication_error", "unauthorized"), "{route}");
                    continue;
                }
                None => Vec::new(),
            };
            if !credential.is_empty() {
                let answer = request(&with_query, &[], "{").await;
                assert_eq!(answer.problem(), (401, "authentication_error", "unauthorized"), "{route}");
            }
            // Filters are never silently ignored.
            if has("400") && path.starts_with("/v1/") {
                let answer = request(&with_query, &credential, "").await;
                assert_eq!((answer.problem().0, answer.params()), (400, vec!["nothing"]), "{route}");
            }
            if has("404") && path.starts_with("/v1/") {
                let answer = request(&path, &credential, "{}").await;
                assert_eq!(answer.status, 404, "{route}");
            }
            if path.starts_with("/v1/sandbox/") {
                let answer = request(&path, &[("apikey", &seed.first.live_api_key)], "{").await;
                assert_eq!(answer.problem(), (403, "permission_error", "live_key_not_allowed"), "{route}");
            }
        }
    }
}
