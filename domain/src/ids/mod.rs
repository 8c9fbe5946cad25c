//! The types of ids. In serde every id is a string, spelled as in `Display`. Only a charge's id has more than
//! one spelling ([`ChargeId::parse_any`]).
//!
//! Most ids are a hash of their cause, such as an idempotency key. So a retry computes the same id and writes
//! nothing twice. Other ids contain random bits, which the caller passes in.

mod account;
mod api_key;
mod charge;
mod connection;
mod define;
mod payment;
mod payment_link;
mod report;
mod request;
mod ulid;
mod webhook;

pub use account::{AccountId, Mode, Scope, Scoped, UserId};
pub use api_key::{ApiKeyId, Fingerprint};
pub use charge::{ChargeId, MedCaseId, RawChargeId, RefundId};
pub use connection::ConnectionId;
pub use define::IdText;
pub(crate) use define::lookup_hash;
pub use payment::{AcquirerPaymentId, EndToEndId, ReturnId};
pub use payment_link::PaymentLinkId;
pub use report::{ReportId, ReportScheduleId};
pub use request::LoggedRequestId;
pub use ulid::{AuditId, EmailId, EvidenceId, PayoutId, PostingId, ProposalId};
pub use webhook::{DeliveryId, EndpointId, EventId, RecoveryId, ResendId};

/// The error for a text that is not an id of the expected type. It does not repeat the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be {expected}")]
pub struct IdError {
    /// The expected form, as shown in the message: for example `ch_ and a lower-case UUID`.
    pub expected: &'static str,
}

#[cfg(test)]
mod tests {
    use std::fmt::Display;
    use std::str::FromStr;

    use proptest::prelude::*;

    use super::*;

    /// Texts that are ids of some type, or nearly: prefixes, separators, and characters of all their alphabets.
    fn id_text() -> impl Strategy<Value = String> {
        let prefixes = [
            "", "acc_", "usr_", "key_", "con_", "ch_", "tx_", "re_", "med_", "mev_", "mv_", "po_", "aud_",
            "ntc_", "evt_", "wd_", "wh_", "rs_", "rc_", "rp_", "rps_", "pl_",
        ];
        let rest = prop_oneof![
            "[0-7][0-9a-hjkmnp-tv-z]{25}",
            "[0-9a-hjkmnp-tv-z]{16}(:(live|test)){0,2}",
            "[0-9a-hjkmnp-tv-z]{42}",
            "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            "[0-9a-f]{64}",
            "[ED][0-9]{8}20[0-9]{10}[A-Za-z0-9]{11}",
            "[0-9A-Za-z]{1,66}",
            ".{0,40}",
        ];
        (
            prop::sample::select(prefixes.to_vec()),
            rest,
            prop::option::weighted(0.2, (any::<prop::sample::Index>(), any::<char>())),
        )
            .prop_map(|(prefix, rest, other)| {
                let mut characters: Vec<char> = format!("{prefix}{rest}").chars().collect();
                if let Some((at, other)) = other.filter(|_| !characters.is_empty()) {
                    let at = at.index(characters.len());
                    characters[at] = other;
                }
                characters.into_iter().collect()
            })
    }

    /// Parses a text. If it is an id, its only spelling must be this text. Returns whether it is one.
    fn has_one_spelling<T: Display + FromStr>(text: &str) -> bool {
        let Ok(id) = text.parse::<T>() else { return false };
        assert_eq!(id.to_string(), text, "{}", std::any::type_name::<T>());
        true
    }

    proptest! {
        #[test]
        fn a_text_is_an_id_only_if_it_is_how_the_id_is_written(text in id_text()) {
            let types = [
                has_one_spelling::<AccountId>,
                has_one_spelling::<Scope>,
                has_one_spelling::<UserId>,
                has_one_spelling::<ApiKeyId>,
                has_one_spelling::<ConnectionId>,
                has_one_spelling::<ChargeId>,
                has_one_spelling::<RefundId>,
                has_one_spelling::<MedCaseId>,
                has_one_spelling::<EvidenceId>,
                has_one_spelling::<PostingId>,
                has_one_spelling::<PayoutId>,
                has_one_spelling::<AuditId>,
                has_one_spelling::<ProposalId>,
                has_one_spelling::<EmailId>,
                has_one_spelling::<EventId>,
                has_one_spelling::<DeliveryId>,
                has_one_spelling::<EndpointId>,
                has_one_spelling::<ResendId>,
                has_one_spelling::<RecoveryId>,
                has_one_spelling::<ReportId>,
                has_one_spelling::<ReportScheduleId>,
                has_one_spelling::<PaymentLinkId>,
            ];
            // No text is the id of two objects. Ids of banks have no prefix, so they are apart.
            prop_assert!(types.iter().filter(|parses| parses(&text)).count() <= 1, "{}", text);
            has_one_spelling::<EndToEndId>(&text);
            has_one_spelling::<ReturnId>(&text);
            has_one_spelling::<AcquirerPaymentId>(&text);
            if let Ok(id) = ChargeId::parse_any(&text) {
                let spellings = [id.to_string(), id.raw(), format!("tx_{}", id.raw())];
                prop_assert!(spellings.contains(&text));
            }
        }
    }
}
