//! An example payout for tests.

use domain::ids::{AccountId, Mode, PayoutId, Scope};
use domain::money::{Amount, Currency};
use domain::payout::{Payout, PayoutStatus};
use domain::time::Timestamp;

/// Returns a pending payout of 1000 centavos, created on 2026-11-21 at noon UTC.
pub(crate) fn pending() -> Payout {
    let noon = Timestamp::parse_floor("2026-11-21T12:00:00Z").unwrap();
    Payout {
        id: PayoutId::new(noon, [7; 10]),
        scope: Scope { account: AccountId::new([7; 10]), mode: Mode::Test },
        amount: Amount::parse(1000).unwrap(),
        currency: Currency::BRL,
        reference: None,
        destination: None,
        status: PayoutStatus::Pending,
        failure_reason: None,
        created_at: noon,
        updated_at: noon,
        paid_at: None,
        booked_again: None,
        version: 1,
    }
}
