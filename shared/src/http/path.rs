//! Extractors of ids in a path.

use std::convert::Infallible;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Path, RawPathParams};
use axum::http::request::Parts;
use domain::ids::{
    AccountId, ApiKeyId, ChargeId, DeliveryId, EndpointId, EventId, LoggedRequestId, MedCaseId,
    PaymentLinkId, RawChargeId, RefundId, ReportId, ReportScheduleId, UserId,
};

use super::context::RequestContext;

/// An id in a path. The request's log line contains the ids of charges, events and deliveries.
pub trait PathId: FromStr {
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    /// Stores the id for the log line.
    fn note(&self, _context: &RequestContext) {}
}

/// `Type, method(id => value);`: the context's method that stores the value, if there is one.
macro_rules! path_ids {
    ($($Id:ty $(, $set:ident($id:ident => $noted:expr))?;)+) => {$(
        impl PathId for $Id {
            $(fn note(&self, context: &RequestContext) {
                let $id = *self;
                context.$set($noted);
            })?
        }
    )+};
}

path_ids! {
    AccountId;
    ApiKeyId;
    EndpointId;
    LoggedRequestId;
    PaymentLinkId;
    ReportId;
    ReportScheduleId;
    UserId;
    // In the paths of payers' pages.
    RawChargeId, set_charge(id => id.into());
    EventId, set_event(id => id);
    DeliveryId, set_delivery(id => id);
    RefundId, set_charge(id => id.charge());
    MedCaseId, set_charge(id => id.charge());
}

/// With `ch_` or `tx_` or bare.
impl PathId for ChargeId {
    fn parse(text: &str) -> Option<Self> {
        Self::parse_any(text).ok()
    }

    fn note(&self, context: &RequestContext) {
        context.set_charge(*self);
    }
}

/// Parses an id and stores it for the log line.
fn parsed<T: PathId>(text: &str, parts: &Parts) -> Option<T> {
    let id = T::parse(text)?;
    if let Some(context) = parts.extensions.get() {
        id.note(context);
    }
    Some(id)
}

/// The id in a path's first variable. `None`: the text is not an id of this type. In that case the extractor
/// still succeeds, because the handler must authenticate the caller before it answers 404.
#[derive(Clone, Copy, Debug)]
pub struct IdPath<T>(pub Option<T>);

impl<S: Send + Sync, T: PathId> FromRequestParts<S> for IdPath<T> {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let variables = RawPathParams::from_request_parts(parts, state).await.ok();
        let first = variables.as_ref().and_then(|variables| variables.iter().next());
        Ok(Self(first.and_then(|(_, text)| parsed(text, parts))))
    }
}

/// The ids in a path's only two variables. Each is `None` if its text is not an id of its type, as with
/// [`IdPath`].
#[derive(Clone, Copy, Debug)]
pub struct IdPair<A, B>(pub Option<A>, pub Option<B>);

impl<S: Send + Sync, A: PathId, B: FromStr> FromRequestParts<S> for IdPair<A, B> {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let texts: Option<Path<(String, String)>> = Path::from_request_parts(parts, state).await.ok();
        let Some(Path((first, second))) = texts else { return Ok(Self(None, None)) };
        Ok(Self(parsed(&first, parts), second.parse().ok()))
    }
}
