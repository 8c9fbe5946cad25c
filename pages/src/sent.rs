//! Forms that were sent and must wait: for an answer to a question, a confirmation, a log-in, or a part of the service. The
//! answer has what was typed, so it outlives neither the tab nor the user. Nothing is stored.

use std::collections::BTreeMap;

use axum::body::{Body, HttpBody as _, to_bytes};
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, Method};
use domain::ids::UserId;
use maud::{Markup, html};
use shared::http::{Query, is_same_origin};
use url::form_urlencoded;

use crate::done::name_of;
use crate::response::{path_with, safe_path};
use crate::words as w;
use crate::{Language, Word, field_word, hidden};

/// The longest body of a form that is kept.
const MOST_BYTES: u64 = 64 * 1024;

/// Fields that are never shown again. A form that has one is not kept.
const SECRETS: [&str; 5] = ["password", "old", "new", "code", "own-code"];

/// Fields that people do not type.
const HIDDEN: [&str; 6] = ["mode", "back", "user", "idempotency_key", "before", "next"];

/// The question that a form with this field asks before it is done. The page's script asks it, and removes the field.
pub const ASK: &str = "question";

/// The form was sent by the page that asked its question.
pub const CONFIRMED: &str = "confirmed";

/// A text that is longer has a field of several lines.
const LONG_CHARS: usize = 80;

const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// A form that a page of a member sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SentForm {
    action: String,
    fields: Vec<(String, String)>,
}

/// Reads the form of a request that a page of this origin sent, and returns the request whole. `None`: it is no form of a
/// member, it has a secret, or a script sent it.
pub(crate) async fn of_request(request: Request) -> (Request, Option<SentForm>) {
    let headers = request.headers();
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let by_script = headers.get(FETCH_DEST).is_some_and(|dest| dest == "empty");
    let is_short = request.body().size_hint().upper().is_some_and(|most| most <= MOST_BYTES);
    let is_form = request.method() == Method::POST && kind.starts_with("application/x-www-form-urlencoded");
    if !is_form || !is_short || by_script || !is_same_origin(headers) {
        return (request, None);
    }
    let (parts, body) = request.into_parts();
    let most = usize::try_from(MOST_BYTES).unwrap_or(usize::MAX);
    let Ok(bytes) = to_bytes(body, most).await else {
        return (Request::from_parts(parts, Body::empty()), None);
    };
    let sent = SentForm::of(parts.uri.path(), &bytes);
    (Request::from_parts(parts, Body::from(bytes)), sent)
}

impl SentForm {
    fn of(action: &str, body: &[u8]) -> Option<Self> {
        let fields: Vec<(String, String)> = form_urlencoded::parse(body).into_owned().collect();
        let has = |name: &str| fields.iter().any(|(given, _)| given == name);
        let is_members = has("user") && has("idempotency_key") && !SECRETS.into_iter().any(has);
        (is_members && safe_path(Some(action)) == action).then(|| Self { action: action.to_owned(), fields })
    }

    /// The form that a member has sent to a path.
    pub fn typed(action: &str, typed: &Query) -> Option<Self> {
        Self::of(action, typed.encoded().as_bytes())
    }

    /// Reads the field that [`Self::hidden`] writes.
    pub fn parse(sent: Option<&str>) -> Option<Self> {
        let (action, fields) = sent?.split_once('?')?;
        Self::of(action, fields.as_bytes())
    }

    /// The whole form as a field of another one.
    pub fn hidden(&self) -> Markup {
        let fields: Vec<(&str, &str)> =
            self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        hidden("sent", &path_with(&self.action, &fields))
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    pub fn is_of(&self, user: UserId) -> bool {
        self.text("user") == Some(&*user.to_string())
    }

    /// The page of the form.
    pub fn back(&self) -> &str {
        safe_path(self.text("back"))
    }

    pub(crate) fn question(&self) -> Option<&str> {
        self.text(ASK)
    }

    /// What the form does.
    pub fn action_word(&self) -> Word {
        match name_of(&self.action).as_str() {
            "charges" => w::NEW_CHARGE,
            "charges-refund" => w::REFUND,
            "developers-keys" => w::NEW_KEY,
            "links" => w::MAKE_LINK,
            "links-change" => w::CHANGE_LINK,
            "team-invites" => w::INVITE_MEMBER,
            "wallet-key" => w::REGISTER_KEY,
            "wallet-payout" => w::REQUEST_PAYOUT,
            "webhooks" => w::REGISTER_ENDPOINT,
            _ => w::SEND,
        }
    }

    fn hidden_fields(&self) -> Markup {
        html! {
            @for (name, value) in self.fields.iter().filter(|(name, _)| name != ASK) { (hidden(name, value)) }
        }
    }

    /// A page's part that sends the form as it was: by the script at once, else by its button.
    pub fn goes_on(&self, language: Language) -> Markup {
        html! {
            form method="post" action=(self.action) data-go {
                (self.hidden_fields())
                button { (language.say(w::GO_ON)) }
            }
        }
    }

    /// The question, with what answers it.
    pub fn asked(&self, language: Language) -> Markup {
        html! {
            form.actions method="post" action=(self.action) {
                (self.hidden_fields())
                (hidden(CONFIRMED, "1"))
                button.danger { (language.say(w::CONFIRM)) }
                a.btn.quiet href=(self.back()) { (language.say(w::BACK)) }
            }
        }
    }

    /// The form filled in. It waits for its button. A question that was answered before is asked again if the server asks
    /// it, because its values may be changed.
    pub fn filled_in(&self, language: Language) -> Markup {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, _) in &self.fields {
            let count = counts.entry(name).or_default();
            *count = count.saturating_add(1);
        }
        let is_once = |name: &str| counts.get(name).is_some_and(|count| *count == 1);
        html! {
            form.fields method="post" action=(self.action) {
                @for (name, value) in self.fields.iter().filter(|(name, _)| ![ASK, CONFIRMED].contains(&name.as_str())) {
                    @if HIDDEN.contains(&name.as_str()) {
                        (hidden(name, value))
                    } @else if !is_once(name) {
                        (hidden(name, value)) code { (value) }
                    } @else {
                        @let label = field_word(name).map_or(name.as_str(), |word| language.say(word));
                        div {
                            label for={ "kept-" (name) } { (label) }
                            @if value.chars().count() > LONG_CHARS || value.contains('\n') {
                                textarea id={ "kept-" (name) } name=(name) rows="8" { "\n" (value) }
                            } @else {
                                input id={ "kept-" (name) } name=(name) value=(value) autocomplete="off";
                            }
                        }
                    }
                }
                div.actions {
                    button { (language.say(self.action_word())) }
                    a.btn.quiet href=(self.back()) { (language.say(w::BACK)) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: &str = "user=usr_1&idempotency_key=k&mode=live&back=%2Fdashboard%2Fcharges%2Fnew";

    fn sent(more: &str) -> Option<SentForm> {
        SentForm::of("/dashboard/charges", format!("{USER}{more}").as_bytes())
    }

    #[test]
    fn a_form_of_a_member_is_kept_whole_and_one_with_a_secret_is_not() {
        let kept = sent("&description=Caf%C3%A9+%26+p%C3%A3o%0A%3Cb%3E").unwrap();
        assert_eq!(
            (kept.back(), kept.text("description")),
            ("/dashboard/charges/new", Some("Café & pão\n<b>"))
        );
        let field = kept.hidden().into_string();
        let value = field.split("value=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        assert_eq!(SentForm::parse(Some(&value.replace("&amp;", "&"))), Some(kept.clone()));
        let shown = kept.filled_in(Language::English).into_string();
        assert!(shown.contains("Café &amp; pão\n&lt;b&gt;") && shown.contains("Description"), "{shown}");
        assert!(shown.contains("<button>New charge</button>"), "{shown}");
        for action in ["/dashboard/disputes/med_1/draft", "/dashboard/charges/ch_1/refund"] {
            let form = SentForm::of(action, format!("{USER}&reason=x&expires_in=15&document=1").as_bytes());
            let form = form.unwrap().filled_in(Language::Portuguese).into_string();
            let is_refund = action.ends_with("refund");
            assert_eq!(form.contains("<button>Devolver</button>"), is_refund, "{form}");
            assert!(!form.contains(">expires_in<") && !form.contains(">document<"), "{form}");
        }
        let confirmed = sent("&amount=1%2C00&confirmed=1").unwrap();
        let again = confirmed.filled_in(Language::English).into_string();
        assert!(again.contains("name=\"amount\"") && !again.contains("confirmed"), "{again}");
        assert!(confirmed.goes_on(Language::English).into_string().contains("confirmed"));
        for secret in SECRETS {
            assert_eq!(sent(&format!("&{secret}=1")), None, "{secret}");
        }
        assert_eq!(SentForm::of("/dashboard/charges", b"amount=1&idempotency_key=k"), None);
        for action in ["https://evil.example/", "//evil.example", "/checkout/1/simulate"] {
            assert_eq!(SentForm::of(action, USER.as_bytes()), None, "{action}");
            assert_eq!(SentForm::parse(Some(&format!("{action}?{USER}"))), None, "{action}");
        }
    }
}
