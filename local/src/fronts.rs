//! Fronts: programs between the functions and the services that they call, such as a proxy that injects faults.

use std::fmt;
use std::sync::Arc;

/// A service that the functions call.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Upstream {
    /// DynamoDB.
    DynamoDb,
    /// SQS.
    Sqs,
    /// S3. Presigned URLs name it too.
    S3,
    /// The bank's API Pix.
    Bank,
}

/// Returns the URL at which the functions reach a service, from the URL at which this process serves it.
type UrlOf = dyn Fn(Upstream, &str) -> String + Send + Sync;

/// The URLs at which the functions reach the services. By default, they reach each service directly. The event
/// sources, the seed and the clients in this process always do.
#[derive(Clone, Default)]
pub struct Fronts(Option<Arc<UrlOf>>);

impl Fronts {
    /// Creates fronts from a function that receives a service and the URL at which this process serves it. It
    /// returns the URL at which the functions reach the service.
    pub fn new(url_of: impl Fn(Upstream, &str) -> String + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(url_of)))
    }

    /// Returns the URL at which the functions reach a service that this process serves at `own`.
    pub fn url(&self, upstream: Upstream, own: &str) -> String {
        self.0.as_ref().map_or_else(|| own.to_owned(), |url_of| url_of(upstream, own))
    }
}

impl fmt::Debug for Fronts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fronts").field(&self.0.is_some()).finish()
    }
}
