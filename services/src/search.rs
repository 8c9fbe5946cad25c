//! The search of the dashboard and of `admin charges find`: finds objects by what a person pastes from a receipt, an
//! e-mail or a log. It takes at most four requests and about 30 read units, one more request and 25 read units for a
//! number that may be an amount, and two more requests for a name of several words.

use std::str::FromStr;

use domain::charge::{Charge, IncomingPayment, LookupValue, StoredCharge};
use domain::ids::{
    ChargeId, DeliveryId, EndToEndId, EndpointId, EventId, MedCaseId, PayoutId, PostingId, RefundId,
};
use domain::med::MedCase;
use domain::money::{Currency, TypedAmount};
use domain::payout::Payout;
use domain::refund::Refund;
use domain::row::Key;
use domain::shard::ShardedScope;
use domain::tax_id::{Document, TaxId};
use domain::time::Timestamp;
use domain::wallet::Posting;

use serde::de::DeserializeOwned;

use futures_util::future::try_join_all;

use effects::webhook::delivery::Delivery;
use effects::webhook::endpoint::Endpoint;
use effects::webhook::event::Event;
use money::charge::{ChargeFilter, Charges};
use shared::http::Query;
use shared::store::{PageError, Store, StoreError};

/// The most charges of a result, and the most that are compared with an amount: 25 read units.
const MOST_HITS: usize = 25;

/// An e-mail address has at most so many characters; no other query is longer.
const MAX_CHARS: usize = 254;

/// The currencies in which movements are searched.
const CURRENCIES: [Currency; 5] =
    [Currency::BRL, Currency::EUR, Currency::USD, Currency::USDT, Currency::BTC];

/// What a text is searched as.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SearchQuery {
    /// A charge's or payment's id, or a txid.
    Charge(ChargeId),
    Refund(RefundId),
    Case(MedCaseId),
    Event(EventId),
    Delivery(DeliveryId),
    Endpoint(EndpointId),
    Posting(PostingId),
    Payout(PayoutId),
    /// Requests are not stored, so nothing is found.
    Request,
    Payment(EndToEndId),
    /// A document with 11 or 14 digits, without and with its punctuation.
    Document(Document, Document),
    Email(LookupValue),
    Amount(TypedAmount),
    Order(LookupValue),
}

impl SearchQuery {
    /// `None`: the text is blank or too long: an order number has at most 200 characters.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.chars().count() > MAX_CHARS {
            return None;
        }
        let id = text.to_lowercase();
        of_id(&id, Self::Refund)
            .or_else(|| of_id(&id, Self::Case))
            .or_else(|| of_id(&id, Self::Event))
            .or_else(|| of_id(&id, Self::Delivery))
            .or_else(|| of_id(&id, Self::Endpoint))
            .or_else(|| of_id(&id, Self::Posting))
            .or_else(|| of_id(&id, Self::Payout))
            .or_else(|| ChargeId::parse_any(of_checkout_page(&id).unwrap_or(&id)).ok().map(Self::Charge))
            .or_else(|| ChargeId::from_txid(&id).ok().map(Self::Charge))
            .or_else(|| id.starts_with("req_").then_some(Self::Request))
            .or_else(|| {
                (text.len() == 32 && text.starts_with('E')).then(|| of_id(text, Self::Payment)).flatten()
            })
            .or_else(|| document(text))
            .or_else(|| text.contains('@').then(|| Self::Email(LookupValue::email(text))))
            .or_else(|| amount(text).map(Self::Amount))
            .or_else(|| LookupValue::order(text).map(Self::Order))
    }

    /// The lists of charges in which the text is searched, at most four: a parameter of the list, and its value. The
    /// first with charges counts. A text of the form of another value may be an order number.
    fn lists(&self, text: &str) -> Vec<(&'static str, String)> {
        let text = text.trim();
        let order = |text: &str| LookupValue::order(text).map(|_| ("order_id", text.to_owned()));
        let by_order = order(text);
        let by_document = |document: &Document| ("customer_id", document.as_str().to_owned());
        match self {
            Self::Document(digits, typed) if digits == typed => {
                std::iter::once(by_document(digits)).chain(by_order).collect()
            }
            Self::Document(digits, typed) => [digits, typed].map(by_document).into(),
            Self::Email(_) => vec![("customer_email", text.to_owned())],
            Self::Amount(_) => vec![(BY_AMOUNT, text.to_owned())],
            Self::Charge(_) => by_order.into_iter().collect(),
            Self::Order(_) if LookupValue::name(text).is_some() => {
                by_order.into_iter().chain([(BY_NAME, text.to_owned())]).collect()
            }
            Self::Order(_) => {
                if let Some(number) = without_label(text) {
                    return by_order.into_iter().chain(order(number)).collect();
                }
                // A document of another country has any form.
                let by_document = Document::parse(text).as_ref().map(by_document);
                let amount = TypedAmount::parse(text).map(|_| (BY_AMOUNT, text.to_owned()));
                let other_case = in_other_case(text).as_deref().and_then(order);
                by_order.into_iter().chain(other_case).chain(by_document).chain(amount).collect()
            }
            Self::Refund(_)
            | Self::Case(_)
            | Self::Event(_)
            | Self::Delivery(_)
            | Self::Endpoint(_)
            | Self::Posting(_)
            | Self::Payout(_)
            | Self::Request
            | Self::Payment(_) => Vec::new(),
        }
    }
}

const BY_AMOUNT: &str = "amount";
const BY_NAME: &str = "customer_name";

/// The id in the address of a checkout page.
fn of_checkout_page(text: &str) -> Option<&str> {
    let (_, path) = text.split_once("/checkout/")?;
    path.split(['/', '?', '#']).next()
}

/// An order number that people write with a sign or word before it: `#123`, `pedido 123`.
fn without_label(text: &str) -> Option<&str> {
    const LABELS: [&str; 6] = ["pedido", "order", "nº", "n°", "no.", "#"];
    let mut rest = text;
    // Such as `pedido nº 123` and `Pedido #123`.
    for _ in 0..2 {
        let after = |label: &&str| {
            let (begin, after) = rest.split_at_checked(label.len())?;
            (begin.to_lowercase() == **label).then(|| after.trim_start_matches([' ', ':']))
        };
        let Some(after) = LABELS.iter().find_map(after) else { break };
        rest = after;
    }
    (rest.len() < text.len() && !rest.is_empty()).then_some(rest)
}

/// Order numbers are found as they were written. People type them in another case.
fn in_other_case(text: &str) -> Option<String> {
    let other = [text.to_uppercase(), text.to_lowercase()].into_iter().find(|other| other != text)?;
    text.contains(char::is_alphabetic).then_some(other)
}

/// `None`: the list does not accept the value, so it has no charge with it.
fn newest_of((name, value): &(&'static str, String)) -> Option<ChargeFilter> {
    let query = Query::parse(Some(&Query::parse(None).with(name, value)));
    ChargeFilter::parse_typed(&query).ok().map(|filter| filter.reading(MOST_HITS))
}

fn of_id<T: FromStr>(text: &str, query: fn(T) -> SearchQuery) -> Option<SearchQuery> {
    text.parse().ok().map(query)
}

fn document(text: &str) -> Option<SearchQuery> {
    let digits: String = text.chars().filter(|letter| !matches!(letter, '.' | '-' | '/')).collect();
    let is_document = matches!(digits.len(), 11 | 14) && digits.bytes().all(|byte| byte.is_ascii_digit());
    // With punctuation and wrong check digits, it is rather an order number.
    let valid = TaxId::from_typed(text);
    let is_document = valid.is_some() || (is_document && digits == text);
    let digits = valid.map_or(digits, |valid| valid.as_str().to_owned());
    let (digits, typed) = (Document::parse(&digits)?, Document::parse(text)?);
    is_document.then_some(SearchQuery::Document(digits, typed))
}

/// A text with a decimal comma or a currency. Without one, it is an order number.
fn amount(text: &str) -> Option<TypedAmount> {
    let is_amount = text.contains(',') || !text.starts_with(|c: char| c.is_ascii_digit());
    TypedAmount::parse(text).filter(|_| is_amount)
}

#[derive(Clone, Debug)]
pub enum SearchHit {
    Charge(Box<Charge>),
    /// A payment that belongs to no charge.
    Payment(Box<IncomingPayment>),
    Refund(Box<Refund>),
    Case(Box<MedCase>),
    Event(Box<Event>),
    Delivery(Box<Delivery>),
    Endpoint(Box<Endpoint>),
    Posting(Box<Posting>),
    Payout(Box<Payout>),
}

#[derive(Clone, Debug)]
pub struct SearchResult {
    /// Newest first.
    pub hits: Vec<SearchHit>,
    /// Only the newest charges were compared; the list of charges with the same filter has the others.
    pub has_more: bool,
}

/// Searches a scope. `salt`: the account's. `None`: the text is blank or too long.
pub async fn search(
    store: &Store,
    scope: &ShardedScope,
    salt: &[u8],
    text: &str,
    now: Timestamp,
) -> Result<Option<SearchResult>, StoreError> {
    let Some(query) = SearchQuery::parse(text) else { return Ok(None) };
    let charges = Charges::new(store.clone());
    let (mut hits, mut has_more) = (Vec::new(), false);
    if let Some(hit) = read_hit(store, &query, scope, now).await? {
        let charge = if let SearchHit::Payment(payment) = &hit { payment.charge_id() } else { None };
        let charge = charges.find(charge).await?;
        hits.push(charge.map_or(hit, |charge| SearchHit::Charge(Box::new(charge.read_at(now)))));
    }
    for filter in query.lists(text).iter().filter_map(newest_of) {
        if !hits.is_empty() {
            break;
        }
        let page = charges.list(scope, salt, &filter, None, now).await.map_err(of_page)?;
        has_more = page.next_cursor.is_some();
        hits.extend(page.items.into_iter().map(|charge| SearchHit::Charge(Box::new(charge))));
    }
    Ok(Some(SearchResult { hits, has_more }))
}

#[derive(Clone, Debug)]
pub enum Located {
    Hit(SearchHit),
    Charge(ChargeId),
    /// Several charges: the parameter of the list of charges that shows them, and its value.
    List(&'static str, String),
}

/// Like [`search`], but reads no charge that a list has, but for names and numbers that may be amounts. It takes at most
/// three requests at the same time. An amount leads to the list, which is read anyway.
pub async fn locate(
    store: &Store,
    scope: &ShardedScope,
    salt: &[u8],
    query: &SearchQuery,
    text: &str,
    now: Timestamp,
) -> Result<Option<Located>, StoreError> {
    let (charges, lists) = (Charges::new(store.clone()), query.lists(text));
    if let (SearchQuery::Amount(_), Some((name, value))) = (query, lists.first()) {
        return Ok(Some(Located::List(name, value.clone())));
    }
    let newest = async |list: &(&'static str, String)| match newest_of(list) {
        // The row of a name has one of its words.
        Some(filter) if matches!(list.0, BY_AMOUNT | BY_NAME) => {
            matching(&charges, scope, salt, &filter, now).await
        }
        Some(filter) => charges.newest_ids(scope, salt, &filter, 2).await,
        None => Ok(Vec::new()),
    };
    let (amounts, others): (Vec<_>, Vec<_>) = lists.into_iter().partition(|(name, _)| *name == BY_AMOUNT);
    let (hit, found) = tokio::join!(
        Box::pin(read_hit(store, query, scope, now)),
        Box::pin(try_join_all(others.iter().map(&newest))),
    );
    if let Some(hit) = hit? {
        return Ok(Some(Located::Hit(hit)));
    }
    for (list, found) in others.into_iter().zip(found?) {
        if let Some(located) = located(list, &found) {
            return Ok(Some(located));
        }
    }
    for list in amounts {
        let found = Box::pin(newest(&list)).await?;
        if let Some(located) = located(list, &found) {
            return Ok(Some(located));
        }
    }
    Ok(None)
}

fn located((name, value): (&'static str, String), found: &[ChargeId]) -> Option<Located> {
    match found {
        [] => None,
        [charge] => Some(Located::Charge(*charge)),
        _ => Some(Located::List(name, value)),
    }
}

/// The charges that a list begins with.
async fn matching(
    charges: &Charges,
    scope: &ShardedScope,
    salt: &[u8],
    filter: &ChargeFilter,
    now: Timestamp,
) -> Result<Vec<ChargeId>, StoreError> {
    let page = charges.list(scope, salt, filter, None, now).await.map_err(of_page)?;
    Ok(page.items.iter().map(|charge| charge.id).collect())
}

/// A search has no cursor.
fn of_page(error: PageError) -> StoreError {
    match error {
        PageError::Store(error) => error,
        PageError::UnknownCursor(what) => StoreError::Corrupt(what.to_owned()),
    }
}

/// The row with the searched id. `None`: there is none, it belongs to another scope, or it has expired.
async fn read_hit(
    store: &Store,
    query: &SearchQuery,
    scope: &ShardedScope,
    now: Timestamp,
) -> Result<Option<SearchHit>, StoreError> {
    let of = &scope.scope;
    let hit = match query {
        SearchQuery::Charge(id) => {
            let stored: Option<Box<StoredCharge>> = first(store, vec![Charge::key_of(*id)]).await?;
            stored.map(|charge| SearchHit::Charge(Box::new(charge.read_at(now))))
        }
        SearchQuery::Refund(id) => first(store, vec![Refund::key_of(*id)]).await?.map(SearchHit::Refund),
        SearchQuery::Case(id) => first(store, vec![MedCase::key_of(*id)]).await?.map(SearchHit::Case),
        SearchQuery::Payout(id) => first(store, vec![Payout::key_of(*id)]).await?.map(SearchHit::Payout),
        SearchQuery::Payment(id) => {
            first(store, vec![IncomingPayment::key_of(of, &id.clone().into())]).await?.map(SearchHit::Payment)
        }
        SearchQuery::Delivery(id) => {
            first(store, vec![Delivery::key_of(of, *id)]).await?.map(SearchHit::Delivery)
        }
        SearchQuery::Endpoint(id) => {
            first(store, vec![Endpoint::key_of(of, *id)]).await?.map(SearchHit::Endpoint)
        }
        SearchQuery::Event(id) => {
            let keys = scope.shards.shards().map(|shard| Event::key_of(of, shard, id.row_id()));
            first(store, keys.collect()).await?.map(SearchHit::Event)
        }
        SearchQuery::Posting(id) => {
            let key = |pk: String| {
                CURRENCIES.map(|currency| Key { pk: pk.clone(), sk: Posting::wallet_sort(currency, *id) })
            };
            let keys = scope.partitions(Posting::partition).into_iter().flat_map(key);
            first(store, keys.collect()).await?.map(SearchHit::Posting)
        }
        SearchQuery::Request
        | SearchQuery::Document(..)
        | SearchQuery::Email(_)
        | SearchQuery::Amount(_)
        | SearchQuery::Order(_) => None,
    };
    Ok(hit.filter(|hit| match hit {
        SearchHit::Charge(charge) => charge.scope == *of,
        SearchHit::Refund(refund) => refund.scope == *of,
        SearchHit::Case(case) => case.scope == *of,
        SearchHit::Payout(payout) => payout.scope == *of,
        SearchHit::Event(event) => event.is_kept(now),
        // Their keys contain the scope.
        SearchHit::Payment(_) | SearchHit::Delivery(_) | SearchHit::Endpoint(_) | SearchHit::Posting(_) => {
            true
        }
    }))
}

/// The first row of those keys, of which at most one has a row: the shard or currency may be unknown.
async fn first<R: DeserializeOwned>(store: &Store, keys: Vec<Key>) -> Result<Option<Box<R>>, StoreError> {
    Ok(store.get_in_order(&keys).await?.into_iter().next().map(Box::new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_searched_as_what_its_form_says() {
        let kind = |text: &str| SearchQuery::parse(text).map(|query| format!("{query:?}"));
        let prefix = |text: &str| kind(text).unwrap().split('(').next().unwrap().to_owned();
        for (text, expected) in [
            (" po_01kb5cpq4t0000000000000000 ", "Payout"),
            ("req_fe5392dd-e865-8656-a544-24ef3d590c1b", "Request"),
            ("E00000000202611211000abcdefghijk", "Payment"),
            ("29537995593", "Document"),
            ("295.379.955-93", "Document"),
            ("295.379.955-94", "Order"),
            ("2026-1127-000-001", "Order"),
            ("12.345.678/0001-95", "Document"),
            ("12.ABC.345/01DE-35", "Document"),
            ("12 abc 345 01de 35", "Document"),
            ("Maria@Example.com", "Email"),
            ("R$ 1.234,56", "Amount"),
            ("12,90", "Amount"),
            ("4711", "Order"),
            ("Pedido 12,9", "Order"),
            ("JPY 1.990", "Amount"),
            ("1.990", "Order"),
            ("evt_1", "Order"),
            ("https://pay.example.com/checkout/fe5392dd-e865-8656-a544-24ef3d590c1b?lang=en", "Charge"),
            ("Maria Souza", "Order"),
        ] {
            assert_eq!(prefix(text), expected, "{text}");
        }
        let lists = |text: &str| {
            let lists = SearchQuery::parse(text).unwrap().lists(text);
            lists.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
        };
        assert_eq!(lists("#123"), ["order_id=#123", "order_id=123"]);
        assert_eq!(lists("Pedido nº 123"), ["order_id=Pedido nº 123", "order_id=123"]);
        assert_eq!(lists("ab-1"), ["order_id=ab-1", "order_id=AB-1", "customer_id=ab-1"]);
        assert_eq!(lists("2500"), ["order_id=2500", "customer_id=2500", "amount=2500"]);
        assert_eq!(lists("129.90"), ["order_id=129.90", "customer_id=129.90", "amount=129.90"]);
        assert_eq!(lists("José"), ["order_id=José", "customer_name=José"]);
        let Some(SearchQuery::Document(bare, _)) = SearchQuery::parse("12.abc.345/01DE-35") else { panic!() };
        assert_eq!(bare.as_str(), "12ABC34501DE35");
        assert_eq!((kind(" "), kind(&"x".repeat(255))), (None, None));
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,300}") {
            let _ = SearchQuery::parse(&text);
        }
    }
}
