//! Webhooks: endpoints, deliveries and events. Deliveries and events are shown from the API's own views.

use axum::response::Response;
use domain::ids::{ChargeId, DeliveryId, EndpointId, EventId};
use domain::masking::{mask_json, mask_names};
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;
use domain::webhook::event_type::EventType;
use effects::webhook::delivery::{
    AttemptStatus, DayFigures, Delivery, DeliveryStatus, RecentDeliveries, RecentFilter, WaitingDeliveries,
};
use effects::webhook::endpoint::{Endpoint, EndpointStatus};
use effects::webhook::log::EventFilter;
use effects::webhook::recovery::{Recovery, RecoveryStatus};
use effects::webhook::words::{attempt_failure, disabled_reason};
use maud::{Markup, html};
use pages::forms::{Need, disabled};
use pages::kept::endpoint_form;
use pages::{Cell, Tone, Word, alert, code_block, copy_button, facts, tag, time, without_documents};
use serde::Serialize;
use serde_json::Value;
use shared::http::{IdPath, Problem, Query, Result};

use crate::charges::{Titles, field, of_rows, titles};
use crate::money::charge_link;
use crate::states::{State as _, all};
use crate::visit::{Page, Visitor};
use crate::words as w;

const PATH: &str = "/dashboard/webhooks";
/// The most recoveries on an endpoint's page.
const SHOWN_RECOVERIES: usize = 5;

const EVENTS: &str = "/dashboard/events";

pub(crate) async fn list(visitor: Visitor) -> Result<Response> {
    let query = visitor.query();
    let filter = recent_filter(&query, None);
    let (page, (deliveries, charges)) = visitor
        .load(async |visit| {
            let recent = visit.app.deliveries.recent(&visit.sharded_scope(), &filter, visit.now).await?;
            let charges = of_rows(&visit.app.store, recent.charges.values().copied()).await?;
            Ok((recent, charges))
        })
        .await?;
    let endpoints = &deliveries.endpoints;
    let rows = endpoints.iter().map(|endpoint| {
        vec![
            html! { a href={ (PATH) "/" (endpoint.id) } dir="auto" { (endpoint.url) } },
            health(&page, endpoint),
            html! { (endpoint.events.len()) },
            time(endpoint.created_at),
        ]
    });
    let main = html! {
        div.head {
            h1 { (page.say(w::WEBHOOKS)) }
            p {
                a href=(EVENTS) { (page.say(w::EVENTS)) } " "
                a href="/dashboard/requests" { (page.say(w::REQUESTS)) }
            }
        }
        @if endpoints.is_empty() {
            (page.empty(w::NO_ENDPOINTS, Some(("/docs", w::GUIDE))))
            @if page.is_test() { div.card { (code_block(page.language, "cargo run -- listen")) } }
        } @else {
            section.card {
                (page.table(w::ENDPOINTS, &[
                    (Cell::Main, w::URL),
                    (Cell::State, w::STATE),
                    (Cell::Other, w::EVENTS),
                    (Cell::Time, w::CREATED_ON),
                ], rows.collect()))
            }
        }
        (registration(&page, endpoints.is_empty()))
        (delivery_list(&page, PATH, &query, (&deliveries, &titles(&page, &charges))))
    };
    Ok(page.render(page.say(w::WEBHOOKS), &main))
}

fn registration(page: &Page, is_first: bool) -> Markup {
    html! {
        @if page.shows(Need::Admin) { details.card open[is_first] {
            summary { (page.say(w::REGISTER_ENDPOINT)) }
            (endpoint_form(&page.form(), (PATH, w::REGISTER), None))
        } }
    }
}

/// What the user may do with the endpoint.
fn endpoint_actions(page: &Page, endpoint: &Endpoint) -> Markup {
    let action = |name: &str| format!("{PATH}/{}/{name}", endpoint.id);
    let (next, label) = match endpoint.status {
        EndpointStatus::Active => (EndpointStatus::Inactive, w::PAUSE),
        EndpointStatus::Inactive => (EndpointStatus::Active, w::RESUME),
    };
    if !page.shows(Need::Admin) {
        return html! {};
    }
    html! {
        div.actions {
            (page.button(&action("status"), (label, "quiet"), Need::Admin, &pages::hidden("status", next.as_str())))
            @match inactive(endpoint) {
                Some(reason) => (disabled(page.language, w::SEND_TEST, reason)),
                None => (page.button(&action("test"), (w::SEND_TEST, "quiet"), Need::Admin, &html! {
                    select name="type" aria-label=(page.say(w::KIND_EVENT)) {
                        option value="" { (EventType::WebhookTest.as_str()) }
                        @for event in &endpoint.events { option { (event.as_str()) } }
                    }
                })),
            }
            (page.confirmed(&action("rotate"), (w::ROTATE_SECRET, "quiet"), Need::Admin, w::ROTATE_SECRET_ASK))
            (page.confirmed(&action("delete"), (w::DELETE, "danger"), Need::Admin, w::DELETE_ASK))
        }
    }
}

/// Why nothing new is sent to the endpoint.
fn inactive(endpoint: &Endpoint) -> Option<Word> {
    let is_inactive = endpoint.status == EndpointStatus::Inactive;
    is_inactive.then(|| if endpoint.disabled.is_some() { w::IS_SWITCHED_OFF } else { w::IS_PAUSED })
}

/// The button that sends a delivery again. It is disabled, with the reason, if it would be refused. `has_event`: its
/// event has not expired.
pub(crate) fn resend_button(
    page: &Page,
    delivery: &Delivery,
    (has_event, endpoint): (bool, Option<&Endpoint>),
    class: &str,
) -> Markup {
    let refused = match (delivery.endpoint, endpoint) {
        _ if !has_event => Some(w::EVENT_EXPIRED),
        (Some(_), None) => Some(w::IS_DELETED),
        (_, endpoint) => endpoint.and_then(inactive),
    };
    let action = || format!("/dashboard/deliveries/{}/resend", delivery.id);
    match refused {
        _ if !page.shows(Need::Member) => html! {},
        Some(reason) => disabled(page.language, w::RESEND, reason),
        None => page.button(&action(), (w::RESEND, class), Need::Member, &html! {}),
    }
}

fn health(page: &Page, endpoint: &Endpoint) -> Markup {
    if let Some(disabled) = &endpoint.disabled {
        return html! { (tag(Tone::Bad, page.say(w::SWITCHED_OFF))) " " (time(disabled.at)) };
    }
    if endpoint.failing_since.is_some() {
        return tag(Tone::Bad, page.say(w::FAILING));
    }
    endpoint.status.tag(page.language)
}

/// A cursor or status that is not one is left out.
fn recent_filter(query: &Query, endpoint: Option<EndpointId>) -> RecentFilter {
    let after = query.text("starting_after").and_then(|id| id.parse().ok());
    RecentFilter { endpoint, status: query.text("status").and_then(DeliveryStatus::named), after }
}

fn value(view: &impl Serialize) -> Result<Value> {
    serde_json::to_value(view).map_err(|error| Problem::Internal(error.to_string()))
}

/// The JSON as people read it, with masked CPFs and CNPJs, and for a member with masked names.
pub(crate) fn pretty(page: &Page, value: &Value) -> String {
    let masked = mask_json(value.clone());
    let masked = if page.session.user.role.sees_names() { masked } else { mask_names(masked) };
    serde_json::to_string_pretty(&masked).unwrap_or_default()
}

fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn at(object: &Value, name: &str) -> Markup {
    let at = object.get(name).and_then(Value::as_str).and_then(|text| text.parse::<Timestamp>().ok());
    at.map(time).unwrap_or_default()
}

fn delivery_list(
    page: &Page,
    path: &str,
    query: &Query,
    (list, titles): (&RecentDeliveries, &Titles),
) -> Markup {
    let next = list.next.map(|id| format!("{path}?{}", query.with("starting_after", &id.to_string())));
    let chosen = query.text("status").unwrap_or_default();
    let rows = list.deliveries.iter().map(|delivery| {
        vec![
            time(delivery.created_at),
            html! { a href={ "/dashboard/deliveries/" (delivery.id) } { (delivery.event_type.as_str()) } },
            html! {
                @if let Some(charge) = list.charges.get(&delivery.id) { (charge_link(page, titles, *charge)) }
            },
            delivery.status.tag(page.language),
            html! { (delivery.attempts.min(delivery.max_attempts)) },
            html! { @if let Some(error) = delivery.error_in(page.language) { (error) } },
        ]
    });
    let choices =
        DeliveryStatus::vocabulary().into_iter().map(|(name, each)| (name, page.say(each.shown().1)));
    let columns = [
        (Cell::Time, w::WHEN),
        (Cell::Main, w::KIND_EVENT),
        (Cell::Other, w::CHARGE),
        (Cell::State, w::STATE),
        (Cell::Amount, w::ATTEMPTS),
        (Cell::Other, w::LAST_ANSWER),
    ];
    let none = (w::NO_DELIVERIES, page.new_charge());
    html! {
        h2 { (page.say(w::DELIVERIES)) }
        (pages::chips(page.say(w::DELIVERIES), (path, "status"), chosen, all(page).chain(choices)))
        div #deliveries data-refresh="10" { (page.list((w::DELIVERIES, &columns), rows.collect(), none, next)) }
    }
}

/// The figures of two days, by the day of creation, and what waits now. `waiting`: of an endpoint that fails; else the
/// newest deliveries show it.
fn figures(page: &Page, recent: &RecentDeliveries, waiting: Option<&WaitingDeliveries>) -> Markup {
    let Some([today, yesterday]) = recent.days else { return html! {} };
    let of_day = |day: DayFigures| {
        let numbers = [day.all, day.failed, day.cancelled].map(|number| number.to_string());
        html! { (page.language.fill(w::OF_A_DAY, &numbers.each_ref().map(String::as_str))) }
    };
    let newest = &recent.deliveries;
    let is_waiting = |delivery: &&Delivery| {
        matches!(delivery.status, DeliveryStatus::Pending | DeliveryStatus::Processing)
            && delivery.attempts > 0
    };
    let waiting = if let Some(waiting) = waiting {
        format!("{}{}", waiting.count, if waiting.has_more { "+" } else { "" })
    } else {
        let numbers =
            [newest.iter().filter(is_waiting).count(), newest.len()].map(|number| number.to_string());
        page.language.fill(w::OF_NEWEST, &numbers.each_ref().map(String::as_str))
    };
    let failed = newest.iter().find_map(|delivery| Some((delivery, delivery.error_in(page.language)?)));
    html! {
        section.card {
            h2 { (page.say(w::HEALTH)) }
            (facts(vec![
                (page.say(w::WAITING), html! { (waiting) }),
                (page.say(w::CREATED_TODAY), of_day(today)),
                (page.say(w::CREATED_YESTERDAY), of_day(yesterday)),
                (page.say(w::LAST_ERROR), html! {
                    @if let Some((delivery, error)) = failed {
                        a href={ "/dashboard/deliveries/" (delivery.id) } { (time(delivery.updated_at)) } " "
                        (error)
                    }
                }),
            ]))
        }
    }
}

pub(crate) async fn endpoint(visitor: Visitor, IdPath(id): IdPath<EndpointId>) -> Result<Response> {
    let query = visitor.query();
    let unknown = || Problem::NotFound { what: "webhook endpoint" };
    let id = id.ok_or_else(unknown)?;
    let filter = recent_filter(&query, Some(id));
    let (page, (recent, charges, recoveries, waiting)) = visitor
        .load(async |visit| {
            let (sharded, scope) = (visit.sharded_scope(), visit.scope());
            let recent = visit.app.deliveries.recent(&sharded, &filter, visit.now);
            let recoveries = visit.app.recoveries.list(&scope, id, SHOWN_RECOVERIES);
            let (recent, recoveries) = tokio::try_join!(recent, recoveries)?;
            let is_failing =
                recent.endpoints.first().is_some_and(|endpoint| endpoint.failing_since.is_some());
            let waiting = async {
                if is_failing {
                    Ok(Some(visit.app.deliveries.waiting_for(&scope, id).await?))
                } else {
                    Ok(None)
                }
            };
            let charges = of_rows(&visit.app.store, recent.charges.values().copied());
            let (waiting, charges) = tokio::try_join!(waiting, charges)?;
            Ok((recent, charges, recoveries, waiting))
        })
        .await?;
    let endpoint = recent.endpoints.first().ok_or_else(unknown)?;
    let main = html! {
        p.crumb { a href=(PATH) { (page.say(w::WEBHOOKS)) } }
        h1 dir="auto" { (endpoint.url) }
        @if let Some(disabled) = &endpoint.disabled {
            (alert(Tone::Bad, &html! { (page.say(w::SWITCHED_OFF)) " " (time(disabled.at)) ": " (disabled_reason(page.language, disabled)) }))
        }
        (endpoint_actions(&page, endpoint))
        section.card {
            h2 { (page.say(w::DATA)) }
            (facts(vec![
                ("Id", html! { code { (endpoint.id) } }),
                (page.say(w::STATE), health(&page, endpoint)),
                (page.say(w::FAILING_SINCE), endpoint.failing_since.map(time).unwrap_or_default()),
                (page.say(w::SECRET), html! { (page.language.fill(w::SECRET_NUMBER, &[&endpoint.secret_version.to_string()])) }),
                (page.say(w::CREATED_ON), time(endpoint.created_at)),
                (page.say(w::CHANGED_ON), html! { @if endpoint.version > 1 { (time(endpoint.updated_at)) } }),
                (page.say(w::PAUSED_ON), endpoint.abandoned.map(|abandoned| time(abandoned.at)).unwrap_or_default()),
                (page.say(w::EVENTS), html! { @for event in &endpoint.events { code { (event.as_str()) } " " } }),
            ]))
            p.sm { a href="/docs" { (page.say(w::VERIFY_SIGNATURE)) } }
        }
        @if page.shows(Need::Admin) { details.card {
            summary { (page.say(w::CHANGE_ENDPOINT)) }
            (endpoint_form(&page.form(), (&format!("{PATH}/{}/change", endpoint.id), w::SAVE), Some(endpoint)))
        } }
        (figures(&page, &recent, waiting.as_ref()))
        (recovery_card(&page, endpoint, &recoveries))
        (delivery_list(&page, &format!("{PATH}/{}", endpoint.id), &query, (&recent, &titles(&page, &charges))))
    };
    Ok(page.render(&endpoint.url, &main))
}

/// The button that sends everything again that did not arrive, and the last recoveries.
fn recovery_card(page: &Page, endpoint: &Endpoint, recoveries: &[Recovery]) -> Markup {
    let is_running = |recovery: &Recovery| recovery.status == RecoveryStatus::Running;
    let rows = recoveries.iter().map(|recovery| {
        let (tone, word) = match recovery.status {
            RecoveryStatus::Running => (Tone::Warn, w::IN_PROGRESS),
            RecoveryStatus::Completed => (Tone::Good, w::RECOVERY_DONE),
            RecoveryStatus::Cancelled => (Tone::Bad, w::RECOVERY_ENDED),
        };
        vec![
            html! { (recovery.queued) " / " (recovery.found) },
            tag(tone, page.say(word)),
            time(recovery.created_at),
        ]
    });
    let columns = [(Cell::Main, w::RESENT_OF_FOUND), (Cell::State, w::STATE), (Cell::Time, w::CREATED_ON)];
    html! {
        section.card #recoveries data-refresh=[recoveries.iter().any(is_running).then_some("10")] {
            h2 { (page.say(w::RECOVER)) }
            p { (page.say(w::RECOVER_MEANS)) }
            @match inactive(endpoint) {
                Some(reason) => (disabled(page.language, w::RESEND_MISSED, reason)),
                None => (page.button(&format!("{PATH}/{}/recover", endpoint.id), (w::RESEND_MISSED, ""), Need::Member, &html! {})),
            }
            @if !recoveries.is_empty() { (page.table(w::RECOVERIES, &columns, rows.collect())) }
        }
    }
}

pub(crate) async fn delivery(visitor: Visitor, IdPath(id): IdPath<DeliveryId>) -> Result<Response> {
    let (page, (delivery, payload, endpoint)) = visitor
        .load(async |visit| Ok(visit.app.deliveries.find(&visit.scope(), id, visit.now).await?))
        .await?;
    let payload: Option<Value> = payload.and_then(|payload| serde_json::from_str(&payload).ok());
    let name = delivery.event_type.as_str();
    let error = delivery.error_in(page.language);
    let main = html! {
        p.crumb { a href=(PATH) { (page.say(w::WEBHOOKS)) } " / " (page.say(w::KIND_DELIVERY)) }
        h1 { (name) }
        div.actions {
            (resend_button(&page, &delivery, (payload.is_some(), endpoint.as_ref()), ""))
            (copy_button(page.language, w::COPY_ID, &delivery.id.to_string()))
        }
        div #delivery data-refresh=[(!delivery.is_done()).then_some("10")] {
            section.card {
                h2 { (page.say(w::DATA)) }
                (facts(vec![
                    (page.say(w::STATE), delivery.status.tag(page.language)),
                    ("Id", html! { code { (delivery.id) } }),
                    (page.say(w::ENDPOINT), html! {
                        @match (delivery.endpoint, &endpoint) {
                            (Some(_), Some(endpoint)) => a href={ (PATH) "/" (endpoint.id) } dir="auto" { (endpoint.url) },
                            (Some(id), None) => { (id) " (" (page.say(w::IS_DELETED)) ")" },
                            (None, _) => "webhookUrl",
                        }
                    }),
                    (page.say(w::KIND_EVENT), html! {
                        @if payload.is_some() { a href={ (EVENTS) "/" (delivery.event_id()) } { (delivery.event_id()) } }
                    }),
                    (page.say(w::OBJECT), payload.as_ref().map(objects_of).unwrap_or_default()),
                    (page.say(w::ATTEMPTS), html! { (delivery.attempts.min(delivery.max_attempts)) " / " (delivery.max_attempts) }),
                    (page.say(w::LAST_STATUS), html! { @if let Some(status) = delivery.last_status_code { (status) } }),
                    (page.say(w::LAST_ERROR), html! { @if let Some(error) = &error { (error) } }),
                    (page.say(w::NEXT_ATTEMPT), html! { @if delivery.status == DeliveryStatus::Pending { (time(delivery.next_attempt_at)) } }),
                    (page.say(w::DELIVERED_ON), delivery.delivered_at.map(time).unwrap_or_default()),
                    (page.say(w::CREATED_ON), time(delivery.dated_at())),
                ]))
            }
        }
        @if !delivery.attempt_log.is_empty() {
            section.card #attempts { (attempt_table(&page, &delivery)) }
        }
        @if let Some(answer) = delivery.last_response_body.as_deref().filter(|answer| !answer.is_empty() && error.is_some()) {
            section.card { h2 { (page.say(w::LAST_ANSWER)) } pre tabindex="0" { (without_documents(answer)) } }
        }
        section.card {
            h2 { (page.say(w::HEADERS)) }
            p { (page.say(w::HEADERS_MEAN)) }
            pre tabindex="0" { code { @for (name, value) in delivery.headers() { (name) ": " (value) "\n" } } }
        }
        section.card {
            h2 { (page.say(w::BODY)) }
            @match &payload {
                Some(payload) => (code_block(page.language, &pretty(&page, payload))),
                None => p { (page.say(w::BODY_EXPIRED)) },
            }
        }
    };
    Ok(page.render(name, &main))
}

fn attempt_table(page: &Page, delivery: &Delivery) -> Markup {
    let rows = delivery.attempts_made().into_iter().rev().map(|attempt| {
        let result = match (&attempt.failure, attempt.status) {
            (Some(failure), _) => attempt_failure(page.language, failure),
            (None, AttemptStatus::Running) => page.say(w::IN_PROGRESS).to_owned(),
            (None, AttemptStatus::Succeeded | AttemptStatus::Failed) => page.say(w::ATTEMPT_TAKEN).to_owned(),
        };
        vec![
            html! { (attempt.number) ". " (result) },
            html! { @if let Some(status) = attempt.status_code { (status) } },
            time(attempt.started_at),
            html! { @if let Some(ms) = attempt.duration_ms { (ms) " ms" } },
            html! { @if let Some(answer) = attempt.response_body { code { (without_documents(answer)) } } },
        ]
    });
    page.table(
        w::ATTEMPTS,
        &[
            (Cell::Main, w::RESULT),
            (Cell::Amount, w::HTTP_STATUS),
            (Cell::Time, w::STARTED_ON),
            (Cell::State, w::DURATION),
            (Cell::Other, w::RECEIVER_ANSWER),
        ],
        rows.collect(),
    )
}

pub(crate) async fn events(visitor: Visitor) -> Result<Response> {
    let query = visitor.query();
    let known = ["type", "object", "created_after", "created_before", "starting_after"];
    let query = query.only(|name| known.contains(&name));
    let filter = EventFilter::parse(&query);
    let (page, list) = visitor
        .load(async |visit| {
            let Ok(filter) = &filter else { return Ok(Value::Null) };
            value(&visit.app.events.list(&visit.sharded_scope(), filter, visit.now).await?)
        })
        .await?;
    let items = list.get("data").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let next = list.get("next_cursor").and_then(Value::as_str);
    let next = next.map(|id| format!("{EVENTS}?{}", query.with("starting_after", id)));
    let rows = items.iter().map(|event| {
        vec![
            at(event, "created_at"),
            html! { a href={ (EVENTS) "/" (text(event, "id")) } { (event_name(event)) } },
            objects_of(event),
        ]
    });
    let columns = [(Cell::Time, w::WHEN), (Cell::Main, w::KIND_EVENT), (Cell::Other, w::OBJECT)];
    let main = html! {
        p.crumb { a href=(PATH) { (page.say(w::WEBHOOKS)) } }
        h1 { (page.say(w::EVENTS)) }
        @if let Err(problem) = &filter {
            (page.refusal(problem.code(), problem.params().into_iter()))
        }
        (event_filters(&page, &query))
        @if filter.is_ok() {
            div #list data-refresh="10" {
                (page.list((w::EVENTS, &columns), rows.collect(), (w::NO_EVENTS, page.new_charge()), next))
            }
        }
    };
    let mut response = page.render(page.say(w::EVENTS), &main);
    if let Err(problem) = filter {
        *response.status_mut() = problem.status();
    }
    Ok(response)
}

fn event_filters(page: &Page, query: &Query) -> Markup {
    let all = std::iter::once(("", page.say(w::ALL_METHODS)));
    let names = EventType::ALL.iter().map(|(name, _)| (*name, *name));
    let fields = html! {
        @if let Some(object) = query.text("object") { (pages::hidden("object", object)) }
        (pages::choice(page.say(w::KIND), ("type", "type"), query.text("type").unwrap_or_default(), all.chain(names)))
        (field(("created_after", "date", page.say(w::FROM)), query, None))
        (field(("created_before", "date", page.say(w::TO)), query, None))
    };
    page.filters(EVENTS, (query, &["type", "created_after", "created_before"], false), &fields)
}

/// A canonical event has a `type`, a legacy one its name in `event`.
fn event_name(event: &Value) -> &str {
    let name = text(event, "type");
    if name.is_empty() { text(event, "event") } else { name }
}

/// Links to the object of an event, and to its charge if that is another one.
fn objects_of(event: &Value) -> Markup {
    let text = |pointer| event.pointer(pointer).and_then(Value::as_str);
    let object = text("/data/object/id").or_else(|| text("/data/transactionId"));
    let ids: Vec<&str> = object.into_iter().chain(text("/data/object/charge_id")).collect();
    html! {
        @for id in ids {
            @let link = if id.starts_with("med_") { Some(format!("/dashboard/disputes/{id}")) }
                else if id.starts_with("wh_") { Some(format!("{PATH}/{id}")) }
                else { ChargeId::parse_any(id).ok().map(|id| format!("/dashboard/charges/{id}")) };
            @match link { Some(link) => a href=(link) { (id) }, None => (id) }
            " "
        }
    }
}

pub(crate) async fn event(visitor: Visitor, IdPath(id): IdPath<EventId>) -> Result<Response> {
    let after: Option<DeliveryId> = visitor.query().text("starting_after").and_then(|id| id.parse().ok());
    let (page, (event, deliveries, next)) = visitor
        .load(async |visit| {
            let (scope, now) = (visit.sharded_scope(), visit.now);
            let events = &visit.app.events;
            let (event, deliveries, next) = events.find_with_deliveries(&scope, id, after, now).await?;
            Ok((value(&event)?, deliveries, next))
        })
        .await?;
    let next = next.map(|last| format!("{EVENTS}/{}?starting_after={last}", text(&event, "id")));
    let rows = deliveries.iter().map(|delivery| {
        vec![
            html! { a href={ "/dashboard/deliveries/" (delivery.id) } { (time(delivery.dated_at())) } },
            delivery.status.tag(page.language),
            html! {
                @match delivery.endpoint { Some(id) => a href={ (PATH) "/" (id) } { (id) }, None => "webhookUrl" }
            },
        ]
    });
    let main = html! {
        p.crumb { a href=(PATH) { (page.say(w::WEBHOOKS)) } " / " a href=(EVENTS) { (page.say(w::EVENTS)) } }
        h1 { (event_name(&event)) }
        p { (at(&event, "created_at")) " " (objects_of(&event)) }
        @if deliveries.is_empty() && next.is_none() { p { (page.say(w::NOT_DELIVERED)) } } @else {
            section.card {
                (page.table(w::DELIVERIES, &[
                    (Cell::Main, w::WHEN),
                    (Cell::State, w::STATE),
                    (Cell::Other, w::ENDPOINT),
                ], rows.collect()))
            }
        }
        (page.paging((w::OLDER, w::NEWER), next))
        section.card {
            h2 { (page.say(w::BODY)) }
            (code_block(page.language, &pretty(&page, &event)))
        }
    };
    Ok(page.render(event_name(&event), &main))
}
