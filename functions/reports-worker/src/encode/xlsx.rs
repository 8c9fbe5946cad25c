//! A workbook of one sheet. Its rows are written to a file as they come, so that they are not in memory.

use std::fs::File;
use std::io::{Seek as _, SeekFrom};

use domain::pt_br;
use domain::report::Report;
use rust_xlsxwriter::{Format, Workbook};

use super::{Encoder, FIRST_SUM, Result, columns, money, sums};
use crate::line::Line;

pub(super) struct Sheet {
    workbook: Workbook,
    report: Report,
    date: Format,
    sum: Format,
    next: u32,
}

impl Sheet {
    pub(super) fn new(report: &Report) -> Result<Self> {
        let mut workbook = Workbook::new();
        let exponent = usize::try_from(report.spec.currency.exponent()).unwrap_or_default();
        let decimals = format!(".{}", "0".repeat(exponent));
        let sum = Format::new().set_num_format(format!("#,##0{}", decimals.trim_end_matches('.')));
        let date = Format::new().set_num_format("dd/mm/yyyy hh:mm:ss");
        let sheet = workbook.add_worksheet_with_constant_memory()?;
        for (column, (_, name, width)) in (0..).zip(columns(report)) {
            sheet.set_column_width(column, width)?;
            sheet.write_string_with_format(0, column, name, &Format::new().set_bold())?;
        }
        Ok(Self { workbook, report: report.clone(), date, sum, next: 1 })
    }
}

impl Encoder for Sheet {
    fn lines(&mut self, lines: &[Line], _out: &mut Vec<u8>) -> Result<()> {
        let sheet = self.workbook.worksheet_from_index(0)?;
        for line in lines {
            let row = self.next;
            // A sheet shows times without a zone.
            sheet.write_datetime_with_format(row, 0, pt_br::brasilia_time(line.at), &self.date)?;
            let texts = [
                Some(line.in_portuguese().to_owned()),
                line.order.clone(),
                line.charge.map(|id| id.to_string()),
                line.end_to_end_id.clone(),
                line.method.map(|method| method.0.facts().name.to_owned()),
                line.payer.clone(),
            ];
            for (column, text) in (1..).zip(texts) {
                if let Some(text) = text {
                    sheet.write_string(row, column, text)?;
                }
            }
            let mut column = FIRST_SUM;
            for minor in sums(line, &self.report) {
                if let Some(minor) = minor {
                    // A cell has a double: the one nearest to the amount.
                    let number: f64 = money(minor, &self.report).decimal().parse().unwrap_or_default();
                    sheet.write_number_with_format(row, column, number, &self.sum)?;
                }
                column = column.saturating_add(1);
            }
            if let Some(note) = &line.note {
                sheet.write_string(row, column, note)?;
            }
            self.next = row.saturating_add(1);
        }
        Ok(())
    }

    fn end(mut self: Box<Self>, _out: &mut Vec<u8>) -> Result<Option<File>> {
        let mut file = tempfile::tempfile()?;
        self.workbook.save_to_writer(&mut file)?;
        file.seek(SeekFrom::Start(0))?;
        Ok(Some(file))
    }
}
