//! Extractors that authenticate a request by its API key. They and those of `money::extract` are the only source of a
//! [`Caller`], which contains the account and mode. A handler that needs these can't omit the authentication.
//!
//! If a request has several errors, all extractors report the first one in this order: 401 or 429, 400 for
//! query parameters, 403 for a live key on a sandbox route, 404. Errors of the body come last, because a
//! handler extracts the body afterwards.

use std::convert::Infallible;
use std::marker::PhantomData;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use domain::time::Timestamp;

use crate::app::App;
use crate::auth::Caller;
use crate::http::{Problem, Query, RequestContext};

/// The caller of a route that takes no query parameters.
#[derive(Debug)]
pub struct Authenticated<T> {
    pub app: App<T>,
    pub caller: Caller,
    pub now: Timestamp,
}

impl<T: Send + Sync> FromRequestParts<App<T>> for Authenticated<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App<T>) -> Result<Self, Problem> {
        let authenticated = AuthenticatedQuery::from_request_parts(parts, app).await?;
        let AuthenticatedQuery { app, caller, query, now } = authenticated;
        query.require_empty()?;
        Ok(Self { app, caller, now })
    }
}

/// The caller of a route with query parameters, which the handler checks.
#[derive(Debug)]
pub struct AuthenticatedQuery<T> {
    pub app: App<T>,
    pub caller: Caller,
    /// The query parameters, unchecked.
    pub query: Query,
    pub now: Timestamp,
}

impl<T: Send + Sync> FromRequestParts<App<T>> for AuthenticatedQuery<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App<T>) -> Result<Self, Problem> {
        let Ok(context) = RequestContext::from_request_parts(parts, app).await;
        let now = app.clock.now();
        let caller = app.api_keys.authenticate(&context, now).await?;
        Ok(Self { app: app.clone(), caller, query: context.query, now })
    }
}

/// An extractor of this module that does not run before the handler. The handler runs it concurrently with
/// another read, so that both take one round trip.
#[derive(Debug)]
pub struct Deferred<T, E> {
    parts: Parts,
    app: App<T>,
    extractor: PhantomData<E>,
}

impl<T, E: FromRequestParts<App<T>, Rejection = Problem>> Deferred<T, E> {
    /// Runs the extractor and `read` concurrently. If the extractor fails, its error is returned and the
    /// result of `read` is dropped.
    pub async fn concurrently_with<R>(
        mut self,
        read: impl AsyncFnOnce(&App<T>) -> R,
    ) -> Result<(E, R), Problem> {
        // Boxed, because each database request adds kilobytes to a future.
        let extracted = Box::pin(E::from_request_parts(&mut self.parts, &self.app));
        let (extracted, read) = tokio::join!(extracted, read(&self.app));
        Ok((extracted?, read))
    }
}

impl<T: Send + Sync, E> FromRequestParts<App<T>> for Deferred<T, E> {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App<T>) -> Result<Self, Infallible> {
        Ok(Self { parts: parts.clone(), app: app.clone(), extractor: PhantomData })
    }
}
