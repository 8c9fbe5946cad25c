//! What a payer sees: one page for each situation of a charge, and those for when there is none.
//!
//! Pure: charge and time in, HTML out; [`maud`] escapes every value. An allowlist: the receiver's name (as the
//! payer's bank will show it), amount, description, times and what it is paid by; of the customer the last digits of the
//! telephone that MB WAY asks, and nothing else.
//! A page needs nothing from elsewhere but the QR image, and its policy lets nothing else in.
//!
//! While something can still happen it loads itself anew: by the script, which waits for a payer who is busy
//! with the code and looks at once when they come back from the bank's app; without scripts by `<meta>`.

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

/// While the payer is about to pay, in seconds: soon enough to be believed, one read of a row each time.
const REFRESH_WHILE_PENDING: Option<u32> = Some(10);

/// While somebody else has to decide, in seconds: a review may take hours.
const REFRESH_WHILE_PROCESSING: Option<u32> = Some(60);

static CONTENT_SECURITY_POLICY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "default-src 'none'; img-src 'self'; style-src '{}'; script-src '{}'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
        csp_source(STYLE),
        csp_source(SCRIPT),
    )
});

/// The policy that lets in the page's own style and script, by their hashes, the QR image, and nothing else.
pub fn content_security_policy() -> &'static str {
    &CONTENT_SECURITY_POLICY
}

/// Where a charge stands, for its payer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Situation {
    /// The code is being made.
    Preparing,
    /// The code can be paid.
    Payable,
    /// The time to pay is over, and the bank has yet to say whether it was used.
    Closing,
    /// Paid, and not yet settled.
    Processing,
    Paid,
    Refused,
    Cancelled,
    Expired,
    Refunded,
    Disputed,
}

impl Situation {
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

    /// What the payer should know, and do.
    fn message(self, charge: &Charge) -> String {
        let deadline = || pt_br::moment(charge.expires_at());
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
                    format!("Recebemos o seu Pix em {}. Obrigado!", pt_br::moment(applied.paid_at))
                }
                Some(applied) => {
                    format!("Recebemos o seu pagamento em {}. Obrigado!", pt_br::moment(applied.paid_at))
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

    fn look(self) -> Look {
        match self {
            Self::Preparing | Self::Closing | Self::Processing => Look::Waiting,
            Self::Payable => Look::Plain,
            Self::Paid => Look::Good,
            Self::Refused | Self::Cancelled | Self::Expired => Look::Ended,
            Self::Refunded => Look::Returned,
            Self::Disputed => Look::Attention,
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

/// Colour and sign of a page; the title says the same in words.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Look {
    Plain,
    Waiting,
    Good,
    Ended,
    Returned,
    Attention,
}

impl Look {
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

    /// The strokes of its sign, in a square of 24.
    fn strokes(self) -> Option<&'static str> {
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

/// The page of a charge, which callers pass through [`Charge::as_of`] first.
pub fn render(charge: &Charge, now: Timestamp) -> String {
    let situation = Situation::of(charge, now);
    let amount = pt_br::amount(charge.amount, charge.currency);
    let receiver = charge.artefacts.pix.as_ref().and_then(|pix| receiver(&pix.br_code));
    let title = situation.title(charge);
    let tab_title = match receiver {
        Some(receiver) => format!("{title}: {amount} para {receiver}"),
        None => format!("{title}: {amount}"),
    };
    let frame = Frame {
        tab_title: &tab_title,
        look: situation.look(),
        refresh_seconds: situation.refresh_seconds(),
        is_test: charge.scope.mode == Mode::Test,
    };
    let content = html! {
        h1 #situacao tabindex="-1" { (title) }
        p.message { (situation.message(charge)) }
        dl {
            @if let Some(receiver) = receiver {
                div { dt { "Para" } dd dir="auto" { (receiver) } }
            }
            div { dt { "Valor" } dd.amount { (amount) } }
            @if let Some(description) = description(charge) {
                div { dt { "Descrição" } dd.description dir="auto" { (description) } }
            }
        }
        @if situation == Situation::Payable { (how_to_pay(charge, now)) }
    };
    frame.around(&content)
}

/// Each way that was asked for and whose own time is not over; with its name and its time, where there are several.
fn how_to_pay(charge: &Charge, now: Timestamp) -> Markup {
    let several = charge.methods.len() > 1;
    let ends = |method: &PaymentMethod| charge.artefacts.expires_at(*method).map(|end| (*method, end));
    html! {
        @for (method, end) in charge.methods.iter().filter_map(ends).filter(|(_, end)| now <= *end) {
            section.way {
                @if several || method != PaymentMethod::Pix {
                    h2 { (method.facts().name) }
                }
                @if several {
                    p.message { "Até " (pt_br::moment(end)) "." }
                }
                (way(charge, method))
            }
        }
    }
}

fn way(charge: &Charge, method: PaymentMethod) -> Markup {
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

/// Enough of a telephone number for its owner to know it by.
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
                // Shown by the script, without which it would do nothing.
                button #copiar type="button" hidden { "Copiar código" }
                p #copiado role="status" aria-live="polite" {}
            }
            section.scan aria-labelledby="qr" {
                h2 #qr { "QR code" }
                // Relative to the page's address, so that it holds behind any base path. A usual code has 65 modules
                // with its margin: four whole pixels each.
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

/// The page of an address that no charge has.
pub fn not_found() -> String {
    let frame = Frame {
        tab_title: "Cobrança não encontrada",
        look: Look::Ended,
        refresh_seconds: None,
        is_test: false,
    };
    frame.around(&html! {
        h1 { "Cobrança não encontrada" }
        p.message { "Confira se o endereço está completo ou peça um novo link à loja." }
    })
}

/// The page for when the charge can't be read; it tries again by itself.
pub fn unavailable() -> String {
    let frame = Frame {
        tab_title: "Página indisponível no momento",
        look: Look::Waiting,
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

/// What all pages have in common.
struct Frame<'a> {
    tab_title: &'a str,
    look: Look,
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
                    // Or a phone takes a code's digits for telephone numbers.
                    meta name="format-detection" content="telephone=no";
                    @if let Some(seconds) = self.refresh_seconds {
                        noscript { meta http-equiv="refresh" content=(seconds); }
                    }
                    title { (self.tab_title) }
                    style { (PreEscaped(STYLE)) }
                }
                body data-refresh-seconds=[self.refresh_seconds] {
                    @if self.is_test {
                        p.test { strong { "Ambiente de teste" } ": nenhum dinheiro é cobrado." }
                    }
                    main class=(self.look.class()) {
                        @if let Some(strokes) = self.look.strokes() {
                            svg.sign viewBox="0 0 24 24" width="56" height="56" aria-hidden="true" {
                                circle cx="12" cy="12" r="12" {}
                                path d=(strokes) {}
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

/// The receiver's name as the code carries it, which is what the payer's bank shows.
fn receiver(br_code: &str) -> Option<&str> {
    let name = BrCode::parse(br_code).ok()?.merchant_name().trim();
    (!name.is_empty()).then_some(name)
}

fn description(charge: &Charge) -> Option<String> {
    let metadata = charge.metadata.to_map();
    let description = metadata.get("description")?.as_str()?;
    // Metadata is the merchant's own map, and rows from before hold any text: a payer must read what is written there.
    let shown: String =
        description.chars().filter(|character| !text::is_unfit_for_lines(*character)).collect();
    let shown = shown.trim();
    (!shown.is_empty()).then(|| shown.to_owned())
}

#[cfg(test)]
mod tests;
