//! Lists as CSV files. That of charges is written as Brazilian spreadsheets read it: with semicolons, decimal commas
//! and times in São Paulo. That of the statement is the API's.

use axum::response::Response;
use domain::charge::Charge;
use domain::money::MinorUnits;
use domain::payment_method::PaymentMethod;
use domain::pt_br;
use pages::{Language, money};
use shared::http::{Problem, csv_attachment};
use shared::wallet::statement::{CSV_STATEMENT_QUERY, StatementFilter, StatementFormat};
use shared::wallet::view::{escape_formula, statement_csv};

use crate::charges::{customer, fee_and_net, filter_of, masked_payer, order};
use crate::states::State as _;
use crate::visit::Visitor;
use crate::words as w;

/// Rows of a file. Their charges take 11 requests and about 1,000 read units.
const MOST_ROWS: usize = 1_000;

/// By it, spreadsheets read the file as UTF-8. `lambda_http` drops it from a text that is not compressed: a file below
/// 1.4 KB, or for a client that does not accept gzip.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

pub(crate) async fn charges(visitor: Visitor) -> Result<Response, Problem> {
    let query = visitor.query().only(|name| !matches!(name, "starting_after" | "limit"));
    let (filter, method) = filter_of(&query)?;
    let filter = filter.reading(MOST_ROWS);
    let visit = visitor.enter_alone().await?;
    let (page, found) = visit
        .load(async |visit| {
            let (charges, salt) = (&visit.visitor.pages.app.charges, visit.session.account.salt.as_bytes());
            Ok(charges.list(&visit.scope(), salt, &filter, None, visit.visitor.now).await?)
        })
        .await?;
    let is_shown = |charge: &&Charge| method.is_none_or(|method| charge.methods.contains(&method));
    let rows = found.items.iter().filter(is_shown).map(|charge| row(page.language, charge));
    let rows: Vec<Vec<String>> = rows.collect::<Result<_, _>>()?;
    let text = written(page.language, &rows, found.next_cursor.is_some());
    let text = text.map_err(|error| Problem::Internal(error.to_string()))?;
    Ok(csv_attachment("charges.csv", text))
}

fn written(language: Language, rows: &[Vec<String>], is_cut: bool) -> Result<Vec<u8>, csv::Error> {
    let mut writer = csv::WriterBuilder::new()
        .delimiter(b';')
        .flexible(true)
        .terminator(csv::Terminator::CRLF)
        .from_writer(BYTE_ORDER_MARK.to_vec());
    let at = |word| format!("{} (America/Sao_Paulo)", language.say(word));
    let names = [w::ORDER, w::CUSTOMER, w::DOCUMENT, w::METHOD, w::STATE, w::CURRENCY, w::AMOUNT];
    let sums = [w::FEE, w::NET, w::REFUNDED_SUM].map(|word| language.say(word).to_owned());
    let names = names.map(|word| language.say(word).to_owned()).into_iter().chain(sums);
    let ids = [at(w::PAID), "Id".to_owned(), "End-to-end id".to_owned(), "txid".to_owned()];
    writer.write_record(std::iter::once(at(w::CREATED)).chain(names).chain(ids))?;
    for row in rows {
        writer.write_record(row)?;
    }
    if is_cut {
        writer.write_record([language.say(w::CSV_CUT)])?;
    }
    writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))
}

fn row(language: Language, charge: &Charge) -> Result<Vec<String>, Problem> {
    let sum = |minor: MinorUnits| {
        let text = money(minor.get(), charge.currency);
        text.chars().filter(|c| c.is_ascii_digit() || matches!(c, ',' | '-')).collect::<String>()
    };
    let text = |text: Option<String>| escape_formula(&text.unwrap_or_default());
    let (fee, net) = fee_and_net(charge)?.unzip();
    let paid = charge.applied_payment.as_ref();
    let pix = paid.filter(|paid| paid.method == PaymentMethod::Pix);
    Ok(vec![
        pt_br::format_second(charge.created_at),
        text(order(charge)),
        text(customer(charge)),
        text(masked_payer(charge)),
        charge.method().facts().name.to_owned(),
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

pub(crate) async fn statement(visitor: Visitor) -> Result<Response, Problem> {
    let filter = StatementFilter::parse(&visitor.query().known(CSV_STATEMENT_QUERY), StatementFormat::Csv)?;
    let visit = visitor.enter_alone().await?;
    let (page, found) = visit
        .load(async |visit| Ok(visit.visitor.pages.app.wallets.statement(&visit.scope(), &filter).await?))
        .await?;
    let mut text = statement_csv(&found).map_err(|error| Problem::Internal(error.to_string()))?;
    if found.next_cursor.is_some() {
        text.extend(format!("{}\r\n", page.say(w::CSV_CUT)).into_bytes());
    }
    Ok(csv_attachment("statement.csv", text))
}
