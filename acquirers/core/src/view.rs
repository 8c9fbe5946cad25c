//! The wire formats of the status that an acquirer reports, and of the responses to notifications of banks.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use domain::charge::{Charge, TransactionStatus};
use domain::ids::MedCaseId;

use super::ProviderStatus;

/// The status of a payment at its acquirer.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "ProviderStatus")]
#[serde(rename_all = "camelCase")]
pub struct ProviderStatusView {
    /// The status of the payment in this service.
    local_status: TransactionStatus,
    /// The kind of acquirer. `null` if the payment never reached one.
    #[schemars(extend("enum" = ["sandbox", "pix", "card", "boleto", "multibanco", "mb_way", "crypto", null]))]
    provider: Option<&'static str>,
    /// The acquirer's id of the payment. `null` if the payment never reached an acquirer.
    provider_transaction_id: Option<String>,
    /// The status in the acquirer's own vocabulary. `null` if the payment never reached an acquirer.
    provider_status: Option<String>,
    /// The acquirer's response, without personal data. Empty if the payment never reached an acquirer.
    raw_response: Map<String, Value>,
    /// Present if the payment never reached an acquirer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "&str", extend("const" = "TRANSACTION_HAS_NO_PROVIDER_REFERENCE"))]
    error: Option<&'static str>,
}

impl ProviderStatusView {
    /// Builds the view. `reported` is `None` if the charge never reached an acquirer.
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

/// The confirmation that a bank's notification was stored: an empty object.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "NotificationStored")]
pub struct NotificationView {}

/// The MED case that a notice changed.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "ProcessedMedNotice")]
pub struct NoticeView {
    /// The case's id.
    pub case: MedCaseId,
}
