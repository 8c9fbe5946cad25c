//! JSON: one object, with the lines in `data`. Amounts are in minor units.

use std::fs::File;

use domain::report::Report;
use serde_json::json;

use super::{Encoder, Result};
use crate::line::Line;

pub(super) struct JsonFile {
    /// What precedes the next line.
    separator: &'static str,
}

impl JsonFile {
    pub(super) fn new(report: &Report, out: &mut Vec<u8>) -> Result<Self> {
        let spec = &report.spec;
        let head = json!({
            "id": report.id, "object": "report", "type": spec.kind, "from": spec.from, "to": spec.to,
            "by": spec.by, "currency": spec.currency,
        });
        serde_json::to_writer(&mut *out, &head)?;
        // The lines follow in the same object.
        out.pop();
        out.extend(b",\"data\":[\n");
        Ok(Self { separator: "" })
    }
}

impl Encoder for JsonFile {
    fn lines(&mut self, lines: &[Line], out: &mut Vec<u8>) -> Result<()> {
        for line in lines {
            out.extend(self.separator.bytes());
            self.separator = ",\n";
            serde_json::to_writer(&mut *out, line)?;
        }
        Ok(())
    }

    fn end(self: Box<Self>, out: &mut Vec<u8>) -> Result<Option<File>> {
        out.extend(b"\n]}\n");
        Ok(None)
    }
}
