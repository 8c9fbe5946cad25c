//! The answer to a request that creates something under an idempotency key.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// On the answer to a creation that came before.
const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// How a creation ended.
#[derive(Debug)]
pub enum Created<T> {
    /// It is new.
    New(T),
    /// The same request came before; what it made, as it stands now.
    Replayed(T),
}

impl<T> Created<T> {
    /// What was made, as it stands now.
    pub fn get(&self) -> &T {
        let (Self::New(made) | Self::Replayed(made)) = self;
        made
    }

    /// 201 with what was made, in a surface's form; a replay says that it is one.
    pub fn respond(&self, body: impl Serialize) -> Response {
        let mut response = (StatusCode::CREATED, Json(body)).into_response();
        match self {
            Self::New(_) => {}
            Self::Replayed(_) => {
                response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
            }
        }
        response
    }
}
