//! The frame of a page: head, bar of the mode, menu, footer.

use domain::ids::Mode;
use maud::{DOCTYPE, Markup, html};
use shared::auth::dashboard::Session;
use url::form_urlencoded;

use crate::assets::{self, ASSETS};
use crate::components::{hidden, product};
use crate::icons::shapes;
use crate::words as w;
use crate::{Icon, Language, Word};

const SEARCH: &str = "/dashboard/search";

/// A page. The log-in page and the pages of errors have no [`Shell`].
#[derive(Debug)]
pub struct Document<'a> {
    pub language: Language,
    /// Of the browser's tab.
    pub title: &'a str,
    pub shell: Option<&'a Shell<'a>>,
    pub main: Markup,
}

/// What surrounds a page of a user who is logged in.
#[derive(Debug)]
pub struct Shell<'a> {
    pub merchant: &'a str,
    pub email: &'a str,
    pub role: Word,
    pub mode: Mode,
    /// The path of the page with its query string, to which the choices of mode and language return.
    pub here: &'a str,
}

/// The menu: path, word and icon.
const MENU: [(&str, Word, Icon); 11] = [
    ("/dashboard", w::HOME, Icon::House),
    ("/dashboard/charges", w::CHARGES, Icon::CreditCard),
    ("/dashboard/links", w::PAYMENT_LINKS, Icon::Link),
    ("/dashboard/wallet", w::WALLET, Icon::Wallet),
    ("/dashboard/reports", w::REPORTS, Icon::FileText),
    ("/dashboard/disputes", w::DISPUTES, Icon::ShieldAlert),
    ("/dashboard/webhooks", w::WEBHOOKS, Icon::Webhook),
    ("/dashboard/developers", w::DEVELOPERS, Icon::Code),
    ("/dashboard/team", w::TEAM, Icon::Users),
    ("/dashboard/settings", w::SETTINGS, Icon::SlidersHorizontal),
    ("/dashboard/help", w::HELP, Icon::CircleQuestionMark),
];

/// Paths that belong to another item of the menu: `(path, item)`.
const UNDER: [(&str, &str); 8] = [
    ("/dashboard/refunds", "/dashboard/charges"),
    ("/dashboard/payouts", "/dashboard/wallet"),
    ("/dashboard/deliveries", "/dashboard/webhooks"),
    ("/dashboard/events", "/dashboard/webhooks"),
    ("/dashboard/requests", "/dashboard/developers"),
    ("/dashboard/audit", "/dashboard/team"),
    ("/dashboard/security", "/dashboard/team"),
    ("/dashboard/notices", "/dashboard/team"),
];

impl Document<'_> {
    pub fn render(&self) -> Markup {
        let say = |word| self.language.say(word);
        let body = html! {
            a.skip href="#main" { (say(w::SKIP)) }
            @if let Some(shell) = self.shell { (shell.render(self.language)) }
            main #main .small[self.shell.is_none()] data-ended=[self.shell.map(|_| say(w::SESSION_ENDED))] { (self.main) }
        };
        html! {
            (DOCTYPE)
            html lang=(self.language.tag()) {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="robots" content="noindex, nofollow";
                    // Prevents mobile browsers from turning numbers into phone links.
                    meta name="format-detection" content="telephone=no";
                    title { (self.title) }
                    link rel="icon" href={ (ASSETS) "/" (assets::ICON.name) };
                    link rel="stylesheet" href={ (ASSETS) "/" (assets::STYLE.name) };
                    script src={ (ASSETS) "/" (assets::SCRIPT.name) } defer {}
                }
                body { (body) (shapes(&body)) }
            }
        }
    }
}

impl<'a> Shell<'a> {
    pub fn of(session: &'a Session, mode: Mode, here: &'a str) -> Self {
        Self {
            merchant: &session.account.settings.merchant_name,
            email: &session.user.email,
            role: w::of_role(session.user.role),
            mode,
            here,
        }
    }
}

/// The mode that is not shown, and the word for showing it.
pub(crate) fn other_mode(mode: Mode) -> (Mode, Word) {
    match mode {
        Mode::Test => (Mode::Live, w::SHOW_LIVE),
        Mode::Live => (Mode::Test, w::SHOW_TEST),
    }
}

impl Shell<'_> {
    fn render(&self, language: Language) -> Markup {
        let say = |word| language.say(word);
        let (other, switch) = other_mode(self.mode);
        html! {
            header {
                @match self.mode {
                    Mode::Test => p.bar { strong { (say(w::TEST_MODE)) } ": " (say(w::TEST_MODE_MEANS)) },
                    Mode::Live => p.bar.live { strong { (say(w::LIVE_MODE)) } ": " (say(w::LIVE_MODE_MEANS)) },
                }
                div.top {
                    a.product href="/dashboard" { (product(language)) }
                    strong dir="auto" { (self.merchant) }
                    form role="search" action=(SEARCH) {
                        label.vh for="q" { (say(w::SEARCH_KEY)) }
                        input #q name="q" type="search" maxlength="254" placeholder=(say(w::SEARCH_BY)) value=[self.searched()];
                        button.quiet { (Icon::Search) span.wide { (say(w::SEARCH)) } }
                    }
                    details.pop.me {
                        summary { span.who { (self.email) " · " (say(self.role)) } }
                        div.card {
                            p { a href="/dashboard/security" { (say(w::OWN_ACCESS)) } }
                            form method="post" action="/dashboard/mode" {
                                (hidden("next", &in_other_mode(self.here)))
                                button.quiet name="mode" value=(other.as_str()) { (say(switch)) }
                            }
                            form method="post" action="/dashboard/language" {
                                (hidden("next", self.here))
                                select name="language" aria-label=(say(w::LANGUAGE)) {
                                    @for each in Language::ALL {
                                        option value=(each.tag()) lang=(each.tag()) selected[each == language] { (each.name()) }
                                    }
                                }
                                button.quiet { (say(w::CHOOSE)) }
                            }
                            form method="post" action="/dashboard/logout" { button.quiet { (say(w::LOG_OUT)) } }
                        }
                    }
                }
                (self.menu(language))
            }
        }
    }

    /// On a narrow screen it is folded, and its heading names the item of the page.
    fn menu(&self, language: Language) -> Markup {
        let say = |word| language.say(word);
        html! {
            nav.menu aria-label=(say(w::MENU)) {
                details {
                    summary { (say(w::MENU)) @if let Some((_, word, _)) = item_of(self.here) { ": " strong { (say(*word)) } } }
                    ul {
                        @for (path, word, icon) in MENU {
                            li { a href=(path) aria-current=[current(self.here, path)] { (icon) (say(word)) } }
                        }
                    }
                }
            }
        }
    }

    fn searched(&self) -> Option<String> {
        let (path, query) = self.here.split_once('?')?;
        let mut fields = form_urlencoded::parse(query.as_bytes()).filter(|_| path == SEARCH);
        fields.find(|(name, _)| name == "q").map(|(_, value)| value.into_owned())
    }
}

/// The `aria-current` of an item of the menu, on the page with this path.
fn current(here: &str, item: &str) -> Option<&'static str> {
    let path = here.split('?').next().unwrap_or_default();
    if path == item {
        return Some("page");
    }
    let is_below =
        |parent: &str| path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let is_other = UNDER.iter().any(|(below, of)| *of == item && is_below(below));
    (is_other || (item != "/dashboard" && is_below(item))).then_some("true")
}

fn item_of(here: &str) -> Option<&'static (&'static str, Word, Icon)> {
    MENU.iter().find(|(path, ..)| current(here, path).is_some())
}

/// The icon of the menu's item to which a page belongs.
pub fn icon_of(here: &str) -> Icon {
    item_of(here).map_or(Icon::Inbox, |(_, _, icon)| *icon)
}

/// Where the choice of the other mode leads. An object and a place in a list exist only in their mode.
fn in_other_mode(here: &str) -> String {
    let path = here.split('?').next().unwrap_or_default();
    // Such as `/dashboard/charges/ch_1`.
    let is_object = path.matches('/').count() > 2 && !path.ends_with("/new");
    match item_of(here) {
        Some((list, ..)) if is_object => format!("{list}?done=mode"),
        _ if here.contains("starting_after=") => path.to_owned(),
        _ => here.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_menu_marks_the_page_and_the_item_above_it() {
        let marked = |here| MENU.iter().filter(|(path, ..)| current(here, path).is_some()).count();
        let shell = |here| Shell { merchant: "<m>", email: "e", role: w::ROLE_OWNER, mode: Mode::Test, here };
        assert_eq!(current("/dashboard", "/dashboard"), Some("page"));
        assert_eq!(current("/dashboard/charges?status=paid", "/dashboard/charges"), Some("page"));
        assert_eq!(current("/dashboard/charges/ch_1", "/dashboard/charges"), Some("true"));
        assert_eq!(current("/dashboard/audit", "/dashboard/team"), Some("true"));
        for here in ["/dashboard", "/dashboard/charges/ch_1", "/dashboard/refunds", "/dashboard/payouts"] {
            assert_eq!(marked(here), 1, "{here}");
        }
        assert_eq!(shell("/dashboard/search?q=a%22b&x=1").searched().as_deref(), Some("a\"b"));
        assert_eq!(shell("/dashboard/charges?q=1").searched(), None);
        let header = shell("/dashboard").render(Language::Spanish).into_string();
        assert!(header.contains("&lt;m&gt;") && header.contains("Servicio de pago"), "{header}");
        assert_eq!(icon_of("/dashboard/audit?day=2026-11-30"), Icon::Users);
        assert_eq!(icon_of("/dashboard/search"), Icon::Inbox);
        for (here, next) in [
            ("/dashboard/charges/ch_1/receipt", "/dashboard/charges?done=mode"),
            ("/dashboard/deliveries/wd_1?x=1", "/dashboard/webhooks?done=mode"),
            ("/dashboard/charges?status=paid&starting_after=ch_1", "/dashboard/charges"),
            ("/dashboard/charges?status=paid", "/dashboard/charges?status=paid"),
            ("/dashboard/charges/new", "/dashboard/charges/new"),
            ("/dashboard", "/dashboard"),
        ] {
            assert_eq!(in_other_mode(here), next);
        }
    }
}
