//! The events that a status change publishes (`docs/architecture.md`, The charge's states).

use super::event_type::EventType;
use crate::charge::TransactionStatus;
use crate::med::MedCase;
use crate::payout::PayoutStatus;
use crate::refund::RefundStatus;

/// Then a change to `PAID` is not a new payment, and a change to `REFUNDED` results from refunds, which publish
/// their own events.
fn was_settled(status: TransactionStatus) -> bool {
    match status {
        TransactionStatus::Paid
        | TransactionStatus::Approved
        | TransactionStatus::Refunded
        | TransactionStatus::Chargeback
        | TransactionStatus::Dispute => true,
        TransactionStatus::Pending
        | TransactionStatus::WaitingPayment
        | TransactionStatus::Processing
        | TransactionStatus::Refused
        | TransactionStatus::Cancelled
        | TransactionStatus::Expired => false,
    }
}

/// The canonical events of a charge's status change. For a new charge, `from` is `PENDING`. `by_refund`: a
/// refund made the change. A disputed charge that becomes `REFUNDED` because its last MED case ends publishes
/// nothing.
pub fn canonical_charge_events(
    from: TransactionStatus,
    to: TransactionStatus,
    by_refund: bool,
) -> Vec<EventType> {
    if from == to {
        return Vec::new();
    }
    let is_new = from == TransactionStatus::Pending;
    match to {
        TransactionStatus::WaitingPayment if is_new => vec![EventType::ChargeCreated],
        // A dispute that ends in the merchant's favour is not a second payment.
        TransactionStatus::Paid | TransactionStatus::Approved if was_settled(from) => Vec::new(),
        TransactionStatus::Paid | TransactionStatus::Approved if is_new => {
            vec![EventType::ChargeCreated, EventType::ChargePaid]
        }
        TransactionStatus::Paid | TransactionStatus::Approved => vec![EventType::ChargePaid],
        TransactionStatus::Refused | TransactionStatus::Cancelled => vec![EventType::ChargeFailed],
        TransactionStatus::Expired => vec![EventType::ChargeExpired],
        TransactionStatus::Refunded if by_refund || !is_disputed(from) => vec![EventType::ChargeRefunded],
        TransactionStatus::Pending
        | TransactionStatus::WaitingPayment
        | TransactionStatus::Processing
        | TransactionStatus::Refunded
        | TransactionStatus::Chargeback
        | TransactionStatus::Dispute => Vec::new(),
    }
}

fn is_disputed(status: TransactionStatus) -> bool {
    matches!(status, TransactionStatus::Dispute | TransactionStatus::Chargeback)
}

/// Returns the canonical events of a refund's change to a status.
pub fn refund_events(to: RefundStatus) -> Vec<EventType> {
    match to {
        RefundStatus::Pending => vec![EventType::RefundCreated],
        RefundStatus::InProgress => Vec::new(),
        RefundStatus::Refunded => vec![EventType::RefundSucceeded],
        RefundStatus::Failed => vec![EventType::RefundFailed],
    }
}

/// The legacy events of a charge's status change. For a new charge, `from` is `PENDING`, so one that is
/// finalised at once publishes `payment.status_changed` too, unlike a new payout. A settled charge that becomes
/// `REFUNDED` publishes only `payment.status_changed`, because each refund publishes its own
/// `payment.refunded`. Money that was never credited is returned without a refund, so the charge publishes it.
pub fn legacy_charge_events(from: TransactionStatus, to: TransactionStatus) -> Vec<EventType> {
    if from == to {
        return Vec::new();
    }
    let is_new = from == TransactionStatus::Pending;
    let mut events = match to {
        TransactionStatus::WaitingPayment if is_new => vec![EventType::PaymentCreated],
        TransactionStatus::Paid | TransactionStatus::Approved if was_settled(from) => Vec::new(),
        TransactionStatus::Paid | TransactionStatus::Approved if is_new => {
            vec![EventType::PaymentCreated, EventType::PaymentCompleted]
        }
        TransactionStatus::Paid | TransactionStatus::Approved => vec![EventType::PaymentCompleted],
        TransactionStatus::Expired => vec![EventType::PaymentExpired, EventType::PaymentFailed],
        TransactionStatus::Refused
        | TransactionStatus::Cancelled
        | TransactionStatus::Chargeback
        | TransactionStatus::Dispute => vec![EventType::PaymentFailed],
        // A refund publishes its own events. A payment that was never credited is returned without a refund.
        TransactionStatus::Refunded if !was_settled(from) => vec![EventType::PaymentRefunded],
        TransactionStatus::Pending
        | TransactionStatus::WaitingPayment
        | TransactionStatus::Processing
        | TransactionStatus::Refunded => Vec::new(),
    };
    events.push(EventType::PaymentStatusChanged);
    events
}

/// The events of a change of a MED case. `old` is `None` for a new case. Without `outcome_notices`, the
/// platform has turned off notifications of outcomes: no `med.resolved`, nor `med_case.updated` for a final
/// status.
pub fn case_events(old: Option<&MedCase>, new: &MedCase, outcome_notices: bool) -> Vec<EventType> {
    let Some(old) = old else { return vec![EventType::MedCaseCreated] };
    let mut events = Vec::new();
    let has_ended = new.status.is_over() && !old.status.is_over();
    let requests_evidence = new.evidence_requested_at != old.evidence_requested_at;
    if requests_evidence || (old.status != new.status && (outcome_notices || !has_ended)) {
        events.push(EventType::MedCaseUpdated);
    }
    if new.reminders.last() != old.reminders.last() {
        events.push(EventType::MedCaseDeadlineApproaching);
    }
    if has_ended && outcome_notices {
        events.push(EventType::MedResolved);
    }
    events
}

/// The canonical and the legacy events of a payout's status change. `from` is `None` for a new payout, whose
/// creation is not a change of its status.
pub fn payout_events(from: Option<PayoutStatus>, to: PayoutStatus) -> (Vec<EventType>, Vec<EventType>) {
    if from == Some(to) {
        return (Vec::new(), Vec::new());
    }
    match to {
        PayoutStatus::Pending => (vec![EventType::PayoutCreated], vec![EventType::WithdrawalCreated]),
        PayoutStatus::Paid => (
            vec![EventType::PayoutPaid],
            vec![EventType::WithdrawalCompleted, EventType::WithdrawalStatusChanged],
        ),
        PayoutStatus::Failed => (
            vec![EventType::PayoutFailed],
            vec![EventType::WithdrawalFailed, EventType::WithdrawalStatusChanged],
        ),
    }
}

#[cfg(test)]
mod tests {
    use TransactionStatus as Status;

    use super::*;

    const STATUSES: [Status; 11] = [
        Status::Pending,
        Status::WaitingPayment,
        Status::Processing,
        Status::Paid,
        Status::Approved,
        Status::Refused,
        Status::Cancelled,
        Status::Expired,
        Status::Refunded,
        Status::Chargeback,
        Status::Dispute,
    ];

    /// Events of each status change. The line is the status before, and the column the status after, both in
    /// the order of `STATUSES`:
    ///
    /// - `.` no event; `s` only `payment.status_changed`, which all letters below include;
    /// - `C` created; `P` paid; `B` created and paid; `F` failed; `X` expired; `R` returned to the payer;
    /// - `Z` refunded; `M` the same, but nothing in the canonical family if no refund made the change;
    /// - `D` failed in the legacy family only.
    const EXPECTED_EVENTS: [&str; 11] = [
        ". C s B B F F X R D D",
        "s . s P P F F X R D D",
        "s s . P P F F X R D D",
        "s s s . s F F X Z D D",
        "s s s s . F F X Z D D",
        "s s s P P . F X R D D",
        "s s s P P F . X R D D",
        "s s s P P F F . R D D",
        "s s s s s F F X . D D",
        "s s s s s F F X M . D",
        "s s s s s F F X M D .",
    ];

    fn names(events: &[EventType]) -> String {
        events.iter().map(|event| event.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_status_change_publishes_the_events_of_the_table() {
        for (from, line) in STATUSES.into_iter().zip(EXPECTED_EVENTS) {
            let cells: Vec<&str> = line.split(' ').collect();
            assert_eq!(cells.len(), STATUSES.len());
            for (to, cell) in STATUSES.into_iter().zip(cells) {
                let (canonical, legacy) = match cell {
                    "." => ("", ""),
                    "s" => ("", "payment.status_changed"),
                    "C" => ("charge.created", "payment.created payment.status_changed"),
                    "P" => ("charge.paid", "payment.completed payment.status_changed"),
                    "B" => (
                        "charge.created charge.paid",
                        "payment.created payment.completed payment.status_changed",
                    ),
                    "F" => ("charge.failed", "payment.failed payment.status_changed"),
                    "X" => ("charge.expired", "payment.expired payment.failed payment.status_changed"),
                    "R" => ("charge.refunded", "payment.refunded payment.status_changed"),
                    "Z" | "M" => ("charge.refunded", "payment.status_changed"),
                    "D" => ("", "payment.failed payment.status_changed"),
                    other => panic!("{other}"),
                };
                let of = |by_refund| names(&canonical_charge_events(from, to, by_refund));
                let without_refund = if cell == "M" { "" } else { canonical };
                assert_eq!([of(true), of(false)], [canonical, without_refund], "{from:?} to {to:?}");
                assert_eq!(names(&legacy_charge_events(from, to)), legacy, "{from:?} to {to:?}");
            }
        }
    }

    #[test]
    fn a_payout_change_publishes_one_canonical_event_and_its_legacy_forms() {
        let events = |from, to| {
            let (canonical, legacy) = payout_events(from, to);
            format!("{} | {}", names(&canonical), names(&legacy))
        };
        let pending = Some(PayoutStatus::Pending);
        assert_eq!(events(None, PayoutStatus::Pending), "payout.created | withdrawal.created");
        assert_eq!(
            events(pending, PayoutStatus::Paid),
            "payout.paid | withdrawal.completed withdrawal.status_changed"
        );
        assert_eq!(
            events(pending, PayoutStatus::Failed),
            "payout.failed | withdrawal.failed withdrawal.status_changed"
        );
        assert_eq!(events(pending, PayoutStatus::Pending), " | ");
    }
}
