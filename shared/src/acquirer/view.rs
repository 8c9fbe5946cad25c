//! The wire format of the status that an acquirer reports.

use serde::Serialize;
use serde_json::{Map, Value};

use domain::charge::{Charge, TransactionStatus};

use super::ProviderStatus;

/// The response to `GET /v1/payments/{id}/provider-status`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderStatusView {
    local_status: TransactionStatus,
    provider: Option<&'static str>,
    provider_transaction_id: Option<String>,
    provider_status: Option<String>,
    raw_response: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
}

impl ProviderStatusView {
    /// Builds the view. `reported` is `None` if the charge never reached an acquirer. In that case the view
    /// contains the error `TRANSACTION_HAS_NO_PROVIDER_REFERENCE` (contract: Errors).
    pub fn new(charge: &Charge, reported: Option<ProviderStatus>) -> Self {
        let (provider, id, status, raw) = match reported {
            Some(reported) => (
                Some(reported.provider),
                Some(reported.transaction_id),
                Some(reported.status),
                reported.raw_response,
            ),
            None => (None, None, None, Map::new()),
        };
        Self {
            local_status: charge.status,
            provider,
            error: provider.is_none().then_some("TRANSACTION_HAS_NO_PROVIDER_REFERENCE"),
            provider_transaction_id: id,
            provider_status: status,
            raw_response: raw,
        }
    }
}
