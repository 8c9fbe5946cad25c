//! The service that runs on this machine, as its ready file tells.

use std::path::{Path, PathBuf};

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use serde::Deserialize;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::wire::http_client;

/// What `cargo run` writes beside its state.
const READY_FILE: &str = ".local/ready.json";

/// A service that runs, with its first account's test key.
#[derive(Clone, Debug)]
pub struct Running {
    /// What it told of itself.
    pub ready: ReadyFile,
    http: Client<HttpConnector, Full<Bytes>>,
}

/// The part of a ready file that matters here.
#[derive(Clone, Debug, Deserialize)]
pub struct ReadyFile {
    /// Where it serves.
    pub base_url: String,
    /// A key of its first account.
    pub test_api_key: String,
    /// Where its database serves.
    pub dynamodb_url: String,
    /// Its state table.
    pub table: String,
}

impl Running {
    /// Finds the service of a ready file, unless said the one that was started in this directory.
    ///
    /// # Errors
    ///
    /// When there is none, or it does not answer.
    pub async fn find(ready_file: Option<PathBuf>) -> Result<Self> {
        let path = ready_file.unwrap_or_else(|| PathBuf::from(READY_FILE));
        let ready = read(&path)?;
        let running = Self::new(ready);
        running.get("/v1/webhooks/event-catalog").await.map_err(|_| none_runs(&path))?;
        Ok(running)
    }

    /// The service that told this.
    pub fn new(ready: ReadyFile) -> Self {
        Self { ready, http: http_client() }
    }

    /// Reads.
    pub async fn get(&self, path: &str) -> Result<Value> {
        self.call(Method::GET, path, &Value::Null).await
    }

    /// Asks for something to be done.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.call(Method::POST, path, body).await
    }

    /// Calls a route with the test key. `null` is no body.
    ///
    /// # Errors
    ///
    /// The message of an answer that is no success.
    pub async fn call(&self, method: Method, path: &str, body: &Value) -> Result<Value> {
        let doing = format!("{method} {path}");
        let failed = |e: &(dyn std::error::Error + 'static)| Error::because(&doing, e);
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.ready.base_url))
            .header("apikey", &self.ready.test_api_key)
            .header("content-type", "application/json")
            .header("idempotency-key", uuid::Uuid::new_v4().to_string())
            .body(Full::new(Bytes::from(text)))
            .map_err(|e| failed(&e))?;
        let answer = self.http.request(request).await.map_err(|e| failed(&e))?;
        let status = answer.status();
        let body = answer.into_body().collect().await.map_err(|e| failed(&e))?.to_bytes();
        let body: Value = serde_json::from_slice(&body).map_err(|e| failed(&e))?;
        if status.is_success() {
            return Ok(body);
        }
        let message = body.pointer("/error/message").and_then(Value::as_str).unwrap_or_default();
        Err(Error::new(format!("{doing}: {status}: {message}")))
    }
}

fn read(path: &Path) -> Result<ReadyFile> {
    let text = std::fs::read(path).map_err(|_| none_runs(path))?;
    serde_json::from_slice(&text).map_err(|e| Error::because(&format!("reading {}", path.display()), &e))
}

fn none_runs(path: &Path) -> Error {
    Error::new(format!(
        "no service runs as {} says; start one with `cargo run` in another terminal, or name its ready file with --ready-file",
        path.display()
    ))
}
