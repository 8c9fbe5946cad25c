//! The form of a new charge. The function of charges shows it again, with what was typed, if it refuses it.

use domain::ids::Mode;
use maud::{Markup, html};
use shared::http::{Problem, Query};

use crate::{Language, Word, hidden, words as w};

#[derive(Debug)]
pub struct ChargeForm<'a> {
    pub language: Language,
    pub mode: Mode,
    /// The idempotency key.
    pub key: &'a str,
    pub typed: &'a Query,
    pub refused: Option<&'a Problem>,
}

impl ChargeForm<'_> {
    pub fn render(&self) -> Markup {
        let say = |word| self.language.say(word);
        let fields: [(&str, Word, &str); 7] = [
            ("amount", w::AMOUNT, "text"),
            ("order_id", w::ORDER, "text"),
            ("name", w::CUSTOMER, "text"),
            ("document", w::DOCUMENT, "text"),
            ("email", w::EMAIL, "email"),
            ("description", w::DESCRIPTION, "text"),
            ("expires_in", w::EXPIRES_IN, "number"),
        ];
        // Such as `customer.document`.
        let wrong = self.refused.map(Problem::params).unwrap_or_default();
        let wrong: Vec<&str> = wrong.iter().filter_map(|path| path.rsplit('.').next()).collect();
        let is_field = |(name, ..): &(&str, Word, &str)| wrong.contains(name);
        let why = self.refused.map(|problem| say(w::of_code(problem.code())));
        html! {
            p.crumb { a href="/dashboard/charges" { (say(w::CHARGES)) } }
            h1 { (say(w::NEW_CHARGE)) }
            @if let (Some(why), None) = (why, fields.iter().find(|field| is_field(field))) { div.alert.bad role="alert" { (why) } }
            section.card {
                form.fields method="post" action="/dashboard/charges" {
                    (hidden("mode", self.mode.as_str()))
                    (hidden("idempotency_key", self.key))
                    @for field @ (name, label, kind) in fields {
                        @let is_wrong = is_field(&field);
                        @let rule = format!("{name}-error");
                        @let is_amount = name == "amount";
                        div {
                            label for=(name) { (say(label)) @if is_amount { " (R$)" } }
                            input id=(name) name=(name) type=(kind) value=[self.typed.text(name)]
                                required[is_amount] inputmode=[is_amount.then_some("decimal")] placeholder=[is_amount.then_some("129,90")]
                                min=[(kind == "number").then_some("1")] max=[(kind == "number").then_some("1440")]
                                aria-invalid=[is_wrong.then_some("true")] aria-describedby=[is_wrong.then_some(&rule)];
                            @if is_wrong { p.alert.bad id=(rule) role="alert" { (why.unwrap_or_default()) } }
                        }
                    }
                    div { button { (say(w::CREATE)) } }
                }
            }
        }
    }
}
