//! The file of payouts for SISPAG, Itaú's payments by file: CNAB 240, with a transfer by Pix to a key for each payout.
//!
//! The layout is that of Itaú's manual "SISPAG CNAB 240", file 081 and batch 040: each transfer has a segment A, with the
//! clearing house 009 and the kind of transfer 04, and a segment B of the same number with the key. Another program reads a file back in CI.

use clap::Args;
use domain::calendar::Day;
use domain::ids::PayoutId;
use domain::payout::{Payout, PayoutDestination};
use domain::pix_key::PixKey;
use domain::pt_br::format_time_of_day;
use domain::tax_id::TaxId;
use domain::time::Timestamp;

use crate::Result;

/// The account at Itaú that pays
#[derive(Args, Debug)]
pub(crate) struct ItauArguments {
    /// Write a file for Itaú instead (SISPAG, CNAB 240), paid by this account: 1234/56789-0
    #[arg(
        long,
        required = false,
        requires_all = ["company", "company_document"],
        value_name = "BRANCH/ACCOUNT-DIGIT"
    )]
    itau_account: BankAccount,
    /// The account holder's name
    #[arg(long, required = false, requires = "itau_account")]
    company: String,
    /// The account holder's CPF or CNPJ, without punctuation
    #[arg(long, required = false, requires = "itau_account")]
    company_document: TaxId,
    /// The day on which the bank pays [default: today in São Paulo]
    #[arg(long, requires = "itau_account", value_name = "DATE")]
    pay_on: Option<Day>,
}

/// A branch, an account and its check digit.
#[derive(Clone, Debug)]
struct BankAccount {
    branch: u64,
    account: u64,
    digit: u64,
}

impl std::str::FromStr for BankAccount {
    type Err = &'static str;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let parse = || {
            let (branch, account) = text.split_once('/')?;
            let (account, digit) = account.split_once('-')?;
            let number = |text: &str, most: usize| {
                let is_number = (1..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
                is_number.then(|| text.parse().ok()).flatten()
            };
            Some(Self { branch: number(branch, 4)?, account: number(account, 12)?, digit: number(digit, 1)? })
        };
        parse().ok_or("must be a branch, an account and its digit, such as 1234/56789-0")
    }
}

const BANK: &str = "341";
/// Of the only batch.
const BATCH: u64 = 1;
/// Payments to suppliers.
const SUPPLIERS: &str = "20";
/// Transfers by Pix.
const PIX_TRANSFER: &str = "45";
const PIX_CLEARING_HOUSE: u64 = 9;
/// To a Pix key.
const TO_KEY: u64 = 4;

/// A record: fields of a fixed width, one after the other.
struct Record(String);

impl Record {
    fn of(batch: u64, kind: &str) -> Self {
        Self(BANK.to_owned()).number(4, batch).text(1, kind)
    }

    fn text(mut self, width: usize, text: &str) -> Self {
        self.0.extend(text.chars().chain(std::iter::repeat(' ')).take(width));
        self
    }

    fn number(mut self, width: usize, number: u64) -> Self {
        let digits = format!("{number:0width$}");
        self.0.push_str(&digits);
        self
    }

    fn blank(self, width: usize) -> Self {
        self.text(width, "")
    }

    fn document(self, document: &TaxId) -> Self {
        let kind = if matches!(document, TaxId::Cpf(_)) { 1 } else { 2 };
        self.number(1, kind).text(14, &format!("{:0>14}", document.as_str()))
    }

    fn day(self, day: Day) -> Self {
        let text = day.to_string();
        let mut parts: Vec<&str> = text.split('-').collect();
        parts.reverse();
        self.text(8, &parts.concat())
    }

    fn payer(self, arguments: &ItauArguments) -> Self {
        let BankAccount { branch, account, digit } = arguments.itau_account;
        self.document(&arguments.company_document)
            .blank(20)
            .number(5, branch)
            .blank(1)
            .number(12, account)
            .blank(1)
            .number(1, digit)
            .text(30, &spelt(&arguments.company))
    }

    fn end(self) -> String {
        self.blank(10).0
    }
}

/// In the characters of the file: capital letters without accents.
fn spelt(text: &str) -> String {
    let known = |letter: char| if matches!(letter, ' '..='~') { letter.to_ascii_uppercase() } else { ' ' };
    artefacts::text::folded(text).chars().map(known).collect()
}

/// By which the bank's answer names a payout: the last twenty characters of its id, all that the field holds.
fn own_number(id: PayoutId) -> String {
    let id = id.to_string();
    id.get(id.len().saturating_sub(20)..).unwrap_or_default().to_owned()
}

/// `payouts` are in reais, with the merchants' names. The lines end in CR LF.
/// Errors: When there is no payout, or the day is over.
pub(crate) fn file(
    arguments: &ItauArguments,
    payouts: &[(Payout, PayoutDestination, String)],
    now: Timestamp,
) -> Result<String> {
    let today = Day::of(now);
    let pay_on = arguments.pay_on.unwrap_or(today);
    if pay_on < today {
        return Err(format!("{pay_on} is over").into());
    }
    if payouts.is_empty() {
        return Err("there is no payout for the file".into());
    }
    let records = u64::try_from(payouts.len())?.saturating_mul(2);
    let sum =
        payouts.iter().fold(0_u64, |sum, (payout, ..)| sum.saturating_add(payout.amount.minor_unsigned()));
    let time = format!("{}00", format_time_of_day(now).replace(':', ""));
    let header = Record::of(0, "0").blank(6).text(3, "081").payer(arguments).text(30, "BANCO ITAU SA");
    let header = header.blank(10).number(1, 1).day(today).text(6, &time).number(14, 0);
    let mut lines = vec![header.blank(59).end()];
    let batch = Record::of(BATCH, "1").text(1, "C").text(2, SUPPLIERS).text(2, PIX_TRANSFER).text(3, "040");
    let batch = batch.blank(1).payer(arguments).text(30, "REPASSES").blank(10);
    lines.push(batch.blank(30).number(5, 0).blank(35).number(8, 0).blank(10).end());
    for (number, paid_out) in (1_u64..).zip(payouts) {
        let (payout, PayoutDestination { key, holder }, merchant_name) = paid_out;
        let to = Record::of(BATCH, "3").number(5, number).text(1, "A").number(3, 0);
        let to = to.number(3, PIX_CLEARING_HOUSE).number(3, 0).number(5, 0).blank(1).number(12, 0);
        let to = to.blank(1).number(1, 0).text(30, &spelt(merchant_name)).text(20, &own_number(payout.id));
        let paid = to.day(pay_on).text(3, "REA").number(8, 0).number(2, TO_KEY).number(5, 0);
        let paid = paid
            .number(15, payout.amount.minor_unsigned())
            .blank(20)
            .number(8, 0)
            .number(15, 0)
            .blank(20)
            .number(6, 0);
        let paid = paid.text(14, &format!("{:0>14}", holder.as_str())).blank(12).number(1, 0);
        lines.push(paid.end());
        let by_key = Record::of(BATCH, "3").number(5, number).text(1, "B");
        let by_key =
            by_key.text(3, kind_of(key)).document(holder).blank(30).blank(65).text(100, key.as_str());
        lines.push(by_key.blank(3).end());
    }
    let end = Record::of(BATCH, "5").blank(9).number(6, records.saturating_add(2)).number(18, sum);
    lines.push(end.number(18, 0).blank(171).end());
    let end = Record::of(9_999, "9").blank(9).number(6, 1).number(6, records.saturating_add(4));
    lines.push(end.blank(201).end());
    lines.push(String::new());
    Ok(lines.join("\r\n"))
}

fn kind_of(key: &PixKey) -> &'static str {
    match key.as_str() {
        phone if phone.starts_with('+') => "01",
        email if email.contains('@') => "02",
        _ if key.document().is_some() => "03",
        _ => "04",
    }
}
