//! The forms of the log-in: password, code of the second factor, and confirmation of an older session. A form that a user
//! sent without a valid log-in is a field of them, so that it can be sent again afterwards.

use domain::ids::Mode;
use maud::{Markup, html};

use crate::sent::SentForm;
use crate::words as w;
use crate::{Language, Tone, announced, hidden, path_with, product};

/// What such a form is shown with.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    pub language: Language,
    /// The page that it leads to.
    pub next: &'a str,
    /// The code of the refusal.
    pub error: Option<&'a str>,
    /// The form that waits for it.
    pub sent: Option<&'a SentForm>,
}

pub fn code_field(language: Language, id: &str, label: crate::Word) -> Markup {
    html! {
        div {
            label for=(id) { (language.say(label)) }
            input id=(id) name="code" autocomplete="one-time-code" autocapitalize="none" spellcheck="false" required maxlength="64";
        }
    }
}

/// The address of a user who is not logged in.
pub fn email_field(language: Language, typed: Option<&str>) -> Markup {
    html! {
        div {
            label for="email" { (language.say(w::EMAIL)) }
            input #email name="email" type="email" autocomplete="username" required maxlength="254" value=[typed];
        }
    }
}

pub fn password_field(name: &str, label: &str, autocomplete: &str) -> Markup {
    html! {
        div {
            label for=(name) { (label) }
            input id=(name) name=(name) type="password" autocomplete=(autocomplete) required maxlength="1024";
        }
    }
}

impl Access<'_> {
    fn say(&self, word: crate::Word) -> &'static str {
        self.language.say(word)
    }

    fn error(&self) -> Markup {
        html! {
            @if let Some(code) = self.error { (announced(Tone::Bad, &html! { (self.say(w::of_code(code))) })) }
            @if self.sent.is_some() { p { (self.say(w::TEXT_IS_KEPT)) } }
        }
    }

    fn waiting(&self) -> Markup {
        html! {
            (hidden("next", self.next))
            @if let Some(sent) = self.sent { (sent.hidden()) }
        }
    }

    /// `typed`: the e-mail address of a refused log-in. `local`: the path of the log-in by one click.
    pub fn log_in(&self, more: &Markup, typed: Option<&str>, local: Option<&str>) -> Markup {
        let here = path_with("/dashboard/login", &[("next", self.next)]);
        html! {
            p.product { (product(self.language)) }
            div.card {
                h1 { (self.say(w::DASHBOARD)) }
                (self.error()) (more)
                @if let Some(path) = local {
                    p { (self.say(w::LOCAL_LOG_IN_MEANS)) }
                    p { a.btn href=(path_with(path, &[("next", self.next)])) { (self.say(w::LOCAL_LOG_IN)) } }
                }
                form.fields method="post" action="/dashboard/login" {
                    (self.waiting())
                    (email_field(self.language, typed))
                    (password_field("password", self.say(w::PASSWORD), "current-password"))
                    div { button { (self.say(w::LOG_IN)) } }
                }
                p { a href="/dashboard/reset" { (self.say(w::FORGOTTEN)) } }
            }
            // A choice would lose the form that waits.
            @if self.sent.is_none() {
                form.actions method="post" action="/dashboard/language" aria-label=(self.say(w::LANGUAGE)) {
                    (hidden("next", &here))
                    @for each in Language::ALL.into_iter().filter(|each| *each != self.language) {
                        button.quiet name="language" value=(each.tag()) lang=(each.tag()) { (each.name()) }
                    }
                }
            }
        }
    }

    /// Asks for the code of a log-in whose password was right. The form checks the cookie that says so.
    pub fn code(&self) -> Markup {
        html! {
            p.product { (product(self.language)) }
            div.card {
                h1 { (self.say(w::SECOND_FACTOR)) }
                (self.error())
                form.fields method="post" action="/dashboard/totp" {
                    (self.waiting())
                    (code_field(self.language, "code", w::CODE))
                    div { button { (self.say(w::LOG_IN)) } }
                }
                p { a href="/dashboard/login" { "← " (self.say(w::LOG_IN)) } }
            }
        }
    }

    /// `by_code`: the user has the second factor.
    pub fn confirmation(&self, mode: Mode, by_code: bool) -> Markup {
        html! {
            section.card {
                h1 { (self.say(w::CONFIRM_TITLE)) }
                p { (self.say(if self.sent.is_some() { w::CONFIRM_GOES_ON } else { w::CONFIRM_MEANS })) }
                @if let Some(code) = self.error { (announced(Tone::Bad, &html! { (self.say(w::of_code(code))) })) }
                form.fields method="post" action="/dashboard/confirm" {
                    (hidden("mode", mode.as_str()))
                    (self.waiting())
                    @if by_code {
                        (code_field(self.language, "code", w::CODE))
                    } @else {
                        (password_field("password", self.say(w::PASSWORD), "current-password"))
                    }
                    div { button { (self.say(w::CONFIRM)) } }
                }
            }
        }
    }
}
