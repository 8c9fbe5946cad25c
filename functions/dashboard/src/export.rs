//! Lists as CSV files as Brazilian spreadsheets open them: with semicolons, decimal commas and times in Brasília.

use axum::response::{IntoResponse as _, Redirect, Response};
use domain::charge::Charge;
use domain::money::{Currency, MinorUnits};
use domain::payment_method::PaymentMethod;
use domain::pt_br;
use domain::wallet::{LedgerAccount, Posting};
use money::wallet::statement::{CSV_STATEMENT_QUERY, StatementFilter, StatementFormat};
use money::wallet::view::escape_formula;
use pages::forms::answer;
use pages::{Language, Word, customer, masked_payer, money};
use shared::http::{BYTE_ORDER_MARK, Problem, Result, csv_attachment};

use crate::charges::{fee_and_net, filter_of, order};
use crate::money::{WALLET, movement_name};
use crate::states::State as _;
use crate::visit::Visitor;
use crate::words as w;

/// Rows of a file, which counts as one page of the user's limit. Charges take at most 13 requests and about 1,000 read
/// units, movements one request for each shard and about 60.
const MOST_ROWS: usize = 1_000;

pub(crate) async fn charges(visitor: Visitor) -> Result<Response> {
    let query = visitor.query().only(|name| !matches!(name, "starting_after" | "limit"));
    // The list says what is wrong with a filter.
    let Ok((filter, method)) = filter_of(&query) else {
        return Ok(Redirect::to(&format!("/dashboard/charges?{}", query.encoded())).into_response());
    };
    let filter = filter.reading(MOST_ROWS);
    let (page, found) = visitor
        .load(async |visit| {
            let (charges, salt) = (&visit.app.charges, visit.session.account.salt.as_bytes());
            Ok(charges.list(&visit.sharded_scope(), salt, &filter, None, visit.now).await?)
        })
        .await?;
    let is_shown = |charge: &&Charge| method.is_none_or(|method| charge.methods.contains(&method));
    let rows = found.items.iter().filter(is_shown).map(|charge| row(page.language, charge));
    let rows: Vec<Vec<String>> = rows.collect::<Result<_, _>>()?;
    let [created, paid] = [w::CREATED, w::PAID].map(|word| at(page.language, word));
    let names = [w::ORDER, w::CUSTOMER, w::DOCUMENT, w::METHOD, w::STATE, w::CURRENCY, w::AMOUNT];
    let names = names.into_iter().chain([w::FEE, w::NET, w::REFUNDED_SUM]);
    let names = names.map(|word| page.say(word).to_owned());
    let ids = ["Id", "End-to-end id", "txid"].map(str::to_owned);
    let header: Vec<String> =
        std::iter::once(created).chain(names).chain(std::iter::once(paid)).chain(ids).collect();
    file("charges.csv", page.language, (header, rows), found.next_cursor.is_some())
}

/// The name of a column of times.
fn at(language: Language, word: Word) -> String {
    format!("{} {}", language.say(word), language.say(w::ZONE))
}

/// Each row has a cell for each column, also the last one, which says that the file is cut.
fn file(
    name: &str,
    language: Language,
    (header, mut rows): (Vec<String>, Vec<Vec<String>>),
    is_cut: bool,
) -> Result<Response> {
    let columns = header.len();
    let mut writer = csv::WriterBuilder::new()
        .delimiter(b';')
        .quote_style(csv::QuoteStyle::Always)
        .terminator(csv::Terminator::CRLF)
        .from_writer(BYTE_ORDER_MARK.to_vec());
    if is_cut {
        let mut note = vec![language.say(w::CSV_CUT).to_owned()];
        note.resize(columns, String::new());
        rows.push(note);
    }
    let failed = |error: csv::Error| Problem::Internal(error.to_string());
    for row in std::iter::once(header).chain(rows) {
        writer.write_record(row).map_err(failed)?;
    }
    let text = writer.into_inner().map_err(|error| failed(error.into_error().into()))?;
    Ok(csv_attachment(name, text))
}

/// A sum without the sign of the currency, which has a column of its own.
fn sum(minor: MinorUnits, currency: Currency) -> String {
    money(minor.get(), currency).chars().filter(|c| c.is_ascii_digit() || matches!(c, ',' | '-')).collect()
}

fn row(language: Language, charge: &Charge) -> Result<Vec<String>> {
    let sum = |minor: MinorUnits| sum(minor, charge.currency);
    let text = |text: Option<String>| escape_formula(&text.unwrap_or_default());
    let (fee, net) = fee_and_net(charge)?.unzip();
    let paid = charge.applied_payment.as_ref();
    let pix = paid.filter(|paid| paid.method == PaymentMethod::Pix);
    Ok(vec![
        pt_br::format_second(charge.created_at),
        text(order(charge)),
        text(customer(charge)),
        text(masked_payer(charge)),
        language.say(w::of_method(charge.method())).to_owned(),
        language.say(charge.status.shown().1).to_owned(),
        charge.currency.to_string(),
        sum(charge.amount.into()),
        fee.map(sum).unwrap_or_default(),
        net.map(sum).unwrap_or_default(),
        sum(charge.funds.refunded()?),
        paid.map(|paid| pt_br::format_second(paid.paid_at)).unwrap_or_default(),
        charge.id.to_string(),
        text(pix.map(|paid| paid.payment_id.to_string())),
        charge.artefacts.pix.as_ref().map(|_| charge.id.txid()).unwrap_or_default(),
    ])
}

pub(crate) async fn statement(visitor: Visitor) -> Result<Response> {
    let query = visitor.query().known(CSV_STATEMENT_QUERY);
    let filter = match StatementFilter::parse(&query, StatementFormat::Csv) {
        Ok(filter) => filter,
        Err(problem) => return answer(Err(problem), WALLET),
    };
    let (page, found) = visitor
        .load(async |visit| Ok(visit.app.wallets.statement(&visit.sharded_scope(), &filter).await?))
        .await?;
    let rows = found.items.iter().map(|posting| movement_row(page.language, posting));
    let rows: Vec<Vec<String>> = rows.collect::<Result<_, _>>()?;
    let names = [
        w::MOVEMENT,
        w::CURRENCY,
        w::AMOUNT,
        w::FEE,
        w::NET,
        w::AVAILABLE,
        w::PENDING,
        w::RETAINED,
        w::CHARGE,
        w::KIND_REFUND,
        w::KIND_CASE,
        w::PAYOUT,
        w::NOTE,
    ];
    let names = names.map(|word| page.say(word).to_owned()).into_iter().chain(["Id".to_owned()]);
    let header: Vec<String> = std::iter::once(at(page.language, w::WHEN)).chain(names).collect();
    file("statement.csv", page.language, (header, rows), found.next_cursor.is_some())
}

fn movement_row(language: Language, posting: &Posting) -> Result<Vec<String>> {
    use LedgerAccount::{MerchantAvailable, MerchantPending, MerchantRetained};
    let sum = |minor| sum(minor, posting.currency);
    let id = |id: Option<String>| id.unwrap_or_default();
    let subject = &posting.subject;
    Ok(vec![
        pt_br::format_second(posting.at),
        language.say(movement_name(posting.kind)).to_owned(),
        posting.currency.to_string(),
        sum(posting.amount),
        sum(posting.fee),
        sum(posting.net()?),
        sum(posting.change(MerchantAvailable)?),
        sum(posting.change(MerchantPending)?),
        sum(posting.change(MerchantRetained)?),
        id(subject.charge.map(|id| id.to_string())),
        id(subject.refund.as_ref().map(ToString::to_string)),
        id(subject.case.map(|id| id.to_string())),
        id(subject.payout.map(|id| id.to_string())),
        escape_formula(subject.note.as_deref().unwrap_or_default()),
        posting.id.to_string(),
    ])
}
