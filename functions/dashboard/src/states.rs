//! The words and tones of states.

use domain::charge::{PublicStatus, TransactionStatus};
use domain::med::CaseStatus;
use domain::payout::PayoutStatus;
use domain::refund::RefundStatus;
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

impl State for PublicStatus {
    fn shown(self) -> (Tone, Word) {
        match self {
            Self::Pending => (Tone::Info, w::AWAITING),
            Self::Processing => (Tone::Info, w::IN_REVIEW),
            Self::Paid => (Tone::Good, w::PAID),
            Self::Failed => (Tone::Bad, w::DECLINED),
            Self::Expired => (Tone::Calm, w::EXPIRED),
            Self::Cancelled => (Tone::Calm, w::CANCELLED),
            Self::Refunded => (Tone::Calm, w::REFUNDED),
            Self::Disputed => (Tone::Warn, w::DISPUTED),
        }
    }
}

impl State for TransactionStatus {
    fn shown(self) -> (Tone, Word) {
        match self {
            Self::Pending => (Tone::Info, w::PREPARING),
            status => status.public().shown(),
        }
    }
}

impl State for RefundStatus {
    fn shown(self) -> (Tone, Word) {
        match self {
            Self::Pending | Self::InProgress => (Tone::Info, w::IN_PROGRESS),
            Self::Refunded => (Tone::Good, w::REFUNDED),
            Self::Failed => (Tone::Bad, w::FAILED),
        }
    }
}

impl State for ReturnStatus {
    fn shown(self) -> (Tone, Word) {
        match self {
            Self::Requested => (Tone::Info, w::RETURN_REQUESTED),
            Self::Returned => (Tone::Calm, w::RETURNED),
            Self::Stopped => (Tone::Warn, w::RETURN_STOPPED),
        }
    }
}

impl State for PayoutStatus {
    fn shown(self) -> (Tone, Word) {
        match self {
            Self::Pending => (Tone::Info, w::IN_PROGRESS),
            Self::Paid => (Tone::Good, w::TRANSFERRED),
            Self::Failed => (Tone::Bad, w::FAILED),
        }
    }
}

impl State for CaseStatus {
    fn shown(self) -> (Tone, Word) {
        match self {
            Self::Open => (Tone::Warn, w::CASE_OPEN),
            Self::Appealed => (Tone::Info, w::CASE_APPEALED),
            Self::Accepted => (Tone::Calm, w::CASE_ACCEPTED),
            Self::Rejected => (Tone::Bad, w::CASE_LOST),
            Self::Closed => (Tone::Calm, w::CASE_CLOSED),
        }
    }
}

impl State for DeliveryStatus {
    fn shown(self) -> (Tone, Word) {
        match self {
            Self::Pending => (Tone::Info, w::DELIVERY_PENDING),
            Self::Processing => (Tone::Info, w::IN_PROGRESS),
            Self::Delivered => (Tone::Good, w::DELIVERED),
            Self::Failed => (Tone::Bad, w::FAILED),
            Self::Cancelled => (Tone::Calm, w::CANCELLED),
        }
    }
}

impl State for EndpointStatus {
    fn shown(self) -> (Tone, Word) {
        match self {
            Self::Active => (Tone::Good, w::ACTIVE),
            Self::Inactive => (Tone::Calm, w::PAUSED),
        }
    }
}
