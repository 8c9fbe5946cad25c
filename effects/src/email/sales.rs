//! Emails about live sales to the users who are subscribed to them. A sale is the settlement of a charge, as in the rollups.
//!
//! The sales of a minute cause one email to each user. It is sent when no further posting of that minute can be written
//! ([`domain::wallet::Posting::at`]), and its numbers are read from the postings, so that each sale is in one email,
//! however late its stream record is processed.

use domain::account::SalesEmails;
use domain::charge::Charge;
use domain::ids::{AccountId, Mode, Scope, UserId};
use domain::time::Timestamp;

use super::{Email, EmailTopic, MINUTE_SECONDS, Minute};

/// The minute of a live sale. One email to each user reports all its sales.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct SalesMinute {
    pub account: AccountId,
    minute: Minute,
}

impl SalesMinute {
    /// `None`: the change of the charge is no live sale.
    pub fn of(old: Option<&Charge>, new: &Charge) -> Option<Self> {
        let is_sale = new.scope.mode == Mode::Live && new.is_settled_since(old);
        // The posting of the settlement has the same time.
        is_sale.then(|| Self { account: new.scope.account, minute: Minute::of(new.updated_at) })
    }

    pub fn contains(self, at: Timestamp) -> bool {
        Minute::of(at) == self.minute
    }

    pub fn ends_at(self) -> Timestamp {
        self.minute.starts_at().saturating_plus_seconds(MINUTE_SECONDS)
    }

    pub fn scope(self) -> Scope {
        Scope { account: self.account, mode: Mode::Live }
    }

    pub fn email_to(self, user: UserId) -> Email {
        let at = self.minute.starts_at();
        Email { scope: self.scope(), about: EmailTopic::Sales(user), version: self.minute.0, at }
    }
}

impl Email {
    /// Returns the summary that a change of a user's row causes: it is due.
    pub fn for_summary(old: Option<&SalesEmails>, new: &SalesEmails) -> Option<Self> {
        let scope = Scope { account: new.account, mode: Mode::Live };
        let about = EmailTopic::SalesSummary(new.user);
        new.summary_since(old).map(|at| Self { scope, about, version: new.version, at })
    }

    /// The first and the last millisecond of the minute that an email about sales reports.
    pub fn minute(&self) -> (Timestamp, Timestamp) {
        let end = self.at.plus_millis(MINUTE_SECONDS.saturating_mul(1_000).saturating_sub(1));
        (self.at, end.unwrap_or(Timestamp::MAX))
    }
}

#[cfg(test)]
mod tests {
    use domain::money::Amount;

    use super::*;
    use crate::charge_testing::{at, paid, waiting};

    #[test]
    fn the_sales_of_a_minute_have_one_email_which_waits_for_the_last_posting() {
        let live = |charge: Charge| Charge { scope: Scope { mode: Mode::Live, ..charge.scope }, ..charge };
        let (before, after) = (live(waiting()), live(paid()));
        let minute = SalesMinute::of(Some(&before), &after).unwrap();
        let later = Charge { updated_at: minute.ends_at(), ..after.clone() };
        assert_ne!(SalesMinute::of(Some(&before), &later), Some(minute));
        assert_eq!(SalesMinute::of(Some(&waiting()), &paid()), None, "a sale of test mode");
        let refunded = Charge { amount: Amount::parse(900).unwrap(), ..after.clone() };
        assert_eq!(SalesMinute::of(Some(&after), &refunded), None, "a later change");
        let email = minute.email_to(UserId::from_email("ana@loja.example"));
        assert_eq!(minute.email_to(UserId::from_email("ana@loja.example")).id(), email.id());
        assert_ne!(minute.email_to(UserId::from_email("bia@loja.example")).id(), email.id());
        let (first, last) = email.minute();
        assert!((first..=last).contains(&after.updated_at) && last < minute.ends_at());
        assert_eq!(email.delay(first), std::time::Duration::from_secs(150));
        assert_eq!(email.delay(at(3_600)), std::time::Duration::ZERO);
    }
}
