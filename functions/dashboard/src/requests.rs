//! The log of requests: errors in groups, the list, and one request.

use axum::response::Response;
use domain::ids::LoggedRequestId;
use maud::{Markup, html};
use pages::{Cell, Tone, code_block, copy_button, facts, tag, time};
use shared::http::{IdPath, Problem, Query, Result};
use shared::request_log::{ErrorGroup, REQUESTS_QUERY, RequestFilter};

use crate::charges::field;
use crate::visit::{Page, Visitor};
use crate::webhooks::pretty;
use crate::words as w;

const PATH: &str = "/dashboard/requests";
const DEVELOPERS: &str = "/dashboard/developers";
const FILTERS: [&str; 6] = ["status", "code", "route", "request_id", "created_after", "created_before"];

/// The most groups on the page, so that it stays under 30 KB.
const MOST_GROUPS: usize = 20;

pub(crate) async fn list(visitor: Visitor) -> Result<Response> {
    let query = visitor.query().known(REQUESTS_QUERY);
    let filter = RequestFilter::parse(&query);
    let (page, (groups, list)) = visitor
        .load(async |visit| {
            let (log, scope) = (&visit.app.requests, visit.scope());
            let groups = Box::pin(log.errors(&scope, visit.now));
            let Ok(filter) = &filter else { return Ok((groups.await?, None)) };
            let (groups, list) = tokio::try_join!(groups, Box::pin(log.list(&scope, filter, visit.now)))?;
            Ok((groups, Some(list)))
        })
        .await?;
    let columns = [
        (Cell::Time, w::WHEN),
        (Cell::Main, w::ROUTE),
        (Cell::State, w::STATE),
        (Cell::Other, w::ERROR),
        (Cell::Other, w::FIELD),
    ];
    let main = html! {
        p.crumb { a href=(DEVELOPERS) { (page.say(w::DEVELOPERS)) } }
        div.head { h1 { (page.say(w::REQUESTS)) } p { a href="/docs/failed-requests" { (page.say(w::GUIDE)) } } }
        p { (page.say(w::REQUESTS_MEAN)) }
        @if !groups.is_empty() { (groups_table(&page, &groups)) }
        @if let Err(problem) = &filter { (page.refusal(problem.code(), problem.params().into_iter())) }
        (filters(&page, &query))
        @if let Some(list) = list {
            @let next = list.next_cursor.map(|cursor| format!("{PATH}?{}", query.with("starting_after", &cursor)));
            @let rows = list.items.iter().map(|request| vec![
                time(request.created_at),
                html! { a href={ (PATH) "/" (request.id) } { code { (request.method) " " (request.route) } } },
                state(&page, request.status),
                code(request.code.as_deref()),
                code(request.param.as_deref()),
            ]);
            (page.list((w::REQUESTS, &columns), rows.collect(), (w::NO_REQUESTS, Some(("/docs", w::GUIDE))), next))
        }
    };
    let mut response = page.render(page.say(w::REQUESTS), &main);
    if let Err(problem) = filter {
        *response.status_mut() = problem.status();
    }
    Ok(response)
}

/// Codes, names and ids of the API are the same in each language.
fn code(text: Option<&str>) -> Markup {
    html! { @if let Some(text) = text.filter(|text| !text.is_empty()) { code { (text) } } }
}

fn state(page: &Page, status: u16) -> Markup {
    let (tone, word) = if status < 400 { (Tone::Good, w::SUCCEEDED) } else { (Tone::Bad, w::ERROR) };
    html! { (tag(tone, page.say(word))) " " (status) }
}

fn groups_table(page: &Page, groups: &[ErrorGroup]) -> Markup {
    let rows = groups.iter().take(MOST_GROUPS).map(|group| {
        let filter = Query::parse(None).with("code", &group.code);
        let filter = Query::parse(Some(&filter)).with("route", &group.route);
        vec![
            html! { a href={ (PATH) "?" (filter) } { (code(Some(&group.code))) } },
            code(Some(&group.param)),
            html! { code { (group.method) " " (group.route) } },
            html! { (group.count) },
            time(group.first_at),
            time(group.last_at),
        ]
    });
    let columns = [
        (Cell::Main, w::ERROR),
        (Cell::Other, w::FIELD),
        (Cell::Other, w::ROUTE),
        (Cell::Amount, w::TIMES),
        (Cell::Time, w::FIRST_TIME),
        (Cell::Time, w::LAST_TIME),
    ];
    html! { section.card { (page.table(w::ERRORS, &columns, rows.collect())) } }
}

fn filters(page: &Page, query: &Query) -> Markup {
    let fields = html! {
        @for name in FILTERS {
            @let label = pages::field_word(name).map_or(name, |word| page.say(word));
            (field((name, if name.starts_with("created") { "date" } else { "text" }, label), query, None))
        }
    };
    page.filters(PATH, (query, &FILTERS, false), &fields)
}

pub(crate) async fn show(visitor: Visitor, IdPath(id): IdPath<LoggedRequestId>) -> Result<Response> {
    let (page, found) =
        visitor.load(async |visit| Ok(visit.app.requests.find(&visit.scope(), id, visit.now).await?)).await?;
    let request = found.ok_or(Problem::NotFound { what: "logged request" })?;
    let title = format!("{} {}", request.method, request.route);
    let error = request.code.as_deref();
    let main = html! {
        p.crumb {
            a href=(DEVELOPERS) { (page.say(w::DEVELOPERS)) } " / " a href=(PATH) { (page.say(w::REQUESTS)) }
        }
        h1 { code { (title) } }
        div.actions { (copy_button(page.language, w::COPY_ID, &request.id.to_string())) }
        section.card {
            h2 { (page.say(w::DATA)) }
            (facts(vec![
                ("Id", html! { code { (request.id) } }),
                ("X-Request-Id", code(Some(&request.request_id))),
                (page.say(w::WHEN), time(request.created_at)),
                (page.say(w::STATE), state(&page, request.status)),
                (page.say(w::ERROR), html! {
                    (code(error)) " "
                    @if let Some(error) = error { a href={ "/docs/errors#" (error) } { (page.say(w::CAUSE_AND_REMEDY)) } }
                }),
                (page.say(w::FIELD), code(request.param.as_deref())),
                (page.say(w::OBJECT), code(request.path_id.as_deref())),
                (page.say(w::KEY), html! { code { (request.key_prefix) "…" } }),
                (page.say(w::NETWORK), code(request.network.as_deref())),
                (page.say(w::DURATION), html! { (request.duration_ms) " ms" }),
            ]))
        }
        p { (page.say(w::BODIES_MEAN)) }
        @for (word, fields) in [(w::BODY, request.body), (w::RESPONSE, request.response)] {
            @if let Some(fields) = fields {
                section.card { h2 { (page.say(word)) } (code_block(page.language, &pretty(&page, &fields.into()))) }
            }
        }
    };
    Ok(page.render(&title, &main))
}
