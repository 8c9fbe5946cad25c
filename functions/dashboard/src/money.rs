//! The wallet, refunds and payouts.

use std::collections::BTreeMap;

use axum::response::Response;
use domain::charge::{Charge, StoredCharge};
use domain::ids::{ChargeId, PayoutId, PostingId, RefundId};
use domain::money::{Currency, MinorUnits};
use domain::payment_method::PaymentMethod;
use domain::payout::{Payout, PayoutKey, PayoutKeyState, PayoutStatus};
use domain::refund::Refund;
use domain::report::ReportKind;
use domain::row::Key;
use domain::wallet::{Posting, PostingKind, Wallet};
use maud::{Markup, html};
use money::payout::{PAGE_SIZE, PayoutKeys, Payouts};
use money::wallet::statement::{STATEMENT_QUERY, StatementFilter, StatementFormat};
use pages::forms::{Need, answer};
use pages::kept::{payout_form, payout_key_form};
use pages::{Cell, Tone, Word, tag, time, without_documents};
use shared::http::{Problem, Query, Result};

use crate::charges::{Titles, field, of_rows, titles};
use crate::home::{balance, releases, shown};
use crate::reports;
use crate::states::{BackWords, State as _};
use crate::translations::refund_reason;
use crate::visit::{CARRIED, Page, Visitor};
use crate::words as w;

const WALLET: &str = "/dashboard/wallet";
const REFUNDS: &str = "/dashboard/refunds";
const PAYOUTS: &str = "/dashboard/payouts";
const KEY_FORM: &str = "/dashboard/wallet/key";
const PAYOUT_FORM: &str = "/dashboard/wallet/payout";

/// Release days that the page lists.
const RELEASES: usize = 31;

/// Movements among which a page of refunds is found, and the most refunds that it reads: about 30 read units together.
const MOVEMENTS: &str = "80";
const REFUNDS_SHOWN: usize = 15;

pub(crate) async fn wallet(visitor: Visitor) -> Result<Response> {
    let query = visitor.query();
    let filter = match StatementFilter::parse(&query.known(STATEMENT_QUERY), StatementFormat::Json) {
        Ok(filter) => filter,
        Err(problem) => return answer(Err(problem), WALLET),
    };
    let currency =
        query.text("currency").and_then(|code| Currency::parse(code).ok()).unwrap_or(Currency::BRL);
    let (page, (wallets, statement, charges, (key, request))) = visitor
        .load(async |visit| {
            let (wallets, scope) = (&visit.app.wallets, visit.sharded_scope());
            let (keys, payouts) =
                (PayoutKeys::new(visit.app.store.clone()), Payouts::new(visit.app.store.clone()));
            // The balance after the first movement of the page.
            let carried = query.text(CARRIED).and_then(|minor| minor.parse().ok()).map(MinorUnits::new);
            let movements = async {
                let found = wallets.for_scope(&scope).await?;
                let statement = wallets.statement(&scope, &filter).await?;
                let of: Vec<ChargeId> =
                    statement.items.iter().filter_map(|posting| posting.subject.charge).collect();
                let charges = Box::pin(of_rows(&visit.app.store, of.into_iter()));
                if carried.is_some() || !is_whole(&query) {
                    return Ok::<_, Problem>((found, statement, charges.await?, carried));
                }
                let (charges, after) = tokio::join!(charges, Box::pin(wallets.for_scope(&scope)));
                // A movement between the two reads may be on the page or not.
                let after = after?;
                let unchanged = after.get(&currency).filter(|after| found.get(&currency) == Some(after));
                let all = |wallet: &Wallet| wallet.total()?.checked_add(wallet.retained()?);
                let balance = unchanged.map(all).transpose()?;
                Ok((found, statement, charges?, balance))
            };
            let (movements, key, request) = tokio::join!(
                Box::pin(movements),
                Box::pin(keys.find(&scope.scope.account)),
                Box::pin(payouts.last_request(&scope.scope, currency)),
            );
            let (found, statement, charges, balance) = movements?;
            let request = request?.map(|(_, payout)| payout);
            Ok((found, statement, (charges, balance), (key?, request)))
        })
        .await?;
    let (charges, mut left) = charges;
    let wallet = wallets.get(&currency).cloned().unwrap_or_else(|| Wallet::empty(currency));
    let titles = titles(&page, &charges);
    let mut rows = Vec::new();
    for posting in &statement.items {
        rows.push(movement(&page, (&titles, &charges), posting, left)?);
        left = left.map(|after| after.checked_sub(posting.net()?)).transpose()?;
    }
    let next = statement.next_cursor.map(|id| {
        let next = query.only(|name| name != CARRIED).set("starting_after", &id.to_string());
        let next = if let Some(left) = left { next.set(CARRIED, &left.to_string()) } else { next };
        format!("{WALLET}?{}", next.encoded())
    });
    let columns = [
        (Cell::Time, w::WHEN),
        (Cell::Main, w::MOVEMENT),
        (Cell::Other, w::FEE),
        (Cell::Other, w::PART),
        (Cell::Amount, w::MONEY_IN),
        (Cell::Amount, w::MONEY_OUT),
        (Cell::Other, w::BALANCE_AFTER),
    ];
    let main = html! {
        div.head {
            h1 { (page.say(w::WALLET)) }
            p { (reports::link(&page, ReportKind::Statement, &query)) " · " a href=(PAYOUTS) { (page.say(w::PAYOUTS)) } " · " a href=(REFUNDS) { (page.say(w::REFUNDS)) } }
        }
        (currencies(&page, WALLET, currency, &wallets))
        div #balances data-refresh="10" {
            div.grid {
                (balance(&page, &wallet)?)
                (releases(&page, &wallet)?)
                section.card {
                    h2 { (page.say(w::RETAINED)) }
                    p.big { (shown(wallet.retained()?, currency)) }
                }
                @if let Some(own) = wallet.self_custody()? {
                    section.card {
                        h2 { (page.say(w::SELF_CUSTODY)) }
                        p.big { (shown(own, currency)) }
                        p.soft { (page.say(w::SELF_CUSTODY_MEANS)) }
                    }
                }
            }
        }
        (payout_request(&page, currency, key.as_ref(), request.as_ref()))
        (release_days(&page, &wallet))
        (page.filters(WALLET, (&query, &["created_after", "created_before"], false), &html! {
            (pages::hidden("currency", currency.as_str()))
            (field(("created_after", "date", page.say(w::FROM)), &query, None))
            (field(("created_before", "date", page.say(w::TO)), &query, None))
        }))
        (page.list((w::STATEMENT, &columns), rows, (w::NO_MOVEMENTS, page.new_charge()), next))
        (page.sizes())
    };
    Ok(page.render(page.say(w::WALLET), &main))
}

/// The choice of a currency, if the shop has several.
pub(crate) fn currencies(
    page: &Page,
    path: &str,
    chosen: Currency,
    wallets: &BTreeMap<Currency, Wallet>,
) -> Markup {
    let each = wallets.keys().map(|each| (each.as_str(), each.as_str()));
    html! {
        @if wallets.len() > 1 { (pages::chips(page.say(w::CURRENCY), (path, "currency"), chosen.as_str(), each)) }
    }
}

/// The payout key, the last request in a currency, and the forms of both.
fn payout_request(
    page: &Page,
    currency: Currency,
    key: Option<&PayoutKey>,
    request: Option<&Payout>,
) -> Markup {
    let is_pending = request.is_some_and(|payout| payout.status == PayoutStatus::Pending);
    let works = key.is_some_and(|key| key.destination(page.now).is_some());
    html! {
        section.card {
            h2 { (page.say(w::REQUEST_PAYOUT)) }
            @if let Some(key) = key { (payout_key(page, key)) } @else { p { (page.say(w::NO_PAYOUT_KEY)) } }
            @if let Some(payout) = request { (last_request(page, payout)) }
            @if page.session.account.settings.suspended {
                p { (page.say(w::of_code("account_suspended"))) }
            } @else if page.shows(Need::Owner) {
                @if works && !is_pending { (payout_form(&page.form(), PAYOUT_FORM, currency)) }
                details {
                    summary { (page.say(if key.is_some() { w::REPLACE_KEY } else { w::REGISTER_KEY })) }
                    @if key.is_some() { p.sm.soft { (page.say(w::REPLACE_KEY_MEANS)) } }
                    (payout_key_form(&page.form(), KEY_FORM))
                }
            }
        }
    }
}

fn payout_key(page: &Page, key: &PayoutKey) -> Markup {
    let from =
        |word| html! { @if page.now < key.works_from() { (page.say(word)) " " (time(key.works_from())) } };
    let (tone, word, more) = match &key.state {
        PayoutKeyState::Waiting => (Tone::Info, w::KEY_WAITING, from(w::WORKS_IF_APPROVED_FROM)),
        PayoutKeyState::Approved { .. } => (Tone::Good, w::KEY_APPROVED, from(w::WORKS_FROM)),
        PayoutKeyState::Rejected { reason } => {
            (Tone::Bad, w::KEY_REJECTED, html! { (without_documents(reason)) })
        }
    };
    html! {
        p {
            (page.say(w::PIX_KEY)) ": " code { (key.key.masked()) } " " (tag(tone, page.say(word))) " " (more)
        }
    }
}

fn last_request(page: &Page, payout: &Payout) -> Markup {
    html! {
        p {
            (page.say(w::LAST_REQUEST)) ": "
            a href={ (PAYOUTS) "?id=" (payout.id) } { (shown(payout.amount.into(), payout.currency)) }
            " " (payout.status.tag(page.language)) " " (page.say(w::REQUESTED_ON)) " " (time(payout.created_at))
            @if payout.status != PayoutStatus::Pending { ", " (page.say(w::REQUEST_ENDED_ON)) " " (time(payout.updated_at)) }
            (to_key(payout))
            @if let Some(reason) = &payout.failure_reason { ": " (without_documents(reason)) }
        }
    }
}

/// The masked key of a requested payout.
fn to_key(payout: &Payout) -> Markup {
    html! { @if let Some(destination) = &payout.destination { " → " code.sm { (destination.key.masked()) } } }
}

fn release_days(page: &Page, wallet: &Wallet) -> Markup {
    let rows: Vec<Vec<Markup>> = wallet
        .releases()
        .take(RELEASES)
        .map(|release| vec![time(release.at()), html! { (shown(release.minor, wallet.currency)) }])
        .collect();
    let more = wallet.releases().skip(RELEASES).count();
    html! {
        @if !rows.is_empty() {
            section.card {
                (page.table(w::RELEASE_DAYS, &[(Cell::Main, w::DAY), (Cell::Amount, w::AMOUNT)], rows))
                @if more > 0 { p.soft { (page.language.fill(w::MORE_DAYS, &[&more.to_string()])) } }
            }
        }
    }
}

/// The link to a charge, with what people know it by.
pub(crate) fn charge_link(page: &Page, titles: &Titles, charge: ChargeId) -> Markup {
    let title = titles.get(&charge).map_or(page.say(w::CHARGE), String::as_str);
    html! { a href={ "/dashboard/charges/" (charge) } dir="auto" { (title) } }
}

/// Whether the page shows all movements of a currency, from the newest on.
fn is_whole(query: &Query) -> bool {
    query.known(STATEMENT_QUERY).only(|name| !["currency", "limit"].contains(&name)).encoded().is_empty()
}

/// `balance`: after the movement, if it is known.
fn movement(
    page: &Page,
    (titles, charges): (&Titles, &[StoredCharge]),
    posting: &Posting,
    balance: Option<MinorUnits>,
) -> Result<Vec<Markup>> {
    let net = posting.net()?;
    // With its sign, because a phone shows no headings.
    let amount = |is_shown: bool, class: &str, sign: &str| {
        html! { @if is_shown { span.(class) { (sign) (shown(net, posting.currency)) } } }
    };
    let parts = parts(posting)?;
    let fee = if posting.fee.is_zero() { String::new() } else { shown(posting.fee, posting.currency) };
    Ok(vec![
        time(posting.at),
        html! {
            (page.say(movement_of(posting.kind, charge_of(charges, posting.subject.charge))))
            @if let Some(charge) = posting.subject.charge { " " (charge_link(page, titles, charge)) }
            @if let Some(case) = posting.subject.case { " " a href={ "/dashboard/disputes/" (case) } { (page.say(w::KIND_CASE)) } }
            @if let Some(note) = &posting.subject.note { " " span.soft { (without_documents(note)) } }
        },
        html! { (fee) },
        html! {
            @for (word, minor) in &parts {
                // The whole is in the next columns.
                span.sm { (page.say(*word)) " " @if parts.len() > 1 { (shown(*minor, posting.currency)) " " } }
            }
        },
        amount(net.is_positive(), "in", "+"),
        amount(net.is_negative(), "out", ""),
        html! { @if let Some(balance) = balance { (shown(balance, posting.currency)) } },
    ])
}

fn charge_of(charges: &[StoredCharge], id: Option<ChargeId>) -> Option<&Charge> {
    charges.iter().map(StoredCharge::as_stored).find(|charge| Some(charge.id) == id)
}

/// What a movement is called, for money that goes back by the method of its charge.
pub(crate) fn movement_of(kind: PostingKind, charge: Option<&Charge>) -> Word {
    let is_card = charge.is_some_and(|charge| charge.method() == PaymentMethod::CreditCard);
    match kind {
        PostingKind::Refund | PostingKind::RefundCompleted | PostingKind::RefundCredit if is_card => {
            w::KIND_REVERSAL
        }
        PostingKind::RefundFailed if is_card => w::REVERSAL_FAILED,
        kind => movement_name(kind),
    }
}

/// The changes of the three parts of the balance.
fn parts(posting: &Posting) -> Result<Vec<(Word, MinorUnits)>> {
    use domain::wallet::LedgerAccount::{MerchantAvailable, MerchantPending, MerchantRetained};
    let parts =
        [(w::AVAILABLE, MerchantAvailable), (w::PENDING, MerchantPending), (w::RETAINED, MerchantRetained)];
    let mut changed = Vec::new();
    for (word, account) in parts {
        let change = posting.change(account)?;
        if !change.is_zero() {
            changed.push((word, change));
        }
    }
    Ok(changed)
}

pages::translate! {
    fn movement_name(PostingKind) {
        PostingKind::Settlement = "Pagamento", "Payment", "Pago";
        PostingKind::ReviewHold | PostingKind::ReviewReturn = "Em análise", "In review", "En revisión";
        PostingKind::UnappliedReceipt | PostingKind::ReturnCompleted = "Pagamento devolvido ao pagador", "Payment returned to the payer", "Pago devuelto al pagador";
        PostingKind::Release = "Liberação", "Release", "Liberación";
        PostingKind::Refund | PostingKind::RefundCompleted | PostingKind::RefundCredit = "Devolução", "Refund", "Devolución";
        PostingKind::RefundFailed = "Devolução que falhou", "Refund that failed", "Devolución fallida";
        PostingKind::CaseOpened = "Disputa aberta", "Dispute opened", "Disputa abierta";
        PostingKind::CaseWon = "Disputa ganha", "Dispute won", "Disputa ganada";
        PostingKind::CaseLost = "Disputa perdida", "Dispute lost", "Disputa perdida";
        PostingKind::Payout | PostingKind::PayoutPaid = "Repasse", "Payout", "Retiro";
        PostingKind::SelfCustody = "Pagamento na sua carteira", "Payment to your own wallet", "Pago en su propia billetera";
        PostingKind::Fee = "Tarifa de pagamento na sua carteira", "Fee of a payment to your own wallet", "Comisión de un pago en su propia billetera";
        PostingKind::PayoutFailed = "Repasse que falhou", "Payout that failed", "Retiro fallido";
        PostingKind::Adjustment | PostingKind::DisputeFees | PostingKind::AcquirerCosts = "Ajuste do suporte", "Adjustment by your operator", "Ajuste del operador";
    }
}

/// Refunds have no list of their own. They are the movements of that kind among those of a page of the statement,
/// so a page may be short.
pub(crate) async fn refunds(visitor: Visitor) -> Result<Response> {
    let query = visitor.query();
    let query = query.only(|name| ["currency", "starting_after"].contains(&name));
    let with_limit = query.clone().set("limit", MOVEMENTS);
    let filter = StatementFilter::parse(&with_limit, StatementFormat::Json)?;
    let (page, (wallets, found, charges, next)) = visitor
        .load(async |visit| {
            let (wallets, store) = (&visit.app.wallets, &visit.app.store);
            let scope = visit.sharded_scope();
            let (wallets, statement) =
                tokio::join!(wallets.for_scope(&scope), wallets.statement(&scope, &filter));
            let statement = statement?;
            let requests = statement.items.iter().filter(|posting| posting.kind == PostingKind::Refund);
            let ids: Vec<(PostingId, RefundId)> =
                requests.filter_map(|posting| Some((posting.id, posting.subject.refund?))).collect();
            let (shown, is_cut) = ids
                .split_at_checked(REFUNDS_SHOWN)
                .map_or((&*ids, false), |(shown, rest)| (shown, !rest.is_empty()));
            let keys: Vec<Key> = shown.iter().map(|(_, id)| Refund::key_of(*id)).collect();
            let next = if is_cut { shown.last().map(|(id, _)| *id) } else { statement.next_cursor };
            let charges = of_rows(store, shown.iter().map(|(_, id)| id.charge()));
            let (refunds, charges) = tokio::join!(store.get_in_order::<Refund>(&keys), Box::pin(charges));
            Ok((wallets?, refunds?, charges?, next))
        })
        .await?;
    let titles = titles(&page, &charges);
    let rows: Vec<Vec<Markup>> = found
        .iter()
        .map(|refund| {
            vec![
                time(refund.created_at),
                html! { (charge_link(&page, &titles, refund.id.charge())) " " code.sm { (refund.id) } },
                BackWords::of_refund(charge_of(&charges, Some(refund.id.charge())))
                    .tag(refund.status, page.language),
                html! { (shown(refund.share.gross.into(), refund.currency)) },
                html! { @if let Some(reason) = &refund.reason { (refund_reason(page.language, reason)) } },
            ]
        })
        .collect();
    let next = next.map(|id| format!("{REFUNDS}?{}", query.with("starting_after", &id.to_string())));
    let columns = [
        (Cell::Time, w::WHEN),
        (Cell::Main, w::CHARGE),
        (Cell::State, w::STATE),
        (Cell::Amount, w::AMOUNT),
        (Cell::Other, w::REASON),
    ];
    let none = (w::NO_REFUNDS, Some(("/dashboard/charges?status=paid", w::CHARGES)));
    let main = html! {
        h1 { (page.say(w::REFUNDS)) }
        (currencies(&page, REFUNDS, filter.currency, &wallets))
        (page.list((w::REFUNDS, &columns), rows, none, next))
    };
    Ok(page.render(page.say(w::REFUNDS), &main))
}

pub(crate) async fn payouts(visitor: Visitor) -> Result<Response> {
    let query = visitor.query();
    let after = query.text("starting_after").and_then(|id| id.parse::<PayoutId>().ok());
    // A search leads to one payout.
    let only = query.text("id").map(|id| id.parse::<PayoutId>().ok());
    let (page, found) = visitor
        .load(async |visit| {
            let (store, scope) = (&visit.app.store, visit.scope());
            let Some(only) = only else { return Ok(Payouts::new(store.clone()).list(&scope, after).await?) };
            let keys: Vec<Key> = only.into_iter().map(Payout::key_of).collect();
            let mut found: Vec<Payout> = store.get_in_order(&keys).await?;
            found.retain(|payout| payout.scope == scope);
            Ok(found)
        })
        .await?;
    let next = found.last().filter(|_| found.len() >= PAGE_SIZE);
    let next = next.map(|last| format!("{PAYOUTS}?starting_after={}", last.id));
    let rows = found.iter().map(|payout| {
        vec![
            time(payout.created_at),
            html! { code.sm { (payout.id) } (to_key(payout)) @if let Some(reason) = &payout.failure_reason { " " (without_documents(reason)) } },
            payout.status.tag(page.language),
            html! { (shown(payout.amount.into(), payout.currency)) },
        ]
    });
    let columns =
        [(Cell::Time, w::WHEN), (Cell::Main, w::ID), (Cell::State, w::STATE), (Cell::Amount, w::AMOUNT)];
    let none = (w::NO_PAYOUTS, Some((WALLET, w::WALLET)));
    let main = html! {
        h1 { (page.say(w::PAYOUTS)) }
        (page.list((w::PAYOUTS, &columns), rows.collect(), none, next))
    };
    Ok(page.render(page.say(w::PAYOUTS), &main))
}
