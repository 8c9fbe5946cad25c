//! The team of an account, and the pages of links in e-mails to users: an invite, and a new password.

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use domain::account::Account;
use domain::audit::{Action, Audit};
use maud::{Markup, html};
use pages::forms::Need;
use pages::kept::{invite_form, role_choice};
use pages::{Cell, Document, Language, Tone, Word, announced, email_field, facts, product, tag, time};
use shared::account::password::MIN_CHARS;
use shared::account::{LinkToken, Role, Team, User, Users};
use shared::audit;
use shared::http::{Problem, RequestContext, Result};
use strum::VariantArray;

use crate::App;
use crate::account::{AUDIT, NOTICES};
use crate::visit::{Page, Visitor};
use crate::words as w;

const TEAM: &str = "/dashboard/team";

pages::words! { ,
    LAST_LOG_IN = "Último login", "Last log-in", "Último inicio de sesión";
    NOT_LATELY = "fora das últimas 100 ações", "not in the last 100 actions", "fuera de las últimas 100 acciones";
}

pub(crate) async fn team(visitor: Visitor) -> Result<Response> {
    let (page, (Team { users, invites }, acts)) = visitor
        .load(async |visit| {
            let (store, account) = (&visit.app.store, visit.session.account.id);
            let users = Users::new(store.clone());
            let (team, acts) = tokio::join!(
                Box::pin(users.team(&account, visit.now)),
                Box::pin(audit::page(store, &account, None))
            );
            Ok((team?, acts?.0))
        })
        .await?;
    let invited = invites.iter().map(|invite| {
        let withdraw = format!("{TEAM}/invites/{}/withdraw", invite.hash.as_str());
        vec![
            html! { (invite.email) },
            html! { (page.say(w::of_role(invite.role))) },
            html! { @if let Some(user) = users.iter().find(|user| user.id == invite.by) { (user.email) } },
            time(invite.expires_at),
            page.button(&withdraw, (w::WITHDRAW, "quiet"), Need::Owner, &html! {}),
        ]
    });
    let main = html! {
        div.head {
            h1 { (page.say(w::TEAM)) }
            p { a href=(AUDIT) { (page.say(w::AUDIT)) } " · " a href=(NOTICES) { (page.say(w::NOTICES)) } }
        }
        section.card {
            (page.table(w::MEMBERS, &[
                (Cell::Main, w::EMAIL),
                (Cell::State, w::ROLE),
                (Cell::Time, w::CREATED_ON),
                (Cell::Other, LAST_LOG_IN),
                (Cell::Other, w::ACTION),
            ], users.iter().map(|user| member(&page, user, &acts)).collect()))
            h2 { (page.say(w::ROLE)) }
            (facts(Role::VARIANTS.iter().map(|role| (page.say(w::of_role(*role)), html! { (page.say(may(*role))) })).collect()))
        }
        @if !invites.is_empty() {
            section.card {
                (page.table(w::INVITES, &[
                    (Cell::Main, w::EMAIL),
                    (Cell::State, w::ROLE),
                    (Cell::Other, w::INVITED_BY),
                    (Cell::Time, w::VALID_UNTIL),
                    (Cell::Other, w::ACTION),
                ], invited.collect()))
            }
        }
        @if page.shows(Need::Owner) {
            section.card {
                h2 { (page.say(w::INVITE_MEMBER)) }
                p { (page.say(w::INVITE_MEANS)) }
                (invite_form(&page.form(), &format!("{TEAM}/invites")))
            }
        }
    };
    Ok(page.render(page.say(w::TEAM), &main))
}

/// The row of a user, with the forms that an owner may send. `acts`: the newest rows of the audit trail, newest first,
/// because only they have the log-ins.
fn member(page: &Page, user: &User, acts: &[Audit]) -> Vec<Markup> {
    let id = user.id.to_string();
    let last = acts.iter().find(|row| row.subject == id && matches!(row.action, Action::LogIn));
    vec![
        html! {
            (user.email)
            @if user.id == page.session.user.id { " " (tag(Tone::Info, page.say(w::YOU))) }
            @if user.second_factor_at.is_some() { " " (tag(Tone::Good, page.say(w::SECOND_FACTOR))) }
        },
        html! { (page.say(w::of_role(user.role))) },
        time(user.created_at),
        last.map_or_else(|| html! { span.soft { (page.say(NOT_LATELY)) } }, |row| time(row.at)),
        html! {
            @if page.shows(Need::Owner) { div.actions {
                form.row method="post" action={ (TEAM) "/" (user.id) "/role" } {
                    (page.mode_field())
                    div.f { (role_choice(page.language, None, user.role)) }
                    (page.submit((w::CHANGE_ROLE, "quiet"), Need::Owner))
                }
                (page.confirmed(&format!("{TEAM}/{}/remove", user.id), (w::REMOVE, "danger"), Need::Owner, w::REMOVE_ASK))
            } }
        },
    ]
}

pages::translate! {
    fn may(Role) {
        Role::Owner = "tudo, e também convidar e remover membros", "everything, and also invite and remove members", "todo, y también invitar y quitar miembros";
        Role::Admin = "tudo, também em produção, menos mudar a equipe", "everything, also in live mode, but change the team", "todo, también en producción, menos cambiar el equipo";
        Role::Member = "ver tudo, criar cobranças e repetir entregas ao seu sistema; no modo teste, também devolver, estornar, cancelar, responder disputas e mudar os endereços dessas entregas", "see everything, create charges and repeat deliveries to your system; in test mode also refund, cancel, answer disputes and change the addresses of these deliveries", "ver todo, crear cobros y repetir entregas a su sistema; en modo prueba, también devolver, cancelar, responder disputas y cambiar las direcciones de esas entregas";
        Role::Viewer = "ver e baixar tudo, com os documentos dos pagadores mascarados, sem mudar nada", "see and download everything, with the payers' documents masked, and change nothing", "ver y descargar todo, con los documentos de los pagadores enmascarados, sin cambiar nada";
    }
}

/// A page without a session, with the refusal of its form.
fn page(
    (status, language, title): (StatusCode, Language, &str),
    context: &RequestContext,
    card: &Markup,
) -> Response {
    let main = html! {
        p.product { (product(language)) }
        div.card {
            h1 dir="auto" { (title) }
            @if let Some(code) = context.query.text("error").filter(|_| status == StatusCode::OK) {
                (announced(Tone::Bad, &html! { (language.say(w::of_code(code))) }))
            }
            (card)
        }
    };
    pages::html(status, Document { language, title, shell: None, main }.render())
}

fn invalid_link(language: Language, context: &RequestContext) -> Response {
    let card = html! {
        p { (language.say(w::LINK_INVALID_MEANS)) }
        p { a href="/dashboard/login" { (language.say(w::LOG_IN)) } " · " a href="/dashboard/reset" { (language.say(w::FORGOTTEN)) } }
    };
    page((StatusCode::NOT_FOUND, language, language.say(w::LINK_INVALID)), context, &card)
}

/// Posts to the page's own path, so that the token is in no attribute.
fn password_form(language: Language, email: Option<&str>, button: Word) -> Markup {
    html! {
        p #rule .soft { (language.say(w::PASSWORD_RULE)) }
        form.fields method="post" {
            // A password manager stores it with the password.
            @if let Some(email) = email { input type="hidden" name="username" autocomplete="username" value=(email); }
            div {
                label for="password" { (language.say(w::NEW_PASSWORD)) }
                input #password name="password" type="password" autocomplete="new-password" required
                    minlength=(MIN_CHARS) maxlength="1024" aria-describedby="rule";
            }
            div { button { (language.say(button)) } }
        }
    }
}

/// Reading the page uses up nothing, because programs that scan e-mails open the links in them.
pub(crate) async fn invite(
    State(app): State<App>,
    Path(token): Path<String>,
    context: RequestContext,
    headers: HeaderMap,
) -> Result<Response> {
    let language = Language::of(&headers);
    let Some(token) = LinkToken::parse(&token) else { return Ok(invalid_link(language, &context)) };
    let users = Users::new(app.store.clone());
    let Some(invite) = users.invite_of(&token.hash(), app.clock.now()).await? else {
        return Ok(invalid_link(language, &context));
    };
    let account: Option<Account> = app.store.get(&Account::key_of(&invite.account)).await?;
    let account = account.ok_or(Problem::NotFound { what: "account" })?;
    let title = language.fill(w::INVITED_TO, &[&account.settings.merchant_name]);
    let card = html! {
        (facts(vec![
            (language.say(w::EMAIL), html! { (invite.email) }),
            (language.say(w::ROLE), html! { (language.say(w::of_role(invite.role))) }),
            (language.say(w::MAY), html! { (language.say(may(invite.role))) }),
            (language.say(w::VALID_UNTIL), time(invite.expires_at)),
        ]))
        (password_form(language, Some(&invite.email), w::SET_PASSWORD))
    };
    Ok(page((StatusCode::OK, language, &title), &context, &card))
}

pub(crate) async fn forgotten(context: RequestContext, headers: HeaderMap) -> Response {
    let language = Language::of(&headers);
    let card = html! {
        @if context.query.text("done").is_some() {
            (announced(Tone::Good, &html! { (language.say(w::LINK_SENT)) }))
        }
        p { (language.say(w::FORGOTTEN_MEANS)) }
        form.fields method="post" action="/dashboard/reset" {
            (email_field(language, None))
            div { button { (language.say(w::SEND_LINK)) } }
        }
        p { a href="/dashboard/login" { (language.say(w::LOG_IN)) } }
    };
    page((StatusCode::OK, language, language.say(w::FORGOTTEN)), &context, &card)
}

pub(crate) async fn reset(
    State(app): State<App>,
    Path(token): Path<String>,
    context: RequestContext,
    headers: HeaderMap,
) -> Result<Response> {
    let language = Language::of(&headers);
    let Some(token) = LinkToken::parse(&token) else { return Ok(invalid_link(language, &context)) };
    let users = Users::new(app.store.clone());
    if users.reset_of(&token.hash(), app.clock.now()).await?.is_none() {
        return Ok(invalid_link(language, &context));
    }
    let card = password_form(language, None, w::SAVE_PASSWORD);
    Ok(page((StatusCode::OK, language, language.say(w::NEW_PASSWORD)), &context, &card))
}
