//! Forms that keep what was typed when they are refused: the answer shows the form again, so that nothing that was
//! typed is in a URL.

use domain::account::Brand;
use domain::calendar::Day;
use domain::charge::Charge;
use domain::ids::Mode;
use domain::money::{Currency, MinorUnits, Money};
use domain::payment_link::{AskedField, PaymentLink};
use domain::payment_method::PaymentMethod;
use domain::pix_key::PixKeyKind;
use domain::vocabulary::Vocabulary as _;
use domain::webhook::event_type::{EventType, Family};
use effects::webhook::endpoint::Endpoint;
use maud::{Markup, html};
use shared::account::Role;
use shared::auth::dashboard::Session;
use shared::http::Query;
use strum::VariantArray;

use crate::words as w;
use crate::{Language, Word, choice, hidden, masked_payer, money};

/// What a role may do at least in live mode. In test mode, a member may do what needs no [`Need::Keys`] and no
/// [`Need::Owner`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Need {
    /// What every role may: the own access.
    Viewer,
    Member,
    /// The dossier of a dispute, which changes nothing but has all that is known about a customer.
    Dossier,
    Admin,
    /// API keys, in both modes.
    Keys,
    /// What both modes share, in both modes, after a recent log-in.
    Settings,
    /// The team and what all users must do, as [`Need::Settings`].
    Owner,
}

impl Need {
    pub fn is_met(self, session: &Session, mode: Mode) -> bool {
        match (self, session.user.role) {
            (Self::Viewer, Role::Owner | Role::Admin | Role::Member | Role::Viewer)
            | (Self::Member, Role::Owner | Role::Admin | Role::Member)
            | (Self::Dossier, Role::Owner | Role::Admin | Role::Viewer)
            | (Self::Admin | Self::Keys | Self::Settings, Role::Owner | Role::Admin)
            | (Self::Owner, Role::Owner) => true,
            (Self::Admin | Self::Dossier, Role::Member) => mode == Mode::Test,
            (Self::Keys | Self::Settings, Role::Member)
            | (Self::Owner, Role::Admin | Role::Member)
            | (Self::Member | Self::Admin | Self::Keys | Self::Settings | Self::Owner, Role::Viewer) => false,
        }
    }

    /// Whether a page has the form of an action. It is disabled for a member who may not send it. A viewer, who may send
    /// hardly any, does not see it.
    pub fn is_shown(self, session: &Session, mode: Mode) -> bool {
        session.user.role != Role::Viewer || self.is_met(session, mode)
    }
}

/// For whom a form is drawn, and what was sent if it is drawn again.
pub struct Form<'a> {
    pub session: &'a Session,
    pub language: Language,
    pub mode: Mode,
    /// The path of the form's page, to which a log-in that the form needs leads back.
    pub page: &'a str,
    /// `MemberForm::once` accepts it once.
    pub key: &'a str,
    pub refused: Option<Refused<'a>>,
}

pub struct Refused<'a> {
    pub typed: &'a Query,
    pub code: &'a str,
    /// The fields that failed, such as `customer.document`. That of a list may have an index.
    pub fields: &'a [&'a str],
}

impl Refused<'_> {
    fn names(&self, input: &str) -> bool {
        let name_of =
            |field: &&str| field.split('[').next().and_then(|path| path.rsplit('.').next()) == Some(input);
        self.fields.iter().any(name_of)
    }
}

/// The button of an action that would be refused, with the reason.
pub fn disabled(language: Language, label: Word, reason: Word) -> Markup {
    let reason = language.say(reason);
    html! { button disabled title=(reason) { (language.say(label)) " (" (reason) ")" } }
}

struct Input<'a> {
    name: &'static str,
    kind: &'static str,
    label: Word,
    /// The most characters.
    max: &'static str,
    is_required: bool,
    /// It has the focus when the page is shown.
    is_first: bool,
    example: Option<&'a str>,
    /// Shown beside a refused field; `None`: what the code means.
    rule: Option<Word>,
}

impl Input<'_> {
    fn new(name: &'static str, kind: &'static str, label: Word, max: &'static str) -> Self {
        Self { name, kind, label, max, is_required: false, is_first: false, example: None, rule: None }
    }
}

impl Form<'_> {
    pub fn hidden(&self) -> Markup {
        html! {
            (hidden("mode", self.mode.as_str()))
            (hidden("back", self.page))
            (hidden("user", &self.session.user.id.to_string()))
            (hidden("idempotency_key", self.key))
        }
    }

    /// See [`Need::is_shown`].
    pub fn shows(&self, need: Need) -> bool {
        need.is_shown(self.session, self.mode)
    }

    /// The button of an action. Without the role it is disabled, and says which role it needs.
    pub fn submit(&self, (label, class): (Word, &str), need: Need) -> Markup {
        if need.is_met(self.session, self.mode) {
            return html! { button.(class) { (self.language.say(label)) } };
        }
        disabled(self.language, label, if need == Need::Owner { w::NEEDS_OWNER } else { w::NEEDS_ADMIN })
    }

    fn value<'v>(&'v self, name: &str, present: Option<&'v str>) -> Option<&'v str> {
        self.refused.as_ref().map_or(present, |refused| refused.typed.text(name))
    }

    /// What is wrong with a field, as an element with the id `…-error`.
    fn error(&self, name: &str, rule: Option<Word>) -> Option<Markup> {
        let refused = self.refused.as_ref()?;
        let rule = refused.names(name).then(|| rule.unwrap_or(w::of_code(refused.code)))?;
        Some(html! { p.alert.bad id={ (name) "-error" } { (self.language.say(rule)) } })
    }

    /// A choice of several values: each with what is shown, and whether it is chosen at first. `field`: what a refusal
    /// names.
    fn boxes<'v>(
        &self,
        field: &str,
        (name, legend): (&str, Word),
        values: impl Iterator<Item = (&'v str, Markup, bool)>,
    ) -> Markup {
        let error = self.error(field, (field == "events").then_some(w::RULE_EVENTS));
        let is_chosen = |value: &str, present| {
            self.refused
                .as_ref()
                .map_or(present, |refused| refused.typed.texts(name).any(|sent| sent == value))
        };
        html! {
            fieldset aria-describedby=[error.as_ref().map(|_| format!("{field}-error"))] {
                legend { (self.language.say(legend)) }
                @if let Some(error) = error { (error) }
                @for (value, shown, present) in values {
                    label { input type="checkbox" name=(name) value=(value) checked[is_chosen(value, present)]; " " (shown) }
                }
            }
        }
    }

    fn input(&self, input: &Input<'_>, present: Option<&str>) -> Markup {
        let Input { name, kind, label, max, is_required, is_first, example, rule } = *input;
        let error = self.error(name, rule);
        let optional = (!is_required && present.is_none()).then(|| self.language.say(w::OPTIONAL));
        let described = error.is_some().then(|| format!("{name}-error"));
        html! {
            div.f {
                label for=(name) { (self.language.say(label)) }
                input id=(name) name=(name) type=(kind) maxlength=(max) required[is_required] placeholder=[example.or(optional)]
                    inputmode=[name.ends_with("amount").then_some("decimal")]
                    value=[self.value(name, present)] autocomplete="off" autofocus[error.is_some() || (is_first && self.refused.is_none())] aria-invalid=[error.as_ref().map(|_| "true")] aria-describedby=[described];
                @if let Some(error) = error { (error) }
            }
        }
    }
}

/// The form of a new endpoint, or of the change of one.
pub fn endpoint_form(form: &Form<'_>, (action, button): (&str, Word), endpoint: Option<&Endpoint>) -> Markup {
    let url = Input {
        is_required: true,
        example: Some("https://loja.example/webhook"),
        rule: Some(w::RULE_URL),
        ..Input::new("url", "url", w::URL, "2048")
    };
    let is_chosen = |event: EventType| match endpoint {
        Some(endpoint) => endpoint.events.contains(&event),
        None => event.family() == Family::Canonical,
    };
    let present = endpoint.map(|endpoint| endpoint.url.as_str());
    html! {
        form.fields method="post" action=(action) {
            (form.hidden())
            // A change of other fields does not count as one of the URL.
            @if let Some(before) = form.value("before", present) { (hidden("before", before)) }
            (form.input(&url, present))
            (form.boxes("events", ("events", w::EVENTS), EventType::subscribable().map(|event| {
                (event.as_str(), html! { code { (event.as_str()) } }, is_chosen(event))
            })))
            div { (form.submit((button, ""), Need::Admin)) }
        }
    }
}

pub fn charge_form(form: &Form<'_>) -> Markup {
    let inputs = [
        Input {
            is_required: true,
            is_first: true,
            example: Some("129,90"),
            ..Input::new("amount", "text", w::AMOUNT_IN_BRL, "32")
        },
        Input::new("order_id", "text", w::ORDER, "500"),
        Input::new("name", "text", w::CUSTOMER, "200"),
        Input { rule: Some(w::RULE_DOCUMENT), ..Input::new("document", "text", w::DOCUMENT, "32") },
        Input::new("email", "email", w::EMAIL, "254"),
        Input::new("description", "text", w::DESCRIPTION, "500"),
    ];
    let sent = form.value("expires_in", None).unwrap_or_default();
    let usual = form.session.account.settings.charge_expires_in_seconds;
    let choices = [("15", w::QUARTER_HOUR, 900), ("60", w::ONE_HOUR, 3_600), ("1440", w::ONE_DAY, 86_400)];
    let (others, named): (Vec<_>, Vec<_>) = choices.into_iter().partition(|(.., seconds)| *seconds != usual);
    let minutes = usual.saturating_add(59).div_euclid(60).to_string();
    let minutes = form.language.fill(w::MINUTES, &[&minutes]);
    let usual = named.first().map_or(&*minutes, |(_, word, _)| form.language.say(*word));
    let usual = std::iter::once(("", form.language.fill(w::USUAL_EXPIRY, &[usual])));
    let others = others.into_iter().map(|(minutes, word, _)| (minutes, form.language.say(word).to_owned()));
    let expiries = usual.chain(others);
    html! {
        form.fields.new method="post" action="/dashboard/charges" {
            (form.hidden())
            @for input in &inputs { (form.input(input, None)) }
            (choice(form.language.say(w::EXPIRES_AFTER), ("expires_in", "expires_in"), sent, expiries))
            div { button { (form.language.say(w::CREATE)) } }
        }
    }
}

/// The form of a new payment link in BRL.
pub fn link_form(form: &Form<'_>) -> Markup {
    let say = |word| form.language.say(word);
    let amount = |name, label| Input::new(name, "text", label, "32");
    let hint = |word| html! { p.sm.soft { (say(word)) } };
    let methods = PaymentMethod::all().filter(|method| method.supports_currency(Currency::BRL));
    html! {
        form.fields method="post" action="/dashboard/links" {
            (form.hidden())
            (form.input(&Input::new("description", "text", w::DESCRIPTION, "500"), None))
            (form.input(&Input { example: Some("129,90"), ..amount("amount", w::AMOUNT_IN_BRL) }, None))
            (hint(w::LINK_AMOUNT_MEANS))
            (form.input(&amount("min_amount", w::MIN_AMOUNT), None))
            (form.input(&amount("max_amount", w::MAX_AMOUNT), None))
            (form.boxes("payment_methods", ("methods", w::METHODS_OF_LINK), methods.map(|method| {
                (method.as_str(), html! { (say(w::of_method(method))) }, method == PaymentMethod::Pix)
            })))
            (asks(form, &[]))
            (form.input(&Input::new("max_payments", "text", w::MAX_PAYMENTS, "5"), None))
            (hint(w::MAX_PAYMENTS_MEANS))
            (form.input(&Input::new("expires_at", "date", w::ENDS_ON, "10"), None))
            div { (form.submit((w::MAKE_LINK, ""), Need::Member)) }
        }
    }
}

/// The form that changes a link. Its amounts and methods stay.
pub fn link_change_form(form: &Form<'_>, action: &str, link: &PaymentLink) -> Markup {
    let max = link.max_payments.map(|max| max.to_string());
    let ends_on = link.expires_at.map(|at| Day::of(at).to_string());
    let url = Input {
        example: Some("https://loja.example/obrigado"),
        ..Input::new("success_url", "url", w::SUCCESS_URL, "2048")
    };
    html! {
        form.fields method="post" action=(action) {
            (form.hidden())
            (form.input(&Input::new("description", "text", w::DESCRIPTION, "500"), link.description.as_deref()))
            (asks(form, &link.ask))
            @if let Some(max) = &max { (form.input(&Input::new("max_payments", "text", w::MAX_PAYMENTS, "5"), Some(max))) }
            (form.input(&Input::new("expires_at", "date", w::ENDS_ON, "10"), ends_on.as_deref()))
            (form.input(&url, link.success_url.as_deref()))
            div { (form.submit((w::SAVE, ""), Need::Member)) }
        }
    }
}

/// What a link asks of its payers.
fn asks(form: &Form<'_>, present: &[AskedField]) -> Markup {
    let field = |field: AskedField| {
        (field.as_str(), html! { (form.language.say(asked(field))) }, present.contains(&field))
    };
    form.boxes("ask", ("ask", w::LINK_ASKS), AskedField::all().map(field))
}

fn asked(field: AskedField) -> Word {
    match field {
        AskedField::Name => w::PAYER_NAME,
        AskedField::Email => w::EMAIL,
        AskedField::Document => w::TAX_ID,
        AskedField::Phone => w::PHONE,
        AskedField::Address => w::STREET,
    }
}

/// The form that refunds a charge, of which `rest` is left and filled in.
pub fn refund_form(form: &Form<'_>, action: &str, charge: &Charge, rest: MinorUnits) -> Markup {
    let amount = Input { is_required: true, ..Input::new("amount", "text", w::AMOUNT, "32") };
    let all = money(rest.get(), charge.currency);
    let digits: String = all.chars().filter(|c| c.is_ascii_digit() || *c == ',').collect();
    let is_card = charge.method() == PaymentMethod::CreditCard;
    let (label, left) = if is_card { (w::REVERSE, w::REVERSIBLE_IS) } else { (w::REFUND, w::REFUNDABLE_IS) };
    html! {
        p.sm.soft { (form.language.fill(left, &[&all])) }
        form.row method="post" action=(action) {
            (form.hidden())
            (form.input(&amount, Some(&digits)))
            (form.input(&Input::new("reason", "text", w::REASON, "500"), None))
            (form.submit((label, "danger"), Need::Admin))
        }
    }
}

/// The question before a refund, with the amount as it was understood.
pub fn refund_question(form: &Form<'_>, charge: &Charge, amount: i64) -> String {
    let payer = charge.customer_name(form.session.user.role).or_else(|| masked_payer(charge));
    let payer = payer.unwrap_or_else(|| form.language.say(w::THE_PAYER).to_owned());
    let method = charge.method();
    let question = if method == PaymentMethod::CreditCard { w::REVERSE_ASK } else { w::REFUND_ASK };
    let values = [&*money(amount, charge.currency), &payer, form.language.say(w::of_method(method))];
    form.language.fill(question, &values)
}

/// The form that registers the account's payout key.
pub fn payout_key_form(form: &Form<'_>, action: &str) -> Markup {
    let key = Input {
        is_required: true,
        rule: Some(w::RULE_PIX_KEY),
        ..Input::new("pix_key", "text", w::PIX_KEY, "100")
    };
    let chosen = form.value("type", None).unwrap_or_default();
    let kinds =
        PixKeyKind::VARIANTS.iter().map(|kind| (kind.as_str(), form.language.say(w::of_key_kind(*kind))));
    html! {
        form.row method="post" action=(action) {
            (form.hidden())
            (choice(form.language.say(w::KIND), ("type", "type"), chosen, kinds))
            (form.input(&key, None))
            (form.submit((w::REGISTER_KEY, ""), Need::Owner))
        }
    }
}

/// The form that requests a payout.
pub fn payout_form(form: &Form<'_>, action: &str, currency: Currency) -> Markup {
    let amount = Input { is_required: true, ..Input::new("amount", "text", w::AMOUNT, "32") };
    html! {
        form.row method="post" action=(action) {
            (form.hidden())
            (hidden("currency", currency.as_str()))
            (form.input(&amount, None))
            (form.submit((w::REQUEST_PAYOUT, ""), Need::Owner))
        }
    }
}

/// The question before a request, with the amount as it was understood. `key`: masked.
pub fn payout_question(form: &Form<'_>, amount: Money, key: &str) -> String {
    form.language.fill(w::PAYOUT_ASK, &[&money(amount.minor.get(), amount.currency), key])
}

pub fn invite_form(form: &Form<'_>, action: &str) -> Markup {
    let email = Input { is_required: true, ..Input::new("email", "email", w::EMAIL, "254") };
    let role = form.value("role", None).and_then(|role| role.parse().ok());
    html! {
        form.row method="post" action=(action) {
            (form.hidden())
            (form.input(&email, None))
            div.f {
                label for="role" { (form.language.say(w::ROLE)) }
                (role_choice(form.language, Some("role"), role.unwrap_or(Role::Member)))
            }
            (form.submit((w::INVITE, ""), Need::Owner))
        }
    }
}

/// Without an id, the field has the word for a role as its name.
pub fn role_choice(language: Language, id: Option<&str>, chosen: Role) -> Markup {
    html! {
        select name="role" id=[id] aria-label=[id.is_none().then(|| language.say(w::ROLE))] {
            @for role in Role::VARIANTS.iter().copied() {
                option value=(role.as_str()) selected[role == chosen] { (language.say(w::of_role(role))) }
            }
        }
    }
}

/// The colour of the checkout's buttons without one of the shop's.
pub const USUAL_COLOR: &str = "#0f6b5c";

/// The form of the brand. `preview` follows the colour, or is beside the fields if there is room.
pub fn brand_form(form: &Form<'_>, action: &str, brand: &Brand, preview: &Markup) -> Markup {
    let color = brand.color.map_or_else(|| USUAL_COLOR.to_owned(), |color| color.to_string());
    let input = |name, kind, label, max, rule, present: Option<String>| {
        form.input(&Input { rule, ..Input::new(name, kind, label, max) }, present.as_deref())
    };
    html! {
        form.fields.brand method="post" action=(action) {
            (form.hidden())
            (input("name", "text", w::SHOP_NAME, "60", None, brand.name.clone()))
            (input("color", "color", w::COLOR, "7", Some(w::RULE_COLOR), Some(color)))
            @if !preview.0.is_empty() { div.preview { (preview) } }
            (input("email", "email", w::SUPPORT_EMAIL, "254", Some(w::of_code("invalid_email")), brand.email.as_ref().map(ToString::to_string)))
            (input("phone", "tel", w::SUPPORT_PHONE, "32", Some(w::RULE_PHONE), brand.phone.as_ref().map(ToString::to_string)))
            div { (form.submit((w::SAVE, ""), Need::Settings)) }
        }
    }
}
