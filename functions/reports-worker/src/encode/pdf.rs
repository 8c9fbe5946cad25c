//! The statement as a PDF in Portuguese, by the encoder of the receipts: opening balance, movements by day, totals by
//! method, closing balance.

use std::collections::BTreeMap;
use std::fs::File;

use artefacts::pdf::{Part, report_pdf};
use domain::calendar::Day;
use domain::ids::Mode;
use domain::money::MinorUnits;
use domain::pt_br;
use domain::report::Report;

use super::{Encoder, Result, money};
use crate::line::{Line, LineKind};

pub(super) struct Statement {
    report: Report,
    parts: Vec<Part>,
    day: Option<Day>,
    /// Gross, fees and net of the lines of a method.
    totals: BTreeMap<&'static str, [MinorUnits; 3]>,
}

impl Statement {
    pub(super) fn new(report: &Report, merchant: &str) -> Self {
        let until = format!("{} (horário de São Paulo)", pt_br::format_second(report.ends_at()));
        let parts = vec![Part::Value("Recebedor", merchant.to_owned()), Part::Value("Até", until)];
        Self { report: report.clone(), parts, day: None, totals: BTreeMap::new() }
    }

    fn sum(&self, minor: Option<MinorUnits>) -> String {
        minor.map(|minor| pt_br::format_money(money(minor, &self.report))).unwrap_or_default()
    }

    fn line(&mut self, line: &Line) -> Result<()> {
        let day = Day::of(line.at);
        if self.day != Some(day) {
            self.day = Some(day);
            self.parts.push(Part::Day(pt_br::format_day(day)));
        }
        let (time, balance) = (pt_br::format_time_of_day(line.at), self.sum(line.balance));
        self.parts.push(Part::Row([time, line.description(), self.sum(line.net), balance]));
        // A dispute that holds money and a release move it inside the wallet.
        if [line.fee, line.net].iter().all(|sum| sum.is_none_or(|sum| sum == MinorUnits::ZERO)) {
            return Ok(());
        }
        let method = line.method.map_or("Sem cobrança", |method| method.0.facts().name);
        let totals = self.totals.entry(method).or_default();
        for (total, sum) in totals.iter_mut().zip([line.gross, line.fee, line.net]) {
            *total = total.checked_add(sum.unwrap_or_default())?;
        }
        Ok(())
    }
}

impl Encoder for Statement {
    fn lines(&mut self, lines: &[Line], _out: &mut Vec<u8>) -> Result<()> {
        for line in lines {
            if line.kind == LineKind::Closing {
                self.parts.push(Part::Heading("Totais por método"));
                for (method, totals) in std::mem::take(&mut self.totals) {
                    let [gross, fee, net] = totals.map(|total| self.sum(Some(total)));
                    let sums = format!("bruto {gross}, tarifas {fee}, líquido {net}");
                    self.parts.push(Part::Value(method, sums));
                }
            }
            if line.net.is_some() {
                self.line(line)?;
            } else {
                self.parts.push(Part::Value(line.in_portuguese(), self.sum(line.balance)));
            }
        }
        Ok(())
    }

    fn end(self: Box<Self>, out: &mut Vec<u8>) -> Result<Option<File>> {
        let [from, to] = [self.report.spec.from, self.report.spec.to].map(pt_br::format_day);
        let title = format!("Extrato de {from} a {to}");
        let is_test = self.report.scope.mode == Mode::Test;
        let notice = is_test.then_some("DOCUMENTO DE TESTE: nenhum dinheiro foi movimentado");
        *out = report_pdf(&title, notice, &self.parts);
        Ok(None)
    }
}
