//! The sandbox acquirer, behind every test key: real artefacts, no network.

use super::brcode::DynamicBrCode;
use crate::account::AccountSettings;
use crate::config::Links;
use crate::http::Problem;
use crate::ids::ChargeId;
use crate::money::Amount;

/// A dynamic BR Code on our own host, never somebody's key.
pub(super) fn pix_code(
    id: ChargeId,
    amount: Amount,
    settings: &AccountSettings,
    links: &Links,
) -> Result<String, Problem> {
    let code = DynamicBrCode {
        location: &links.pix_location(&id.txid()),
        amount: Some(amount),
        merchant_name: &settings.merchant_name,
        merchant_city: &settings.merchant_city,
    };
    code.encode().map_err(|error| Problem::Internal(format!("a BR Code can't be made: {error}")))
}
