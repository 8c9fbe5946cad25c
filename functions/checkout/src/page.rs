//! Renders the checkout page: one variant for each state of a charge, and pages for an unknown charge and for
//! a failure.
//!
//! Rendering is a pure function of the charge and the time; [`maud`] escapes every value. The page shows only
//! the receiver's name as the payer's bank shows it, the amount, the description, times, and what the payer
//! needs to pay. Of the customer's data, it shows only the last three digits of the phone number, for MB WAY.
//! The page loads nothing but the QR image, from its own origin. Its content security policy forbids
//! everything else.
//!
//! The page of a test charge also has a form that simulates the payment, which another function handles.
//!
//! While the charge's state can still change, the page reloads itself. The script pauses reloading while the
//! payer uses the code, and reloads at once when the payer returns from the bank's app. Without scripts,
//! `<meta>` reloads the page.

use std::sync::LazyLock;

use artefacts::brcode::BrCode;
use domain::charge::{Charge, Pix, TransactionStatus};
use domain::ids::Mode;
use domain::payment_method::PaymentMethod;
use domain::time::Timestamp;
use domain::{pt_br, text};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use shared::http::csp_source;

const STYLE: &str = include_str!("page.css");

const SCRIPT: &str = include_str!("page.js");

/// The reload interval while the payer may be paying, in seconds. It is short, so that the page soon shows
/// that the payment arrived.
const REFRESH_WHILE_PENDING: Option<u32> = Some(10);

/// The reload interval during a review, in seconds. It is longer, because a review may last hours.
const REFRESH_WHILE_PROCESSING: Option<u32> = Some(60);

static CONTENT_SECURITY_POLICY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "default-src 'none'; img-src 'self'; style-src '{}'; script-src '{}'; base-uri 'none'; \
         form-action 'self'; frame-ancestors 'none'",
        csp_source(STYLE),
        csp_source(SCRIPT),
    )
});

/// Returns the content security policy. It allows only the page's style and script, by their hashes, and
/// images and forms to the same origin.
pub fn content_security_policy() -> &'static str {
    &CONTENT_SECURITY_POLICY
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum PageState {
    /// The acquirer is still making the code.
    Preparing,
    Payable,
    /// The time to pay is over, but the bank has not confirmed yet whether a payment arrived in time.
    Closing,
    Processing,
    Paid,
    Refused,
    Cancelled,
    Expired,
    Refunded,
    Disputed,
}

impl PageState {
    fn of(charge: &Charge, now: Timestamp) -> Self {
        match charge.status {
            TransactionStatus::Pending => Self::Preparing,
            TransactionStatus::WaitingPayment | TransactionStatus::Processing if charge.is_open() => {
                if now > charge.expires_at() { Self::Closing } else { Self::Payable }
            }
            TransactionStatus::WaitingPayment | TransactionStatus::Processing => Self::Processing,
            TransactionStatus::Paid | TransactionStatus::Approved => Self::Paid,
            TransactionStatus::Refused => Self::Refused,
            TransactionStatus::Cancelled => Self::Cancelled,
            TransactionStatus::Expired => Self::Expired,
            TransactionStatus::Refunded => Self::Refunded,
            TransactionStatus::Chargeback | TransactionStatus::Dispute => Self::Disputed,
        }
    }

    fn title(self, charge: &Charge) -> &'static str {
        match self {
            Self::Preparing => "Preparando o pagamento",
            Self::Payable if charge.methods == [PaymentMethod::Pix] => "Pague com Pix",
            Self::Payable => "Pague esta cobrança",
            Self::Closing => "Verificando o pagamento",
            Self::Processing => "Pagamento em análise",
            Self::Paid => "Pagamento confirmado",
            Self::Refused => "Pagamento recusado",
            Self::Cancelled => "Cobrança cancelada",
            Self::Expired => "Cobrança expirada",
            Self::Refunded => "Pagamento devolvido",
            Self::Disputed => "Pagamento em disputa",
        }
    }

    fn message(self, charge: &Charge) -> String {
        let deadline = || pt_br::format_minute(charge.expires_at());
        match self {
            Self::Preparing => "O código Pix aparece aqui em instantes.".to_owned(),
            Self::Payable => format!("Pague até {} (horário de Brasília).", deadline()),
            Self::Closing => format!(
                "O prazo para pagar terminou em {}. Se você já pagou, aguarde: a confirmação aparece aqui. \
                 Se não pagou, não pague mais este código.",
                deadline()
            ),
            Self::Processing => {
                "Seu pagamento está sendo analisado. Não pague de novo: o resultado aparece aqui.".to_owned()
            }
            Self::Paid => match &charge.applied_payment {
                Some(applied) if applied.method == PaymentMethod::Pix => {
                    format!("Recebemos o seu Pix em {}. Obrigado!", pt_br::format_minute(applied.paid_at))
                }
                Some(applied) => {
                    format!(
                        "Recebemos o seu pagamento em {}. Obrigado!",
                        pt_br::format_minute(applied.paid_at)
                    )
                }
                None => "Recebemos o seu pagamento. Obrigado!".to_owned(),
            },
            Self::Refused => {
                "O pagamento não foi concluído. Para tentar de novo, peça uma nova cobrança à loja."
                    .to_owned()
            }
            Self::Cancelled => {
                "Esta cobrança foi cancelada e não pode mais ser paga. Em caso de dúvida, fale com a loja."
                    .to_owned()
            }
            Self::Expired => format!(
                "O prazo para pagar terminou em {}. Não pague mais este código: peça uma nova cobrança à loja.",
                deadline()
            ),
            Self::Refunded => {
                "O valor foi devolvido à conta de onde saiu. Em caso de dúvida, fale com a loja.".to_owned()
            }
            Self::Disputed => {
                "Este pagamento foi contestado e está sendo analisado. Acompanhe o caso pelo seu banco."
                    .to_owned()
            }
        }
    }

    fn appearance(self) -> Appearance {
        match self {
            Self::Preparing | Self::Closing | Self::Processing => Appearance::Waiting,
            Self::Payable => Appearance::Plain,
            Self::Paid => Appearance::Good,
            Self::Refused | Self::Cancelled | Self::Expired => Appearance::Ended,
            Self::Refunded => Appearance::Returned,
            Self::Disputed => Appearance::Attention,
        }
    }

    fn refresh_seconds(self) -> Option<u32> {
        match self {
            Self::Preparing | Self::Payable | Self::Closing => REFRESH_WHILE_PENDING,
            Self::Processing => REFRESH_WHILE_PROCESSING,
            Self::Paid
            | Self::Refused
            | Self::Cancelled
            | Self::Expired
            | Self::Refunded
            | Self::Disputed => None,
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Appearance {
    Plain,
    Waiting,
    Good,
    Ended,
    Returned,
    Attention,
}

impl Appearance {
    fn class(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Waiting => "waiting",
            Self::Good => "good",
            Self::Ended => "ended",
            Self::Returned => "returned",
            Self::Attention => "attention",
        }
    }

    /// Returns the SVG path of the icon, in a view box of 24 by 24.
    fn icon_path(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Waiting => Some("M12 6v6l4 2.5"),
            Self::Good => Some("M6 12.5l4 4 8-9"),
            Self::Ended => Some("M7.5 7.5l9 9M16.5 7.5l-9 9"),
            Self::Returned => Some("M10 6l-4.5 4.5L10 15M6 10.5h8a4 4 0 0 1 0 8h-2"),
            Self::Attention => Some("M12 6v7.5M12 17.5v.01"),
        }
    }
}

/// Renders the page of a charge. The caller must have applied the charge's expiry: see
/// [`domain::charge::StoredCharge::read_at`].
pub fn render(charge: &Charge, now: Timestamp) -> String {
    let state = PageState::of(charge, now);
    let amount = pt_br::format_amount(charge.amount, charge.currency);
    let receiver = charge.artefacts.pix.as_ref().and_then(|pix| receiver(&pix.br_code));
    let title = state.title(charge);
    let tab_title = match receiver {
        Some(receiver) => format!("{title}: {amount} para {receiver}"),
        None => format!("{title}: {amount}"),
    };
    let is_test = charge.scope.mode == Mode::Test;
    let frame = Frame {
        tab_title: &tab_title,
        appearance: state.appearance(),
        refresh_seconds: state.refresh_seconds(),
        is_test,
    };
    let content = html! {
        h1 #situacao tabindex="-1" { (title) }
        p.message { (state.message(charge)) }
        dl {
            @if let Some(receiver) = receiver {
                div { dt { "Para" } dd dir="auto" { (receiver) } }
            }
            div { dt { "Valor" } dd.amount { (amount) } }
            @if let Some(description) = description(charge) {
                div { dt { "Descrição" } dd.description dir="auto" { (description) } }
            }
        }
        @if state == PageState::Payable {
            (payment_methods(charge, now))
            @if is_test { (simulation(charge, now)) }
        }
    };
    frame.around(&content)
}

/// Renders each payment method of the charge that has not expired.
fn payment_methods(charge: &Charge, now: Timestamp) -> Markup {
    let has_several = charge.methods.len() > 1;
    html! {
        @for (method, end) in charge.payable_methods(now) {
            section.way {
                @if has_several || method != PaymentMethod::Pix {
                    h2 { (method.facts().name) }
                }
                @if has_several {
                    p.message { "Até " (pt_br::format_minute(end)) "." }
                }
                (method_content(charge, method))
            }
        }
    }
}

fn method_content(charge: &Charge, method: PaymentMethod) -> Markup {
    let artefacts = &charge.artefacts;
    html! {
        @match method {
            PaymentMethod::Pix => @if let Some(pix) = &artefacts.pix { (by_pix(charge, pix)) },
            PaymentMethod::CreditCard => p { a href={ (charge.id.raw()) "/card" } { "Pagar com cartão" } },
            PaymentMethod::Mbway => @if let Some(mbway) = &artefacts.mbway {
                p { "Confirme o pagamento no aplicativo MB WAY do telefone terminado em "
                    strong { (last_digits(&mbway.phone)) } "." }
            },
            PaymentMethod::Multibanco => @if let Some(multibanco) = &artefacts.multibanco {
                dl {
                    div { dt { "Entidade" } dd { (multibanco.entity) } }
                    div { dt { "Referência" } dd { (multibanco.reference) } }
                }
            },
            PaymentMethod::Boleto => p { a href={ (charge.id.raw()) "/boleto.pdf" } { "Abrir o boleto" } },
            PaymentMethod::Crypto => @if let Some(crypto) = &artefacts.crypto {
                dl {
                    div { dt { "Rede" } dd { (crypto.network) } }
                    div { dt { "Endereço" } dd.address { (crypto.address) } }
                    div { dt { "Valor exato" } dd { (crypto.amount) " " (crypto.currency) } }
                }
            },
        }
    }
}

/// `acquirer-events` handles it. Each button is a form of its own, because a payment is by one of the
/// methods.
fn simulation(charge: &Charge, now: Timestamp) -> Markup {
    // The URL is relative to the page's URL, like that of the QR image.
    let action = format!("{}/simulate", charge.id.raw());
    let methods: Vec<PaymentMethod> = charge.payable_methods(now).map(|(method, _)| method).collect();
    html! {
        section.simulation aria-labelledby="simulacao" {
            h2 #simulacao { "Simular pagamento" }
            p { "Ambiente de teste — nenhum dinheiro é movimentado." }
            div.outcomes {
                @for method in &methods {
                    form method="post" action=(action) {
                        input type="hidden" name="method" value=(method.as_str());
                        button id={ "pago-" (method.as_str()) } name="outcome" value="paid" {
                            "Pago"
                            @if methods.len() > 1 { " com " (method.facts().name) }
                        }
                    }
                }
                form method="post" action=(action) {
                    button.declined #recusado name="outcome" value="declined" { "Recusado" }
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

fn by_pix(charge: &Charge, pix: &Pix) -> Markup {
    html! {
        div.ways {
            section.copy aria-labelledby="copia-e-cola" {
                h2 #copia-e-cola { label for="codigo" { "Pix copia e cola" } }
                input #codigo type="text" readonly autocomplete="off" spellcheck="false" value=(pix.br_code);
                // Hidden until the script shows it, because the button does nothing without the script.
                button #copiar type="button" hidden { "Copiar código" }
                p #copiado role="status" aria-live="polite" {}
            }
            section.scan aria-labelledby="qr" {
                h2 #qr { "QR code" }
                // The URL is relative to the page's URL, so that it works behind any base path. A usual QR
                // code has 65 modules including its margin, so each module is exactly four pixels wide.
                img src={ (charge.id.raw()) "/qr.png" } width="260" height="260" alt="QR code Pix desta cobrança";
            }
            section.steps aria-labelledby="passos" {
                h2 #passos { "Como pagar" }
                ol {
                    li { "Abra o aplicativo do seu banco e escolha pagar com Pix." }
                    li { "Cole o código em “Pix copia e cola” ou escaneie o QR code." }
                    li { "Confira o valor e o nome de quem recebe e confirme." }
                }
                p { "A confirmação aparece nesta página em alguns segundos." }
            }
        }
    }
}

pub fn not_found() -> String {
    let frame = Frame {
        tab_title: "Cobrança não encontrada",
        appearance: Appearance::Ended,
        refresh_seconds: None,
        is_test: false,
    };
    frame.around(&html! {
        h1 { "Cobrança não encontrada" }
        p.message { "Confira se o endereço está completo ou peça um novo link à loja." }
    })
}

/// Renders the page for a charge that can't be read.
pub fn unavailable() -> String {
    let frame = Frame {
        tab_title: "Página indisponível no momento",
        appearance: Appearance::Waiting,
        refresh_seconds: REFRESH_WHILE_PENDING,
        is_test: false,
    };
    frame.around(&html! {
        h1 { "Página indisponível no momento" }
        p.message {
            "Não conseguimos carregar esta cobrança. Tentamos de novo em alguns segundos. "
            "Se você já pagou, não pague de novo."
        }
    })
}

struct Frame<'a> {
    tab_title: &'a str,
    appearance: Appearance,
    refresh_seconds: Option<u32>,
    is_test: bool,
}

impl Frame<'_> {
    fn around(&self, content: &Markup) -> String {
        let page = html! {
            (DOCTYPE)
            html lang="pt-BR" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="robots" content="noindex, nofollow";
                    // Prevents mobile browsers from turning the code's digits into phone links.
                    meta name="format-detection" content="telephone=no";
                    @if let Some(seconds) = self.refresh_seconds {
                        noscript { meta http-equiv="refresh" content=(seconds); }
                    }
                    title { (self.tab_title) }
                    style { (PreEscaped(STYLE)) }
                }
                body data-refresh-seconds=[self.refresh_seconds] {
                    @if self.is_test {
                        header { p.test { strong { "Ambiente de teste" } ": nenhum dinheiro é cobrado." } }
                    }
                    main class=(self.appearance.class()) {
                        @if let Some(icon_path) = self.appearance.icon_path() {
                            svg.sign viewBox="0 0 24 24" width="56" height="56" aria-hidden="true" {
                                circle cx="12" cy="12" r="12" {}
                                path d=(icon_path) {}
                            }
                        }
                        (content)
                    }
                    script { (PreEscaped(SCRIPT)) }
                }
            }
        };
        page.into_string()
    }
}

/// `None` when the code can't be parsed or has no name.
fn receiver(br_code: &str) -> Option<&str> {
    let name = BrCode::parse(br_code).ok()?.merchant_name().trim();
    (!name.is_empty()).then_some(name)
}

fn description(charge: &Charge) -> Option<String> {
    let metadata = charge.metadata.to_map();
    let description = metadata.get("description")?.as_str()?;
    // Metadata may contain any text. Characters that hide or reorder text are removed, so that the payer
    // reads the description as it is written.
    let visible: String =
        description.chars().filter(|character| !text::is_forbidden_in_multiline(*character)).collect();
    let visible = visible.trim();
    (!visible.is_empty()).then(|| visible.to_owned())
}

#[cfg(test)]
mod tests;
