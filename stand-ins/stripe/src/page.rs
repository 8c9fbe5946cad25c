//! The payer's page: a form without JavaScript.

use serde_json::{Value, json};

use crate::form::Params;
use crate::state::State;
use crate::values::{CONSTANTS, int, text};

pub(crate) enum Page {
    Html(u16, String),
    SeeOther(String),
}

/// Answers a request for `/pay/{id}`.
pub(crate) fn answer(state: &mut State, is_post: bool, id: &str, form: &[(String, String)]) -> Page {
    let session = state.object(id);
    if text(&session, "object") != "checkout.session" {
        return html(404, "Página não encontrada", "");
    }
    if !is_post {
        return show(state, &session);
    }
    let mut fields = json!({"session": id});
    for (name, value) in form.iter().filter(|(_, value)| !value.is_empty()) {
        let name = if name == "act" { "outcome" } else { name.as_str() };
        if let Some(fields) = fields.as_object_mut() {
            fields.insert(name.to_owned(), value.as_str().into());
        }
    }
    let params = Params(fields);
    let done = match params.text("/outcome") {
        Some("pay") => state.pay(&params),
        Some("decline") => state.decline(&params),
        Some("challenge" | "succeed" | "fail") => state.authenticate(&params),
        _ => return html(400, "Escolha uma das opções do formulário", ""),
    };
    match done {
        Ok(session) if text(&session, "payment_status") == "paid" => Page::SeeOther(success_url(&session)),
        Ok(_) => Page::SeeOther(format!("/pay/{id}")),
        Err(_) => html(409, "O pagamento não é mais possível", ""),
    }
}

fn show(state: &State, session: &Value) -> Page {
    let intent = state.object(text(session, "_payment_intent"));
    let id = text(session, "id");
    match (text(session, "status"), text(&intent, "status")) {
        ("open", "requires_action") => {
            html(200, "Autenticação", &include_str!("challenge.html").replace("{id}", id))
        }
        ("open", _) => {
            let is_refused = !intent.get("last_payment_error").unwrap_or(&Value::Null).is_null();
            let refusal = "<p role=\"alert\">O cartão foi recusado. Tente de novo ou use outro cartão.</p>";
            let cancel = link(text(session, "cancel_url"), "Cancelar e voltar à loja");
            let body = include_str!("pay.html")
                .replace("{refusal}", if is_refused { refusal } else { "" })
                .replace("{id}", id)
                .replace("{amount}", &money(int(session, "amount_total"), text(session, "currency")))
                .replace("{cancel}", &cancel)
                .replace("{name}", &escape(text(session, "_name")));
            html(200, "Pagamento com cartão", &body)
        }
        ("complete", _) => html(200, "Pagamento concluído", &link(&success_url(session), "Voltar à loja")),
        _ => html(410, "Esta sessão de pagamento expirou", ""),
    }
}

fn success_url(session: &Value) -> String {
    text(session, "success_url").replace("{CHECKOUT_SESSION_ID}", text(session, "id"))
}

/// Empty if there is no URL.
fn link(url: &str, text: &str) -> String {
    let link = format!("<p><a href=\"{}\">{text}</a></p>", escape(url));
    if url.is_empty() { String::new() } else { link }
}

fn html(status: u16, title: &str, body: &str) -> Page {
    Page::Html(status, include_str!("page.html").replace("{title}", title).replace("{body}", body))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Writes an amount of minor units, such as `BRL 1234,56`.
fn money(amount: i64, currency: &str) -> String {
    let name = currency.to_uppercase();
    if text(&CONSTANTS, "no_decimals").split(' ').any(|known| known == currency) {
        return format!("{name} {amount}");
    }
    format!("{name} {},{:02}", amount.div_euclid(100), amount.rem_euclid(100))
}
