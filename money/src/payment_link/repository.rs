//! Reads and writes payment links, their places, and the charges that payers make.

use domain::audit::Action;
use domain::charge::{Charge, StoredCharge};
use domain::hex;
use domain::ids::{ChargeId, PaymentLinkId, Scope};
use domain::payment_link::{LinkPayment, LinkTotals, MAX_PAYMENTS, NoPlace, PaymentLink, Places};
use domain::row::Key;
use domain::source_address::SourceAddress;
use domain::time::Timestamp;
use sha2::{Digest, Sha256};

use crate::charge::{ChargeError, Charges};
use crate::payment_link::request::{NewPaymentLink, PaymentLinkChange, PaymentLinkPage, below_used};
use shared::auth::Caller;
use shared::http::{Created, Problem};
use shared::request_limit::Window;
use shared::store::{
    CommitOutcome, Inserted, ListIndex, ListPage, PageError, PageRange, RowUpdate, StoreError, Write, number,
};

/// The places of the writes of a creation, and of a charge.
const LINK_WRITE: usize = 0;
const CHARGE_WRITE: usize = 0;

const COUNTER: &str = "charges";

/// A network address is stored as this many bytes of its hash.
const ADDRESS_BYTES: usize = 6;

shared::store::repository!(PaymentLinks);

/// What a payer finds at a link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Standing {
    Open,
    /// Inactive or past its end.
    Ended,
    NoPlace(NoPlace),
}

impl PaymentLinks {
    /// The link of a request, which is not stored.
    pub fn draft(caller: &Caller, key: &str, request: NewPaymentLink, now: Timestamp) -> PaymentLink {
        let id = PaymentLinkId::derive(&caller.salt, caller.scope.mode, key);
        request.link(id, caller.scope, now)
    }

    /// A replay of the key returns the link as it is now.
    pub async fn create(
        &self,
        caller: &Caller,
        link: PaymentLink,
        now: Timestamp,
    ) -> Result<Created<PaymentLink>, Problem> {
        let id = link.id;
        let audit = caller.audit(Action::CreatePaymentLink(caller.scope.mode), id, now)?;
        match self.store.commit(vec![Write::insert(&link)?, Write::audit(&audit)]).await? {
            CommitOutcome::Done => Ok(Created::New(link)),
            CommitOutcome::Conflict { at } if at.contains(&LINK_WRITE) => {
                let stored = self.find(Some(id)).await?.ok_or(Problem::Busy)?;
                let is_same = stored.request_hash == link.request_hash;
                if is_same { Ok(Created::Replayed(stored)) } else { Err(Problem::IdempotencyKeyReused) }
            }
            CommitOutcome::Conflict { .. } => Err(Problem::Busy),
        }
    }

    /// Reads a link of any scope.
    pub async fn find(&self, id: Option<PaymentLinkId>) -> Result<Option<PaymentLink>, StoreError> {
        self.store.find(id.map(PaymentLink::key_of)).await
    }

    /// 404 without a link of the scope with this id.
    pub async fn get(&self, scope: &Scope, id: Option<PaymentLinkId>) -> Result<PaymentLink, Problem> {
        let found = self.find(id).await?.filter(|link| link.scope == *scope);
        found.ok_or(Problem::NotFound { what: "payment link" })
    }

    pub async fn totals(&self, id: PaymentLinkId) -> Result<LinkTotals, StoreError> {
        Ok(self.store.get(&LinkTotals::key_of(id)).await?.unwrap_or_default())
    }

    /// The totals of links, in their order.
    pub async fn totals_of_all(&self, links: &[PaymentLink]) -> Result<Vec<LinkTotals>, StoreError> {
        let keys: Vec<Key> = links.iter().map(|link| LinkTotals::key_of(link.id)).collect();
        let totals = self.store.get_each(&keys).await?;
        Ok(totals.into_iter().map(Option::unwrap_or_default).collect())
    }

    /// Newest first.
    pub async fn list(
        &self,
        scope: &Scope,
        page: PaymentLinkPage,
    ) -> Result<ListPage<PaymentLink, PaymentLinkId>, PageError> {
        let cursor = match page.starting_after {
            Some(id) => {
                let found = self.find(Some(id)).await?.filter(|link| link.scope == *scope);
                let unknown = PageError::UnknownCursor("a payment link of this account and mode");
                Some(found.ok_or(unknown)?.list_sort())
            }
            None => None,
        };
        let partitions = [PaymentLink::list_partition(scope)];
        let range = PageRange::newest_first(("0", "~"), cursor.as_deref(), page.limit);
        let rows = self.store.rows_page((ListIndex::All, &partitions), range).await?;
        Ok(ListPage::of_matching(rows, page.limit, |_| true, |link: &PaymentLink| link.id))
    }

    /// Charges that were made before stay as they are. `check`: refuses a link whose charges would be refused.
    pub async fn change(
        &self,
        caller: &Caller,
        id: Option<PaymentLinkId>,
        (change, check): (&PaymentLinkChange, impl Fn(&PaymentLink) -> Result<(), Problem>),
        now: Timestamp,
    ) -> Result<PaymentLink, Problem> {
        let mut update = self.store.start_update("a payment link");
        loop {
            let stored = self.get(&caller.scope, id).await?;
            let next = change.apply(&stored, now)?;
            // A link that was made under other rules can be deactivated.
            if change.is_of_charges() {
                check(&next)?;
            }
            let audit = caller.audit(Action::ChangePaymentLink(caller.scope.mode), next.id, now)?;
            let mut writes = vec![Write::replace(&next, stored.version)?, Write::audit(&audit)];
            if let Some(max) =
                next.max_payments.filter(|max| stored.max_payments.is_some_and(|old| *max < old))
            {
                writes.push(self.fewer_places(next.id, max, now).await?);
            }
            if update.commit(writes).await? {
                return Ok(next);
            }
        }
    }

    /// The write of the places of a link that gets fewer. It conflicts with a charge that takes a place meanwhile, so the
    /// open charges and the payments are never more than the places. 400 if they are now.
    async fn fewer_places(&self, id: PaymentLinkId, max: u32, now: Timestamp) -> Result<Write, Problem> {
        let read = self.places(id).await?;
        let known = (read.version > 0).then_some(read.version);
        let places = self.updated(read, now).await?;
        let least = places.used();
        if least > max {
            return Err(below_used(least));
        }
        Ok(Write::put(&Places { version: places.version.saturating_add(1), ..places }, known)?)
    }

    /// Whether a payer can make a charge now. It writes nothing.
    pub async fn standing(&self, link: &PaymentLink, now: Timestamp) -> Result<Standing, StoreError> {
        if !link.is_open(now) {
            return Ok(Standing::Ended);
        }
        let Some(max) = link.max_payments else { return Ok(Standing::Open) };
        let places = self.places(link.id).await?;
        let checked = match places.check(max, None) {
            Err(NoPlace::Taken) => self.updated(places, now).await?.check(max, None),
            checked => checked,
        };
        Ok(checked.map_or_else(Standing::NoPlace, |()| Standing::Open))
    }

    async fn places(&self, link: PaymentLinkId) -> Result<Places, StoreError> {
        Ok(self.store.get(&Places::key_of(link)).await?.unwrap_or_else(|| Places::empty(link)))
    }

    /// Reads the charges that hold places.
    async fn updated(&self, places: Places, now: Timestamp) -> Result<Places, StoreError> {
        let ids: Vec<ChargeId> = places.taken.iter().map(|place| place.charge).collect();
        let charges = Charges::new(self.store.clone()).find_all(&ids).await?;
        let charges: Vec<Charge> = charges.into_iter().map(|charge| charge.read_at(now)).collect();
        Ok(places.updated(&charges))
    }

    /// Counts a form that a payer sent. `Err`: in so many seconds there may be another.
    pub async fn count_form(
        &self,
        link: PaymentLinkId,
        max: u16,
        now: Timestamp,
    ) -> Result<Result<(), i64>, StoreError> {
        let (minute, pk) = (Window::minute(now), PaymentLink::partition(link));
        let counted = minute.add(&self.store, pk, (COUNTER, 1), Some(i64::from(max))).await?;
        Ok(counted.map(drop).ok_or_else(|| minute.left(now)))
    }

    /// Inserts the charge of a payer, with its place if the link has places, or returns the stored one with the same id.
    pub async fn insert_charge(
        &self,
        link: &PaymentLink,
        charge: &Charge,
        source: &SourceAddress,
        now: Timestamp,
    ) -> Result<Result<Inserted<StoredCharge>, NoPlace>, ChargeError> {
        let charges = Charges::new(self.store.clone());
        if link.max_payments.is_none() {
            return Ok(Ok(charges.insert(charge).await?));
        }
        let address = (!source.is_unknown()).then(|| hash(link.id, source));
        let mut update = self.store.start_update("the places of a payment link");
        loop {
            if update.failed().contains(&CHARGE_WRITE) {
                return Ok(Ok(Inserted::Existing(charges.get_existing(charge.id).await?)));
            }
            let read = self.places(link.id).await?;
            let version = (read.version > 0).then_some(read.version);
            let mut places = read;
            // After the places, whose version changes when their number is lowered.
            let link = self.find(Some(link.id)).await?;
            let max = link.and_then(|link| link.max_payments).unwrap_or(MAX_PAYMENTS);
            if places.check(max, address.as_deref()).is_err() {
                places = self.updated(places, now).await?;
                if let Err(no_place) = places.check(max, address.as_deref()) {
                    let existing = charges.find(Some(charge.id)).await?;
                    return Ok(existing.map(Inserted::Existing).ok_or(no_place));
                }
            }
            let next = places.with(charge.id, address.clone());
            if update.commit(vec![Write::insert(charge)?, Write::put(&next, version)?]).await? {
                return Ok(Ok(Inserted::New));
            }
        }
    }

    /// Adds a payment to the totals of its link, once.
    pub async fn record(&self, payment: &LinkPayment) -> Result<(), StoreError> {
        let totals = RowUpdate::of(LinkTotals::key_of(payment.link))
            .add(LinkTotals::PAYMENTS, number(1))
            .add(LinkTotals::AMOUNT_PAID, number(payment.amount.minor()));
        let writes = vec![Write::insert(payment)?, Write::update(totals)];
        self.store.commit(writes).await.map(|_done_or_recorded| ())
    }
}

/// Of the network: an IPv6 address changes within one.
fn hash(link: PaymentLinkId, source: &SourceAddress) -> String {
    let digest = Sha256::digest(format!("{link} {}", source.network()).as_bytes());
    hex::encode(digest.get(..ADDRESS_BYTES).unwrap_or_default())
}
