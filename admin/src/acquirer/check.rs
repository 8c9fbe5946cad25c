//! `admin accounts check-acquirer`: checks what works at an account's bank, one line for each check.

use std::error::Error;

use api_pix::{Client, ClockOffsets, Payer, Pix, PixQuery};
use domain::audit::Operator;
use domain::hex;
use domain::ids::{AccountId, EndToEndId};
use domain::tax_id::TaxId;
use domain::time::{SECONDS_A_DAY, Timestamp};
use serde::Serialize;
use shared::acquirer::configuration::{
    AccountAcquirer, AcquirerSettings, CERTIFICATE_WARNING_DAYS, CallbackSettings, SettingsError, days_left,
};
use shared::random;

use super::bank::{self, Registered, connect, probe_list};
use crate::target::Stack;
use crate::{CommandOutcome, print_json, print_stack, short_text};

/// How far back a Pix with a known payer is searched, in days.
const KNOWN_PAYMENT_DAYS: i64 = 30;

/// The most requests of that search. A bank with a short longest period is searched less far back.
const MAX_SEARCH_REQUESTS: usize = 60;

/// Seconds before and after a known Pix in which the payer filter is tried.
const AROUND_KNOWN_SECONDS: i64 = 60;

/// Valid documents for the trial of the payer filter: the examples in documents of the field.
const SAMPLE_CPFS: [&str; 2] = ["29537995593", "52998224725"];
const SAMPLE_CNPJS: [&str; 2] = ["11222333000181", "12ABC34501DE35"];

/// The reason in the audit row.
const REASON: &str = "the payer filter of the bank was checked";

#[derive(clap::Args, Debug)]
pub(crate) struct CheckAcquirer {
    /// The account (acc_…)
    pub(super) id: AccountId,
    /// A Pix whose payer is known, for the check of the payer filter [default: the latest Pix of 30 days whose
    /// payer the bank reports]
    #[arg(long, value_name = "E2EID", requires = "known_payer")]
    known_payment: Option<EndToEndId>,
    /// The CPF or CNPJ of the known payer
    #[arg(long, value_name = "DOCUMENT", requires = "known_payment")]
    known_payer: Option<TaxId>,
    /// Name of the operator, recorded in the audit row if the outcome for the payer filter changes
    #[arg(long, env = "USER", value_parser = short_text)]
    actor: String,
}

/// The outcome of a check.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Ok,
    Failed,
    /// The check needs something that does not exist yet.
    NotVerified,
    /// An earlier check failed.
    Skipped,
}

/// A line of the output.
#[derive(Debug, Serialize)]
struct Line {
    check: &'static str,
    result: Outcome,
    detail: String,
}

/// Prints checks, and remembers whether one failed.
#[derive(Debug, Default)]
struct Checks {
    has_failed: bool,
}

impl Checks {
    fn print(
        &mut self,
        check: &'static str,
        result: Outcome,
        detail: impl Into<String>,
    ) -> Result<(), Box<dyn Error>> {
        self.has_failed |= result == Outcome::Failed;
        print_json(&Line { check, result, detail: detail.into() })
    }

    /// Prints the outcome of a request. Returns its result if it succeeded.
    fn request<T>(
        &mut self,
        check: &'static str,
        outcome: Result<T, impl Error>,
        describe: impl Fn(&T) -> (Outcome, String),
    ) -> Result<Option<T>, Box<dyn Error>> {
        match outcome {
            Ok(value) => {
                let (result, detail) = describe(&value);
                self.print(check, result, detail)?;
                Ok(Some(value))
            }
            Err(error) => {
                self.print(check, Outcome::Failed, error.to_string())?;
                Ok(None)
            }
        }
    }
}

pub(super) async fn run(stack: &Stack, arguments: &CheckAcquirer) -> Result<CommandOutcome, Box<dyn Error>> {
    let acquirers = stack.acquirers()?;
    let account = stack.existing_account(&arguments.id).await?.id;
    let acquirer = acquirers.find(&account).await?.ok_or(SettingsError::NoAcquirer(account))?;
    let callback = acquirers.callback_settings(&account).await?;
    print_stack(stack);
    let (settings, now) = (&acquirer.settings, stack.clock.now());
    let client = connect(stack, settings)?;
    let mut checks = Checks::default();
    check_certificate(&mut checks, settings, now)?;
    let token = client.check_token().await;
    let has_token = checks.request("token", token, |()| ok("the bank issued a token"))?.is_some();
    if has_token {
        check_requests(&mut checks, &client, &acquirer, callback.as_ref(), now).await?;
        check_clock(&mut checks, &client)?;
        if let Some(verified) = check_filter(&mut checks, &client, settings, arguments, now).await? {
            let operator = Operator { actor: arguments.actor.clone(), reason: REASON.to_owned() };
            let connection = acquirer.connection;
            let stored = acquirers.set_filter_verified(account, connection, verified, &operator, now);
            Box::pin(stored).await?;
        }
    } else {
        for check in ["GET /cob/{txid}", "GET /pix", "GET /webhook/{chave}", "clock", "payer filter"] {
            checks.print(check, Outcome::Skipped, "there is no token")?;
        }
    }
    Ok(if checks.has_failed { CommandOutcome::FoundFaults } else { CommandOutcome::Succeeded })
}

fn ok(detail: &str) -> (Outcome, String) {
    (Outcome::Ok, detail.to_owned())
}

fn check_certificate(
    checks: &mut Checks,
    settings: &AcquirerSettings,
    now: Timestamp,
) -> Result<(), Box<dyn Error>> {
    let check = "client certificate";
    if settings.identity.is_none() {
        return checks.print(check, Outcome::Ok, "none is set");
    }
    let Some(ends_at) = settings.certificate_ends_at() else {
        return checks.print(check, Outcome::Failed, "its validity can't be read");
    };
    let days = days_left(ends_at, now);
    let result = if days < CERTIFICATE_WARNING_DAYS { Outcome::Failed } else { Outcome::Ok };
    checks.print(check, result, format!("ends on {ends_at}, days left: {days}"))
}

async fn check_requests(
    checks: &mut Checks,
    client: &Client,
    acquirer: &AccountAcquirer,
    callback: Option<&CallbackSettings>,
    now: Timestamp,
) -> Result<(), Box<dyn Error>> {
    let txid = hex::encode(&random::bytes::<16>()?);
    checks.request("GET /cob/{txid}", client.get_cob(&txid).await, |found| match found {
        None => ok("an unknown txid is answered 404"),
        Some(_) => (Outcome::Failed, "the bank knows a random txid".to_owned()),
    })?;
    checks
        .request("GET /pix", probe_list(client, now).await, |()| ok("the Pix of one minute can be read"))?;
    let Some(callback) = callback else {
        let detail = "the account has no callback settings; set the acquirer again with set-acquirer";
        return checks.print("GET /webhook/{chave}", Outcome::Failed, detail);
    };
    let registered = bank::registered(client, &acquirer.settings.pix_key, callback).await;
    checks.request("GET /webhook/{chave}", registered, |registered| match registered {
        Registered::Ours(token) if callback.tokens.last() == Some(*token) => {
            ok("the URL of the account is registered, with the newest token")
        }
        Registered::Ours(_) => ok("the URL of the account is registered, with an older token"),
        Registered::Nothing => (Outcome::Failed, "no URL is registered".to_owned()),
        Registered::Other => (Outcome::Failed, bank::not_ours(acquirer.account)),
    })?;
    Ok(())
}

/// Compares the bank's times, as the requests so far measured them, with ours.
fn check_clock(checks: &mut Checks, client: &Client) -> Result<(), Box<dyn Error>> {
    let offsets = client.clock_offsets();
    let result = match offsets {
        ClockOffsets { date: None, created: None } => Outcome::NotVerified,
        offsets if offsets.is_wrong() => Outcome::Failed,
        _ => Outcome::Ok,
    };
    checks.print("clock", result, format!("the bank's times against ours: {offsets}"))
}

/// A Pix whose payer is known.
struct KnownPayment {
    pix: Pix,
    payer: TaxId,
}

/// Checks whether `GET /pix` with a payer's document lists that payer's Pix, and excludes it for another
/// document. Returns the outcome. `None`: it could not be checked.
async fn check_filter(
    checks: &mut Checks,
    client: &Client,
    settings: &AcquirerSettings,
    arguments: &CheckAcquirer,
    now: Timestamp,
) -> Result<Option<bool>, Box<dyn Error>> {
    let check = "payer filter";
    let named = arguments.known_payment.as_ref().zip(arguments.known_payer);
    let known = match named {
        Some((end_to_end_id, payer)) => {
            let found = client.get_pix(end_to_end_id).await;
            found.map(|found| found.map(|pix| KnownPayment { pix, payer }))
        }
        None => find_known_payment(client, settings, now).await,
    };
    let known = match known {
        Err(error) => {
            checks.print(check, Outcome::Failed, error.to_string())?;
            return Ok(None);
        }
        Ok(None) if named.is_some() => {
            checks.print(check, Outcome::Failed, "the bank does not know the payment of --known-payment")?;
            return Ok(None);
        }
        Ok(None) => {
            let detail = format!(
                "the bank reported the payer of no Pix of the last {KNOWN_PAYMENT_DAYS} days; name one with --known-payment and --known-payer"
            );
            checks.print(check, Outcome::NotVerified, detail)?;
            return Ok(None);
        }
        Ok(Some(known)) => known,
    };
    let own = is_listed_for(client, &known.pix, known.payer).await;
    let other = match other_document(known.payer) {
        Some(other) => is_listed_for(client, &known.pix, other).await,
        None => return Err("there is no other document to try".into()),
    };
    let (result, detail, verified) = match (own, other) {
        (Err(error), _) | (_, Err(error)) => (Outcome::Failed, error.to_string(), None),
        (_, Ok(true)) => {
            let detail =
                "a Pix is also listed for the document of another payer, so the filter proves nothing";
            (Outcome::Failed, detail.to_owned(), Some(false))
        }
        (Ok(false), Ok(false)) => {
            let detail =
                "a Pix is not listed for the document of its own payer, so the filter proves nothing";
            (Outcome::Failed, detail.to_owned(), Some(false))
        }
        (Ok(true), Ok(false)) => {
            let detail = "a Pix is listed for the document of its payer, and not for another one";
            (Outcome::Ok, detail.to_owned(), Some(true))
        }
    };
    checks.print(check, result, detail)?;
    Ok(verified)
}

/// Searches the newest Pix whose payer the bank reports, in pieces of the longest period that the bank
/// accepts, from now back.
async fn find_known_payment(
    client: &Client,
    settings: &AcquirerSettings,
    now: Timestamp,
) -> Result<Option<KnownPayment>, api_pix::ApiError> {
    let back =
        |from: Timestamp, seconds: i64| from.plus_seconds(seconds.saturating_neg()).unwrap_or(Timestamp::MIN);
    let first = back(now, KNOWN_PAYMENT_DAYS.saturating_mul(SECONDS_A_DAY));
    let mut to = now;
    let (mut page, mut known) = (0, None);
    for _ in 0..MAX_SEARCH_REQUESTS {
        let from = back(to, i64::from(settings.max_period_seconds)).max(first);
        let answer = client.list_pix(&PixQuery { page, ..PixQuery::period(from, to) }).await?;
        let reported = answer.pix.into_iter().filter_map(|pix| match pix.payer {
            Payer::Document(payer) => Some(KnownPayment { pix, payer }),
            Payer::Masked | Payer::NotReported => None,
        });
        // The order of a list is not defined.
        known = reported.chain(known).max_by_key(|known| known.pix.at);
        page = answer.page.saturating_add(1);
        if page < answer.pages {
            continue;
        }
        if known.is_some() || from <= first {
            break;
        }
        (to, page) = (from, 0);
    }
    Ok(known)
}

/// Returns another document of the same kind.
fn other_document(payer: TaxId) -> Option<TaxId> {
    let samples = match payer {
        TaxId::Cpf(_) => SAMPLE_CPFS,
        TaxId::Cnpj(_) => SAMPLE_CNPJS,
    };
    samples.iter().filter_map(|sample| sample.parse().ok()).find(|sample| *sample != payer)
}

/// Asks the bank for the Pix of a payer around the time of a Pix, and returns whether the Pix is listed.
async fn is_listed_for(client: &Client, pix: &Pix, payer: TaxId) -> Result<bool, api_pix::ApiError> {
    let at = |seconds: i64| pix.at.plus_seconds(seconds).unwrap_or(pix.at);
    let period = PixQuery::period(at(AROUND_KNOWN_SECONDS.saturating_neg()), at(AROUND_KNOWN_SECONDS));
    let query = PixQuery { payer: Some(payer), txid: pix.txid.clone(), ..period };
    let listed = client.list_pix(&query).await?;
    Ok(listed.pix.iter().any(|listed| listed.end_to_end_id == pix.end_to_end_id))
}
