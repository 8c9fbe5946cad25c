//! The pages about a user's own access: code of the log-in, confirmation of a session, security.

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use maud::{Markup, html};
use pages::forms::Need;
use pages::{Cell, Document, Language, Tone, Word, safe_path, table, tag, time};
use shared::audit;
use shared::http::{Problem, RequestContext};

use crate::visit::{Page, Visitor};
use crate::words as w;

const LISTED_LOG_INS: usize = 10;

pages::words! { pub(crate),
    CONFIRM_TITLE = "Confirme que é você", "Confirm that it is you", "Confirme que es usted";
    CONFIRM_MEANS = "O seu login tem mais de 10 minutos. Nada foi alterado: depois de confirmar, repita a ação.", "Your log-in is older than 10 minutes. Nothing was changed: after you confirm, repeat the action.", "Su inicio de sesión tiene más de 10 minutos. No se cambió nada: después de confirmar, repita la acción.";
    CONFIRM = "Confirmar", "Confirm", "Confirmar";
    CODE = "Código do app autenticador, ou código de recuperação", "Code of the authenticator app, or recovery code", "Código de la app de autenticación, o código de recuperación";
    APP_CODE = "Código que o app mostra", "Code that the app shows", "Código que muestra la app";
    SECURITY = "Segurança", "Security", "Seguridad";
    THIS_SESSION = "esta sessão", "this session", "esta sesión";
    SECOND_FACTOR = "Verificação em duas etapas", "Second factor", "Verificación en dos pasos";
    SECOND_FACTOR_MEANS = "Além da senha, o login pede um código do seu celular.", "Beside the password, the log-in asks for a code of your phone.", "Además de la contraseña, el inicio de sesión pide un código de su teléfono.";
    DEMANDED = "O dono da conta exige a verificação em duas etapas. Ative-a para continuar.", "The owner of the account demands the second factor. Turn it on to go on.", "El dueño de la cuenta exige la verificación en dos pasos. Actívela para continuar.";
    ON_SINCE = "Ativa desde", "On since", "Activa desde";
    OFF = "Desativada", "Off", "Desactivada";
    SHOW_QR = "Mostrar o QR code", "Show the QR code", "Mostrar el código QR";
    HAVE_CODE = "Já li o QR code", "I have scanned the QR code", "Ya escaneé el código QR";
    TURN_OFF = "Desativar", "Turn off", "Desactivar";
    NEW_PASSWORD = "Nova senha (12 caracteres ou mais)", "New password (12 characters or more)", "Nueva contraseña (12 caracteres o más)";
    OLD_PASSWORD = "Senha atual", "Present password", "Contraseña actual";
    CHANGE_PASSWORD = "Trocar a senha", "Change the password", "Cambiar la contraseña";
    CHANGE_PASSWORD_MEANS = "Encerra as suas outras sessões.", "Ends your other sessions.", "Cierra sus otras sesiones.";
    SESSIONS = "Sessões", "Sessions", "Sesiones";
    END_SESSIONS = "Encerrar todas as sessões", "End all sessions", "Cerrar todas las sesiones";
    END_SESSIONS_MEANS = "Também esta. Depois, entre de novo.", "This one too. Log in again afterwards.", "También esta. Después, entre de nuevo.";
    NO_LOG_INS = "Nenhum acesso entre as últimas 100 ações da conta. A auditoria tem as anteriores.", "No log-in among the last 100 actions of the account. The audit has the earlier ones.", "Ningún acceso entre las últimas 100 acciones de la cuenta. La auditoría tiene las anteriores.";
    LOG_INS = "Últimos acessos", "Last log-ins", "Últimos accesos";
    ALL_MEMBERS = "Todos os membros", "All members", "Todos los miembros";
    DEMAND = "Exigir de todos", "Demand it of all", "Exigir a todos";
    DEMAND_NO_LONGER = "Não exigir mais", "Demand it no longer", "No exigir más";
    IS_DEMANDED = "Todos os membros devem usar a verificação em duas etapas.", "All members must use the second factor.", "Todos los miembros deben usar la verificación en dos pasos.";
    IS_NOT_DEMANDED = "Cada membro decide se usa a verificação em duas etapas.", "Each member decides whether to use the second factor.", "Cada miembro decide si usa la verificación en dos pasos.";
}

fn code_field(id: &str, label: &str) -> Markup {
    html! {
        div {
            label for=(id) { (label) }
            input id=(id) name="code" autocomplete="one-time-code" autocapitalize="none" spellcheck="false" required maxlength="64";
        }
    }
}

fn password_field(name: &str, label: &str, autocomplete: &str) -> Markup {
    html! {
        div {
            label for=(name) { (label) }
            input id=(name) name=(name) type="password" autocomplete=(autocomplete) required maxlength="1024";
        }
    }
}

/// Asks for the code of a log-in whose password was right. The form checks the cookie that says so.
pub(crate) async fn code(context: RequestContext, headers: HeaderMap) -> Response {
    let language = Language::of(&headers);
    let say = |word| language.say(word);
    let main = html! {
        div.card {
            h1 { (say(SECOND_FACTOR)) }
            @if let Some(code) = context.query.text("error") {
                div.alert.bad role="alert" { (say(w::of_code(code))) }
            }
            form.fields method="post" action="/dashboard/totp" {
                (pages::hidden("next", safe_path(context.query.text("next"))))
                (code_field("code", say(CODE)))
                div { button { (say(w::LOG_IN)) } }
            }
            p { a href="/dashboard/login" { (say(w::LOG_IN)) " ←" } }
        }
    };
    let title = say(SECOND_FACTOR);
    pages::html(StatusCode::OK, Document { language, title, shell: None, main }.render())
}

pub(crate) async fn confirm(visitor: Visitor) -> Result<Response, Problem> {
    let next = safe_path(visitor.query().text("next")).to_owned();
    let (page, ()) = visitor.enter_to_enrol().await?.load(async |_| Ok(())).await?;
    let has_second_factor = page.visit.session.user.second_factor_at.is_some();
    let main = html! {
        section.card {
            h1 { (page.say(CONFIRM_TITLE)) }
            p { (page.say(CONFIRM_MEANS)) }
            form.fields method="post" action="/dashboard/confirm" {
                (page.mode_field())
                (pages::hidden("next", &next))
                @if has_second_factor {
                    (code_field("code", page.say(CODE)))
                } @else {
                    (password_field("password", page.say(w::PASSWORD), "current-password"))
                }
                div { button { (page.say(CONFIRM)) } }
            }
        }
    };
    Ok(page.render(page.say(CONFIRM_TITLE), &main))
}

pub(crate) async fn show(visitor: Visitor) -> Result<Response, Problem> {
    let visit = visitor.enter_to_enrol().await?;
    let (page, (found, _)) = visit
        .load(async |visit| {
            Ok(audit::page(&visit.visitor.pages.store, &visit.session.account.id, None).await?)
        })
        .await?;
    let member = &page.visit.session.member;
    let user = member.user.to_string();
    let begins = |action: &str| matches!(action, "user.log-in" | "user.confirm");
    let log_ins = found.iter().filter(|row| row.actor == user && begins(&row.action));
    let log_ins = log_ins.take(LISTED_LOG_INS).map(|row| {
        let is_this = row.at.seconds() == member.logged_in_at();
        vec![
            html! { (time(row.at)) @if is_this { " " (tag(Tone::Info, page.say(THIS_SESSION))) } },
            html! { @if let Some(ip) = row.source.ip() { (ip) } },
        ]
    });
    let log_ins: Vec<_> = log_ins.collect();
    let main = html! {
        p.crumb { a href="/dashboard/team" { (page.say(w::TEAM)) } }
        h1 { (page.say(SECURITY)) }
        @if page.visit.session.lacks_second_factor() {
            div.alert.warn role="alert" { (page.say(DEMANDED)) }
        }
        (second_factor(&page))
        @if !page.visit.session.lacks_second_factor() {
            (demand(&page))
        }
        section.card {
            h2 { (page.say(CHANGE_PASSWORD)) }
            p { (page.say(CHANGE_PASSWORD_MEANS)) }
            form.fields method="post" action="/dashboard/security/password" {
                (page.mode_field())
                (password_field("old", page.say(OLD_PASSWORD), "current-password"))
                (password_field("new", page.say(NEW_PASSWORD), "new-password"))
                @if page.visit.session.user.second_factor_at.is_some() { (code_field("own-code", page.say(CODE))) }
                div { button { (page.say(CHANGE_PASSWORD)) } }
            }
        }
        section.card {
            h2 { (page.say(SESSIONS)) }
            @if log_ins.is_empty() { p { (page.say(NO_LOG_INS)) } } @else {
                (table(page.say(LOG_INS), &[
                    (Cell::Time, page.say(w::WHEN)),
                    (Cell::Main, page.say(w::ADDRESS)),
                ], log_ins))
            }
            p { (page.say(END_SESSIONS_MEANS)) }
            (page.button("/dashboard/security/sessions", (END_SESSIONS, "danger"), Need::Member, &html! {}))
        }
    };
    Ok(page.render(page.say(SECURITY), &main))
}

fn second_factor(page: &Page) -> Markup {
    html! {
        section.card {
            h2 { (page.say(SECOND_FACTOR)) }
            p { (page.say(SECOND_FACTOR_MEANS)) }
            @if let Some(since) = page.visit.session.user.second_factor_at {
                p { (tag(Tone::Good, page.say(ON_SINCE))) " " (time(since)) }
                details {
                    summary { (page.say(TURN_OFF)) }
                    form.fields method="post" action="/dashboard/security/totp/off" {
                        (page.mode_field())
                        (password_field("password", page.say(w::PASSWORD), "current-password"))
                        (code_field("code", page.say(CODE)))
                        div { button.danger { (page.say(TURN_OFF)) } }
                    }
                }
            } @else {
                p { (tag(Tone::Warn, page.say(OFF))) }
                (page.button("/dashboard/security/totp", (SHOW_QR, ""), Need::Member, &html! {}))
                // A wrong first code leads back here. The seed is not shown again.
                details {
                    summary { (page.say(HAVE_CODE)) }
                    form.fields method="post" action="/dashboard/security/totp/on" {
                        (page.mode_field())
                        (code_field("code", page.say(APP_CODE)))
                        div { button { (page.say(w::TURN_ON)) } }
                    }
                }
            }
        }
    }
}

fn demand(page: &Page) -> Markup {
    let is_demanded = page.visit.session.account.requires_second_factor;
    let (means, label, value): (Word, Word, &str) =
        if is_demanded { (IS_DEMANDED, DEMAND_NO_LONGER, "0") } else { (IS_NOT_DEMANDED, DEMAND, "1") };
    html! {
        section.card {
            h2 { (page.say(ALL_MEMBERS)) }
            p { (page.say(means)) }
            form method="post" action="/dashboard/security/demand" {
                (page.mode_field())
                (pages::hidden("required", value))
                (page.submit((label, ""), Need::Owner))
            }
        }
    }
}
