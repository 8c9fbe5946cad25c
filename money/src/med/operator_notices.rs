//! MED notices whose Pix was not credited. An operator processes each once its Pix is credited, or dismisses
//! it.

use domain::audit::{Action, Operator};
use domain::charge::StoredCharge;
use domain::ids::{AccountId, ChargeId, MedCaseId};
use domain::med::MedNotice;
use domain::row::Key;
use domain::time::Timestamp;

use super::{CaseError, ContestedPix, MedCases};
use shared::audit;
use shared::store::{ListIndex, PageRange, StoreError, Write};

const PAGE: usize = 100;

/// Index entries, of about 200 bytes, that are read for a page of one account. The index has the notices of all
/// accounts.
const MAX_ENTRIES: usize = 10_000;

#[derive(Debug, thiserror::Error)]
pub enum NoticeError {
    #[error("the account has no such notice")]
    NotFound,
    #[error("the notice was processed already: it belongs to the case {0}")]
    Processed(MedCaseId),
    #[error("the notice was dismissed already; the adapter can report the infraction with a new `notice_id`")]
    Dismissed,
    #[error("the Pix is credited to the charge {0}; retry the notice instead")]
    Credited(ChargeId),
    #[error("{}", not_credited(.0))]
    NotCredited(ContestedPix),
    #[error(transparent)]
    Case(#[from] CaseError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn not_credited(pix: &ContestedPix) -> String {
    match pix {
        ContestedPix::Unknown => "no bank reported the Pix".to_owned(),
        ContestedPix::Unconfirmed => {
            "a notification named the Pix, but its bank has not confirmed it".to_owned()
        }
        ContestedPix::OtherAccount(account) => {
            format!("the Pix belongs to the account {account}; the adapter must send the notice to its URL")
        }
        ContestedPix::Unmatched => {
            "the Pix matches no charge; if `receipts list` shows it, use `receipts apply` first".to_owned()
        }
        ContestedPix::HeldForReview(charge) => {
            format!("the Pix is held for a review of the charge {charge}; end it with `review approve` first")
        }
        ContestedPix::Returned(charge) => {
            format!("the Pix was not credited to its charge {charge}; its payer gets it back")
        }
        ContestedPix::Credited(charge) => {
            format!("the Pix is credited to the charge {}", charge.as_stored().id)
        }
    }
}

impl MedCases {
    /// The notices that wait for an operator, newest first, at most 100 after `cursor`. Also returns whether
    /// more follow. The index is eventually consistent.
    pub async fn unmatched_notices(
        &self,
        account: Option<&AccountId>,
        cursor: Option<&MedNotice>,
    ) -> Result<(Vec<MedNotice>, bool), StoreError> {
        let cursor = cursor.map(MedNotice::unmatched_sort);
        let limit = if account.is_some() { MAX_ENTRIES } else { PAGE };
        let page = PageRange::newest_first(("0", "~"), cursor.as_deref(), limit);
        let list = (ListIndex::All, &[MedNotice::UNMATCHED_PARTITION.to_owned()][..]);
        let (mut entries, is_cut) = self.store.entries_page(list, page).await?;
        let wanted = account.map(MedNotice::partition_of);
        entries.retain(|entry| wanted.as_ref().is_none_or(|pk| entry.key.pk == *pk));
        let has_more = is_cut || entries.len() > PAGE;
        entries.truncate(PAGE);
        let keys: Vec<Key> = entries.into_iter().map(|entry| entry.key).collect();
        Ok((self.store.get_in_order(&keys).await?, has_more))
    }

    pub async fn get_notice(&self, account: &AccountId, notice_id: &str) -> Result<MedNotice, NoticeError> {
        let found = self.store.get(&MedNotice::key_of(account, notice_id)).await?;
        found.ok_or(NoticeError::NotFound)
    }

    /// Processes a notice whose Pix is credited meanwhile. A notice that was processed before is not changed.
    pub async fn retry_notice(
        &self,
        account: &AccountId,
        notice_id: &str,
        by: &Operator,
        now: Timestamp,
    ) -> Result<MedCaseId, NoticeError> {
        let mut update = self.store.start_update("a MED notice");
        loop {
            let notice = self.get_notice(account, notice_id).await?;
            if let Some(case) = notice.case {
                return Ok(case);
            }
            if notice.dismissed_at.is_some() {
                return Err(NoticeError::Dismissed);
            }
            let charge: StoredCharge = match self.contested_pix(&notice).await? {
                ContestedPix::Credited(charge) => *charge,
                elsewhere => return Err(NoticeError::NotCredited(elsewhere)),
            };
            // A crash after this step leaves the notice as it was. The next call finds the same case.
            let case = Box::pin(self.apply_notice(&notice, charge, now)).await?;
            let audit = audit::by_operator(by, *account, Action::RetryNotice(case), notice_id, now)?;
            let writes = vec![Write::replace(&notice.processed(case), notice.version)?, Write::audit(&audit)];
            if update.commit(writes).await? {
                return Ok(case);
            }
        }
    }

    /// Dismisses a notice, so that it is never processed. Refused when the notice concerns a charge, so that no
    /// case is lost.
    pub async fn dismiss_notice(
        &self,
        account: &AccountId,
        notice_id: &str,
        by: &Operator,
        now: Timestamp,
    ) -> Result<MedNotice, NoticeError> {
        let mut update = self.store.start_update("a MED notice");
        loop {
            let notice = self.get_notice(account, notice_id).await?;
            if let Some(case) = notice.case {
                return Err(NoticeError::Processed(case));
            }
            if notice.dismissed_at.is_some() {
                return Ok(notice);
            }
            if let ContestedPix::Credited(charge) = self.contested_pix(&notice).await? {
                return Err(NoticeError::Credited(charge.as_stored().id));
            }
            let next = notice.dismissed(now);
            let action = Action::DismissNotice(notice.end_to_end_id.clone());
            let audit = audit::by_operator(by, *account, action, notice_id, now)?;
            if update.commit(vec![Write::replace(&next, notice.version)?, Write::audit(&audit)]).await? {
                return Ok(next);
            }
        }
    }
}
