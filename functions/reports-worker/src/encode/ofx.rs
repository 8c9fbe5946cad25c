//! OFX 1.02 in SGML and Windows-1252, as Brazilian banks write it. A movement that moves money only between parts of
//! the balance is left out, because it does not change the balance.

use std::fs::File;

use artefacts::pdf::windows_1252;
use domain::ids::Mode;
use domain::pt_br;
use domain::report::Report;
use domain::time::Timestamp;

use super::{Encoder, Result, money};
use crate::line::{Line, LineKind};

pub(super) struct OfxFile {
    report: Report,
}

const HEADER: &str = "OFXHEADER:100\r\nDATA:OFXSGML\r\nVERSION:102\r\nSECURITY:NONE\r\nENCODING:USASCII\r\nCHARSET:1252\r\nCOMPRESSION:NONE\r\nOLDFILEUID:NONE\r\nNEWFILEUID:NONE\r\n\r\n";

/// The longest `MEMO` of OFX 1.02.
const MEMO_CHARS: usize = 255;

/// The time in São Paulo, with its zone.
fn time(at: Timestamp) -> String {
    format!("{}[-3:BRT]", pt_br::brasilia_time(at).format("%Y%m%d%H%M%S"))
}

/// A text on one line, with the characters of SGML escaped.
fn text(text: &str) -> Vec<u8> {
    let cut: String = text.chars().take(MEMO_CHARS).collect();
    windows_1252(&cut.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"))
}

impl OfxFile {
    pub(super) fn new(report: &Report, merchant: &str, out: &mut Vec<u8>) -> Self {
        let (from, to) = (time(report.spec.from.starts_at()), time(report.ends_at()));
        let (account, currency) = (report.scope.account, report.spec.currency);
        let mode = if report.scope.mode == Mode::Test { "-test" } else { "" };
        out.extend(format!("{HEADER}<OFX>\r\n<SIGNONMSGSRSV1><SONRS><STATUS><CODE>0<SEVERITY>INFO</STATUS><DTSERVER>{to}<LANGUAGE>POR<FI><ORG>").bytes());
        out.extend(text(merchant));
        out.extend(format!("<FID>0000</FI></SONRS></SIGNONMSGSRSV1>\r\n<BANKMSGSRSV1><STMTTRNRS><TRNUID>1<STATUS><CODE>0<SEVERITY>INFO</STATUS>\r\n<STMTRS><CURDEF>{currency}<BANKACCTFROM><BANKID>0000<ACCTID>{account}{mode}<ACCTTYPE>CHECKING</BANKACCTFROM>\r\n<BANKTRANLIST><DTSTART>{from}<DTEND>{to}\r\n").bytes());
        Self { report: report.clone() }
    }
}

impl Encoder for OfxFile {
    fn lines(&mut self, lines: &[Line], out: &mut Vec<u8>) -> Result<()> {
        for line in lines {
            let at = time(line.at);
            if line.kind == LineKind::Closing {
                let balance = money(line.balance.unwrap_or_default(), &self.report).decimal();
                out.extend(format!("</BANKTRANLIST>\r\n<LEDGERBAL><BALAMT>{balance}<DTASOF>{at}</LEDGERBAL></STMTRS></STMTTRNRS></BANKMSGSRSV1>\r\n</OFX>\r\n").bytes());
            }
            let Some(net) = line.net.filter(|net| !net.is_zero()) else { continue };
            let kind = if net.is_negative() { "DEBIT" } else { "CREDIT" };
            let (sum, id) = (money(net, &self.report).decimal(), &line.id);
            out.extend(
                format!("<STMTTRN><TRNTYPE>{kind}<DTPOSTED>{at}<TRNAMT>{sum}<FITID>{id}<MEMO>").bytes(),
            );
            out.extend(text(&line.description()));
            out.extend(b"</STMTTRN>\r\n");
        }
        Ok(())
    }

    fn end(self: Box<Self>, _out: &mut Vec<u8>) -> Result<Option<File>> {
        Ok(None)
    }
}
