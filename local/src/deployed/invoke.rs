//! Invokes deployed functions by the Lambda Invoke API.

use std::fmt::Display;
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use serde_json::Value;

use super::Resources;
use crate::embedded::{ACCESS_KEY, REGION};
use crate::lambda::{Functions, Invoke};
use crate::template::Template;
use crate::wire::{HttpClient, http_client, send};

const FUNCTION_ERROR: &str = "x-amz-function-error";

pub(crate) fn deployed_functions(template: &Template, resources: &Resources, url: &str) -> Functions {
    let client = http_client();
    let mut functions = Functions::new();
    for function in &template.functions {
        if let Some(name) = resources.find(&function.logical_id) {
            let url = format!("{url}/2015-03-31/functions/{name}/invocations");
            functions = functions.with(&function.logical_id, deployed_function(client.clone(), url));
        }
    }
    functions
}

fn deployed_function(client: HttpClient, url: String) -> Invoke {
    Arc::new(move |event| Box::pin(invoke(client.clone(), url.clone(), event)))
}

async fn invoke(client: HttpClient, url: String, event: Value) -> Result<Value, String> {
    let failed = |error: &dyn Display| format!("{url}: {error}");
    let request = Request::post(&url)
        .header("content-type", "application/json")
        // Emulators do not check the signature.
        .header(
            "authorization",
            format!(
                "AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/20260101/{REGION}/lambda/aws4_request, \
                 SignedHeaders=host, Signature=0"
            ),
        )
        .body(Full::new(Bytes::from(event.to_string())))
        .map_err(|e| failed(&e))?;
    let answer = send(&client, request, &url).await.map_err(|e| e.to_string())?;
    if answer.status() == StatusCode::OK && !answer.headers().contains_key(FUNCTION_ERROR) {
        serde_json::from_slice(answer.body()).map_err(|e| failed(&e))
    } else {
        Err(failed(&String::from_utf8_lossy(answer.body())))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use axum::Router;
    use axum::extract::Path;
    use axum::http::StatusCode;
    use axum::response::{IntoResponse, Response};
    use axum::routing::post;
    use serde_json::json;

    use super::*;

    /// Replaces the Invoke API: `fails` fails, and other functions return their name and their event.
    async fn invoked(Path(name): Path<String>, event: String) -> Response {
        match name.as_str() {
            "fails" => ([(FUNCTION_ERROR, "Unhandled")], r#"{"errorMessage": "broken"}"#).into_response(),
            "throttled" => (StatusCode::TOO_MANY_REQUESTS, r#"{"Reason": "busy"}"#).into_response(),
            name => format!(r#"{{"name": "{name}", "event": {event}}}"#).into_response(),
        }
    }

    #[tokio::test]
    async fn a_function_of_the_stack_is_invoked_by_its_name_and_its_failure_is_an_error() {
        let router = Router::new().route("/2015-03-31/functions/{name}/invocations", post(invoked));
        let listener = crate::http::bind_loopback(0).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let names = [
            ("ChargesFunction", "stack-charges"),
            ("MedFunction", "fails"),
            ("WalletsFunction", "throttled"),
        ];
        let names = names.map(|(id, name)| (id.to_owned(), name.to_owned()));
        let resources = Resources(BTreeMap::from(names));
        let functions = deployed_functions(&Template::deployed().unwrap(), &resources, &url);
        let call = async |id: &str| functions.get(id).unwrap()(json!({"a": 1})).await;
        let returned = call("ChargesFunction").await;
        assert_eq!(returned, Ok(json!({"name": "stack-charges", "event": {"a": 1}})));
        assert!(call("MedFunction").await.unwrap_err().contains("broken"));
        assert!(call("WalletsFunction").await.unwrap_err().contains("busy"));
        assert!(functions.get("PaymentsFunction").is_none());
    }
}
