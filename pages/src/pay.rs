//! The public page of a payment link: what it is for, and the form of the payer.

use domain::account::Account;
use domain::ids::Mode;
use domain::payment_link::{AskedField, NoPlace, PaymentLink};
use maud::{Markup, html};
use money::payment_link::Standing;
use shared::http::Query;

use crate::assets::accent_link;
use crate::components::{Tone, alert, announced, hidden, money};
use crate::words as w;
use crate::{Document, Language, Word};

/// The names of the fields of an address, which are those of `payerAddress` in a payment's metadata.
pub const ADDRESS: [(&str, Word, &str); 4] = [
    ("line1", w::STREET, "address-line1"),
    ("city", w::PAYER_CITY, "address-level2"),
    ("state", w::PAYER_STATE, "address-level1"),
    ("postal_code", w::POSTAL_CODE, "postal-code"),
];

/// What a payer typed, and the fields that were refused.
#[derive(Debug)]
pub struct RefusedPayer<'a> {
    pub typed: &'a Query,
    /// The names of inputs. Empty: the message is about all.
    pub fields: &'a [&'a str],
    pub message: Word,
}

/// The page of a link.
#[derive(Debug)]
pub struct PayPage<'a> {
    pub link: &'a PaymentLink,
    pub account: &'a Account,
    pub standing: Standing,
    /// By which a form that is sent twice makes one charge.
    pub key: &'a str,
    pub refused: Option<RefusedPayer<'a>>,
    pub language: Language,
}

impl PayPage<'_> {
    /// The whole page.
    pub fn render(&self) -> Markup {
        Document { language: self.language, title: self.title(), shell: None, main: self.main() }.render()
    }

    fn title(&self) -> &'static str {
        self.say(if self.is_open() { w::PAY_LINK } else { w::LINK_ENDED })
    }

    /// An account that is suspended makes no charges.
    pub fn is_open(&self) -> bool {
        self.standing == Standing::Open && !self.account.settings.suspended
    }

    fn say(&self, word: Word) -> &'static str {
        self.language.say(word)
    }

    fn main(&self) -> Markup {
        let Self { link, account, .. } = self;
        let brand = &account.brand;
        html! {
            @if let Some(color) = brand.color { (accent_link(color)) }
            section.card {
                @if link.scope.mode == Mode::Test {
                    (alert(Tone::Warn, &html! { (self.say(w::TEST_MODE)) ": " (self.say(w::TEST_MODE_MEANS)) }))
                }
                @if let Some(logo) = &brand.logo { p { img.logo src={ "/checkout/" (logo.file()) } alt=""; } }
                p.soft dir="auto" { (account.shop_name()) }
                h1 { (self.title()) }
                @if let Some(description) = &link.description { p.pre dir="auto" { (description) } }
                @if self.is_open() { (self.form()) } @else { p { (self.say(self.reason())) } }
                @if let Some(email) = &brand.email { p.sm.soft { (email) } }
                @if let Some(phone) = &brand.phone { p.sm.soft { (phone) } }
            }
        }
    }

    fn reason(&self) -> Word {
        match self.standing {
            Standing::NoPlace(NoPlace::Full) => w::LINK_FULL,
            Standing::NoPlace(NoPlace::Taken | NoPlace::Address) => w::LINK_TAKEN,
            Standing::Open | Standing::Ended => w::LINK_ENDED_MEANS,
        }
    }

    fn form(&self) -> Markup {
        let link = self.link;
        let whole = self.refused.as_ref().filter(|refused| refused.fields.is_empty());
        html! {
            form.fields method="post" action={ "/pay/" (link.id) } {
                (hidden("key", self.key))
                @if let Some(refused) = whole { (announced(Tone::Bad, &html! { (self.say(refused.message)) })) }
                @match link.amount.bounds() {
                    None => {
                        @if let Some(amount) = link.amount.fixed() { p.big { (money(amount.minor(), link.currency)) } }
                    }
                    Some((min, max)) => {
                        @let range = self.language.fill(w::BETWEEN, &[&money(min.minor(), link.currency), &money(max.minor(), link.currency)]);
                        (self.input(("amount", w::AMOUNT), ("text", "off", 20), Some(&range)))
                    }
                }
                @for field in link.fields() {
                    @match field {
                        AskedField::Name => (self.input(("name", w::PAYER_NAME), ("text", "name", 200), None)),
                        AskedField::Email => (self.input(("email", w::EMAIL), ("email", "email", 254), None)),
                        AskedField::Document => (self.input(("document", w::TAX_ID), ("text", "off", 40), None)),
                        AskedField::Phone => (self.input(("phone", w::PHONE), ("tel", "tel", 32), Some("+5511999999999"))),
                        AskedField::Address => {
                            @for (name, word, autocomplete) in ADDRESS {
                                (self.input((name, word), ("text", autocomplete, 200), None))
                            }
                        }
                    }
                }
                div { button { (self.say(w::PAY_NOW)) } }
            }
        }
    }

    fn input(
        &self,
        (name, label): (&str, Word),
        (kind, autocomplete, max): (&str, &str, u32),
        hint: Option<&str>,
    ) -> Markup {
        let refused = self.refused.as_ref();
        let error = refused.filter(|refused| refused.fields.contains(&name));
        let described = match (error, hint) {
            (Some(_), _) => Some(format!("{name}-error")),
            (None, Some(_)) => Some(format!("{name}-hint")),
            (None, None) => None,
        };
        html! {
            div.f {
                label for=(name) { (self.say(label)) }
                input id=(name) name=(name) type=(kind) maxlength=(max) autocomplete=(autocomplete) required
                    inputmode=[(name == "amount").then_some("decimal")]
                    value=[refused.and_then(|refused| refused.typed.text(name))]
                    autofocus[error.is_some()] aria-invalid=[error.map(|_| "true")] aria-describedby=[described];
                @if let Some(error) = error { p.alert.bad id={ (name) "-error" } { (self.say(error.message)) } }
                @if let Some(hint) = hint { p.sm.soft id={ (name) "-hint" } { (hint) } }
            }
        }
    }
}
