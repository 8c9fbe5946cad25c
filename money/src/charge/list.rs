//! Lists charges newest first, with filters and a cursor. A page costs at most five DynamoDB requests,
//! including that for authentication, at most three of them in sequence. An account with several shards costs
//! one query for each shard instead of one.

use domain::charge::{
    Charge, IncomingPayment, Lookup, LookupValue, MAX_ORDER_CHARS, PublicStatus, StoredCharge,
    TransactionStatus,
};
use domain::ids::{ChargeId, ConnectionId, EndToEndId, PaymentLinkId};
use domain::money::{Amount, TypedAmount};
use domain::row::{Key, sortable};
use domain::shard::ShardedScope;
use domain::tax_id::{Document, TaxId};
use domain::time::Timestamp;

use crate::charge::Charges;
use shared::http::field::{
    CHARGE_ID, CREATED_AFTER, CREATED_BEFORE, Definitions, EMAIL_CHARS, LIMIT, MinorAmount, Parsed, Word,
    bank_id,
};
use shared::http::{Detail, Fields, Problem, Query};
use shared::store::{ListIndex, ListPage, Order, PageError, PageRange, StoreError, key_of_item, text};

/// Charges read for a page with a filter that no index or lookup row covers together with the others. That filter
/// is checked after the rows are read, and the page may have fewer charges than `limit` although more follow.
const FILTERED_WINDOW: usize = 200;
const STATUS_PAGE: usize = 100;

shared::fields! {
    STARTING_AFTER: Parsed<ChargeId> = "starting_after",
        CHARGE_ID, Optional, "ch_fe5392dd-e865-8656-a544-24ef3d590c1b",
        "The cursor: the `next_cursor` of the previous page, a charge id.";
    STATUS: Word<PublicStatus> = "status", Word::ALL, Optional, "paid",
        "Only charges with this status.";
    CUSTOMER_ID: Parsed<Document> = "customer_id",
        Parsed::of(
            (1, Document::MAX_CHARS), None, Document::parse, "must be 1 to 32 characters without surrounding spaces",
        ),
        Optional, "29537995593",
        "Only charges of this payer: the CPF or CNPJ without punctuation, or another document exactly as the charge's request sent it, as `expected_payer_tax_id` or else as `customer.document`. Together with `status`, a page may be shorter than `limit` while `has_more` is true.";
    ORDER_ID: Parsed<LookupValue> = "order_id",
        Parsed::of(
            (1, MAX_ORDER_CHARS), None, LookupValue::order, "must be 1 to 200 characters with a visible one",
        ),
        Optional, "4711",
        "Only charges with this order number: the metadata `order_id`, else `orderId`, `order` or `pedido`. A charge is found about a second after its creation.";
    CUSTOMER_EMAIL: Parsed<LookupValue> = "customer_email",
        Parsed::of(
            EMAIL_CHARS, None, |text| text.contains('@').then(|| LookupValue::email(text)),
            "must be an e-mail address, such as ana@example.com",
        ),
        Optional, "maria@example.com",
        "Only charges whose `customer.email` is this address, in upper or lower case. A charge is found about a second after its creation.";
    CUSTOMER_NAME: Parsed<LookupValue> = "customer_name",
        Parsed::of((1, 200), None, LookupValue::name, "must be letters and spaces, such as Maria Souza"),
        Optional, "Maria Souza",
        "Only charges whose `customer.name` begins or ends with this word, without regard to accents and case. Several words must be in the name in this order, and the name begins with the first or ends with the last of them. A charge is found about a second after its creation.";
    PAYMENT_LINK: Parsed<PaymentLinkId> = "payment_link",
        Parsed::id("must be a payment link id (pl_…)"), Optional, "pl_2yh2rd0p8dsvt5w7ywyqx4k21r",
        "Only charges that payers made at this payment link. A charge is found about a second after its creation.";
    END_TO_END_ID: Parsed<EndToEndId> = "end_to_end_id",
        bank_id(), Optional, "E00000000202611211000abcdefghijk",
        "Only the charge of the Pix with this end-to-end id, also if the payment was returned.";
    TXID: Parsed<ChargeId> = "txid",
        Parsed::of(
            (26, 26), Some("^[0-9A-Za-z]{26}$"), |text| ChargeId::from_txid(&text.to_lowercase()).ok(),
            "must be a txid of this service: 26 letters and digits",
        ),
        Optional, "7yae9dvt35gsbaah14xwynj30v",
        "Only the charge with this `pix.txid`.";
    AMOUNT: MinorAmount = "amount", MinorAmount, Optional, 1990,
        "Only charges of this amount in minor units. A page may be shorter than `limit` while `has_more` is true.";
}

pub const CHARGES_QUERY: Definitions = &[
    &STATUS,
    &CUSTOMER_ID,
    &ORDER_ID,
    &CUSTOMER_EMAIL,
    &CUSTOMER_NAME,
    &PAYMENT_LINK,
    &END_TO_END_ID,
    &TXID,
    &AMOUNT,
    &CREATED_AFTER,
    &CREATED_BEFORE,
    &LIMIT,
    &STARTING_AFTER,
];

#[derive(Clone, Debug)]
pub struct ChargeFilter {
    pub limit: usize,
    pub(crate) filtered_window: usize,
    /// The last charge of the previous page.
    pub starting_after: Option<ChargeId>,
    pub status: Option<PublicStatus>,
    pub created_after: Option<Timestamp>,
    pub created_before: Option<Timestamp>,
    /// The forms of the payer's document, any of which may be stored.
    pub(crate) customers: Vec<Document>,
    pub order: Option<LookupValue>,
    pub email: Option<LookupValue>,
    pub link: Option<LookupValue>,
    pub name: Option<LookupValue>,
    pub end_to_end_id: Option<EndToEndId>,
    pub txid: Option<ChargeId>,
    pub amount: Option<Amount>,
    pub(crate) typed_amount: Option<TypedAmount>,
}

enum Source<'a> {
    Charge(ChargeId),
    Payment(&'a EndToEndId),
    Lookup(&'a LookupValue),
    Index(ListIndex, Vec<String>),
}

pub type ChargePage = ListPage<Charge, ChargeId>;

impl ChargeFilter {
    /// A page of at most `most` charges, for which no more are read, also if no index covers all filters.
    #[must_use]
    pub fn reading(self, most: usize) -> Self {
        Self { limit: most, filtered_window: most, ..self }
    }

    /// Also finds a CPF or CNPJ that is stored without the punctuation with which a person typed it.
    #[must_use]
    pub fn with_bare_documents(mut self) -> Self {
        let bare = |document: &Document| {
            TaxId::from_typed(document.as_str()).map(Document::from).filter(|bare| bare != document)
        };
        let more: Vec<Document> = self.customers.iter().filter_map(bare).collect();
        self.customers.extend(more);
        self
    }

    /// Reports every invalid parameter at once. An unknown one is invalid too.
    pub fn parse(query: &Query) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        query.allow_only(&mut fields, CHARGES_QUERY);
        let filter = Self {
            limit: query.count(&mut fields, &LIMIT),
            filtered_window: FILTERED_WINDOW,
            starting_after: query.read(&mut fields, &STARTING_AFTER),
            status: query.read(&mut fields, &STATUS),
            created_after: query.read(&mut fields, &CREATED_AFTER),
            created_before: query.read(&mut fields, &CREATED_BEFORE),
            customers: query.read(&mut fields, &CUSTOMER_ID).into_iter().collect(),
            order: query.read(&mut fields, &ORDER_ID),
            email: query.read(&mut fields, &CUSTOMER_EMAIL),
            link: query.read(&mut fields, &PAYMENT_LINK).map(LookupValue::Link),
            name: query.read(&mut fields, &CUSTOMER_NAME),
            end_to_end_id: query.read(&mut fields, &END_TO_END_ID),
            txid: query.read(&mut fields, &TXID),
            amount: query.read(&mut fields, &AMOUNT),
            typed_amount: None,
        };
        fields.finish(Some(filter))
    }

    /// Like [`Self::parse`], but the amount is in the main unit of each charge's currency, as a person types it.
    pub fn parse_typed(query: &Query) -> Result<Self, Problem> {
        let typed = query.text(AMOUNT.name).map(TypedAmount::parse);
        if typed == Some(None) {
            return Err(Problem::InvalidAmount(vec![Detail::new(
                AMOUNT.name,
                "must be an amount, such as 129,90",
            )]));
        }
        let filter = Self::parse(&query.only(|name| name != AMOUNT.name))?;
        Ok(Self { typed_amount: typed.flatten(), ..filter })
    }

    /// Whether a charge has all values of the filter but the time of its creation and the end-to-end id.
    pub fn matches(&self, charge: &Charge) -> bool {
        self.status.is_none_or(|status| charge.status.public() == status)
            && (self.customers.is_empty()
                || self.customers.iter().any(|customer| charge.payer() == Some(customer.as_str())))
            && self.lookups().all(|value| value.is_of(charge))
            && self.txid.is_none_or(|id| charge.id == id)
            && self.amount.is_none_or(|amount| charge.amount == amount)
            && self
                .typed_amount
                .is_none_or(|typed| typed.minor(charge.currency) == Some(charge.amount.minor()))
    }

    fn lookups(&self) -> impl Iterator<Item = &LookupValue> {
        self.order.iter().chain(&self.email).chain(&self.link).chain(&self.name)
    }

    /// The one that has the fewest charges.
    fn source(&self, scope: &ShardedScope) -> Source<'_> {
        if let Some(id) = &self.end_to_end_id {
            return Source::Payment(id);
        }
        if let Some(id) = self.txid {
            return Source::Charge(id);
        }
        if let Some(value) = self.lookups().next() {
            return Source::Lookup(value);
        }
        let customers = self.customers.iter();
        let customers: Vec<String> =
            customers.map(|customer| Charge::customer_partition(&scope.scope, customer.as_str())).collect();
        match self.status {
            _ if !customers.is_empty() => Source::Index(ListIndex::ByCustomer, customers),
            Some(status) => {
                let statuses = status.transaction_statuses().iter();
                let partitions = statuses.flat_map(|status| status_partitions(scope, *status));
                Source::Index(ListIndex::ByStatus, partitions.collect())
            }
            None => Source::Index(ListIndex::All, scope.partitions(Charge::list_partition)),
        }
    }

    /// The number of charges to read for a page. The source covers one of the filters.
    fn window(&self) -> usize {
        let filters = [self.status.is_some(), !self.customers.is_empty()];
        let filters =
            filters.into_iter().filter(|is_set| *is_set).count().saturating_add(self.lookups().count());
        // The row of a name covers one of two words.
        let is_one_word = !matches!(&self.name, Some(LookupValue::Name(words)) if words.len() > 1);
        let is_covered = filters <= 1 && is_one_word;
        let is_covered = is_covered && self.amount.is_none() && self.typed_amount.is_none();
        if is_covered { self.limit } else { self.filtered_window }
    }
}

pub fn status_partitions(scope: &ShardedScope, status: TransactionStatus) -> Vec<String> {
    scope.partitions(|scope, shard| Charge::status_partition(scope, status, shard))
}

/// Both bounds are inclusive; `None` means no limit on that side.
pub fn sort_range(from: Option<Timestamp>, to: Option<Timestamp>) -> (String, String) {
    // DynamoDB refuses an empty string in a key condition; '0' sorts before every time.
    let from = from.map_or_else(|| "0".to_owned(), sortable);
    // An entry's sort key is a time, '#' and an id. '$' sorts after '#', so the range includes every entry of
    // the time `to`.
    (from, format!("{}$", sortable(to.unwrap_or(Timestamp::MAX))))
}

impl Charges {
    /// `cursor` is the charge with the id `starting_after`, which the caller has read. `salt`: the account's.
    /// [`PageError::UnknownCursor`] when no charge of this scope has that id.
    pub async fn list(
        &self,
        scope: &ShardedScope,
        salt: &[u8],
        filter: &ChargeFilter,
        cursor: Option<StoredCharge>,
        now: Timestamp,
    ) -> Result<ChargePage, PageError> {
        let cursor = cursor.map(|charge| charge.read_at(now)).filter(|charge| charge.scope == scope.scope);
        if filter.starting_after.is_some() && cursor.is_none() {
            return Err(PageError::UnknownCursor("a charge of this account and mode"));
        }
        let (from, to) = sort_range(filter.created_after, filter.created_before);
        let cursor = cursor.map(|charge| charge.list_sort());
        let (range, cursor) = ((from.as_str(), to.as_str()), cursor.as_deref());
        let page = PageRange::newest_first(range, cursor, filter.window());
        let rows = match filter.source(scope) {
            Source::Index(index, partitions) => self.store.rows_page((index, &partitions), page).await?,
            Source::Lookup(value) => {
                let mut found: (Vec<StoredCharge>, bool) = (Vec::new(), false);
                for partition in value.partitions(&scope.scope, salt) {
                    let (lookups, has_more) = self.store.items_page(&[partition], page).await?;
                    let charges = lookups.iter().filter_map(|item| Lookup::charge_of(&text(item, "sk")?));
                    let keys: Vec<Key> = charges.map(Charge::key_of).collect();
                    found = (self.store.get_in_order(&keys).await?, has_more);
                    if has_more || found.0.iter().any(|charge| filter.matches(charge.as_stored())) {
                        break;
                    }
                }
                found
            }
            Source::Charge(id) => (self.one_of(scope, Some(id), range, cursor).await?, false),
            Source::Payment(id) => {
                let payment = self.find_payment(&scope.scope, &id.clone().into()).await?;
                let id = payment.as_ref().and_then(IncomingPayment::charge_id);
                (self.one_of(scope, id, range, cursor).await?, false)
            }
        };
        Ok(ListPage::of_matching(
            read_at(rows, now),
            filter.limit,
            |charge| filter.matches(charge),
            |charge| charge.id,
        ))
    }

    /// Like [`Self::list`], but a page without charges is followed by the next one, at most `pages` in all.
    pub async fn list_on(
        &self,
        scope: &ShardedScope,
        salt: &[u8],
        (filter, cursor): (&ChargeFilter, Option<StoredCharge>),
        pages: usize,
        now: Timestamp,
    ) -> Result<ChargePage, PageError> {
        let (mut filter, mut page) = (filter.clone(), self.list(scope, salt, filter, cursor, now).await?);
        for _page in 1..pages {
            let Some(next) = page.next_cursor.filter(|_| page.items.is_empty()) else { break };
            filter.starting_after = Some(next);
            let cursor = self.find(Some(next)).await?;
            page = self.list(scope, salt, &filter, cursor, now).await?;
        }
        Ok(page)
    }

    /// The newest charges of the filter's only value, at most `most`, without their rows. It must be the value of an
    /// index or lookup row, without other filters.
    pub async fn newest_ids(
        &self,
        scope: &ShardedScope,
        salt: &[u8],
        filter: &ChargeFilter,
        most: usize,
    ) -> Result<Vec<ChargeId>, StoreError> {
        let (range, order) = (("0", "~"), Order::NewestFirst);
        let sorts: Vec<String> = match filter.source(scope) {
            Source::Index(index, partitions) => {
                let entries = self.store.list_of_each(index, &partitions, range, order, most).await?;
                entries.into_iter().map(|entry| entry.sort).collect()
            }
            Source::Lookup(value) => {
                let rows = self.store.range(&value.partition(&scope.scope, salt), range, order, most).await?;
                rows.iter().filter_map(key_of_item).map(|key| key.sk).collect()
            }
            Source::Charge(_) | Source::Payment(_) => Vec::new(),
        };
        Ok(sorts.iter().filter_map(|sort| Lookup::charge_of(sort)).collect())
    }

    /// The charge with this id, if the scope has it and it is after the cursor.
    async fn one_of(
        &self,
        scope: &ShardedScope,
        id: Option<ChargeId>,
        (from, to): (&str, &str),
        cursor: Option<&str>,
    ) -> Result<Vec<StoredCharge>, StoreError> {
        let is_listed = |stored: &StoredCharge| {
            let charge = stored.as_stored();
            let sort = charge.list_sort();
            let sort = sort.as_str();
            charge.scope == scope.scope
                && from <= sort
                && sort <= to
                && cursor.is_none_or(|cursor| sort < cursor)
        };
        Ok(self.find(id).await?.into_iter().filter(is_listed).collect())
    }

    /// Whether a charge that waits for its payment is at this connection, among the newest 100 that wait.
    pub async fn any_waiting_at(
        &self,
        scope: &ShardedScope,
        connection: ConnectionId,
    ) -> Result<bool, StoreError> {
        let partitions = status_partitions(scope, TransactionStatus::WaitingPayment);
        let list = (ListIndex::ByStatus, partitions.as_slice());
        let page = PageRange::newest_first(("0", "~"), None, STATUS_PAGE);
        let (rows, _) = self.store.rows_page::<StoredCharge>(list, page).await?;
        Ok(rows.iter().any(|charge| charge.as_stored().uses(connection)))
    }

    /// Newest first, after `cursor`. A page may contain few charges although more follow: charges whose card
    /// holders are authenticating have the same status and are left out.
    pub async fn held_for_review(
        &self,
        scope: &ShardedScope,
        cursor: Option<&StoredCharge>,
        now: Timestamp,
    ) -> Result<ChargePage, StoreError> {
        let cursor = cursor.map(|charge| charge.as_stored().list_sort());
        let partitions = status_partitions(scope, TransactionStatus::Processing);
        let list = (ListIndex::ByStatus, partitions.as_slice());
        let page = PageRange::newest_first(("0", "~"), cursor.as_deref(), STATUS_PAGE);
        let rows = self.store.rows_page(list, page).await?;
        Ok(ListPage::of_matching(read_at(rows, now), STATUS_PAGE, Charge::is_held_for_review, |charge| {
            charge.id
        }))
    }
}

fn read_at((rows, has_more): (Vec<StoredCharge>, bool), now: Timestamp) -> (Vec<Charge>, bool) {
    (rows.into_iter().map(|charge| charge.read_at(now)).collect(), has_more)
}
