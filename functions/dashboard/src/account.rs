//! The account: developers, audit and notices.

use std::collections::{BTreeSet, HashMap};

use axum::http::StatusCode;
use axum::response::Response;
use domain::audit::{Action, Audit};
use domain::calendar::Day;
use domain::charge::StoredCharge;
use domain::ids::{ApiKeyId, ChargeId, EmailId, Scope, UserId};
use domain::time::Timestamp;
use effects::email::{EmailRecord, EmailTopic, Emails};
use maud::{Markup, html};
use pages::forms::Need;
use pages::{Cell, Tone, code_block, money, path_with, tag, time, without_documents};
use shared::account::Users;
use shared::audit;
use shared::http::Result;
use shared::store::Store;

use crate::charges::{Titles, field, of_rows, titles};
use crate::settings::SETTINGS;
use crate::translations::{action, details};
use crate::visit::{Page, Visitor};
use crate::words as w;

const KEYS: &str = "/dashboard/developers/keys";
const TEAM: &str = "/dashboard/team";
pub(crate) const AUDIT: &str = "/dashboard/audit";
pub(crate) const NOTICES: &str = "/dashboard/notices";

const NOTICES_SHOWN: usize = 100;

/// The most users whose e-mail addresses a page of the audit reads.
const MOST_NAMED: usize = 15;

pub(crate) async fn developers(visitor: Visitor) -> Result<Response> {
    let (page, mut keys) =
        visitor.load(async |visit| Ok(visit.app.api_keys.list(&visit.session.account.id).await?)).await?;
    keys.retain(|key| key.mode == page.mode);
    let rows = keys.iter().map(|key| {
        vec![
            html! { code { (key.prefix) "…" } },
            html! { span dir="auto" { (key.label) } },
            time(key.created_at),
            html! {
                div.actions {
                    (page.confirmed(&format!("{KEYS}/{}/rotate", ApiKeyId::from(key.fingerprint.clone())), (w::ROTATE, "quiet"), Need::Keys, w::ROTATE_KEY_ASK))
                    (page.confirmed(&format!("{KEYS}/{}/revoke", ApiKeyId::from(key.fingerprint.clone())), (w::REVOKE, "danger"), Need::Keys, w::REVOKE_ASK))
                }
            },
        ]
    });
    let create = page.curl_first_charge();
    let main = html! {
        h1 { (page.say(w::DEVELOPERS)) }
        div.two {
            div {
                section.card {
                    @if keys.is_empty() { h2 { (page.say(w::KEYS)) } p { (page.say(w::NO_KEYS)) } } @else {
                        (page.table(w::KEYS, &[
                            (Cell::Main, w::KEY),
                            (Cell::Other, w::LABEL),
                            (Cell::Time, w::CREATED_ON),
                            (Cell::Other, w::ACTION),
                        ], rows.collect()))
                    }
                    @if page.shows(Need::Keys) { details {
                        summary { (page.say(w::NEW_API_KEY)) }
                        form.row method="post" action=(KEYS) {
                            (page.mode_field())
                            div.f {
                                label for="label" { (page.say(w::LABEL)) }
                                input #label name="label" maxlength="64";
                            }
                            (page.submit((w::ISSUE, ""), Need::Keys))
                        }
                    } }
                }
                section.card {
                    h2 { (page.say(w::QUICKSTART)) }
                    p { (page.say(w::QUICKSTART_MEANS)) }
                    (code_block(page.language, &create))
                    p { (page.say(w::LISTEN_MEANS)) }
                    (code_block(page.language, "cargo run -- listen --forward-to http://localhost:8000/webhook"))
                }
            }
            section.card {
                h2 { (page.say(w::API)) }
                p { (page.say(w::BASE_URL)) }
                (code_block(page.language, page.base_url()))
                ul {
                    li { a href="/docs" { (page.say(w::GUIDE)) } }
                    li { a href="/v1/openapi.json" { "OpenAPI" } }
                    li { a href="/llms.txt" { "llms.txt" } }
                    li { a href="/dashboard/events" { (page.say(w::EVENTS)) } }
                    li { a href="/dashboard/requests" { (page.say(w::REQUESTS)) } }
                }
            }
        }
    };
    Ok(page.render(page.say(w::DEVELOPERS), &main))
}

/// Characters of an id that identify it for people.
const SHORT_CHARS: usize = 18;

/// The beginning of an id that is longer than `most` characters.
pub(crate) fn short(id: &str, most: usize) -> String {
    if id.chars().count() <= most { id.to_owned() } else { id.chars().take(most).chain(['…']).collect() }
}

/// The addresses of the users who did something.
pub(crate) struct ActorEmails(HashMap<UserId, String>);

impl ActorEmails {
    /// Reads those of the first [`MOST_NAMED`] users. An API key has none.
    pub(crate) async fn read<'a>(store: &Store, actors: impl Iterator<Item = &'a str>) -> Result<Self> {
        let actors: BTreeSet<UserId> = actors.filter_map(|actor| actor.parse().ok()).collect();
        let named: BTreeSet<UserId> = actors.into_iter().take(MOST_NAMED).collect();
        Ok(Self(Users::new(store.clone()).emails_of(&named).await?))
    }

    /// The address, or the beginning of the id.
    pub(crate) fn name_of(&self, actor: &str) -> String {
        let email = actor.parse().ok().and_then(|id: UserId| self.0.get(&id));
        email.map_or_else(|| short(actor, SHORT_CHARS), String::clone)
    }
}

/// What an audited action was done to: its kind and id. The search leads to the page of an object that exists in this
/// mode. A user is known by the e-mail address, and a fingerprint has no page.
fn subject(page: &Page, emails: &ActorEmails, (id, action): (&str, &Action)) -> Markup {
    let Some((prefix, _)) = id.split_once('_') else {
        return html! { span title=(id) { (short(id, SHORT_CHARS)) } };
    };
    let is_reversal = matches!(action, Action::CreateRefund { strategy: None, .. });
    let kind = match prefix {
        "ch" => Some(w::CHARGE),
        "re" if is_reversal => Some(w::KIND_REVERSAL),
        "re" => Some(w::KIND_REFUND),
        "med" => Some(w::KIND_CASE),
        "wh" => Some(w::ENDPOINT),
        "po" => Some(w::PAYOUT),
        _ => None,
    };
    let path = match prefix {
        "usr" => format!("{AUDIT}?actor={id}"),
        _ => path_with("/dashboard/search", &[("q", id)]),
    };
    html! { a.nb href=(path) title=(id) { @if let Some(kind) = kind { (page.say(kind)) " " } (emails.name_of(id)) } }
}

/// The filters search 100 rows a page, because no index has the rows by actor or day.
pub(crate) async fn audit(visitor: Visitor) -> Result<Response> {
    let query = visitor.query().only(|name| ["actor", "day", "starting_after"].contains(&name));
    let before = query.text("starting_after").and_then(|number| number.parse().ok());
    let day = query.text("day").map(|day| Timestamp::parse_floor(day).map(Day::of)).transpose();
    // A user's id is derived from the e-mail address.
    let id_of =
        |who: &str| if who.contains('@') { UserId::from_email(who).to_string() } else { who.to_owned() };
    let actor = query.text("actor").map(id_of);
    let (page, (found, has_more, emails)) = visitor
        .load(async |visit| {
            let (store, account) = (&visit.app.store, &visit.session.account.id);
            let (found, has_more) = audit::page(store, account, before).await?;
            let people = found.iter().flat_map(|row| [row.actor.as_str(), row.subject.as_str()]);
            let emails = ActorEmails::read(store, people).await?;
            Ok((found, has_more, emails))
        })
        .await?;
    let is_shown = |row: &&Audit| {
        let is_of_day = matches!(day, Ok(day) if day.is_none_or(|day| day == Day::of(row.at)));
        is_of_day && actor.as_ref().is_none_or(|actor| *actor == row.actor)
    };
    // A row is written after its action, so the rows before one that was written before the day are not of the day.
    let starts_at = day.as_ref().ok().copied().flatten().map_or(Timestamp::MIN, Day::starts_at);
    let last = found.last().filter(|_| has_more && day.is_ok()).and_then(|row| row.link.as_ref());
    let next = last.filter(|link| link.written_at >= starts_at);
    let next =
        next.map(|link| format!("{AUDIT}?{}", query.with("starting_after", &link.sequence.to_string())));
    let rows: Vec<Vec<Markup>> = found.iter().filter(is_shown).map(|row| {
        vec![
            time(row.at),
            html! {
                a.nb href={ (AUDIT) "?" (query.only(|name| name == "day").with("actor", &row.actor)) } title=(row.actor) {
                    (emails.name_of(&row.actor))
                }
            },
            html! {
                @let details = without_documents(&details(page.language, &row.action));
                span title=(row.action.name()) { (page.say(action(&row.action))) @if !details.is_empty() { ": " (details) } }
            },
            (subject(&page, &emails, (&row.subject, &row.action))),
            html! { @if let Some(ip) = row.source.ip() { span.nb { (ip) } } },
        ]
    }).collect();
    let columns = [
        (Cell::Time, w::WHEN),
        (Cell::Other, w::ACTOR),
        (Cell::Main, w::ACTION),
        (Cell::Other, w::OBJECT),
        (Cell::Other, w::ADDRESS),
    ];
    let filters = html! {
        (field(("actor", "text", page.say(w::ACTOR)), &query, None))
        (field(("day", "date", page.say(w::DAY)), &query, None))
    };
    let main = html! {
        p.crumb { a href=(TEAM) { (page.say(w::TEAM)) } }
        h1 { (page.say(w::AUDIT)) }
        @if day.is_err() { (page.refusal("invalid_request", std::iter::once("day"))) }
        (page.filters(AUDIT, (&query, &["actor", "day"], day.is_err()), &filters))
        (page.list((w::AUDIT, &columns), rows, (w::NO_AUDIT, Some((AUDIT, w::CLEAR_FILTERS))), next))
    };
    let mut response = page.render(page.say(w::AUDIT), &main);
    if day.is_err() {
        *response.status_mut() = StatusCode::BAD_REQUEST;
    }
    Ok(response)
}

pub(crate) async fn notices(visitor: Visitor) -> Result<Response> {
    let before: Option<EmailId> = visitor.query().text("starting_after").and_then(|id| id.parse().ok());
    let (page, (mut found, has_more, charges)) = visitor
        .load(async |visit| {
            let emails = Emails::new(visit.app.store.clone());
            let (found, has_more) = emails.list(&visit.session.account.id, before, NOTICES_SHOWN).await?;
            let of_scope = found.iter().filter(|email| email.scope == visit.scope());
            let charges =
                of_rows(&visit.app.store, of_scope.filter_map(|email| charge_of(&email.about))).await?;
            Ok((found, has_more, charges))
        })
        .await?;
    let next = found.last().filter(|_| has_more).map(|row| format!("{NOTICES}?starting_after={}", row.id));
    keep_shown(&mut found, page.scope());
    let mut titles = titles(&page, &charges);
    for charge in charges.iter().map(StoredCharge::as_stored) {
        let amount = money(charge.amount.minor(), charge.currency);
        titles.entry(charge.id).and_modify(|title| title.extend([" · ", &amount]));
    }
    let main = html! {
        p.crumb { a href=(TEAM) { (page.say(w::TEAM)) } }
        h1 { (page.say(w::NOTICES)) }
        @if found.is_empty() { (page.empty(w::NO_NOTICES, Some((TEAM, w::TEAM)))) } @else { section.card { (notices_table(&page, &found, &titles)) } }
        (page.paging((w::NEWER, w::OLDER), next))
    };
    Ok(page.render(page.say(w::NOTICES), &main))
}

/// Keeps the notices of a mode, and of a reminder's e-mails to several recipients one. Their ids have one time, so they
/// follow each other.
pub(crate) fn keep_shown(found: &mut Vec<EmailRecord>, scope: Scope) {
    let reminder_of = |email: &EmailRecord| match email.about {
        EmailTopic::MedDeadline(case) | EmailTopic::MedDeadlineTo(case, _) => {
            Some((case, email.id.timestamp()))
        }
        _ => None,
    };
    found.retain(|email| email.scope == scope);
    found.dedup_by(|next, kept| reminder_of(next).is_some() && reminder_of(next) == reminder_of(kept));
}

/// The charge that a notice is about.
fn charge_of(topic: &EmailTopic) -> Option<ChargeId> {
    match topic {
        EmailTopic::MedOpened(id)
        | EmailTopic::MedResolved(id)
        | EmailTopic::MedDeadline(id)
        | EmailTopic::MedDeadlineTo(id, _) => Some(id.charge()),
        EmailTopic::RefundDestination(id) => Some(id.charge()),
        _ => None,
    }
}

pub(crate) fn notices_table(page: &Page, found: &[EmailRecord], titles: &Titles) -> Markup {
    let rows = found.iter().map(|email| {
        let (word, link) = match &email.about {
            EmailTopic::MedOpened(id) => (w::CASE_OPENED, format!("/dashboard/disputes/{id}")),
            EmailTopic::MedResolved(id) => (w::NOTICE_MED_RESOLVED, format!("/dashboard/disputes/{id}")),
            EmailTopic::MedDeadline(id) | EmailTopic::MedDeadlineTo(id, _) => {
                (w::NOTICE_MED_DEADLINE, format!("/dashboard/disputes/{id}"))
            }
            EmailTopic::EndpointDisabled(id) => (w::NOTICE_ENDPOINT, format!("/dashboard/webhooks/{id}")),
            EmailTopic::EndpointFailing(id) => (w::NOTICE_FAILING, format!("/dashboard/webhooks/{id}")),
            EmailTopic::EndpointRecovered(id) => (w::NOTICE_RECOVERED, format!("/dashboard/webhooks/{id}")),
            EmailTopic::RefundDestination(id) => {
                (w::NOTICE_DESTINATION, format!("/dashboard/charges/{}", id.charge()))
            }
            EmailTopic::ReportReady(_) => (w::NOTICE_REPORT, crate::reports::PATH.to_owned()),
            EmailTopic::TeamAccess | EmailTopic::UserAccess(_) => (w::NOTICE_ACCESS, AUDIT.to_owned()),
            // In the list of their user, which no page shows.
            EmailTopic::Sales(_) | EmailTopic::SalesSummary(_) => (w::VOLUME, SETTINGS.to_owned()),
        };
        vec![
            time(email.created_at),
            html! {
                a href=(link) { (page.say(word)) }
                @if let Some(title) = charge_of(&email.about).and_then(|id| titles.get(&id)) { " " span.soft dir="auto" { (title) } }
            },
            match email.sent_at {
                Some(_) => tag(Tone::Good, page.say(w::SENT)),
                None => tag(Tone::Warn, page.say(w::NOT_SENT)),
            },
        ]
    });
    let columns = [(Cell::Time, w::WHEN), (Cell::Main, w::NOTICE), (Cell::State, w::STATE)];
    page.table(w::NOTICES, &columns, rows.collect())
}
