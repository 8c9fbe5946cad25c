//! `admin accounts check-acquirer`: checks what works at an account's bank, one line for each check.

use std::fmt::Display;

use acquirer_core::configuration::{
    AccountAcquirer, CERTIFICATE_WARNING_DAYS, ConfiguredAcquirer, ConnectionName, PixSettings, TokenScope,
    days_left,
};
use api_pix::{ApiError, Client, ClockOffsets, Payer, Pix, PixQuery, Priority};
use domain::audit::Operator;
use domain::hex;
use domain::ids::{AccountId, ConnectionId, EndToEndId};
use domain::money::Amount;
use domain::tax_id::TaxId;
use domain::time::{SECONDS_A_DAY, Timestamp};
use serde::Serialize;
use shared::random;

use super::bank::{self, PROBE_CENTAVOS, Registered, connect, probe_list};
use super::signed;
use crate::target::Stack;
use crate::{CommandOutcome, Result, print_json, short_text};

/// How far back a Pix with a known payer is searched, in days.
const KNOWN_PAYMENT_DAYS: i64 = 30;

/// The most requests of that search. A bank with a short longest period is searched less far back.
const MAX_SEARCH_REQUESTS: usize = 60;

/// Seconds before and after a known Pix in which the payer filter is tried.
const AROUND_KNOWN_SECONDS: i64 = 60;

/// Valid documents for the trial of the payer filter: the examples in documents of the field.
const SAMPLE_CPFS: [&str; 2] = ["29537995593", "52998224725"];
const SAMPLE_CNPJS: [&str; 2] = ["11222333000181", "12ABC34501DE35"];

/// The scopes that the service needs.
const SCOPES: [&str; 6] = ["cob.write", "cob.read", "pix.write", "pix.read", "webhook.write", "webhook.read"];

const FILTER: &str = "payer filter";

const REQUESTS: [&str; 7] = [
    "GET /cob/{txid}",
    "PUT /cob/{txid}",
    "GET /pix",
    "PUT /pix/{e2eid}/devolucao/{id}",
    "GET /webhook/{chave}",
    "clock",
    FILTER,
];

/// An end-to-end id of no Pix.
const UNKNOWN_PIX: &str = "E00000000202001010000xxxxxxxxxxx";

const REASON: &str = "the payer filter of the bank was checked";

#[derive(clap::Args, Debug)]
pub(crate) struct CheckAcquirer {
    /// The account (acc_…)
    pub(super) id: AccountId,
    /// The name of the connection [default: the only one, or the bank of Pix]
    #[arg(long)]
    name: Option<ConnectionName>,
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

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Ok,
    Failed,
    /// The check needs something that does not exist yet.
    NotVerified,
    Skipped,
}

/// The result of a check, and its detail.
pub(super) type Checked = (Outcome, String);

#[derive(Debug, Serialize)]
struct Line<'a> {
    account: AccountId,
    connection: ConnectionId,
    name: &'a ConnectionName,
    check: &'static str,
    result: Outcome,
    detail: String,
}

/// Prints the checks of a bank, and remembers those that failed.
#[derive(Debug)]
pub(super) struct Checks<'a> {
    acquirer: &'a AccountAcquirer,
    failed: Vec<(&'static str, String)>,
}

impl Checks<'_> {
    fn outcome(&self) -> CommandOutcome {
        if self.failed.is_empty() { CommandOutcome::Succeeded } else { CommandOutcome::FoundFaults }
    }

    /// Prints a check. One that fails for the same cause as an earlier one is printed as skipped.
    pub(super) fn print(&mut self, check: &'static str, (mut result, mut detail): Checked) -> Result<()> {
        if result == Outcome::Failed {
            match self.failed.iter().find(|(_, cause)| *cause == detail) {
                Some((earlier, _)) => {
                    (result, detail) = (Outcome::Skipped, format!("the cause is that of `{earlier}`"));
                }
                None => self.failed.push((check, detail.clone())),
            }
        }
        let AccountAcquirer { account, connection, settings, .. } = self.acquirer;
        let name = &settings.name;
        print_json(&Line { account: *account, connection: *connection, name, check, result, detail })
    }

    pub(super) fn skip(&mut self, checks: &[&'static str], why: &str) -> Result<()> {
        checks.iter().try_for_each(|check| self.print(check, (Outcome::Skipped, why.to_owned())))
    }

    pub(super) fn request<T>(
        &mut self,
        check: &'static str,
        outcome: Result<T, impl Display>,
        describe: impl Fn(&T) -> Checked,
    ) -> Result<Option<T>> {
        self.print(check, outcome.as_ref().map_or_else(failed, describe))?;
        Ok(outcome.ok())
    }
}

pub(super) async fn run(stack: &Stack, arguments: &CheckAcquirer) -> Result<CommandOutcome> {
    let acquirers = stack.acquirers()?;
    let account = stack.existing_account(&arguments.id).await?.id;
    let found = acquirers.named(account, arguments.name.as_ref()).await?;
    let acquirer = &found.acquirer;
    let (settings, now) = (&acquirer.settings, stack.clock.now());
    let mut checks = Checks { acquirer, failed: Vec::new() };
    let Some(pix) = settings.pix() else {
        let there = signed::of(stack, &found.choice())?;
        Box::pin(there.check(&mut checks, stack, &found)).await?;
        return Ok(checks.outcome());
    };
    if let Some(client) = check_certificate(&mut checks, stack, &found, now)? {
        let token = client.check_token().await;
        let token = checks.request("token", token, |granted| describe_scopes(pix, granted.as_deref()))?;
        if token.is_some() {
            check_requests(&mut checks, &client, now).await?;
            check_clock(&mut checks, &client)?;
            if let Some(verified) = check_filter(&mut checks, &client, pix, arguments, now).await? {
                let operator = Operator {
                    actor: arguments.actor.clone(),
                    reason: REASON.to_owned(),
                    ..Operator::default()
                };
                let name = &settings.name;
                let stored = acquirers.set_filter_verified(account, name, verified, &operator, now);
                Box::pin(stored).await?;
            }
        } else {
            checks.skip(&REQUESTS, "there is no token")?;
        }
    } else {
        checks.skip(&["token"], "the settings can't be used")?;
        checks.skip(&REQUESTS, "the settings can't be used")?;
    }
    Ok(checks.outcome())
}

pub(super) fn ok(detail: impl Into<String>) -> Checked {
    (Outcome::Ok, detail.into())
}

pub(super) fn failed(why: impl Display) -> Checked {
    (Outcome::Failed, why.to_string())
}

/// Checks the client certificate. Returns a client of the bank, or `None` if the settings can't be used, for
/// example because the certificate does not match its private key.
fn check_certificate(
    checks: &mut Checks<'_>,
    stack: &Stack,
    found: &ConfiguredAcquirer,
    now: Timestamp,
) -> Result<Option<Client>> {
    // The circuit breaker must not hide the cause of the later failures.
    let client = connect(stack, &found.pix_connection()?).map(|client| client.at(Priority::Settle));
    checks.request("client certificate", client, |_client| {
        let bank = found.credentials.pix().filter(|bank| bank.identity.is_some());
        let Some(bank) = bank else { return ok("none is set") };
        let Some((starts_at, ends_at)) = bank.certificate_validity() else {
            return failed("its validity can't be read");
        };
        let days = days_left(ends_at, now);
        let is_valid = starts_at <= now && days >= CERTIFICATE_WARNING_DAYS;
        let result = if is_valid { Outcome::Ok } else { Outcome::Failed };
        let detail =
            format!("valid from {starts_at} to {ends_at}, days left: {days}; it matches its private key");
        (result, detail)
    })
}

/// Returns which scopes that the service needs are missing. A bank that names no scopes grants those that were
/// requested (RFC 6749, section 5.1).
fn describe_scopes(settings: &PixSettings, granted: Option<&str>) -> Checked {
    let requested = settings.scope.as_ref().map(TokenScope::as_str);
    let Some(granted) = granted.or(requested) else {
        return ok("the bank issued a token, and does not name its scopes; see the requests below");
    };
    let is_missing = |scope: &&str| granted.split_whitespace().all(|word| word != *scope);
    let missing: Vec<&str> = SCOPES.into_iter().filter(is_missing).collect();
    if missing.is_empty() {
        return ok("the bank issued a token with all scopes");
    }
    let missing = missing.join(" ");
    failed(format_args!("the token lacks the scopes: {missing}. Have the bank grant them, or set --scope"))
}

async fn check_requests(checks: &mut Checks<'_>, client: &Client, now: Timestamp) -> Result<()> {
    let acquirer = checks.acquirer;
    let txid = hex::encode(random::bytes::<16>()?);
    checks.request("GET /cob/{txid}", client.get_cob(&txid).await, |found| match found {
        None => ok("an unknown txid is answered 404"),
        Some(_) => failed("the bank knows a random txid"),
    })?;
    check_key(checks, client, &txid).await?;
    checks
        .request("GET /pix", probe_list(client, now).await, |()| ok("the Pix of one minute can be read"))?;
    let permitted = may_return(client).await;
    checks.request("PUT /pix/{e2eid}/devolucao/{id}", permitted, |()| {
        ok("the return of an unknown Pix is refused, but not for a lack of permission")
    })?;
    let registered = bank::registered(client, acquirer).await;
    checks.request("GET /webhook/{chave}", registered, |registered| match registered {
        Registered::Ours(token) if acquirer.callback.tokens.last() == Some(*token) => {
            ok("the URL of the account is registered, with the newest token")
        }
        Registered::Ours(_) => ok("the URL of the account is registered, with an older token"),
        Registered::Nothing => failed("no URL is registered"),
        Registered::Other => failed(bank::not_ours(acquirer.account)),
    })?;
    Ok(())
}

fn check_clock(checks: &mut Checks<'_>, client: &Client) -> Result<()> {
    let offsets = client.clock_offsets();
    let result = match offsets {
        ClockOffsets { date: None, created: None } => Outcome::NotVerified,
        offsets if offsets.is_wrong() => Outcome::Failed,
        _ => Outcome::Ok,
    };
    checks.print("clock", (result, format!("the bank's times against ours: {offsets}")))
}

/// Checks whether the bank accepts the Pix key, by a cob that is removed again.
async fn check_key(checks: &mut Checks<'_>, client: &Client, txid: &str) -> Result<()> {
    let pix = checks.acquirer.settings.pix().ok_or("the connection is to no bank of Pix")?;
    let key = pix.pix_key.clone();
    let (created, removed) = bank::probe_key(client, &key, txid).await?;
    checks.request("PUT /cob/{txid}", created, |created| match &removed {
        Ok(_) if created.key.as_deref() == Some(key.as_str()) => {
            ok("the bank accepts the Pix key; the cob of the trial is removed")
        }
        Ok(_) => failed("the bank created a cob with another Pix key"),
        Err(error) => failed(format_args!(
            "the cob {txid} of the trial is not removed, and can be paid for a minute: {error}"
        )),
    })?;
    Ok(())
}

/// Requests the return of a Pix that does not exist, which moves no money. An error says that it is not
/// permitted, or that the bank can't be reached.
async fn may_return(client: &Client) -> Result<(), ApiError> {
    let unknown = UNKNOWN_PIX.parse().map_err(|_| ApiError::InvalidRequest("the id of the trial"))?;
    let amount = Amount::parse(PROBE_CENTAVOS).map_err(|_| ApiError::InvalidRequest("the amount"))?;
    match client.put_devolucao(&unknown, "check", amount, None).await {
        Ok(_) | Err(ApiError::NotFound(_) | ApiError::Refused { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

struct KnownPayment {
    pix: Pix,
    payer: TaxId,
}

/// Checks whether `GET /pix` with a payer's document lists that payer's Pix, and excludes it for another
/// document. Returns the outcome. `None`: it could not be checked.
async fn check_filter(
    checks: &mut Checks<'_>,
    client: &Client,
    settings: &PixSettings,
    arguments: &CheckAcquirer,
    now: Timestamp,
) -> Result<Option<bool>> {
    let named = arguments.known_payment.as_ref().zip(arguments.known_payer);
    let known = match named {
        Some((end_to_end_id, payer)) => {
            let found = client.get_pix(end_to_end_id).await;
            found.map(|found| found.map(|pix| KnownPayment { pix, payer }))
        }
        None => find_known_payment(client, settings, now).await,
    };
    let unknown = match known {
        Ok(Some(known)) => return try_filter(checks, client, known).await,
        Err(error) => failed(error),
        Ok(None) if named.is_some() => failed("the bank does not know the payment of --known-payment"),
        Ok(None) => {
            let detail = format!(
                "the bank reported the payer of no Pix of the last {KNOWN_PAYMENT_DAYS} days; name one with --known-payment and --known-payer"
            );
            (Outcome::NotVerified, detail)
        }
    };
    checks.print(FILTER, unknown)?;
    Ok(None)
}

async fn try_filter(
    checks: &mut Checks<'_>,
    client: &Client,
    KnownPayment { pix, payer }: KnownPayment,
) -> Result<Option<bool>> {
    let own = is_listed_for(client, &pix, payer).await;
    let other = other_document(payer).ok_or("there is no other document to try")?;
    let other = is_listed_for(client, &pix, other).await;
    let (checked, verified) = match (own, other) {
        (Err(error), _) | (_, Err(error)) => (failed(error), None),
        (_, Ok(true)) => {
            let why = "a Pix is also listed for the document of another payer, so the filter proves nothing";
            (failed(why), Some(false))
        }
        (Ok(false), Ok(false)) => {
            let why = "a Pix is not listed for the document of its own payer, so the filter proves nothing";
            (failed(why), Some(false))
        }
        (Ok(true), Ok(false)) => {
            (ok("a Pix is listed for the document of its payer, and not for another one"), Some(true))
        }
    };
    checks.print(FILTER, checked)?;
    Ok(verified)
}

/// Searches the newest Pix whose payer the bank reports, in pieces of the longest period that the bank
/// accepts, from now back.
async fn find_known_payment(
    client: &Client,
    settings: &PixSettings,
    now: Timestamp,
) -> Result<Option<KnownPayment>, ApiError> {
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

fn other_document(payer: TaxId) -> Option<TaxId> {
    let samples = match payer {
        TaxId::Cpf(_) => SAMPLE_CPFS,
        TaxId::Cnpj(_) => SAMPLE_CNPJS,
    };
    samples.iter().filter_map(|sample| sample.parse().ok()).find(|sample| *sample != payer)
}

/// Asks the bank for the Pix of a payer around the time of a Pix, and returns whether the Pix is listed.
async fn is_listed_for(client: &Client, pix: &Pix, payer: TaxId) -> Result<bool, ApiError> {
    let at = |seconds: i64| pix.at.plus_seconds(seconds).unwrap_or(pix.at);
    let period = PixQuery::period(at(AROUND_KNOWN_SECONDS.saturating_neg()), at(AROUND_KNOWN_SECONDS));
    let query = PixQuery { payer: Some(payer), txid: pix.txid.clone(), ..period };
    let listed = client.list_pix(&query).await?;
    Ok(listed.pix.iter().any(|listed| listed.end_to_end_id == pix.end_to_end_id))
}
