//! A line of a report, and its words.

use std::collections::HashMap;

use domain::charge::{Charge, PublicStatus, StoredCharge};
use domain::ids::ChargeId;
use domain::masking::without_documents;
use domain::med::{CaseStatus, MedCase};
use domain::money::{MinorUnits, MoneyError};
use domain::payment_method::{PaymentMethod, UpperCaseMethod};
use domain::payout::{Payout, PayoutStatus};
use domain::refund::RefundStatus;
use domain::time::Timestamp;
use domain::wallet::{Posting, PostingKind};
use serde::{Serialize, Serializer};

/// As JSON, it is a line of a file in that format.
#[derive(Serialize)]
pub(crate) struct Line {
    /// Of what the line is about; empty if it is a balance.
    pub(crate) id: String,
    #[serde(rename = "date")]
    pub(crate) at: Timestamp,
    #[serde(rename = "type")]
    pub(crate) kind: LineKind,
    #[serde(rename = "order_id")]
    pub(crate) order: Option<String>,
    #[serde(rename = "charge_id")]
    pub(crate) charge: Option<ChargeId>,
    pub(crate) end_to_end_id: Option<String>,
    pub(crate) method: Option<UpperCaseMethod>,
    #[serde(rename = "payer_name")]
    pub(crate) payer: Option<String>,
    /// `None`, as fee and net: the line is a balance.
    pub(crate) gross: Option<MinorUnits>,
    pub(crate) fee: Option<MinorUnits>,
    /// What refunds, those in progress too, and lost disputes took from a payment; `None`: another line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refunded: Option<MinorUnits>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dispute_lost: Option<MinorUnits>,
    pub(crate) net: Option<MinorUnits>,
    /// The merchant's money after a movement: available, pending and retained.
    pub(crate) balance: Option<MinorUnits>,
    pub(crate) note: Option<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum LineKind {
    /// The balance before the movements of a statement, and after them.
    Opening,
    Closing,
    Movement(PostingKind),
    Payment(PublicStatus),
    Refund(RefundStatus),
    Payout(PayoutStatus),
    Case(CaseStatus),
}

/// The words of an enum in Portuguese.
macro_rules! words {
    ($value:expr, $Type:ident { $($($Variant:ident)|+ = $word:literal),+ }) => {
        match $value { $($($Type::$Variant)|+ => $word),+ }
    };
}

impl LineKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening_balance",
            Self::Closing => "closing_balance",
            Self::Movement(kind) => kind.statement_type(),
            Self::Payment(status) => status.into(),
            Self::Refund(status) => status.into(),
            Self::Payout(status) => status.into(),
            Self::Case(status) => status.into(),
        }
    }

    fn in_portuguese(self) -> &'static str {
        match self {
            Self::Opening => "Saldo inicial",
            Self::Closing => "Saldo final",
            Self::Movement(kind) => words!(kind, PostingKind {
                Settlement = "Pagamento", Release = "Liberação", ReviewHold | ReviewReturn = "Em análise",
                UnappliedReceipt | ReturnCompleted = "Pagamento devolvido ao pagador",
                Refund | RefundCompleted = "Devolução", RefundCredit = "Crédito de tarifa de devolução",
                RefundFailed = "Devolução que falhou", CaseOpened = "Disputa aberta", CaseWon = "Disputa ganha",
                CaseLost = "Disputa perdida", Payout | PayoutPaid = "Repasse", PayoutFailed = "Repasse que falhou",
                Adjustment | DisputeFees | AcquirerCosts = "Ajuste", SelfCustody = "Pagamento na sua carteira",
                Fee = "Tarifa"
            }),
            Self::Payment(status) => words!(status, PublicStatus {
                Pending = "Pendente", Processing = "Em análise", Paid = "Paga", Failed = "Recusada",
                Expired = "Expirada", Cancelled = "Cancelada", Refunded = "Devolvida", Disputed = "Em disputa"
            }),
            Self::Refund(status) => words!(status, RefundStatus {
                Pending = "Pedida", InProgress = "Em andamento", Refunded = "Devolvida", Failed = "Falhou"
            }),
            Self::Payout(status) => words!(status, PayoutStatus {
                Pending = "Em andamento", Paid = "Pago", Failed = "Falhou"
            }),
            Self::Case(status) => words!(status, CaseStatus {
                Open = "Aberta", Appealed = "Contestada", Accepted = "Aceita", Rejected = "Perdida",
                Closed = "Encerrada"
            }),
        }
    }
}

impl Serialize for LineKind {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

pub(crate) type Charges = HashMap<ChargeId, StoredCharge>;

/// Texts of the merchant and of payers, without documents.
fn text(text: Option<String>) -> Option<String> {
    text.map(|text| without_documents(&text))
}

fn pix_id(charge: &Charge) -> Option<String> {
    let paid = charge.applied_payment.as_ref().filter(|paid| paid.method == PaymentMethod::Pix);
    paid.map(|paid| paid.payment_id.to_string())
}

impl Line {
    fn of(id: String, at: Timestamp, kind: LineKind, charge: Option<&Charge>) -> Self {
        Self {
            id,
            at,
            kind,
            order: text(charge.and_then(|charge| charge.metadata.order_number())),
            charge: charge.map(|charge| charge.id),
            end_to_end_id: charge.and_then(pix_id),
            method: charge.map(|charge| UpperCaseMethod(charge.method())),
            payer: text(charge.and_then(|charge| charge.customer.name.clone())),
            gross: None,
            fee: None,
            refunded: None,
            dispute_lost: None,
            net: None,
            balance: None,
            note: None,
        }
    }

    fn with_sums(self, gross: MinorUnits, fee: MinorUnits, net: MinorUnits, note: Option<String>) -> Self {
        Self { gross: Some(gross), fee: Some(fee), net: Some(net), note: text(note), ..self }
    }

    pub(crate) fn of_balance(kind: LineKind, at: Timestamp, balance: MinorUnits) -> Self {
        Self { balance: Some(balance), ..Self::of(String::new(), at, kind, None) }
    }

    pub(crate) fn of_posting(
        posting: &Posting,
        kind: LineKind,
        charges: &Charges,
    ) -> Result<Self, MoneyError> {
        let charge = posting.subject.charge.and_then(|id| charges.get(&id)).map(StoredCharge::as_stored);
        let at = posting.dated_at();
        let line = Self::of(posting.id.to_string(), at, kind, charge);
        let note = posting.subject.note.clone();
        let line = line.with_sums(posting.amount, posting.fee, posting.net()?, note);
        Ok(Self { charge: posting.subject.charge, ..line })
    }

    pub(crate) fn of_charge(charge: &Charge, at: Timestamp) -> Result<Self, MoneyError> {
        let gross = MinorUnits::from(charge.amount);
        let kind = LineKind::Payment(charge.status.public());
        let line = Self::of(charge.id.to_string(), at, kind, Some(charge));
        let Some(settlement) = charge.settlement else {
            return Ok(line.with_sums(gross, MinorUnits::ZERO, MinorUnits::ZERO, None));
        };
        let funds = &charge.funds;
        let fee_back = funds.acquirer_fee_returned.checked_add(funds.platform_fee_returned)?;
        let fee = gross.checked_sub(settlement.net(charge.amount))?.checked_sub(fee_back)?;
        let (refunded, lost) = (funds.refunded()?.checked_add(funds.in_progress()?)?, funds.med_lost);
        let net = gross.checked_sub(MinorUnits::checked_sum([fee, refunded, lost])?)?;
        let line = Self { refunded: Some(refunded), dispute_lost: Some(lost), ..line };
        Ok(line.with_sums(gross, fee, net, None))
    }

    pub(crate) fn of_payout(payout: &Payout) -> Self {
        let (amount, kind) = (MinorUnits::from(payout.amount), LineKind::Payout(payout.status));
        let line = Self::of(payout.id.to_string(), payout.created_at, kind, None);
        line.with_sums(amount, MinorUnits::ZERO, amount, payout.failure_reason.clone())
    }

    /// Its net is what the movements of the case add up to in the statement: nothing until money is lost.
    pub(crate) fn of_case(case: &MedCase, charges: &Charges) -> Result<Self, MoneyError> {
        let charge = charges.get(&case.id.charge()).map(StoredCharge::as_stored);
        let line = Self::of(case.id.to_string(), case.created_at, LineKind::Case(case.status), charge);
        let net = MinorUnits::ZERO.checked_sub(case.loss()?)?;
        let line = line.with_sums(case.amount.into(), MinorUnits::ZERO, net, case.reason.clone());
        Ok(Self { charge: Some(case.id.charge()), ..line })
    }

    /// The words of the kind. A card payment that goes back is reversed, another one is returned.
    pub(crate) fn in_portuguese(&self) -> &'static str {
        let is_card = matches!(self.method, Some(UpperCaseMethod(PaymentMethod::CreditCard)));
        match self.kind {
            LineKind::Movement(PostingKind::Refund | PostingKind::RefundCompleted) if is_card => "Estorno",
            LineKind::Movement(PostingKind::RefundCredit) if is_card => "Crédito de tarifa de estorno",
            LineKind::Movement(PostingKind::RefundFailed) if is_card => "Estorno que falhou",
            LineKind::Payment(PublicStatus::Refunded) if is_card => "Estornada",
            LineKind::Refund(RefundStatus::Pending) if is_card => "Pedido",
            LineKind::Refund(RefundStatus::Refunded) if is_card => "Estornado",
            kind => kind.in_portuguese(),
        }
    }

    /// What happened, to which order, by whom.
    pub(crate) fn description(&self) -> String {
        let order = self.order.as_deref().map(|order| format!("pedido {order}"));
        let words = [Some(self.in_portuguese()), order.as_deref(), self.payer.as_deref()];
        words.into_iter().chain([self.note.as_deref()]).flatten().collect::<Vec<_>>().join(" - ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pix_is_returned_and_a_card_payment_reversed() {
        let words = |method, kind| {
            let line = Line::of(String::new(), Timestamp::MIN, kind, None);
            Line { method: Some(UpperCaseMethod(method)), ..line }.in_portuguese()
        };
        for (kind, of_pix, of_card) in [
            (LineKind::Movement(PostingKind::Refund), "Devolução", "Estorno"),
            (LineKind::Payment(PublicStatus::Refunded), "Devolvida", "Estornada"),
            (LineKind::Refund(RefundStatus::Refunded), "Devolvida", "Estornado"),
            (LineKind::Refund(RefundStatus::Failed), "Falhou", "Falhou"),
        ] {
            let of_both = [PaymentMethod::Pix, PaymentMethod::CreditCard].map(|method| words(method, kind));
            assert_eq!(of_both, [of_pix, of_card]);
        }
    }
}
