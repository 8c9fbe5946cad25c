//! The receipt of a payment, for a screen and for paper.

use domain::account::Account;
use domain::charge::Charge;
use domain::ids::Mode;
use domain::payment_method::PaymentMethod;
use domain::pt_br;
use domain::refund::{Refund, RefundStatus};
use domain::tax_id::TaxId;
use domain::time::Timestamp;
use maud::{Markup, html};

use crate::components::{Cell, Tone, alert, facts, money, table, tag};
use crate::words as w;
use crate::{Language, Word};
use domain::masking::without_documents;

/// What a receipt shows besides the charge and the shop.
#[derive(Debug, Default)]
pub struct ReceiptDetails<'a> {
    /// The payer's name, without documents, and document, masked. `None` on a public page.
    pub payer: Option<String>,
    pub document: Option<String>,
    pub refunds: &'a [Refund],
}

/// `None`: the charge has no settled payment.
pub fn receipt(
    charge: &Charge,
    account: &Account,
    details: ReceiptDetails<'_>,
    language: Language,
) -> Option<Markup> {
    let paid = charge.applied_payment.as_ref().filter(|_| charge.settlement.is_some())?;
    let say = |word: Word| language.say(word);
    let (brand, receiver) = (&account.brand, account.settings.merchant_name.as_str());
    let returned = charge.funds.refunded().ok()?.get().saturating_add(charge.funds.med_lost.get());
    let sum = |minor: i64| html! { (money(minor, charge.currency)) };
    let text = |text: Option<String>| html! { @if let Some(text) = text { span dir="auto" { (text) } } };
    // A Pix is returned, a card payment reversed.
    let (returned_sum, returned_on, returns) = if paid.method == PaymentMethod::CreditCard {
        (w::REVERSED_SUM, w::REVERSED_ON, w::REVERSALS)
    } else {
        (w::REFUNDED_SUM, w::RETURNED_ON, w::RETURNS)
    };
    let completed: Vec<_> = details
        .refunds
        .iter()
        .filter(|refund| refund.status == RefundStatus::Refunded)
        .map(|refund| {
            vec![
                html! { (second(language, refund.updated_at)) },
                html! { code { (refund.end_to_end_id().map_or_else(|| refund.id.to_string(), str::to_owned)) } },
                sum(refund.share.gross.minor()),
            ]
        })
        .collect();
    let stamp = match returned {
        0 => tag(Tone::Good, say(w::PAID_STAMP)),
        _ if returned < charge.amount.minor() => tag(Tone::Warn, say(w::RETURNED_IN_PART)),
        _ => tag(Tone::Calm, say(returned_sum)),
    };
    Some(html! {
        section.card {
            @if charge.scope.mode == Mode::Test { (alert(Tone::Warn, &html! { (say(w::TEST_RECEIPT)) })) }
            @if let Some(logo) = &brand.logo { p { img.logo src={ "/checkout/" (logo.file()) } alt=""; } }
            h1 { (say(w::RECEIPT)) " " (stamp) }
            p.big { (money(charge.amount.minor(), charge.currency)) }
            (facts(vec![
                (say(w::MERCHANT), text(Some(brand.name.clone().unwrap_or_else(|| receiver.to_owned())))),
                (say(w::RECEIVED_BY), text(brand.name.is_some().then(|| receiver.to_owned()))),
                (say(w::SHOPS_DOCUMENT), html! { @if let Some(TaxId::Cnpj(cnpj)) = account.document { (printed(cnpj.as_str())) } }),
                (say(w::ORDER), text(charge.metadata.order_number().as_deref().map(without_documents))),
                (say(w::DESCRIPTION), text(charge.metadata.text("description").as_deref().map(without_documents))),
                (say(w::PAYER), text(details.payer)),
                (say(w::DOCUMENT), text(details.document)),
                (say(w::PAID_ON), html! { (second(language, paid.paid_at)) }),
                (say(w::METHOD), html! { (say(w::of_method(paid.method))) }),
                ("End-to-end id", html! { @if paid.method == PaymentMethod::Pix { code { (paid.payment_id) } } }),
                (say(w::TRANSACTION), html! { code { (charge.id.raw()) } }),
                (say(returned_sum), html! { @if returned > 0 { (sum(returned)) } }),
                (say(w::SHOPS_EMAIL), text(brand.email.as_ref().map(ToString::to_string))),
                (say(w::SHOPS_PHONE), text(brand.phone.as_ref().map(ToString::to_string))),
            ]))
            div.actions.print {
                button.quiet type="button" hidden data-print { (say(w::PRINT)) }
                a.btn.quiet href={ "/checkout/" (charge.id.raw()) } { (say(w::CHECKOUT_PAGE)) }
            }
        }
        @if !completed.is_empty() {
            section.card {
                (table(say(returns), &[
                    (Cell::Time, say(returned_on)), (Cell::Main, "Id"), (Cell::Amount, say(returned_sum)),
                ], completed))
            }
        }
    })
}

/// A CNPJ as people write it: `12.345.678/0001-95`.
fn printed(bare: &str) -> String {
    let mark = |index: usize| match index {
        2 | 5 => ".",
        8 => "/",
        12 => "-",
        _ => "",
    };
    bare.chars().enumerate().flat_map(|(index, character)| mark(index).chars().chain([character])).collect()
}

/// On paper there is no zone on hover.
fn second(language: Language, at: Timestamp) -> String {
    format!("{} {}", pt_br::format_second(at), language.say(w::ZONE))
}
