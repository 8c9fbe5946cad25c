//! Reads the log of requests: a page, one request, the requests with an id of a client, and the newest errors in groups.
//!
//! The entries of the index contain what requests are filtered and grouped by. So a page reads no rows but its own, and
//! the groups read none.

use domain::ids::{LoggedRequestId, Scope};
use domain::row::sortable;
use domain::time::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::{KEPT_SECONDS, LoggedRequest, key_of, list_partition, partition};
use crate::http::field::{CREATED_AFTER, CREATED_BEFORE, Count, Definitions, Field, LIMIT, Parsed};
use crate::http::{Fields, Problem, Query};
use crate::store::{ListEntry, ListIndex, ListPage, Order, PageRange, Result, from_item};

/// Entries read for a page with a filter: about 200 KB. If fewer match, the page is shorter although more may follow.
const FILTERED_WINDOW: usize = 1_000;

/// The most requests that are found by an id of a client.
const MOST_OF_CLIENT_ID: usize = 20;

/// The errors that are grouped: about 100 KB.
const MOST_GROUPED: usize = 500;

crate::fields! {
    STARTING_AFTER: Parsed<String> = "starting_after",
        Parsed::of(
            (56, 56), Some("^[0-9]{15}\\.req_[0-9a-f-]{36}$"), after, "must be the `next_cursor` of a page of this list",
        ),
        Optional, "001795341600000.req_67e55044-10b1-426f-9247-bb680e5fe0c8",
        "The cursor: the `next_cursor` of the previous page.";
    STATUS: Count = "status", Count { min: 200, max: 599, hint: "" }, Optional, 422,
        "Only requests that ended with this HTTP status.";
    CODE: Parsed<String> = "code",
        Parsed::of((1, 64), None, one_line::<64>, "must be the code of an error, such as invalid_request"),
        Optional, "invalid_request",
        "Only requests that ended with this `error.code`.";
    ROUTE: Parsed<String> = "route",
        Parsed::of((1, 128), None, one_line::<128>, "must be the pattern of a path, such as /v1/charges/{id}"),
        Optional, "/v1/charges/{id}",
        "Only requests of this route: the path as the reference shows it, with `{id}` in place of an id.";
    REQUEST_ID: Parsed<String> = "request_id",
        Parsed::of((1, 512), None, one_line::<512>, "must be 1 to 512 characters without control characters"),
        Optional, "order-1001-try-1",
        "Only requests with this `X-Request-Id`: the newest 20, on one page.";
}

const PAGE_SIZE: Field<Count> = Field {
    text: "The largest number of requests on a page. With a filter, a page may be shorter or empty while `has_more` is true.",
    ..LIMIT
};

pub const REQUESTS_QUERY: Definitions =
    &[&STATUS, &CODE, &ROUTE, &REQUEST_ID, &CREATED_AFTER, &CREATED_BEFORE, &PAGE_SIZE, &STARTING_AFTER];

/// `MOST`: the longest text, in characters.
fn one_line<const MOST: usize>(text: &str) -> Option<String> {
    let is_valid = (1..=MOST).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    is_valid.then(|| text.to_owned())
}

/// The beginning of the sort key of the cursor's entry.
fn after(cursor: &str) -> Option<String> {
    let (time, id) = cursor.split_once('.')?;
    let is_time = time.len() == 15 && time.bytes().all(|byte| byte.is_ascii_digit());
    (is_time && id.parse::<LoggedRequestId>().is_ok()).then(|| format!("{time}#{id}"))
}

#[derive(Clone, Debug)]
pub struct RequestFilter {
    limit: usize,
    starting_after: Option<String>,
    status: Option<u32>,
    code: Option<String>,
    route: Option<String>,
    request_id: Option<String>,
    created_after: Option<Timestamp>,
    created_before: Option<Timestamp>,
}

impl RequestFilter {
    /// Reports every failing parameter at once; an unknown parameter fails too.
    pub fn parse(query: &Query) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        query.allow_only(&mut fields, REQUESTS_QUERY);
        let filter = Self {
            limit: query.count(&mut fields, &PAGE_SIZE),
            starting_after: query.read(&mut fields, &STARTING_AFTER),
            status: query.read(&mut fields, &STATUS),
            code: query.read(&mut fields, &CODE),
            route: query.read(&mut fields, &ROUTE),
            request_id: query.read(&mut fields, &REQUEST_ID),
            created_after: query.read(&mut fields, &CREATED_AFTER),
            created_before: query.read(&mut fields, &CREATED_BEFORE),
        };
        fields.finish(Some(filter))
    }

    fn matches(&self, sort: &str) -> bool {
        let [_, _, status, _, route, code, _] = parts(sort);
        self.status.is_none_or(|wanted| wanted.to_string() == status)
            && self.code.as_deref().is_none_or(|wanted| wanted == code)
            && self.route.as_deref().is_none_or(|wanted| wanted == route)
    }

    /// The oldest and the newest sort key.
    fn range(&self, now: Timestamp) -> (String, String) {
        let from = self.created_after.unwrap_or(Timestamp::MIN).max(kept_since(now));
        (sortable(from), format!("{}#~", sortable(self.created_before.unwrap_or(Timestamp::MAX))))
    }

    /// The entries to read.
    fn window(&self) -> usize {
        let is_filtered = self.status.is_some() || self.code.is_some() || self.route.is_some();
        if is_filtered { FILTERED_WINDOW } else { self.limit }
    }
}

fn kept_since(now: Timestamp) -> Timestamp {
    now.saturating_plus_seconds(KEPT_SECONDS.saturating_neg())
}

/// Time, id, status, method, route, code and parameter of a sort key. The last one may contain any character.
fn parts(sort: &str) -> [&str; 7] {
    let mut parts = sort.splitn(7, '#');
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

fn cursor(entry: &ListEntry) -> String {
    let [time, id, ..] = parts(&entry.sort);
    format!("{time}.{id}")
}

/// Errors with the same code, field and route.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "RequestErrorGroup")]
pub struct ErrorGroup {
    /// The method, such as `POST`.
    pub method: String,
    /// The route, such as `/v1/charges/{id}`.
    pub route: String,
    /// `error.code`.
    pub code: String,
    /// `error.param`. Empty if the errors concern no single field.
    pub param: String,
    /// The number of errors.
    #[schemars(range(min = 1))]
    pub count: u32,
    /// When the first of them occurred.
    pub first_at: Timestamp,
    /// When the last of them occurred.
    pub last_at: Timestamp,
    /// The id of the last of these requests.
    pub last_id: String,
}

crate::store::repository! {
    RequestLog
}

impl RequestLog {
    pub async fn list(
        &self,
        scope: &Scope,
        filter: &RequestFilter,
        now: Timestamp,
    ) -> Result<ListPage<LoggedRequest, String>> {
        let (from, to) = filter.range(now);
        if let Some(id) = &filter.request_id {
            let mut items = self.of_request_id(scope, id, now).await?;
            items.retain(|request| {
                let sort = request.list_sort();
                filter.matches(&sort) && (from.as_str()..=to.as_str()).contains(&sort.as_str())
            });
            return Ok(ListPage { items, next_cursor: None });
        }
        let list = (ListIndex::All, &[list_partition(scope)][..]);
        let page = PageRange::newest_first((&from, &to), filter.starting_after.as_deref(), filter.window());
        let entries = self.store.entries_page(list, page).await?;
        let page = ListPage::of_matching(entries, filter.limit, |entry| filter.matches(&entry.sort), cursor);
        let keys: Vec<_> = page.items.into_iter().map(|entry| entry.key).collect();
        Ok(ListPage { items: self.store.get_in_order(&keys).await?, next_cursor: page.next_cursor })
    }

    /// `None`: there is no such request, or it is older than 7 days. DynamoDB removes its row some time later.
    pub async fn find(
        &self,
        scope: &Scope,
        id: Option<LoggedRequestId>,
        now: Timestamp,
    ) -> Result<Option<LoggedRequest>> {
        let found: Option<LoggedRequest> = self.store.find(id.map(|id| key_of(scope, id))).await?;
        Ok(found.filter(|request| request.expires_at() >= now))
    }

    /// The newest requests with an `X-Request-Id`, which is the client's or the service's own.
    async fn of_request_id(&self, scope: &Scope, id: &str, now: Timestamp) -> Result<Vec<LoggedRequest>> {
        let pk = partition(scope, &LoggedRequestId::group_of(id));
        let of_client = self.store.range(&pk, ("req_", "req_~"), Order::NewestFirst, MOST_OF_CLIENT_ID);
        let (of_client, own) = tokio::try_join!(of_client, self.find(scope, id.parse().ok(), now))?;
        let mut found: Vec<LoggedRequest> = of_client.into_iter().map(from_item).collect::<Result<_>>()?;
        found.retain(|request| request.expires_at() >= now);
        found.extend(own);
        Ok(found)
    }

    /// The groups of the newest errors, the one with the newest error first.
    pub async fn errors(&self, scope: &Scope, now: Timestamp) -> Result<Vec<ErrorGroup>> {
        let (list, from) = (list_partition(scope), sortable(kept_since(now)));
        let order = Order::NewestFirst;
        let read = self.store.list(ListIndex::All, &list, (&from, "~"), order, FILTERED_WINDOW).await?;
        let entries = read.iter().map(|entry| parts(&entry.sort));
        let mut groups: Vec<ErrorGroup> = Vec::new();
        for [at, id, _, method, route, code, param] in
            entries.filter(|[.., code, _]| !code.is_empty()).take(MOST_GROUPED)
        {
            let at = at.parse().ok().and_then(|at| Timestamp::from_millis(at).ok()).unwrap_or(Timestamp::MIN);
            let is_of = |group: &&mut ErrorGroup| {
                [&group.method, &group.route, &group.code, &group.param] == [method, route, code, param]
            };
            if let Some(group) = groups.iter_mut().find(is_of) {
                group.count = group.count.saturating_add(1);
                group.first_at = at;
                continue;
            }
            let [method, route, code, param, last_id] = [method, route, code, param, id].map(str::to_owned);
            groups.push(ErrorGroup {
                method,
                route,
                code,
                param,
                count: 1,
                first_at: at,
                last_at: at,
                last_id,
            });
        }
        Ok(groups)
    }
}
