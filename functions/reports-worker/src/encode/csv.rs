//! CSV as in RFC 4180. Texts are quoted, and neutralised so that no spreadsheet runs a part as a formula; numbers and
//! dates are neither.

use std::fs::File;
use std::mem;

use ::csv::{QuoteStyle, Terminator, WriterBuilder};
use domain::ids::ChargeId;
use domain::money::MinorUnits;
use domain::payment_method::UpperCaseMethod;
use domain::pt_br;
use domain::report::{Report, ReportLocale};
use money::wallet::view::escape_formula;

use super::{Encoder, Result, columns, money, sums};
use crate::line::Line;

const BYTE_ORDER_MARK: &str = "\u{feff}";

pub(super) struct CsvFile {
    report: Report,
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", escape_formula(text).replace('"', "\"\""))
}

impl CsvFile {
    pub(super) fn new(report: &Report, out: &mut Vec<u8>) -> Result<Self> {
        let file = Self { report: report.clone() };
        let header = columns(report).map(|(english, portuguese, _)| quoted(file.say(english, portuguese)));
        let header = header.collect();
        out.extend(file.say("", BYTE_ORDER_MARK).bytes());
        file.write(std::iter::once(header), out)?;
        Ok(file)
    }

    fn say<'a>(&self, english: &'a str, portuguese: &'a str) -> &'a str {
        match self.report.spec.locale {
            ReportLocale::English => english,
            ReportLocale::Portuguese => portuguese,
        }
    }

    fn write(&self, rows: impl Iterator<Item = Vec<String>>, out: &mut Vec<u8>) -> Result<()> {
        let mut writer = WriterBuilder::new()
            .delimiter(self.report.spec.delimiter().byte())
            // The cells are quoted already, but for numbers.
            .quote_style(QuoteStyle::Never)
            .terminator(Terminator::CRLF)
            .from_writer(mem::take(out));
        for row in rows {
            writer.write_record(row)?;
        }
        *out = writer.into_inner().map_err(|error| ::csv::Error::from(error.into_error()))?;
        Ok(())
    }

    fn row(&self, line: &Line) -> Vec<String> {
        let text = |text: Option<&str>| text.map(quoted).unwrap_or_default();
        let sum = |minor: Option<MinorUnits>| {
            let decimal = minor.map(|minor| money(minor, &self.report).decimal()).unwrap_or_default();
            decimal.replace('.', self.say(".", ","))
        };
        let method =
            line.method.map(|UpperCaseMethod(method)| self.say(method.as_str(), method.facts().name));
        let texts = [
            self.say(&line.at.to_iso(), &pt_br::format_second(line.at)).to_owned(),
            quoted(self.say(line.kind.name(), line.in_portuguese())),
            text(line.order.as_deref()),
            text(line.charge.map(|id: ChargeId| id.to_string()).as_deref()),
            text(line.end_to_end_id.as_deref()),
            text(method),
            text(line.payer.as_deref()),
        ];
        let sums = sums(line, &self.report).map(sum);
        texts.into_iter().chain(sums).chain([text(line.note.as_deref())]).collect()
    }
}

impl Encoder for CsvFile {
    fn lines(&mut self, lines: &[Line], out: &mut Vec<u8>) -> Result<()> {
        self.write(lines.iter().map(|line| self.row(line)), out)
    }

    fn end(self: Box<Self>, _out: &mut Vec<u8>) -> Result<Option<File>> {
        Ok(None)
    }
}
