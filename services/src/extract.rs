//! Extractors that authenticate a request by its API key. They are the only source of a [`Caller`], which
//! contains the account and mode. A handler that needs these therefore can't omit the authentication.
//!
//! If a request has several errors, all extractors report the first one in this order: 401 or 429, 400 for
//! query parameters, 403 for a live key on a sandbox route, 404. Errors of the body come last, because a
//! handler extracts the body afterwards.

use std::convert::Infallible;
use std::marker::PhantomData;

use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;

use domain::charge::StoredCharge;
use domain::ids::{ChargeId, MedCaseId, RefundId, Scoped};
use domain::med::MedCase;
use domain::refund::Refund;
use domain::time::Timestamp;

use crate::app::App;
use crate::{ChargeRows, TIMELINE_QUERY};
use shared::auth::Caller;
use shared::http::field::Definitions;
use shared::http::{IdPath, Problem, Query, RequestContext};
use shared::store::StoreError;

/// The caller of a route that takes no query parameters.
#[derive(Debug)]
pub struct Authenticated {
    pub app: App,
    pub caller: Caller,
    pub now: Timestamp,
}

impl<S> FromRequestParts<S> for Authenticated
where
    S: Send + Sync,
    App: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let authenticated = AuthenticatedQuery::from_request_parts(parts, state).await?;
        let AuthenticatedQuery { app, caller, query, now } = authenticated;
        query.require_empty()?;
        Ok(Self { app, caller, now })
    }
}

/// The caller of a route with query parameters, which the handler checks.
#[derive(Debug)]
pub struct AuthenticatedQuery {
    pub app: App,
    pub caller: Caller,
    /// The query parameters, unchecked.
    pub query: Query,
    pub now: Timestamp,
}

impl<S> FromRequestParts<S> for AuthenticatedQuery
where
    S: Send + Sync,
    App: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Ok(context) = RequestContext::from_request_parts(parts, state).await;
        let app = App::from_ref(state);
        let now = app.clock.now();
        let caller = app.api_keys.authenticate(&context, now).await?;
        Ok(Self { app, caller, query: context.query, now })
    }
}

/// A resource that a path identifies and that belongs to one scope.
pub trait ScopedResource: Scoped + Send + Sized {
    /// The extractor of the resource's id from the path.
    type Path: Send;

    /// The resource's name in a 404.
    const NAME: &'static str;

    /// The query parameters of the resource's route.
    const QUERY: Definitions = &[];

    /// Reads the resource, whatever its scope. `None`: the path has no valid id, or there is no such
    /// resource. The extractor checks the scope afterwards.
    fn find(app: &App, path: Self::Path) -> impl Future<Output = Result<Option<Self>, StoreError>> + Send;
}

/// A charge by its id on the charges surface, `ch_<uuid>`.
impl ScopedResource for StoredCharge {
    type Path = IdPath<ChargeId>;

    const NAME: &'static str = "charge";

    async fn find(app: &App, IdPath(id): IdPath<ChargeId>) -> Result<Option<Self>, StoreError> {
        app.charges.find(id).await
    }
}

/// A charge with its refunds and MED cases, for its timeline.
impl ScopedResource for ChargeRows {
    type Path = IdPath<ChargeId>;

    const NAME: &'static str = "charge";

    const QUERY: Definitions = TIMELINE_QUERY;

    async fn find(app: &App, IdPath(id): IdPath<ChargeId>) -> Result<Option<Self>, StoreError> {
        match id {
            Some(id) => ChargeRows::read(app.charges.store(), id).await,
            None => Ok(None),
        }
    }
}

impl ScopedResource for MedCase {
    type Path = IdPath<MedCaseId>;

    const NAME: &'static str = "MED case";

    async fn find(app: &App, IdPath(id): IdPath<MedCaseId>) -> Result<Option<Self>, StoreError> {
        app.cases.find(id).await
    }
}

impl ScopedResource for Refund {
    type Path = IdPath<RefundId>;

    const NAME: &'static str = "refund";

    async fn find(app: &App, IdPath(id): IdPath<RefundId>) -> Result<Option<Self>, StoreError> {
        app.refunds.find(id).await
    }
}

/// The caller, and the resource that the path identifies. The extractor authenticates and reads the resource
/// concurrently, in one round trip. A resource of another scope causes the same 404 as a missing resource.
/// With `TEST_ONLY`, a live key causes a 403.
#[derive(Debug)]
pub struct CallerOwned<T, const TEST_ONLY: bool = false> {
    pub app: App,
    pub caller: Caller,
    /// The resource; it belongs to the caller's scope.
    pub found: T,
    pub now: Timestamp,
}

/// Like [`CallerOwned`], but refuses live keys. For sandbox routes, where the caller acts as the acquirer.
pub type CallerOwnedTest<T> = CallerOwned<T, true>;

impl<S, T, const TEST_ONLY: bool> FromRequestParts<S> for CallerOwned<T, TEST_ONLY>
where
    S: Send + Sync,
    T: ScopedResource,
    T::Path: FromRequestParts<S, Rejection = Infallible>,
    App: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Ok(context) = RequestContext::from_request_parts(parts, state).await;
        let Ok(path) = T::Path::from_request_parts(parts, state).await;
        let app = App::from_ref(state);
        let now = app.clock.now();
        let (caller, found) = tokio::join!(app.api_keys.authenticate(&context, now), T::find(&app, path));
        let caller = caller?;
        context.query.require_only(T::QUERY)?;
        if TEST_ONLY {
            caller.require_test()?;
        }
        let own = found?.filter(|found| found.scope() == caller.scope);
        let found = own.ok_or(Problem::NotFound { what: T::NAME })?;
        Ok(Self { app, caller, found, now })
    }
}

/// An extractor of this module that does not run before the handler. The handler runs it concurrently with
/// another read, so that both take one round trip.
#[derive(Debug)]
pub struct Deferred<E> {
    parts: Parts,
    app: App,
    extractor: PhantomData<E>,
}

impl<E: FromRequestParts<App, Rejection = Problem>> Deferred<E> {
    /// Runs the extractor and `read` concurrently. If the extractor fails, its error is returned and the
    /// result of `read` is dropped.
    pub async fn concurrently_with<T>(
        mut self,
        read: impl AsyncFnOnce(&App) -> T,
    ) -> Result<(E, T), Problem> {
        // Boxed, because each database request adds kilobytes to a future.
        let extracted = Box::pin(E::from_request_parts(&mut self.parts, &self.app));
        let (extracted, read) = tokio::join!(extracted, read(&self.app));
        Ok((extracted?, read))
    }
}

impl<S, E> FromRequestParts<S> for Deferred<E>
where
    S: Sync,
    App: FromRef<S>,
{
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Ok(Self { parts: parts.clone(), app: App::from_ref(state), extractor: PhantomData })
    }
}
