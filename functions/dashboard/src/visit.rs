//! The session of a page. The reads of a page take three round trips: first the session beside what needs no
//! account ([`Visitor::enter`]), then the counter of pages beside the page's own reads ([`Visit::load`]), which
//! take up to two. Only a [`Page`] can be rendered, so that no page is shown without a session or uncounted.

use std::ops::Deref;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use domain::calendar::Day;
use domain::ids::{Mode, Scope};
use domain::pt_br;
use domain::shard::ShardedScope;
use domain::time::Timestamp;
use maud::{Markup, html};
use pages::forms::{Need, new_key};
use pages::kept::Form;
use pages::{
    ASK, Cell, Document, Language, Shell, Tone, Word, announced, done_words, empty, field_word, icon_of,
    table,
};
use shared::auth::dashboard::token::Claims;
use shared::auth::dashboard::{PAGES, Session, shown_mode};
use shared::http::{Problem, Query, RequestContext, Result};

use crate::App;
use crate::words as w;

const CURSOR: &str = "starting_after";

/// Where the pages before the shown one began, but for the first. No list has a filter that begins with `_`.
const BEFORE: &str = "_before";

/// How many rows a page has.
const LIMIT: &str = "limit";

/// What a page needs from the one before it, beside the cursor.
pub(crate) const CARRIED: &str = "_carried";

/// The oldest of more are dropped; the way back then ends at the first page.
const MOST_BEFORE: usize = 20;

/// A request with a signed token, which may have been revoked since.
pub(crate) struct Visitor {
    pub(crate) app: App,
    pub(crate) language: Language,
    pub(crate) mode: Mode,
    pub(crate) now: Timestamp,
    context: RequestContext,
    claims: Claims,
    here: String,
}

impl FromRequestParts<App> for Visitor {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self> {
        let Ok(context) = RequestContext::from_request_parts(parts, app).await;
        let now = app.clock.now();
        Ok(Self {
            claims: app.dashboard.claims_of_cookie(&parts.headers, now)?,
            language: Language::of(&parts.headers),
            mode: shown_mode(&parts.headers),
            here: parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
            app: app.clone(),
            now,
            context,
        })
    }
}

impl Visitor {
    /// The scope of the page, also before the session is proved.
    pub(crate) fn scope(&self) -> Scope {
        Scope { account: self.claims.account_id, mode: self.mode }
    }

    pub(crate) fn query(&self) -> Query {
        self.context.query.without_empty()
    }

    /// Proves the session. `first` is what the page reads meanwhile; it is dropped if the session has ended.
    pub(crate) async fn enter<T>(self, first: impl AsyncFnOnce(&Self) -> Result<T>) -> Result<(Visit, T)> {
        let session = Box::pin(self.app.dashboard.session(&self.claims, self.context.source));
        let (session, first) = tokio::join!(session, Box::pin(first(&self)));
        Ok((Visit { session: session?, visitor: self }, first?))
    }

    /// For the pages that a user sees before the second factor that the account demands is on.
    pub(crate) async fn enter_to_enrol(self) -> Result<Visit> {
        let session =
            Box::pin(self.app.dashboard.session_to_enrol(&self.claims, self.context.source)).await?;
        Ok(Visit { session, visitor: self })
    }

    /// For the pages that read nothing before the session is proved.
    pub(crate) async fn load<T>(self, reads: impl AsyncFnOnce(&Visit) -> Result<T>) -> Result<(Page, T)> {
        let session = Box::pin(self.app.dashboard.session(&self.claims, self.context.source)).await?;
        Visit { session, visitor: self }.load(reads).await
    }
}

/// A visitor whose session is proved.
pub(crate) struct Visit {
    pub(crate) session: Session,
    visitor: Visitor,
}

impl Deref for Visit {
    type Target = Visitor;

    fn deref(&self) -> &Visitor {
        &self.visitor
    }
}

impl Visit {
    pub(crate) fn sharded_scope(&self) -> ShardedScope {
        self.session.sharded_scope(self.mode)
    }

    /// Counts the page, and reads what it shows.
    pub(crate) async fn load<T>(self, reads: impl AsyncFnOnce(&Self) -> Result<T>) -> Result<(Page, T)> {
        let count = Box::pin(self.app.dashboard.count_request(PAGES, &self.session, &self.context, self.now));
        let (counted, read) = tokio::join!(count, Box::pin(reads(&self)));
        counted?;
        let read = read?;
        Ok((Page { key: new_key()?, visit: self }, read))
    }
}

/// A visit that is counted.
pub(crate) struct Page {
    /// Of the forms of this page.
    key: String,
    visit: Visit,
}

impl Deref for Page {
    type Target = Visit;

    fn deref(&self) -> &Visit {
        &self.visit
    }
}

impl Page {
    pub(crate) fn say(&self, word: Word) -> &'static str {
        self.language.say(word)
    }

    /// A time in a list: today and yesterday as words, else without the year. Its title has the whole time.
    pub(crate) fn when(&self, at: Timestamp) -> Markup {
        let (day, today) = (Day::of(at), Day::of(self.now));
        let (whole, hour) = (pt_br::format_short_minute(at), pt_br::format_time_of_day(at));
        let named = match day.days_until(today) {
            _ if day > today => None,
            0 => Some(w::TODAY_AT),
            1 => Some(w::YESTERDAY_AT),
            _ => None,
        };
        let (date, today) = (pt_br::format_day(day), pt_br::format_day(today));
        let date = match date.rsplit_once('/') {
            Some((short, year)) if today.ends_with(year) => short,
            _ => &date,
        };
        let shown = named.map_or_else(|| format!("{date} {hour}"), |word| self.language.fill(word, &[&hour]));
        html! { time datetime=(at.to_iso()) title={ (whole) ", Brasília (UTC-3)" } { (shown) } }
    }

    pub(crate) fn is_test(&self) -> bool {
        self.mode == Mode::Test
    }

    pub(crate) fn base_url(&self) -> &str {
        self.app.public_urls.api_base_url()
    }

    /// The command that makes a request of the API with the user's key.
    pub(crate) fn curl(&self, path: &str) -> String {
        format!("curl -s {}{path} -H 'apikey: ak_{}_…'", self.base_url(), self.mode)
    }

    pub(crate) fn curl_first_charge(&self) -> String {
        let request = self.curl("/v1/pix/charges");
        let headers = "-H 'Idempotency-Key: pedido-0001' -H 'Content-Type: application/json'";
        format!("{request} {headers} -d '{{\"amount\": 1990}}'")
    }

    pub(crate) fn may(&self, need: Need) -> bool {
        need.is_met(&self.session, self.mode)
    }

    /// See [`Need::is_shown`].
    pub(crate) fn shows(&self, need: Need) -> bool {
        need.is_shown(&self.session, self.mode)
    }

    /// The button of a form. It is disabled for a role that may not use it.
    pub(crate) fn submit(&self, button: (Word, &str), need: Need) -> Markup {
        self.form().submit(button, need)
    }

    /// A form with only a button. The mode that the page was drawn for is posted with it.
    pub(crate) fn button(&self, action: &str, button: (Word, &str), need: Need, more: &Markup) -> Markup {
        self.button_form(action, button, need, (None, more))
    }

    /// Like [`Page::button`], after a question.
    pub(crate) fn confirmed(&self, action: &str, button: (Word, &str), need: Need, question: Word) -> Markup {
        self.button_form(action, button, need, (Some(question), &html! {}))
    }

    pub(crate) fn button_form(
        &self,
        action: &str,
        button: (Word, &str),
        need: Need,
        (question, more): (Option<Word>, &Markup),
    ) -> Markup {
        if !self.shows(need) {
            return html! {};
        }
        let question = question.map(|question| self.say(question));
        html! {
            form method="post" action=(action) data-confirm=[question] {
                @if let Some(question) = question { (pages::hidden(ASK, question)) }
                (self.mode_field())
                (more)
                (self.submit(button, need))
            }
        }
    }

    /// With the key of the page's forms, and the page to return to if the form needs a log-in that is more recent.
    pub(crate) fn mode_field(&self) -> Markup {
        self.form().hidden()
    }

    pub(crate) fn form(&self) -> Form<'_> {
        let page = self.here.split('?').next().unwrap_or_default();
        let (language, mode) = (self.language, self.mode);
        Form { session: &self.session, language, mode, page, key: &self.key, refused: None }
    }

    pub(crate) fn table(&self, caption: Word, columns: &[(Cell, Word)], rows: Vec<Vec<Markup>>) -> Markup {
        let columns: Vec<_> = columns.iter().map(|(cell, word)| (*cell, self.say(*word))).collect();
        table(self.say(caption), &columns, rows)
    }

    /// The next step where nothing has been sold yet.
    pub(crate) fn new_charge(&self) -> Option<(&'static str, Word)> {
        self.may(Need::Member).then_some(("/dashboard/charges/new", w::NEW_CHARGE))
    }

    /// In place of a list without rows, with the icon of the page.
    pub(crate) fn empty(&self, text: Word, action: Option<(&str, Word)>) -> Markup {
        empty(icon_of(&self.here), self.say(text), action.map(|(href, word)| (href, self.say(word))))
    }

    /// The rows of a list, or what to do without any, and the link to older ones. Rows may follow a page without rows.
    pub(crate) fn list(
        &self,
        (caption, columns): (Word, &[(Cell, Word)]),
        rows: Vec<Vec<Markup>>,
        (none, action): (Word, Option<(&str, Word)>),
        older: Option<String>,
    ) -> Markup {
        html! {
            @if !rows.is_empty() { section.card { (self.table(caption, columns, rows)) } }
            @else if older.is_some() { (self.empty(w::NONE_HERE, None)) }
            @else { (self.empty(none, action)) }
            (self.paging((w::NEWER, w::OLDER), older))
        }
    }

    /// The links to the pages before and after the shown one. Lists are read forwards alone, so the URL has where each
    /// page before began, with what it carried.
    pub(crate) fn paging(&self, (back, on): (Word, Word), next: Option<String>) -> Markup {
        let (path, query) = (self.here.split('?').next().unwrap_or_default(), self.query());
        let carried = query.text(CARRIED).map_or_else(String::new, |carried| format!(":{carried}"));
        let began = query.text(CURSOR).map(|cursor| format!("{cursor}{carried}"));
        let before: Vec<&str> = query.text(BEFORE).map(|all| all.split(',').collect()).unwrap_or_default();
        let link = |path: &str, query: Query, before: &[&str]| {
            let query = if before.is_empty() { query } else { query.set(BEFORE, &before.join(",")) };
            format!("{path}?{}", query.encoded())
        };
        let previous = began.as_ref().map(|_| {
            let first = query.only(|name| ![BEFORE, CURSOR, CARRIED].contains(&name));
            let Some((last, rest)) = before.split_last() else { return link(path, first, &[]) };
            let (cursor, carried) = last.split_once(':').unwrap_or((last, ""));
            let page = first.set(CURSOR, cursor);
            link(path, if carried.is_empty() { page } else { page.set(CARRIED, carried) }, rest)
        });
        let next = next.map(|next| {
            let trail: Vec<&str> = before.iter().copied().chain(began.as_deref()).collect();
            let (path, query) = next.split_once('?').unwrap_or((&next, ""));
            let query = Query::parse(Some(query)).only(|name| name != BEFORE);
            link(path, query, trail.get(trail.len().saturating_sub(MOST_BEFORE)..).unwrap_or_default())
        });
        html! {
            @if previous.is_some() || next.is_some() {
                p {
                    @if let Some(href) = previous { a href=(href) rel="prev" { "← " (self.say(back)) } " " }
                    @if let Some(href) = next { a href=(href) rel="next" { (self.say(on)) " →" } }
                }
            }
        }
    }

    /// How many rows a page of a list has, for a list whose filter is that of the API.
    pub(crate) fn sizes(&self) -> Markup {
        let query = self.query().only(|name| ![BEFORE, CURSOR, CARRIED, LIMIT].contains(&name));
        let path = self.here.split('?').next().unwrap_or_default();
        let path = format!("{path}?{}", query.encoded());
        let chosen = self.query().text(LIMIT).map(ToOwned::to_owned).unwrap_or_default();
        let sizes = [("", "25"), ("50", "50"), ("100", "100")];
        pages::chips(
            self.say(w::ROWS_A_PAGE),
            (path.trim_end_matches('?'), LIMIT),
            &chosen,
            sizes.into_iter(),
        )
    }

    /// The filters of a list. The list comes first, so they are open only if one is refused; the heading names those
    /// that are set, with their days.
    pub(crate) fn filters(
        &self,
        path: &str,
        (query, names, is_refused): (&Query, &[&str], bool),
        fields: &Markup,
    ) -> Markup {
        let set = names.iter().filter(|name| query.text(name).is_some());
        let set = set.map(|name| {
            let word = field_word(name).map_or(*name, |word| self.say(word));
            let day = query.text(name).and_then(|day| day.parse::<Day>().ok()).map(pt_br::format_day);
            day.map_or_else(|| word.to_owned(), |day| format!("{word} {day}"))
        });
        let set: Vec<String> = set.collect();
        html! {
            details.card open[is_refused] {
                summary { (self.say(w::FILTERS)) @if !set.is_empty() { ": " strong { (set.join(", ")) } } }
                form.row method="get" action=(path) {
                    (fields)
                    button { (self.say(w::FILTER)) }
                    a.btn.quiet href=(path) { (self.say(w::CLEAR_FILTERS)) }
                }
            }
        }
    }

    /// Why a form or a filter was refused. The fields have the words of their labels.
    pub(crate) fn refusal<'a>(&self, code: &str, fields: impl Iterator<Item = &'a str>) -> Markup {
        let fields: Vec<&str> = fields.filter_map(field_word).map(|word| self.say(word)).collect();
        html! {
            (announced(Tone::Bad, &html! {
                (self.say(w::of_code(code))) @if !fields.is_empty() { " (" (fields.join(", ")) ")" }
            }))
        }
    }

    pub(crate) fn render(&self, title: &str, main: &Markup) -> Response {
        let (shell, query) = (Shell::of(&self.session, self.mode, &self.here), &self.context.query);
        let main = html! {
            @if let Some(code) = query.text("error") {
                (self.refusal(code, query.texts("field")))
            } @else if let Some(done) = query.text("done") {
                (announced(Tone::Good, &html! { (self.say(done_words(done))) }))
            }
            (main)
        };
        let language = self.language;
        let document = Document { language, title, shell: Some(&shell), main };
        pages::html(StatusCode::OK, document.render())
    }
}
