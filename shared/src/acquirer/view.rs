//! An acquirer's answers on the wire.

use serde::Serialize;
use serde_json::{Map, Value};

use domain::charge::{Charge, TransactionStatus};

use super::ProviderStatus;

/// What the acquirer says of a payment: `GET /v1/payments/{id}/provider-status`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderStatusView {
    local_status: TransactionStatus,
    provider: Option<&'static str>,
    provider_transaction_id: Option<String>,
    provider_status: Option<&'static str>,
    raw_response: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
}

impl ProviderStatusView {
    /// `None`: no acquirer ever heard of it.
    pub fn new(charge: &Charge, told: Option<ProviderStatus>) -> Self {
        let (provider, id, status, raw) = match told {
            Some(told) => {
                (Some(told.provider), Some(told.transaction_id), Some(told.status), told.raw_response)
            }
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
