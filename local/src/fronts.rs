//! Fronts: programs between the functions and the services that they call, such as a proxy that injects faults.

use std::sync::Arc;

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Upstream {
    DynamoDb,
    Sqs,
    S3,
    Bank,
    /// The stand-in of Stripe.
    Cards,
}

type UrlOf = dyn Fn(Upstream, &str) -> String + Send + Sync;

/// By default, they reach each service directly.
#[derive(Clone, Default)]
pub struct Fronts(Option<Arc<UrlOf>>);

impl Fronts {
    pub fn new(url_of: impl Fn(Upstream, &str) -> String + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(url_of)))
    }

    pub fn url(&self, upstream: Upstream, own: &str) -> String {
        self.0.as_ref().map_or_else(|| own.to_owned(), |url_of| url_of(upstream, own))
    }
}

domain::text::hidden_debug!(Fronts);
