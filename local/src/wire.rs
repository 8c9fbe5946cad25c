//! Sends requests of the AWS JSON protocol without an SDK. Used for DynamoDB Streams, which would need
//! another SDK, and for requests that are already JSON. The requests have a placeholder as their signature,
//! because the embedded DynamoDB and emulators do not check it.

use std::fmt;

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use crate::embedded::{ACCESS_KEY, REGION};

#[derive(Debug, Clone)]
pub(crate) struct JsonClient {
    url: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

/// The reason why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JsonClientError {
    #[error("{code}: {message}")]
    Refused {
        /// The error code without its namespace, such as `ResourceInUseException`.
        code: String,
        message: String,
    },
    /// No response arrived, or it was not JSON.
    #[error("{0}")]
    Failed(String),
}

impl JsonClientError {
    pub(crate) fn is(&self, expected: &str) -> bool {
        matches!(self, Self::Refused { code, .. } if code == expected)
    }
}

pub fn http_client() -> Client<HttpConnector, Full<Bytes>> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new()).build(connector)
}

pub(crate) fn authorization(service: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/20260101/{REGION}/{service}/aws4_request, \
         SignedHeaders=host;x-amz-date;x-amz-target, Signature=0"
    )
}

impl JsonClient {
    pub(crate) fn new(url: &str) -> Self {
        Self { url: url.to_owned(), client: http_client() }
    }

    /// Calls an operation by its target, such as `DynamoDB_20120810.CreateTable`.
    pub(crate) async fn call(&self, target: &str, body: &Value) -> Result<Value, JsonClientError> {
        let failed = |e: &dyn fmt::Display| JsonClientError::Failed(format!("{target}: {e}"));
        let request = Request::post(&self.url)
            .header("content-type", "application/x-amz-json-1.0")
            .header("x-amz-target", target)
            .header("x-amz-date", "20260101T000000Z")
            .header("authorization", authorization("dynamodb"))
            .body(Full::new(Bytes::from(body.to_string())))
            .map_err(|e| failed(&e))?;
        let answer = self.client.request(request).await.map_err(|e| failed(&e))?;
        let is_success = answer.status().is_success();
        let body = answer.into_body().collect().await.map_err(|e| failed(&e))?.to_bytes();
        let json: Value = serde_json::from_slice(&body).map_err(|e| failed(&e))?;
        if is_success {
            return Ok(json);
        }
        let text = |name: &str| json.get(name).and_then(Value::as_str);
        let code = text("__type").unwrap_or_default();
        Err(JsonClientError::Refused {
            code: code.rsplit('#').next().unwrap_or(code).to_owned(),
            message: text("message").or_else(|| text("Message")).unwrap_or_default().to_owned(),
        })
    }
}
