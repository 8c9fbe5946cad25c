//! Encodes the lines of a report. An encoder gets a page of lines at a time. The lines of a statement begin with its
//! opening balance and end with its closing balance.

mod csv;
mod json;
mod ofx;
mod pdf;
mod xlsx;

use std::fs::File;
use std::ops::Range;

use domain::money::{MinorUnits, Money};
use domain::report::{Report, ReportFormat, ReportKind};
use domain::work::WorkFailure;

use crate::line::Line;

/// The columns of a sheet, in English and in Portuguese, with their widths in characters.
const COLUMNS: [(&str, &str, u16); 14] = [
    ("date", "Data", 19),
    ("type", "Tipo", 22),
    ("order_id", "Pedido", 18),
    ("charge_id", "Cobrança", 40),
    ("end_to_end_id", "Id fim a fim", 34),
    ("method", "Método", 12),
    ("payer_name", "Pagador", 28),
    ("gross", "Bruto", 14),
    ("fee", "Tarifa", 12),
    ("refunded", "Devolvido", 14),
    ("dispute_lost", "Perdido em disputa", 18),
    ("net", "Líquido", 14),
    ("balance", "Saldo", 14),
    ("note", "Observação", 30),
];

/// The columns that only a report of payments has. In the others, these sums are lines.
const OF_PAYMENTS: Range<u16> = 9..11;

fn has_column(report: &Report, index: u16) -> bool {
    report.spec.kind == ReportKind::Payments || !OF_PAYMENTS.contains(&index)
}

fn columns(report: &Report) -> impl Iterator<Item = (&'static str, &'static str, u16)> {
    let shown = (0..).zip(COLUMNS).filter(|(index, _)| has_column(report, *index));
    shown.map(|(_, column)| column)
}

/// The sums of a line, in the order of their columns, of which the first is [`FIRST_SUM`].
fn sums(line: &Line, report: &Report) -> impl Iterator<Item = Option<MinorUnits>> {
    let sums = [line.gross, line.fee, line.refunded, line.dispute_lost, line.net, line.balance];
    (FIRST_SUM..).zip(sums).filter(|(index, _)| has_column(report, *index)).map(|(_, sum)| sum)
}

const FIRST_SUM: u16 = 7;

/// Why a file can't be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EncodeError {
    #[error("a CSV file can't be written: {0}")]
    Csv(#[from] ::csv::Error),
    #[error("a sheet can't be written: {0}")]
    Xlsx(#[from] rust_xlsxwriter::XlsxError),
    #[error("JSON can't be written: {0}")]
    Json(#[from] serde_json::Error),
    #[error("a file on the disk can't be written or read: {0}")]
    Disk(#[from] std::io::Error),
    #[error(transparent)]
    Upload(#[from] shared::object_store::ObjectStoreError),
    #[error(transparent)]
    Money(#[from] domain::money::MoneyError),
    #[error("the task that writes the end of a file failed: {0}")]
    Task(#[from] tokio::task::JoinError),
}

impl WorkFailure for EncodeError {}

type Result<T> = std::result::Result<T, EncodeError>;

pub(crate) trait Encoder: Send {
    fn lines(&mut self, lines: &[Line], out: &mut Vec<u8>) -> Result<()>;

    /// Writes what follows the lines. Returns a file on the disk, which follows `out`.
    fn end(self: Box<Self>, out: &mut Vec<u8>) -> Result<Option<File>>;
}

/// Writes what precedes the lines.
pub(crate) fn encoder(report: &Report, merchant: &str, out: &mut Vec<u8>) -> Result<Box<dyn Encoder>> {
    Ok(match report.spec.format {
        ReportFormat::Csv => Box::new(csv::CsvFile::new(report, out)?),
        ReportFormat::Json => Box::new(json::JsonFile::new(report, out)?),
        ReportFormat::Xlsx => Box::new(xlsx::Sheet::new(report)?),
        ReportFormat::Ofx => Box::new(ofx::OfxFile::new(report, merchant, out)),
        ReportFormat::Pdf => Box::new(pdf::Statement::new(report, merchant)),
    })
}

/// Writes the end of a file in another thread, because to compress a large sheet takes seconds.
pub(crate) async fn end(encoder: Box<dyn Encoder>, mut out: Vec<u8>) -> Result<(Vec<u8>, Option<File>)> {
    tokio::task::spawn_blocking(move || encoder.end(&mut out).map(|file| (out, file))).await?
}

fn money(minor: MinorUnits, report: &Report) -> Money {
    Money { minor, currency: report.spec.currency }
}
