//! The pages about a user's own access: code of the log-in, confirmation of a session, security.

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use maud::{Markup, html};
use pages::forms::Need;
use pages::{
    Access, Cell, Document, Language, Tone, announced, code_field, password_field, safe_path, tag, time,
};
use shared::auth::dashboard::IssuedToken;
use shared::auth::dashboard::token::TokenKind;
use shared::http::{RequestContext, Result};

use crate::visit::{Page, Visitor};
use crate::words as w;

pages::words! { pub(crate),
    APP_CODE = "Código que o app mostra", "Code that the app shows", "Código que muestra la app";
    SECURITY = "Segurança", "Security", "Seguridad";
    THIS_SESSION = "esta sessão", "this session", "esta sesión";
    SECOND_FACTOR_MEANS = "Além da senha, o login pede um código do seu celular.", "Beside the password, the log-in asks for a code of your phone.", "Además de la contraseña, el inicio de sesión pide un código de su teléfono.";
    DEMANDED = "O proprietário da conta exige a verificação em duas etapas. Ative-a para continuar.", "The owner of the account demands the second factor. Turn it on to go on.", "El dueño de la cuenta exige la verificación en dos pasos. Actívela para continuar.";
    ON_SINCE = "Ativa desde", "On since", "Activa desde";
    OFF = "Desativada", "Off", "Desactivada";
    SHOW_QR = "Mostrar o QR code", "Show the QR code", "Mostrar el código QR";
    HAVE_CODE = "Já escaneei o QR code", "I have scanned the QR code", "Ya escaneé el código QR";
    TURN_OFF = "Desativar", "Turn off", "Desactivar";
    NEW_PASSWORD = "Nova senha (12 caracteres ou mais)", "New password (12 characters or more)", "Nueva contraseña (12 caracteres o más)";
    OLD_PASSWORD = "Senha atual", "Present password", "Contraseña actual";
    CHANGE_PASSWORD = "Trocar a senha", "Change the password", "Cambiar la contraseña";
    CHANGE_PASSWORD_MEANS = "Encerra as suas outras sessões.", "Ends your other sessions.", "Cierra sus otras sesiones.";
    SESSIONS = "Sessões", "Sessions", "Sesiones";
    END_SESSIONS = "Encerrar todas as sessões", "End all sessions", "Cerrar todas las sesiones";
    END_SESSIONS_MEANS = "Encerra também esta; você entra de novo.", "This one too. Log in again afterwards.", "También esta. Después, entre de nuevo.";
    MORE_SESSIONS = "Há mais sessões, mais antigas. Encerre todas para encerrar também essas.", "There are more, older sessions. End all to end these too.", "Hay más sesiones, más antiguas. Cierre todas para cerrar también esas.";
    OPEN_SESSIONS = "Sessões abertas", "Open sessions", "Sesiones abiertas";
    END_SESSION = "Encerrar", "End", "Cerrar";
    DEVICE = "Navegador", "Browser", "Navegador";
    UNKNOWN_DEVICE = "desconhecido", "unknown", "desconocido";
    ALL_MEMBERS = "Todos os membros", "All members", "Todos los miembros";
    DEMAND = "Exigir de todos", "Demand it of all", "Exigir a todos";
    DEMAND_NO_LONGER = "Não exigir mais", "Demand it no longer", "No exigir más";
    DEMAND_ASK = "Exigir de todos? Quem ainda não ativou só vê a página de segurança até ativar.", "Demand it of all? Who has not turned it on sees only the security page until then.", "¿Exigir a todos? Quien aún no la activó solo ve la página de seguridad hasta activarla.";
    IS_DEMANDED = "Todos os membros devem usar a verificação em duas etapas.", "All members must use the second factor.", "Todos los miembros deben usar la verificación en dos pasos.";
    IS_NOT_DEMANDED = "Cada membro decide se usa a verificação em duas etapas.", "Each member decides whether to use the second factor.", "Cada miembro decide si usa la verificación en dos pasos.";
}

/// See [`Access::code`].
pub(crate) async fn code(context: RequestContext, headers: HeaderMap) -> Response {
    let (language, query) = (Language::of(&headers), &context.query);
    let next = safe_path(query.text("next"));
    let main = Access { language, next, error: query.text("error"), sent: None }.code();
    let title = language.say(w::SECOND_FACTOR);
    pages::html(StatusCode::OK, Document { language, title, shell: None, main }.render())
}

pub(crate) async fn confirm(visitor: Visitor) -> Result<Response> {
    let next = safe_path(visitor.query().text("next")).to_owned();
    let (page, ()) = visitor.enter_to_enrol().await?.load(async |_| Ok(())).await?;
    let has_second_factor = page.session.user.second_factor_at.is_some();
    let access = Access { language: page.language, next: &next, error: None, sent: None };
    let main = access.confirmation(page.mode, has_second_factor);
    Ok(page.render(page.say(w::CONFIRM_TITLE), &main))
}

pub(crate) async fn show(visitor: Visitor) -> Result<Response> {
    let visit = visitor.enter_to_enrol().await?;
    let (page, (sessions, has_more)) =
        visit.load(async |visit| visit.app.dashboard.open_sessions(&visit.session, visit.now).await).await?;
    let sessions: Vec<_> = sessions.iter().map(|issued| session_row(&page, issued)).collect();
    let main = html! {
        p.crumb { a href="/dashboard/team" { (page.say(w::TEAM)) } }
        h1 { (page.say(SECURITY)) }
        @if page.session.lacks_second_factor() {
            (announced(Tone::Warn, &html! { (page.say(DEMANDED)) }))
        }
        (second_factor(&page))
        @if !page.session.lacks_second_factor() {
            (demand(&page))
        }
        section.card {
            h2 { (page.say(CHANGE_PASSWORD)) }
            p { (page.say(CHANGE_PASSWORD_MEANS)) }
            form.fields method="post" action="/dashboard/security/password" {
                (page.mode_field())
                (password_field("old", page.say(OLD_PASSWORD), "current-password"))
                (password_field("new", page.say(NEW_PASSWORD), "new-password"))
                @if page.session.user.second_factor_at.is_some() { (code_field(page.language, "own-code", w::CODE)) }
                div { button { (page.say(CHANGE_PASSWORD)) } }
            }
        }
        section.card {
            h2 { (page.say(SESSIONS)) }
            (page.table(OPEN_SESSIONS, &[
                (Cell::Time, w::WHEN),
                (Cell::Main, DEVICE),
                (Cell::Other, w::ADDRESS),
                (Cell::State, END_SESSION),
            ], sessions))
            @if has_more { p { (page.say(MORE_SESSIONS)) } }
            p { (page.say(END_SESSIONS_MEANS)) }
            (page.button("/dashboard/security/sessions", (END_SESSIONS, "danger"), Need::Viewer, &html! {}))
        }
    };
    Ok(page.render(page.say(SECURITY), &main))
}

fn session_row(page: &Page, issued: &IssuedToken) -> Vec<Markup> {
    let device = match (issued.kind, issued.agent.as_deref().map(device)) {
        (TokenKind::Api, _) => "API".to_owned(),
        (_, Some(device)) if !device.is_empty() => device,
        _ => page.say(UNKNOWN_DEVICE).to_owned(),
    };
    let path = format!("/dashboard/security/sessions/{}/end", issued.id());
    vec![
        html! { @if let Some(at) = issued.logged_in_at() { (time(at)) } },
        html! { span title=(issued.agent.as_deref().unwrap_or_default()) { (device) } },
        html! { @if let Some(ip) = issued.source.ip() { (ip) } },
        html! {
            @if page.session.is_with(issued) { (tag(Tone::Info, page.say(THIS_SESSION))) } @else {
                (page.button(&path, (END_SESSION, "quiet"), Need::Viewer, &html! {}))
            }
        },
    ]
}

/// The browser and the system that a `User-Agent` names, such as `Firefox · Windows`. The first name that is found
/// counts, because most browsers also name those that they are like.
fn device(agent: &str) -> String {
    let named = |names: &[(&str, &'static str)]| {
        names.iter().find(|(part, _)| agent.contains(part)).map(|(_, name)| *name)
    };
    let browsers = [
        ("Edg", "Edge"),
        ("OPR/", "Opera"),
        ("SamsungBrowser/", "Samsung Internet"),
        ("Firefox/", "Firefox"),
        ("FxiOS/", "Firefox"),
        ("Chrome/", "Chrome"),
        ("CriOS/", "Chrome"),
        ("Safari/", "Safari"),
    ];
    let systems = [
        ("Android", "Android"),
        ("iPhone", "iOS"),
        ("iPad", "iOS"),
        ("Windows", "Windows"),
        ("Macintosh", "macOS"),
        ("CrOS", "ChromeOS"),
        ("Linux", "Linux"),
    ];
    let browser = named(&browsers).or_else(|| agent.split(['/', ' ']).next()).unwrap_or_default();
    [Some(browser), named(&systems)].into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn second_factor(page: &Page) -> Markup {
    html! {
        section.card {
            h2 { (page.say(w::SECOND_FACTOR)) }
            p { (page.say(SECOND_FACTOR_MEANS)) }
            @if let Some(since) = page.session.user.second_factor_at {
                p { (tag(Tone::Good, page.say(ON_SINCE))) " " (time(since)) }
                details {
                    summary { (page.say(TURN_OFF)) }
                    form.fields method="post" action="/dashboard/security/totp/off" {
                        (page.mode_field())
                        (password_field("password", page.say(w::PASSWORD), "current-password"))
                        (code_field(page.language, "code", w::CODE))
                        div { button.danger { (page.say(TURN_OFF)) } }
                    }
                }
            } @else {
                p { (tag(Tone::Warn, page.say(OFF))) }
                (page.button("/dashboard/security/totp", (SHOW_QR, ""), Need::Viewer, &html! {}))
                // A wrong first code leads back here. The seed is not shown again.
                details {
                    summary { (page.say(HAVE_CODE)) }
                    form.fields method="post" action="/dashboard/security/totp/on" {
                        (page.mode_field())
                        (code_field(page.language, "code", APP_CODE))
                        div { button { (page.say(w::TURN_ON)) } }
                    }
                }
            }
        }
    }
}

fn demand(page: &Page) -> Markup {
    let is_demanded = page.session.account.requires_second_factor;
    let (means, label, value, question) = if is_demanded {
        (IS_DEMANDED, DEMAND_NO_LONGER, "0", None)
    } else {
        (IS_NOT_DEMANDED, DEMAND, "1", Some(DEMAND_ASK))
    };
    let more = &pages::hidden("required", value);
    html! {
        section.card {
            h2 { (page.say(ALL_MEMBERS)) }
            p { (page.say(means)) }
            (page.button_form("/dashboard/security/demand", (label, ""), Need::Owner, (question, more)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::device;

    #[test]
    fn a_device_is_named_by_its_browser_and_system() {
        let gecko = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:146.0) Gecko/20100101 Firefox/146.0";
        let webkit = "(KHTML, like Gecko) Chrome/143.0.0.0";
        for (agent, name) in [
            (gecko.to_owned(), "Firefox · Windows"),
            (format!("Mozilla/5.0 (Linux; Android 10; K) {webkit} Mobile Safari/537.36"), "Chrome · Android"),
            (format!("Mozilla/5.0 (Windows NT 10.0) {webkit} Safari/537.36 Edg/143.0"), "Edge · Windows"),
            ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_7) Version/26.1 Safari/604.1".to_owned(), "Safari · iOS"),
            ("curl/8.14.1".to_owned(), "curl"),
            (String::new(), ""),
        ] {
            assert_eq!(device(&agent), name, "{agent}");
        }
    }
}
