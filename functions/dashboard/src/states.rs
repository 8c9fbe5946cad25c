//! The words and tones of states.

use domain::charge::{Charge, PublicStatus, TransactionStatus};
use domain::med::CaseStatus;
use domain::money::MinorUnits;
use domain::payment_method::PaymentMethod;
use domain::payout::PayoutStatus;
use domain::refund::RefundStatus;
use domain::report::ReportStatus;
use domain::wallet::ReturnStatus;
use effects::webhook::delivery::DeliveryStatus;
use effects::webhook::endpoint::EndpointStatus;
use maud::Markup;
use pages::{Language, Tone, Word, tag};

use crate::visit::Page;
use crate::words as w;

/// What a state is called, and how it looks.
pub(crate) trait State: Copy {
    fn shown(self) -> (Tone, Word);

    fn tag(self, language: Language) -> Markup {
        let (tone, word) = self.shown();
        tag(tone, language.say(word))
    }
}

/// The choice of a list that shows every state.
pub(crate) fn all(page: &Page) -> impl Iterator<Item = (&'static str, &'static str)> {
    std::iter::once(("", page.say(w::ALL)))
}

/// `Type { State => Tone, word; }`
macro_rules! states {
    ($($State:ty { $($state:pat => $tone:ident, $word:expr;)+ })+) => {
        $(impl State for $State {
            fn shown(self) -> (Tone, Word) {
                match self { $($state => (Tone::$tone, $word),)+ }
            }
        })+
    };
}

states! {
    PublicStatus {
        Self::Pending => Info, w::AWAITING;
        Self::Processing => Info, w::UNDER_WAY_OR_REVIEW;
        Self::Paid => Good, w::PAID;
        Self::Failed => Bad, w::DECLINED;
        Self::Expired => Calm, w::EXPIRED;
        Self::Cancelled => Calm, w::CANCELLED;
        Self::Refunded => Calm, w::REFUNDED;
        Self::Disputed => Warn, w::DISPUTED;
    }
    RefundStatus {
        Self::Pending | Self::InProgress => Info, w::IN_PROGRESS;
        Self::Refunded => Good, w::REFUNDED;
        Self::Failed => Bad, w::FAILED;
    }
    ReportStatus {
        Self::Pending => Info, w::PREPARING;
        Self::Ready => Good, w::READY;
        Self::Failed => Bad, w::FAILED;
    }
    ReturnStatus {
        Self::Requested => Info, w::RETURN_REQUESTED;
        Self::Returned => Calm, w::RETURNED;
        Self::Stopped => Warn, w::RETURN_STOPPED;
    }
    PayoutStatus {
        Self::Pending => Info, w::IN_PROGRESS;
        Self::Paid => Good, w::TRANSFERRED;
        Self::Failed => Bad, w::FAILED;
    }
    CaseStatus {
        Self::Open => Warn, w::CASE_OPEN;
        Self::Appealed => Info, w::CASE_APPEALED;
        Self::Accepted => Calm, w::CASE_ACCEPTED;
        Self::Rejected => Bad, w::CASE_LOST;
        Self::Closed => Calm, w::CASE_CLOSED;
    }
    DeliveryStatus {
        Self::Pending => Info, w::DELIVERY_PENDING;
        Self::Processing => Info, w::IN_PROGRESS;
        Self::Delivered => Good, w::DELIVERED;
        Self::Failed => Bad, w::FAILED;
        Self::Cancelled => Calm, w::CANCELLED;
    }
    EndpointStatus {
        Self::Active => Good, w::ACTIVE;
        Self::Inactive => Calm, w::PAUSED;
    }
}

/// The state of a charge for people: beside its status, what became of its money. Money by Pix is "devolvido", by card
/// "estornado".
pub(crate) fn of_charge(charge: &Charge) -> (Tone, Word) {
    let is_card = charge.method() == PaymentMethod::CreditCard;
    let is_partly_refunded = charge.funds.refunded().is_ok_and(MinorUnits::is_positive);
    match charge.status {
        TransactionStatus::Paid | TransactionStatus::Approved if is_partly_refunded => {
            (Tone::Warn, if is_card { w::PARTLY_REVERSED } else { w::PARTLY_REFUNDED })
        }
        TransactionStatus::Refunded if is_card => (Tone::Calm, w::REVERSED),
        TransactionStatus::Processing if charge.is_held_for_review() => (Tone::Info, w::IN_REVIEW),
        _ if charge.has_lost_dispute() => (Tone::Bad, w::DISPUTE_LOST),
        status => status.shown(),
    }
}

/// The words for money that goes back: a Pix is "devolvido", a card payment "estornado".
pub(crate) struct BackWords {
    pub(crate) action: Word,
    pub(crate) kind: Word,
    pub(crate) sum: Word,
    pub(crate) in_progress: Word,
    pub(crate) left: Word,
    pub(crate) nothing_left: Word,
    /// The state of a refund that reached the payer.
    done: Word,
}

const RETURN: BackWords = BackWords {
    action: w::REFUND,
    kind: w::KIND_REFUND,
    sum: w::REFUNDED_SUM,
    in_progress: w::REFUND_IN_PROGRESS,
    left: w::REFUNDABLE,
    nothing_left: w::NOTHING_TO_REFUND,
    done: w::REFUNDED,
};

const REVERSAL: BackWords = BackWords {
    action: w::REVERSE,
    kind: w::KIND_REVERSAL,
    sum: w::REVERSED_SUM,
    in_progress: w::REVERSAL_IN_PROGRESS,
    left: w::REVERSIBLE,
    nothing_left: w::NOTHING_TO_REVERSE,
    done: w::REVERSED_SUM,
};

impl BackWords {
    pub(crate) fn of(charge: &Charge) -> &'static Self {
        if charge.method() == PaymentMethod::CreditCard { &REVERSAL } else { &RETURN }
    }

    /// Of a refund whose charge may not have been read.
    pub(crate) fn of_refund(charge: Option<&Charge>) -> &'static Self {
        charge.map_or(&RETURN, Self::of)
    }

    pub(crate) fn shown(&self, status: RefundStatus) -> (Tone, Word) {
        let (tone, word) = status.shown();
        (tone, if status == RefundStatus::Refunded { self.done } else { word })
    }

    pub(crate) fn tag(&self, status: RefundStatus, language: Language) -> Markup {
        let (tone, word) = self.shown(status);
        tag(tone, language.say(word))
    }
}

pub(crate) fn charge_tag(charge: &Charge, language: Language) -> Markup {
    let (tone, word) = of_charge(charge);
    tag(tone, language.say(word))
}

/// In a list, whose names need the room.
pub(crate) fn short_tag(charge: &Charge, language: Language) -> Markup {
    let (tone, word) = of_charge(charge);
    let short = match charge.status {
        TransactionStatus::WaitingPayment => w::WAITS,
        TransactionStatus::Processing if !charge.is_held_for_review() => w::IN_PROGRESS,
        _ => word,
    };
    tag(tone, language.say(short))
}

impl State for TransactionStatus {
    fn shown(self) -> (Tone, Word) {
        match self {
            Self::Pending => (Tone::Info, w::PREPARING),
            // Such as a card holder's authentication. A review is a state of the charge: see `of_charge`.
            Self::Processing => (Tone::Info, w::UNDER_WAY),
            status => status.public().shown(),
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::med::CaseKind;
    use domain::vocabulary::Vocabulary;

    use super::*;
    use crate::disputes::kind_name;

    fn coded<T: Vocabulary>(shown: impl Fn(T) -> Word) -> Vec<(String, Word)> {
        T::vocabulary().into_iter().map(|(code, each)| (code.to_owned(), shown(each))).collect()
    }

    fn states<T: Vocabulary + State>() -> Vec<(String, Word)> {
        coded(|state: T| state.shown().1)
    }

    #[test]
    fn a_charge_in_authentication_is_under_way() {
        assert_eq!(TransactionStatus::Processing.shown().1.pt, "Pagamento em andamento");
    }

    #[test]
    fn every_state_has_words_in_three_languages_that_are_not_its_code() {
        let all = [
            states::<PublicStatus>(),
            states::<TransactionStatus>(),
            states::<RefundStatus>(),
            states::<PayoutStatus>(),
            states::<CaseStatus>(),
            states::<DeliveryStatus>(),
            states::<EndpointStatus>(),
            coded(w::of_role),
            coded(|kind: CaseKind| kind_name(kind)),
        ];
        for (code, word) in all.into_iter().flatten() {
            for text in [word.pt, word.es, word.en] {
                assert!(!text.is_empty() && !text.contains('_'), "{code}: {text}");
            }
            // A chargeback has no other name in Portuguese.
            for text in [word.pt, word.es] {
                assert!(code == "chargeback" || !text.eq_ignore_ascii_case(&code), "{code}: {text}");
            }
        }
    }
}
