//! Finds the running service by its ready file, and calls its routes.

use std::path::{Path, PathBuf};

use domain::ids::AccountId;
use domain::time::Timestamp;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Method, Request};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::{Context, Error, Result};
use crate::wire::{HttpClient, http_client, send};

const READY_FILE: &str = ".local/ready.json";

#[derive(Clone, Debug)]
pub struct Running {
    pub ready: ReadyFile,
    http: HttpClient,
}

#[derive(Clone, Debug, Deserialize)]
pub struct ReadyFile {
    pub base_url: String,
    pub account_id: AccountId,
    pub test_api_key: String,
    pub dynamodb_url: String,
    pub table: String,
}

impl Running {
    /// `None`: the service that was started in the current directory.
    pub async fn find(ready_file: Option<PathBuf>) -> Result<Self> {
        let path = ready_file.unwrap_or_else(|| PathBuf::from(READY_FILE));
        let ready = read(&path)?;
        let running = Self::new(ready);
        running.get("/v1/webhooks/event-catalog").await.map_err(|_| none_runs(&path))?;
        Ok(running)
    }

    /// Does not check whether it runs.
    pub fn new(ready: ReadyFile) -> Self {
        Self { ready, http: http_client() }
    }

    /// Returns the service's time, which may be ahead of this machine's, and its offset in seconds. The request
    /// advances the clock by 0 seconds, because its response contains the time.
    pub async fn clock(&self) -> Result<(Timestamp, i64)> {
        let response = self.post("/_local/clock/advance", &json!({"seconds": 0})).await?;
        let now = text(&response, "now").parse().context("reading the service's time")?;
        Ok((now, response.get("offset_seconds").and_then(Value::as_i64).unwrap_or_default()))
    }

    pub async fn get(&self, path: &str) -> Result<Value> {
        self.call(Method::GET, path, &Value::Null).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.call(Method::POST, path, body).await
    }

    pub async fn call(&self, method: Method, path: &str, body: &Value) -> Result<Value> {
        let doing = format!("{method} {path}");
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.ready.base_url))
            .header("apikey", &self.ready.test_api_key)
            .header("content-type", "application/json")
            .header("idempotency-key", uuid::Uuid::new_v4().to_string())
            .body(Full::new(Bytes::from(text)))
            .context(&doing)?;
        let answer = send(&self.http, request, &doing).await?;
        let status = answer.status();
        let body: Value = serde_json::from_slice(answer.body()).context(&doing)?;
        if status.is_success() {
            return Ok(body);
        }
        // The errors of routes under `/_local/` have no code, only a message.
        let error = body.pointer("/error/message").or_else(|| body.get("error"));
        let message = error.and_then(Value::as_str).unwrap_or_default();
        Err(Error::new(format!("{doing}: {status}: {message}")))
    }
}

/// Returns a text of an answer; empty if there is none.
pub(super) fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn read(path: &Path) -> Result<ReadyFile> {
    let text = std::fs::read(path).map_err(|_| none_runs(path))?;
    serde_json::from_slice(&text).context(format_args!("reading {}", path.display()))
}

fn none_runs(path: &Path) -> Error {
    Error::new(format!(
        "the ready file {} is missing or its service does not run; start the service with `cargo run` in another terminal, or name another ready file with --ready-file",
        path.display()
    ))
}
