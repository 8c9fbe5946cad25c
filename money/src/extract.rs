//! Extractors that authenticate a request and read the resource in its path. [`shared::extract`] says in which order
//! errors are reported.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use domain::charge::{Charge, StoredCharge};
use domain::ids::{ChargeId, MedCaseId, RefundId, Scoped};
use domain::med::MedCase;
use domain::refund::Refund;
use domain::time::Timestamp;

use shared::app::App;
use shared::auth::Caller;
use shared::http::field::Definitions;
use shared::http::{IdPath, Problem, RequestContext};
use shared::store::{Store, StoreError};

/// A resource that a path identifies and that belongs to one scope.
pub trait ScopedResource: Scoped + Send + Sized {
    /// The extractor of the resource's id from the path.
    type Path: Send;

    /// The resource's name in a 404.
    const NAME: &'static str;

    const QUERY: Definitions = &[];

    /// Reads the resource, whatever its scope. `None`: the path has no valid id, or there is no such
    /// resource. The extractor checks the scope afterwards.
    fn find(store: &Store, path: Self::Path)
    -> impl Future<Output = Result<Option<Self>, StoreError>> + Send;
}

/// Resources whose id in the path leads to their row.
macro_rules! found_by_id {
    ($($Resource:ty: $Id:ty, $key_of:path, $name:literal;)+) => {$(
        impl ScopedResource for $Resource {
            type Path = IdPath<$Id>;

            const NAME: &'static str = $name;

            async fn find(store: &Store, IdPath(id): IdPath<$Id>) -> Result<Option<Self>, StoreError> {
                store.find(id.map($key_of)).await
            }
        }
    )+};
}
found_by_id! {
    // On the charges surface: `ch_<uuid>`.
    StoredCharge: ChargeId, Charge::key_of, "charge";
    MedCase: MedCaseId, MedCase::key_of, "MED case";
    Refund: RefundId, Refund::key_of, "refund";
}

/// The caller, and the resource that the path identifies. The extractor authenticates and reads the resource
/// concurrently, in one round trip. A resource of another scope causes the same 404 as a missing resource.
/// With `TEST_ONLY`, a live key causes a 403.
#[derive(Debug)]
pub struct CallerOwned<A, T, const TEST_ONLY: bool = false> {
    pub app: App<A>,
    pub caller: Caller,
    /// The resource; it belongs to the caller's scope.
    pub found: T,
    pub now: Timestamp,
}

/// Like [`CallerOwned`], but refuses live keys. For sandbox routes, where the caller acts as the acquirer.
pub type CallerOwnedTest<A, T> = CallerOwned<A, T, true>;

impl<A, T, const TEST_ONLY: bool> FromRequestParts<App<A>> for CallerOwned<A, T, TEST_ONLY>
where
    A: Send + Sync,
    T: ScopedResource,
    T::Path: FromRequestParts<App<A>, Rejection = Infallible>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App<A>) -> Result<Self, Problem> {
        let Ok(context) = RequestContext::from_request_parts(parts, app).await;
        let Ok(path) = T::Path::from_request_parts(parts, app).await;
        let now = app.clock.now();
        let (caller, found) =
            tokio::join!(app.api_keys.authenticate(&context, now), T::find(&app.store, path));
        let caller = caller?;
        context.query.require_only(T::QUERY)?;
        if TEST_ONLY {
            caller.require_test()?;
        }
        let own = found?.filter(|found| found.scope() == caller.scope);
        let found = own.ok_or(Problem::NotFound { what: T::NAME })?;
        Ok(Self { app: app.clone(), caller, found, now })
    }
}
