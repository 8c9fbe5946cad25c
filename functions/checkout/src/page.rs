//! Renders the checkout page: one variant for each state of a charge, and pages for an unknown charge and for
//! a failure.
//!
//! Rendering is a pure function of the charge, the shop's brand, the time and the language; [`maud`] escapes every value.
//! The page shows only the brand, the receiver's name as the payer's bank shows it, the amount, the order number, the
//! description, times, what the payer needs to pay, and the payment's id. Of the customer's data, it shows only the last
//! three digits of the phone number, for MB WAY. The page loads nothing but the QR image, the logo and itself, from its
//! own origin. Its content security policy forbids everything else.
//!
//! The page of a test charge also has a form that simulates the payment, which another function handles.
//!
//! While the charge's state can still change, the script fetches the page every few seconds and shows a new state
//! without a reload. Without scripts, `<meta>` reloads the page.

use std::sync::LazyLock;

use artefacts::brcode::BrCode;
use domain::account::{Brand, Color, MailAddress};
use domain::charge::{Boleto, Charge, Crypto, Pix, TransactionStatus};
use domain::ids::Mode;
use domain::payment_method::PaymentMethod;
use domain::time::Timestamp;
use domain::{pt_br, text};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use money::charge::Seen;
use pages::{Language, Word};
use shared::http::{csp_source, etag_of};
use url::Url;
use url::form_urlencoded::byte_serialize;

use crate::words as w;

const STYLE: &str = include_str!("page.css");

const SCRIPT: &str = include_str!("page.js");

static SCRIPT_SOURCE: LazyLock<String> = LazyLock::new(|| csp_source(SCRIPT));

/// The seconds before each look at a charge that can be paid; the last number repeats. Most payers pay within a minute
/// or leave the page open. A payer who comes back to the page sees the state at once.
const REFRESH_WHILE_PENDING: Refresh = Some("5 5 10 15 25 40");

/// The same during a review, which may last hours.
const REFRESH_WHILE_PROCESSING: Refresh = Some("60");

/// The seconds between two reloads without scripts. A reload loses the reader's place.
const RELOAD: u32 = 30;

type Refresh = Option<&'static str>;

/// A rendered page, and the weak `ETag` of what it shows: two pages of one state differ in the time alone.
#[derive(Debug)]
pub struct RenderedPage {
    pub html: String,
    /// The content security policy. It allows only the page's style and script, by their hashes, and images, forms and
    /// fetches to the same origin.
    pub policy: String,
    pub etag: String,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum PageState {
    /// The acquirer is still making the code.
    Preparing,
    Payable,
    /// The payer came back from the acquirer's page, and the acquirer has not said yet whether they paid.
    Confirming,
    /// The time to pay is over, but the bank has not confirmed yet whether a payment arrived in time.
    Closing,
    /// The payer has begun to pay by card, and can go on.
    Authenticating,
    /// A payment was accepted, and its bank or network has not confirmed it.
    Unconfirmed,
    Processing,
    Paid,
    Refused,
    Cancelled,
    Expired,
    Refunded,
    Disputed,
    /// The payer has the money.
    DisputeEnded,
}

impl PageState {
    fn of(charge: &Charge, now: Timestamp) -> Self {
        match charge.status {
            TransactionStatus::Pending => Self::Preparing,
            TransactionStatus::WaitingPayment | TransactionStatus::Processing if charge.is_open() => {
                Self::of_open(charge, now)
            }
            TransactionStatus::WaitingPayment | TransactionStatus::Processing => Self::Processing,
            TransactionStatus::Paid | TransactionStatus::Approved => Self::Paid,
            TransactionStatus::Refused => Self::Refused,
            TransactionStatus::Cancelled => Self::Cancelled,
            TransactionStatus::Expired => Self::Expired,
            TransactionStatus::Refunded => Self::Refunded,
            TransactionStatus::Chargeback | TransactionStatus::Dispute if charge.has_lost_dispute() => {
                Self::DisputeEnded
            }
            TransactionStatus::Chargeback | TransactionStatus::Dispute => Self::Disputed,
        }
    }

    fn of_open(charge: &Charge, now: Timestamp) -> Self {
        let is_processed = charge.status == TransactionStatus::Processing;
        let is_by_card = charge.methods.contains(&PaymentMethod::CreditCard);
        match (charge.unconfirmed, is_processed) {
            (Some(_), _) => Self::Unconfirmed,
            (None, true) if !is_by_card => Self::Unconfirmed,
            _ if now > charge.expires_at() => Self::Closing,
            (None, true) => Self::Authenticating,
            (None, false) => Self::Payable,
        }
    }

    /// The title, the message, the appearance, and the seconds before the looks. While the charge can be paid there
    /// is no message, because each method says until when.
    fn shown(self, charge: &Charge) -> (Word, Option<Word>, Appearance, Refresh) {
        match self {
            Self::Preparing => (w::PREPARING, Some(w::PREPARING_MEANS), WAITING, REFRESH_WHILE_PENDING),
            Self::Payable => {
                let is_pix_alone = charge.methods == [PaymentMethod::Pix];
                let title = if is_pix_alone { w::PAY_BY_PIX } else { w::PAY };
                (title, None, PLAIN, REFRESH_WHILE_PENDING)
            }
            Self::Confirming => (w::CONFIRMING, Some(w::CONFIRMING_MEANS), WAITING, REFRESH_WHILE_PENDING),
            Self::Closing if charge.ends_at() > charge.expires_at() => {
                (w::COLLECTING, Some(w::CLOSING_MEANS), WAITING, REFRESH_WHILE_PROCESSING)
            }
            Self::Closing => (w::CLOSING, Some(w::CLOSING_MEANS), WAITING, REFRESH_WHILE_PENDING),
            Self::Authenticating => {
                (w::CONFIRMING, Some(w::AUTHENTICATING_MEANS), WAITING, REFRESH_WHILE_PENDING)
            }
            Self::Unconfirmed => match charge.unconfirmed.unwrap_or(charge.method()) {
                PaymentMethod::CreditCard => {
                    (w::CONFIRMING, Some(w::CONFIRMING_MEANS), WAITING, REFRESH_WHILE_PENDING)
                }
                PaymentMethod::Mbway => {
                    (w::CONFIRMING, Some(w::MBWAY_UNCONFIRMED_MEANS), WAITING, REFRESH_WHILE_PENDING)
                }
                PaymentMethod::Boleto | PaymentMethod::Multibanco => {
                    (w::CONFIRMING, Some(w::VOUCHER_UNCONFIRMED_MEANS), WAITING, REFRESH_WHILE_PROCESSING)
                }
                PaymentMethod::Pix | PaymentMethod::Crypto => {
                    (w::CONFIRMING, Some(w::UNCONFIRMED_MEANS), WAITING, REFRESH_WHILE_PROCESSING)
                }
            },
            Self::Processing => (w::PROCESSING, Some(w::PROCESSING_MEANS), WAITING, REFRESH_WHILE_PROCESSING),
            Self::Paid => (w::PAID, Some(w::PAID_MEANS), GOOD, None),
            Self::Refused => (w::PAYMENT_REFUSED, Some(w::REFUSED_MEANS), ENDED, None),
            Self::Cancelled => (w::CANCELLED, Some(w::CANCELLED_MEANS), ENDED, None),
            Self::Expired => (w::EXPIRED, Some(w::EXPIRED_MEANS), ENDED, None),
            Self::Refunded if charge.method() == PaymentMethod::CreditCard => {
                (w::REVERSED, Some(w::REVERSED_MEANS), RETURNED, None)
            }
            Self::Refunded => (w::REFUNDED, Some(w::REFUNDED_MEANS), RETURNED, None),
            Self::Disputed => (w::DISPUTED, Some(w::DISPUTED_MEANS), ATTENTION, None),
            Self::DisputeEnded => (w::DISPUTE_ENDED, Some(w::DISPUTE_ENDED_MEANS), RETURNED, None),
        }
    }
}

#[derive(Clone, Copy)]
struct Appearance {
    class: &'static str,
    /// The SVG path of the icon, in a view box of 24 by 24.
    icon_path: Option<&'static str>,
}

const PLAIN: Appearance = Appearance { class: "plain", icon_path: None };
const WAITING: Appearance = Appearance { class: "waiting", icon_path: Some("M12 6v6l4 2.5") };
const GOOD: Appearance = Appearance { class: "good", icon_path: Some("M6 12.5l4 4 8-9") };
const ENDED: Appearance = Appearance { class: "ended", icon_path: Some("M7.5 7.5l9 9M16.5 7.5l-9 9") };
const RETURNED: Appearance =
    Appearance { class: "returned", icon_path: Some("M10 6l-4.5 4.5L10 15M6 10.5h8a4 4 0 0 1 0 8h-2") };
const ATTENTION: Appearance = Appearance { class: "attention", icon_path: Some("M12 6v7.5M12 17.5v.01") };

/// How long the page says that the payment is being confirmed, while the acquirer does not answer, in milliseconds.
const CONFIRMING_MS: i64 = 60_000;

/// How long after a return the page asks the acquirer, in milliseconds: half an hour. Notifications go on after that.
const LOOKING_MS: i64 = 30 * 60_000;

/// The return of a payer from the acquirer's page.
#[derive(Clone, Copy, Debug)]
pub struct Back {
    pub at: Timestamp,
    /// What the acquirer said last, and when.
    pub seen: Option<(Seen, Timestamp)>,
    /// The payer gave up there.
    pub cancelled: bool,
}

impl Back {
    /// Returns the state of a charge that can be paid, its message, and whether the acquirer must be asked.
    fn shown(self, now: Timestamp) -> (PageState, Option<Word>, bool) {
        let passed_ms = now.millis_since(self.at);
        let is_looking = passed_ms < LOOKING_MS;
        match self.seen.filter(|(_, at)| *at >= self.at) {
            Some((Seen::Open, _)) => (PageState::Payable, Some(w::NOT_PAID_BY_CARD), false),
            // Another payment would be a second one.
            Some((Seen::Paid, _)) => (PageState::Confirming, None, is_looking),
            None if self.cancelled => (PageState::Payable, Some(w::NOT_PAID_BY_CARD), is_looking),
            _ if passed_ms < CONFIRMING_MS => (PageState::Confirming, None, is_looking),
            _ => (PageState::Payable, Some(w::CARD_UNKNOWN), is_looking),
        }
    }
}

/// Renders the page of a charge. The caller must have applied the charge's expiry: see
/// [`domain::charge::StoredCharge::read_at`].
pub fn render(
    charge: &Charge,
    brand: &Brand,
    back: Option<Back>,
    now: Timestamp,
    language: Language,
) -> RenderedPage {
    let state = PageState::of(charge, now);
    let (state, notice, is_looking) = match back {
        Some(back) if matches!(state, PageState::Payable | PageState::Authenticating) => back.shown(now),
        None if state == PageState::Payable && charge.last_decline.is_some() => {
            (state, Some(w::TRY_DECLINED), false)
        }
        _ => (state, None, false),
    };
    let look = back.filter(|_| is_looking).map(|Back { at, cancelled, .. }| {
        let cancelled = if cancelled { "&cancelled=1" } else { "" };
        format!("{}/card?back={}{cancelled}", charge.id.raw(), at.millis())
    });
    CheckoutPage { charge, brand, now, language, state, notice, look }.render()
}

struct CheckoutPage<'a> {
    charge: &'a Charge,
    brand: &'a Brand,
    now: Timestamp,
    language: Language,
    state: PageState,
    notice: Option<Word>,
    /// Where the script looks for a new state instead of at this page. Then the acquirer is asked.
    look: Option<String>,
}

impl CheckoutPage<'_> {
    fn say(&self, word: Word) -> &'static str {
        self.language.say(word)
    }

    fn render(&self) -> RenderedPage {
        let Self { charge, state, language, .. } = *self;
        let amount = pt_br::format_amount(charge.amount, charge.currency);
        let receiver = charge.artefacts.pix.as_ref().and_then(|pix| receiver(&pix.br_code));
        let (title, message, appearance, refresh) = state.shown(charge);
        let message = message.or(self.notice);
        let title = self.say(title);
        let tab_title = match receiver {
            Some(receiver) => language.fill(w::TAB_TITLE, &[title, &amount, receiver]),
            None => format!("{title}: {amount}"),
        };
        // The sandbox can expire a charge early.
        let failed_at = charge.failure.as_ref().map(|failure| failure.at);
        let ended_at = failed_at.map_or(charge.expires_at(), |at| at.min(charge.expires_at()));
        let is_test = charge.scope.mode == Mode::Test;
        let is_paid = matches!(
            state,
            PageState::Paid | PageState::Refunded | PageState::Disputed | PageState::DisputeEnded
        );
        let returned = charge.funds.refunded().unwrap_or_default();
        let content = html! {
            (self.shop())
            h1 #state tabindex="-1" { (title) }
            @if let Some(message) = message {
                p.message { (language.fill(message, &[&self.minute(ended_at)])) }
            }
            @if let Some(word) = self.not_accepted() { p.message { (self.say(word)) } }
            @if state == PageState::Paid && returned.is_positive() {
                p.message { (language.fill(w::PARTLY_RETURNED, &[&pages::money(returned.get(), charge.currency)])) }
            }
            dl {
                div { dt { (self.say(w::AMOUNT)) } dd.amount { (amount) } }
                @if let Some(receiver) = receiver {
                    div { dt { (self.say(w::TO)) } dd dir="auto" { (receiver) } }
                }
                @if let Some(order) = charge.metadata.order_number() {
                    div { dt { (self.say(w::ORDER)) } dd dir="auto" { (visible(&order)) } }
                }
                @if let Some(description) = description(charge) {
                    div { dt { (self.say(w::DESCRIPTION)) } dd.description dir="auto" { (description) } }
                }
                @if is_paid { (self.receipt()) }
            }
            @if state == PageState::Payable {
                (self.payment_methods())
                @if is_test { (self.simulation()) }
            } @else if state == PageState::Authenticating {
                (self.ways_on())
                @if is_test { (self.simulation()) }
            } @else {
                @if is_paid && charge.settlement.is_some() {
                    p.back { a href={ (charge.id.raw()) "/receipt?lang=" (language.tag()) } { (self.say(w::RECEIPT)) } }
                }
                @if let Some(url) = way_back(charge) {
                    p.back { a href=(url) rel="noreferrer" { (self.say(w::BACK_TO_SHOP)) } }
                }
            }
            (self.contact())
        };
        let frame = Frame {
            language,
            color: self.brand.color,
            tab_title: &tab_title,
            appearance,
            refresh,
            look: self.look.as_deref(),
            is_test,
            now: self.now,
        };
        frame.around(&content)
    }

    /// Says that a payment came that the charge did not take.
    fn not_accepted(&self) -> Option<Word> {
        let Self { charge, state, .. } = self;
        let ended = [PageState::Expired, PageState::Cancelled, PageState::Refused, PageState::Paid];
        let word = match (charge.returned.is_empty(), charge.unapplied.is_empty()) {
            (_, false) => w::NOT_CREDITED,
            (false, true) => w::GOES_BACK,
            (true, true) => return None,
        };
        ended.contains(state).then_some(word)
    }

    fn shop(&self) -> Markup {
        let Brand { name, logo, .. } = self.brand;
        html! {
            @if name.is_some() || logo.is_some() {
                p.shop {
                    @if let Some(logo) = logo { img src=(logo.file()) alt=""; }
                    @if let Some(name) = name { strong dir="auto" { (name) } }
                }
            }
        }
    }

    fn contact(&self) -> Markup {
        let Brand { email, phone, .. } = self.brand;
        html! {
            @if email.is_some() || phone.is_some() {
                p.back {
                    (self.say(w::CONTACT))
                    @if let Some(email) = email { " " a href=(mailto(email)) { (email) } }
                    @if let Some(phone) = phone { " " a href=(phone.url()) { (phone) } }
                }
            }
        }
    }

    /// A time in Brasília, with the name of the zone.
    fn minute(&self, at: Timestamp) -> String {
        let minute = match self.language {
            Language::Portuguese => pt_br::format_minute(at),
            Language::English | Language::Spanish => pt_br::format_short_minute(at),
        };
        self.language.fill(w::AT, &[&minute])
    }

    fn receipt(&self) -> Markup {
        let Some(payment) = &self.charge.applied_payment else { return Markup::default() };
        html! {
            div { dt { (self.say(w::PAID_BY)) } dd { (self.say(w::of_method(payment.method))) } }
            div { dt { (self.say(w::PAID_ON)) } dd { (self.minute(payment.paid_at)) } }
            @if payment.method == PaymentMethod::Pix {
                div { dt { (self.say(w::END_TO_END)) } dd.address { (payment.payment_id) } }
            }
        }
    }

    /// Each method that has not expired: the first is open, and opening another closes it.
    fn payment_methods(&self) -> Markup {
        let methods: Vec<_> = self.charge.payable_methods(self.now).collect();
        html! {
            @if let [(method, end)] = methods.as_slice() {
                section.way { (self.method_content(*method, *end)) }
            } @else {
                h2 { (self.say(w::METHODS)) }
                @for (index, (method, end)) in methods.iter().enumerate() {
                    details.way name="method" open[index == 0] {
                        summary { (self.say(w::of_method(*method))) }
                        (self.method_content(*method, *end))
                    }
                }
            }
            p #announcement .hidden role="status" {}
        }
    }

    /// The ways on for a payer who began to pay by card: the acquirer does not report that they left its page. The other
    /// methods are shown as to a payer who came back without a result.
    fn ways_on(&self) -> Markup {
        let Self { charge, now, .. } = *self;
        let has_others = charge.payable_methods(now).any(|(method, _)| method != PaymentMethod::CreditCard);
        html! {
            @if charge.is_payable_by_card(now) {
                section.way { a.button href={ (charge.id.raw()) "/card" } { (self.say(w::GO_ON_BY_CARD)) } }
            }
            @if charge.acquirer.is_remote() && has_others {
                p.back {
                    a href={ (charge.id.raw()) "?back=" (charge.updated_at.millis()) } {
                        (self.say(w::OTHER_WAYS))
                    }
                }
            }
        }
    }

    /// The script counts the last quarter of the time down.
    fn deadline(&self, end: Timestamp) -> Markup {
        let created = self.charge.created_at;
        let quarter = end.millis().saturating_sub(created.millis()) / 4;
        html! {
            p.message data-ends=(end.millis()) data-quarter=(quarter) data-word=(self.say(w::LEFT))
                data-said5=(self.say(w::FIVE_MINUTES)) data-said1=(self.say(w::ONE_MINUTE)) {
                (self.language.fill(w::UNTIL, &[&self.minute(end)])) " "
                strong data-left aria-live="off" {}
            }
        }
    }

    fn method_content(&self, method: PaymentMethod, end: Timestamp) -> Markup {
        let artefacts = &self.charge.artefacts;
        let raw_id = self.charge.id.raw();
        html! {
            (self.deadline(end))
            @match method {
                PaymentMethod::Pix => @if let Some(pix) = &artefacts.pix { (self.by_pix(pix)) },
                PaymentMethod::CreditCard => a.button href={ (raw_id) "/card" } { (self.say(w::PAY_BY_CARD)) },
                PaymentMethod::Mbway => @if let Some(mbway) = &artefacts.mbway {
                    p { (self.say(w::MBWAY)) " " strong { (last_digits(&mbway.phone)) } "." }
                },
                PaymentMethod::Multibanco => @if let Some(multibanco) = &artefacts.multibanco {
                    dl {
                        div { dt { (self.say(w::ENTITY)) } dd { (multibanco.entity) } }
                        div { dt { (self.say(w::REFERENCE)) } dd { (multibanco.reference) } }
                    }
                },
                PaymentMethod::Boleto => @if let Some(boleto) = &artefacts.boleto { (self.by_boleto(boleto)) },
                PaymentMethod::Crypto => @if let Some(crypto) = &artefacts.crypto { (self.by_crypto(crypto)) },
            }
        }
    }

    /// Hidden until the script shows it, because the button does nothing without it.
    fn copy_button(&self, id: &str, class: Option<&str>, word: Word) -> Markup {
        html! {
            button class=[class] type="button" data-copy=(id) data-done=(self.say(w::CODE_COPIED))
                data-failed=(self.say(w::NOT_COPIED)) aria-live="polite" hidden { (self.say(word)) }
        }
    }

    fn by_boleto(&self, boleto: &Boleto) -> Markup {
        let slip = boleto.slip();
        html! {
            div.pix {
                section.copy {
                    @if let Some(slip) = slip {
                        label for="line" { (self.say(w::LINE)) }
                        textarea #line rows="2" readonly autocomplete="off" spellcheck="false" { (slip.formatted_line()) }
                        (self.copy_button("line", None, w::COPY_LINE))
                    }
                    a.button href={ (self.charge.id.raw()) "/boleto.pdf" } { (self.say(w::OPEN_BOLETO)) }
                }
            }
        }
    }

    fn by_crypto(&self, crypto: &Crypto) -> Markup {
        html! {
            div.pix {
                section.copy {
                    dl {
                        div { dt { (self.say(w::NETWORK)) } dd { (crypto.network) } }
                        div { dt { (self.say(w::CURRENCY)) } dd { (crypto.currency) } }
                    }
                    label for="address" { (self.say(w::ADDRESS)) }
                    // Payers compare the whole address.
                    textarea #address rows="2" readonly autocomplete="off" spellcheck="false" { (crypto.address) }
                    (self.copy_button("address", None, w::COPY_ADDRESS))
                    label for="amount" { (self.say(w::EXACT_AMOUNT)) }
                    input #amount type="text" readonly autocomplete="off" spellcheck="false" value=(crypto.amount);
                    (self.copy_button("amount", Some("quiet"), w::COPY_AMOUNT))
                }
                section.scan {
                    img src={ (self.charge.id.raw()) "/crypto.png" } width="260" height="260" alt=(self.say(w::CRYPTO_QR));
                }
                section.steps {
                    p { (self.say(w::CRYPTO_MEANS)) }
                }
            }
        }
    }

    fn by_pix(&self, pix: &Pix) -> Markup {
        html! {
            div.pix {
                section.copy {
                    label for="code" { (self.say(w::CODE)) }
                    input #code type="text" readonly autocomplete="off" spellcheck="false" value=(pix.br_code);
                    (self.copy_button("code", None, w::COPY_CODE))
                    button.quiet type="button" data-share=(pix.br_code) hidden { (self.say(w::SHARE)) }
                }
                section.scan {
                    // The URL is relative to the page's URL, so that it works behind any base path. A usual QR
                    // code has 65 modules including its margin, so each module is exactly four pixels wide.
                    img src={ (self.charge.id.raw()) "/qr.png" } width="260" height="260" alt=(self.say(w::QR));
                }
                section.steps {
                    h2 { (self.say(w::HOW)) }
                    ol { @for step in [w::STEP_1, w::STEP_2, w::STEP_3] { li { (self.say(step)) } } }
                    p { (self.say(w::CONFIRMATION)) }
                }
            }
        }
    }

    /// `acquirer-events` handles it. Each button is a form of its own, because a payment is by one of the
    /// methods.
    fn simulation(&self) -> Markup {
        // The URL is relative to the page's URL, like that of the QR image.
        let action = format!("{}/simulate", self.charge.id.raw());
        let methods: Vec<_> = self.charge.payable_methods(self.now).map(|(method, _)| method).collect();
        html! {
            section.simulation aria-labelledby="simulation" {
                h2 #simulation { (self.say(w::SIMULATE)) }
                p { (self.say(w::SIMULATE_MEANS)) }
                div.outcomes {
                    @for method in &methods {
                        form method="post" action=(action) {
                            input type="hidden" name="method" value=(method.as_str());
                            button name="outcome" value="paid" {
                                @if methods.len() > 1 {
                                    (self.language.fill(w::AS_PAID_BY, &[self.say(w::of_method(*method))]))
                                } @else { (self.say(w::AS_PAID)) }
                            }
                        }
                    }
                    form method="post" action=(action) {
                        button.declined name="outcome" value="declined" { (self.say(w::AS_DECLINED)) }
                    }
                }
            }
        }
    }
}

/// Returns the last three digits of a phone number: enough for its owner to recognise it.
fn last_digits(phone: &str) -> String {
    let digits: Vec<char> = phone.chars().rev().take(3).collect();
    digits.into_iter().rev().collect()
}

pub fn not_found(now: Timestamp, language: Language) -> RenderedPage {
    let content = html! {
        h1 { (language.say(w::CHARGE_NOT_FOUND)) }
        p.message { (language.say(w::CHARGE_NOT_FOUND_MEANS)) }
    };
    error_page((now, language), w::CHARGE_NOT_FOUND, (ENDED, None), &content)
}

/// Renders the page for a charge that can't be read.
pub fn unavailable(now: Timestamp, language: Language) -> RenderedPage {
    let content = html! {
        h1 #state tabindex="-1" { (language.say(w::PAGE_UNAVAILABLE)) }
        p.message { (language.say(w::UNAVAILABLE_MEANS)) }
    };
    error_page((now, language), w::PAGE_UNAVAILABLE, (WAITING, REFRESH_WHILE_PENDING), &content)
}

fn error_page(
    (now, language): (Timestamp, Language),
    title: Word,
    (appearance, refresh): (Appearance, Refresh),
    content: &Markup,
) -> RenderedPage {
    let tab_title = language.say(title);
    let (color, look, is_test) = (None, None, false);
    Frame { language, color, tab_title, appearance, refresh, look, is_test, now }.around(content)
}

struct Frame<'a> {
    language: Language,
    /// Of the shop's brand.
    color: Option<Color>,
    tab_title: &'a str,
    appearance: Appearance,
    refresh: Refresh,
    look: Option<&'a str>,
    is_test: bool,
    now: Timestamp,
}

impl Frame<'_> {
    fn around(&self, content: &Markup) -> RenderedPage {
        let say = |word| self.language.say(word);
        let main = html! {
            @if let Some(icon_path) = self.appearance.icon_path {
                svg.sign viewBox="0 0 24 24" width="56" height="56" aria-hidden="true" {
                    circle cx="12" cy="12" r="12" {}
                    path d=(icon_path) {}
                }
            }
            (content)
        };
        let etag = format!("W/{}", etag_of(&main.0));
        let style = format!("{STYLE}{}", self.color.map(pages::accent).unwrap_or_default());
        let page = html! {
            (DOCTYPE)
            html lang=(self.language.tag()) {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="robots" content="noindex, nofollow";
                    // Prevents mobile browsers from turning the code's digits into phone links.
                    meta name="format-detection" content="telephone=no";
                    @if self.refresh.is_some() {
                        @let look = self.look.map_or_else(String::new, |look| format!(";url={look}"));
                        noscript { meta http-equiv="refresh" content={ (RELOAD) (look) }; }
                    }
                    title { (self.tab_title) }
                    link rel="icon" href="data:,";
                    style { (PreEscaped(&style)) }
                }
                body data-refresh=[self.refresh] data-look=[self.look] data-now=(self.now.millis()) data-etag=(etag) {
                    @if self.is_test {
                        header { p.test { strong { (say(w::TEST)) } ": " (say(w::TEST_MEANS)) } }
                    }
                    main class=(self.appearance.class) { (main) }
                    footer aria-label=(say(w::LANGUAGE)) {
                        @for each in Language::ALL {
                            a href={ "?lang=" (each.tag()) } lang=(each.tag()) aria-current=[(each == self.language).then_some("true")] { (each.name()) }
                        }
                    }
                    script { (PreEscaped(SCRIPT)) }
                }
            }
        };
        let policy = format!(
            "default-src 'none'; img-src 'self' data:; connect-src 'self'; style-src '{}'; script-src '{}'; \
             base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
            csp_source(&style),
            *SCRIPT_SOURCE,
        );
        RenderedPage { html: page.into_string(), policy, etag }
    }
}

fn mailto(address: &MailAddress) -> String {
    let text = address.as_str();
    let local = text.strip_suffix(address.domain()).and_then(|local| local.strip_suffix('@'));
    // Characters such as `?` and `&` would begin other parts of the URL.
    let local: String = byte_serialize(local.unwrap_or_default().as_bytes()).collect();
    format!("mailto:{local}@{}", address.domain())
}

/// Where the shop wants the payer after the payment: the metadata `returnUrl`, if it is a URL of the web.
fn way_back(charge: &Charge) -> Option<String> {
    let url = Url::parse(&charge.metadata.text("returnUrl")?).ok()?;
    let is_web =
        matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none();
    is_web.then(|| url.into())
}

/// `None` when the code can't be parsed or has no name.
fn receiver(br_code: &str) -> Option<&str> {
    let name = BrCode::parse(br_code).ok()?.merchant_name().trim();
    (!name.is_empty()).then_some(name)
}

fn description(charge: &Charge) -> Option<String> {
    let metadata = charge.metadata.to_map();
    let description = metadata.get("description")?.as_str()?;
    Some(visible(description)).filter(|visible| !visible.is_empty())
}

/// Metadata may contain any text. Characters that hide or reorder text are removed, so that the payer reads it as it
/// is written. A document is masked, because everybody with the link can read the page.
fn visible(metadata: &str) -> String {
    let visible: String =
        metadata.chars().filter(|character| !text::is_forbidden_in_multiline(*character)).collect();
    domain::masking::without_documents(visible.trim())
}

#[cfg(test)]
mod tests;
