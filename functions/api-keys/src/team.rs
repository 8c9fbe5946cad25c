//! The dashboard's forms about users: invites, roles, passwords, the language of a user's pages, and the emails about sales
//! that a user gets.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use domain::account::MailAddress;
use domain::audit::Operator;
use domain::ids::UserId;
use effects::email::UserEmail;
use pages::forms::{ContainmentForm, MemberForm, Need, OpenForm, answer};
use pages::kept::invite_form;
use pages::{Language, safe_path, words as w};
use secrecy::SecretString;
use shared::account::password::is_acceptable;
use shared::account::{By, Invite, LinkToken, Role, TokenGeneration, User, UserChange, UserError};
use shared::auth::dashboard::{PAGES, forget_second_factor, language_cookie};
use shared::http::{FormBody, IdPath, Problem, Query, RequestContext, Result, SameOrigin};
use shared::random;

use crate::ApiKeysApp;
use crate::forms::{After, LOG_IN, enter, led, refused, session_of};

const TEAM: &str = "/dashboard/team";
const INVITES: &str = "/dashboard/team/invites";
const RESET: &str = "/dashboard/reset";
const INVITE: &str = "/dashboard/invite";
const SETTINGS: &str = "/dashboard/settings";

/// An error that the page does not explain is an error page.
fn refusal(page: &str, error: UserError) -> Result<Response> {
    Ok(refused(page, code_of(error)?, None))
}

fn code_of(error: UserError) -> Result<&'static str> {
    match error {
        UserError::EmailTaken => Ok("email_taken"),
        UserError::LastOwner => Ok("last_owner"),
        UserError::TooManyInvites => Ok("too_many_invites"),
        UserError::LinkInvalid => Ok("link_invalid"),
        error => Err(error.into()),
    }
}

/// An owner who changes the team.
fn by(member: &MemberForm<ApiKeysApp>) -> Result<By> {
    member.require(Need::Owner)?;
    Ok(By::user(member.session.operator()))
}

fn role_of(form: &Query) -> Result<Role> {
    let role = form.text("role").and_then(|role| role.parse().ok());
    role.ok_or_else(|| Problem::field("role", "must be OWNER, ADMIN, MEMBER or VIEWER"))
}

pub(crate) async fn invite(member: MemberForm<ApiKeysApp>) -> Result<Response> {
    let by = by(&member)?;
    let MemberForm { app, session, form, language, now, .. } = &member;
    let role = role_of(form)?;
    let status = StatusCode::UNPROCESSABLE_ENTITY;
    let kept = |code, fields: &[&str]| {
        member.refused(status, (code, fields), (w::INVITE_MEMBER, TEAM), |form| invite_form(form, INVITES))
    };
    let Ok(email) = form.text("email").unwrap_or_default().trim().parse::<MailAddress>() else {
        return kept("invalid_email", &["email"]);
    };
    app.dashboard.count_invite(&session.account.id, *now).await?;
    let token = LinkToken::random()?;
    let sender = (session.account.id, session.user.id);
    let invite = Invite::new(&token, sender, (email.as_str(), role), *language, *now);
    match app.users.invite(&invite, &by, *now).await {
        Ok(true) => {}
        Ok(false) => return answer(Ok(TEAM.to_owned()), TEAM),
        Err(UserError::EmailTaken) => return kept("email_taken", &["email"]),
        Err(error) => return kept(code_of(error)?, &[]),
    }
    let merchant_name = session.account.settings.merchant_name.clone();
    let email = UserEmail::Invite { link: token.mailed(), merchant_name };
    if let Err(error) = app.emails.send_later(&email, Duration::ZERO).await {
        // Without its e-mail the invite is of no use, and a repeated form would not send another.
        app.users.withdraw(&invite, &by, *now).await?;
        return Err(error.into());
    }
    answer(Ok(TEAM.to_owned()), TEAM)
}

pub(crate) async fn withdraw(
    Path(hash): Path<String>,
    OpenForm(member): ContainmentForm<ApiKeysApp>,
) -> Result<Response> {
    let by = by(&member)?;
    let MemberForm { app, session, now, .. } = &member;
    let invites = app.users.team(&session.account.id, *now).await?.invites;
    if let Some(invite) = invites.iter().find(|invite| invite.hash.as_str() == hash) {
        app.users.withdraw(invite, &by, *now).await?;
    }
    answer(Ok(TEAM.to_owned()), TEAM)
}

pub(crate) async fn set_role(IdPath(id): IdPath<UserId>, member: MemberForm<ApiKeysApp>) -> Result<Response> {
    let by = by(&member)?;
    changed(change(&member, id, &UserChange::Role(role_of(&member.form)?), &by).await.map(drop))
}

pub(crate) async fn remove(
    IdPath(id): IdPath<UserId>,
    OpenForm(member): ContainmentForm<ApiKeysApp>,
) -> Result<Response> {
    let by = by(&member)?;
    let secrets = member.app.dashboard.secrets()?;
    let id = id.ok_or(UserError::NotFound)?;
    let remove = async {
        let user = change(&member, Some(id), &UserChange::Remove, &by).await?;
        forget_second_factor(secrets, &user).await;
        Ok(())
    };
    changed(member.once_alike(&format!("remove#{id}"), Box::pin(remove)).await?)
}

async fn change(
    MemberForm { app, session, now, .. }: &MemberForm<ApiKeysApp>,
    id: Option<UserId>,
    change: &UserChange,
    by: &By,
) -> Result<UserId, UserError> {
    let id = id.ok_or(UserError::NotFound)?;
    app.users.change((&session.account.id, id), change, by, *now).await?;
    Ok(id)
}

fn changed(done: Result<(), UserError>) -> Result<Response> {
    match done {
        Ok(()) => answer(Ok(TEAM.to_owned()), TEAM),
        Err(error) => refusal(TEAM, error),
    }
}

/// The token of a link's path, and the page of the link, which also says whether it is valid.
fn link(under: &str, token: &str) -> Result<(LinkToken, String)> {
    let token = LinkToken::parse(token).ok_or(Problem::NotFound { what: "page" })?;
    let page = format!("{under}/{}", token.as_str());
    Ok((token, page))
}

fn new_password(form: &Query, email: &str) -> Option<SecretString> {
    form.text("password").filter(|password| is_acceptable(password, email)).map(SecretString::from)
}

/// Adds the invited user, and logs in with the new password.
pub(crate) async fn accept(
    State(app): State<ApiKeysApp>,
    Path(token): Path<String>,
    _: SameOrigin,
    (context, headers): (RequestContext, HeaderMap),
    FormBody(form): FormBody,
) -> Result<Response> {
    let now = app.clock.now();
    let (token, page) = link(INVITE, &token)?;
    let Some(invite) = app.users.invite_of(&token.hash(), now).await? else {
        return refusal(&page, UserError::LinkInvalid);
    };
    let Some(password) = new_password(&form, &invite.email) else {
        return Ok(refused(&page, "weak_password", None));
    };
    let hash = app.dashboard.hash(password.clone()).await?;
    let generation = TokenGeneration::new(random::bytes()?);
    let user = User::new(&invite.email, hash, invite.account, invite.role, generation, now);
    let user = User { language: Language::chosen(&headers), ..user };
    let (actor, reason) = (user.id.to_string(), "accepted an invite".to_owned());
    let by = By::user(Operator { actor, reason, source: context.source, ..Operator::default() });
    if let Err(error) = app.users.accept(&invite, &user, &by, now).await {
        return refusal(&page, error);
    }
    let after = After { next: "/dashboard", sent: None, language: Language::of(&headers) };
    enter(&app, (user.email, password), (&context, &headers), &after).await
}

/// Does the same for every address: only the mailer finds out whether it has a user. So neither the answer nor its time
/// discloses it.
pub(crate) async fn request_reset(
    State(app): State<ApiKeysApp>,
    _: SameOrigin,
    context: RequestContext,
    FormBody(form): FormBody,
) -> Result<Response> {
    let now = app.clock.now();
    let user = UserId::from_email(form.text("email").unwrap_or_default().trim());
    if app.dashboard.count_reset(&user, context.source, now).await? {
        let link = app.users.request_reset(user, now).await?.mailed();
        app.emails.send_later(&UserEmail::Reset { link }, Duration::ZERO).await?;
    }
    answer(Ok(RESET.to_owned()), RESET)
}

/// Sets the password and leads to the log-in.
pub(crate) async fn reset(
    State(app): State<ApiKeysApp>,
    Path(token): Path<String>,
    _: SameOrigin,
    context: RequestContext,
    FormBody(form): FormBody,
) -> Result<Response> {
    let now = app.clock.now();
    let (token, page) = link(RESET, &token)?;
    let Some((_requested, user)) = app.users.reset_of(&token.hash(), now).await? else {
        return refusal(&page, UserError::LinkInvalid);
    };
    let Some(password) = new_password(&form, &user.email) else {
        return Ok(refused(&page, "weak_password", None));
    };
    let new = (app.dashboard.hash(password).await?, TokenGeneration::new(random::bytes()?));
    let reason = "by the link mailed to the user".to_owned();
    let by = By::user(Operator {
        actor: user.id.to_string(),
        reason,
        source: context.source,
        ..Operator::default()
    });
    match app.users.reset_password(&token, new, &by, now).await {
        Ok(user) => tracing::info!(user = %user.id, account = %user.account, "a password was reset"),
        Err(error) => return refusal(&page, error),
    }
    answer(Ok(LOG_IN.to_owned()), LOG_IN)
}

pub(crate) async fn choose_sales_emails(member: MemberForm<ApiKeysApp>) -> Result<Response> {
    let MemberForm { app, session, form, now, .. } = &member;
    let [each_sale, summary] = ["each_sale", "summary"].map(|name| form.text(name).is_some());
    let done = app.users.set_sales_emails(&session.user, (each_sale, summary), *now).await;
    answer(done.map(|()| SETTINGS.to_owned()).map_err(Problem::from), SETTINGS)
}

/// Keeps the choice in the browser, and in the user's row for other browsers.
pub(crate) async fn choose_language(
    State(app): State<ApiKeysApp>,
    _: SameOrigin,
    (context, headers): (RequestContext, HeaderMap),
    FormBody(form): FormBody,
) -> Result<Response> {
    let language = form.text("language").and_then(Language::parse);
    let language = language.ok_or_else(|| Problem::field("language", "must be pt-BR, en or es"))?;
    let now = app.clock.now();
    if let Some(session) = session_of(&app, (&headers, context.source), now).await? {
        app.dashboard.count_request(PAGES, &session, &context, now).await?;
        app.users.set_language(&session.user.id, language).await?;
    }
    let next = safe_path(form.text("next")).to_owned();
    Ok(led(next, [language_cookie(language)]))
}
