use serde::{Deserialize, Serialize};

/// What the stand-in does where no document states what Stripe does, and where accounts differ. `docs/laptop.md` has
/// both variants of each field.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each field is an independent variant")]
pub struct Behaviour {
    /// `None`: never.
    pub balance_transaction_after_s: Option<i64>,
    pub creates_payment_intent_with_session: bool,
    pub expires_during_payment: bool,
    pub expires_during_authentication: bool,
    pub expired_payment_intent: ExpiredPaymentIntent,
    pub processing_completes_session: bool,
    pub voucher_processing: VoucherProcessing,
    pub mb_way_waits_as_processing: bool,
    pub failed_refund_reopens_charge: bool,
    pub refund_returns_fee: bool,
    pub won_dispute_returns_fee: bool,
    pub dispute_ids_are_du: bool,
    /// Hundredths of a per cent. Other fees are in minor units.
    pub fee_basis_points: i64,
    pub fee_fixed: i64,
    pub dispute_fee: i64,
    pub available_after_s: i64,
    /// Millionths of the account's currency for 1 of another one, by minor units. `None`: each charge is settled in its
    /// own currency.
    pub exchange_rate_millionths: Option<u32>,
    /// What a restricted key lacks: the first part of a path and `read` or `write`, such as `refunds:write`. Without
    /// `read`, it lacks `write` too.
    pub missing_rights: Vec<String>,
}

/// The `PaymentIntent` of a session that expires unpaid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpiredPaymentIntent {
    #[default]
    Canceled,
    Kept,
    Cleared,
}

/// When the `PaymentIntent` of a boleto or Multibanco that is not confirmed is `processing`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VoucherProcessing {
    #[default]
    AfterExpiry,
    WhenAccepted,
    Never,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            balance_transaction_after_s: Some(0),
            creates_payment_intent_with_session: false,
            expires_during_payment: false,
            expires_during_authentication: true,
            expired_payment_intent: ExpiredPaymentIntent::Canceled,
            processing_completes_session: true,
            voucher_processing: VoucherProcessing::AfterExpiry,
            mb_way_waits_as_processing: false,
            failed_refund_reopens_charge: true,
            refund_returns_fee: false,
            won_dispute_returns_fee: false,
            dispute_ids_are_du: true,
            fee_basis_points: 399,
            fee_fixed: 39,
            dispute_fee: 5_500,
            available_after_s: 30 * 86_400,
            exchange_rate_millionths: None,
            missing_rights: Vec::new(),
        }
    }
}
