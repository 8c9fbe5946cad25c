//! The response to a request that creates a resource under an idempotency key.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The outcome of a creation.
#[derive(Debug)]
pub enum Created<T> {
    /// The resource is new.
    New(T),
    /// A replay: an earlier request with the same idempotency key and body created the resource. The response
    /// shows its current state.
    Replayed(T),
}

impl<T> Created<T> {
    /// The created resource, in its current state.
    pub fn get(&self) -> &T {
        let (Self::New(resource) | Self::Replayed(resource)) = self;
        resource
    }

    /// Returns the 201 response with `body`. A replay has the header `Idempotent-Replayed: true`.
    pub fn respond(&self, body: impl Serialize) -> Response {
        self.respond_as(StatusCode::CREATED, body)
    }

    /// Like [`Self::respond`], with another status.
    pub fn respond_as(&self, status: StatusCode, body: impl Serialize) -> Response {
        let mut response = (status, Json(body)).into_response();
        if matches!(self, Self::Replayed(_)) {
            response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
        }
        response
    }
}
