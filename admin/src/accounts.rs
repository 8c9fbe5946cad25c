//! `admin accounts`: opens and lists accounts, and sets their fees, hold periods, limits, contact and
//! acquirer.

mod acquirer;

use std::io::Write;
use std::pin::Pin;

use artefacts::text::folded;
use clap::{Args, Subcommand, ValueEnum};
use domain::account::terms::{Fee, FeesOnRefund, MAX_HOLD_DAYS, MethodTerms};
use domain::account::{Account, AccountSettings, BoletoDueDays, Contact, MailAddress, VelocityLimits};
use domain::audit::{Action, Changed};
use domain::ids::{AccountId, Mode, UserId};
use domain::money::{Amount, MinorUnits};
use domain::payment_method::PaymentMethod;
use domain::shard::ShardCount;
use domain::tax_id::TaxId;
use serde::Serialize;
use serde_json::{Value, json};
use services::{change_account_settings, raise_shards};
use shared::account::AccountError;

use crate::enum_parser::enum_parser;
use crate::output::{print_changes, print_list};
use crate::target::Stack;
use crate::{CommandOutcome, OperatorArguments, Result, print_json};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Open an account without users and API keys; add its owner next
    ///
    /// Refused if an account has the same merchant's name, without regard to case and accents, or if the contact is that
    /// of an account or a user of one.
    Open {
        /// The merchant's name, shown to payers and written into BR Codes, which truncate it to 25 characters
        #[arg(long, value_parser = name)]
        merchant_name: String,
        /// The merchant's city, written into BR Codes, which truncate it to 15 characters
        #[arg(long, value_parser = name)]
        merchant_city: String,
        /// The email address to notify of MED cases, disabled webhook endpoints and refunds to new Pix keys;
        /// without it, no email is sent
        #[arg(long)]
        contact: Option<MailAddress>,
        /// Open it although an account has the same name or contact
        #[arg(long)]
        another: bool,
        #[command(flatten)]
        operator: OperatorArguments,
    },
    /// List all accounts, newest first
    List,
    /// List the accounts whose merchant's name contains a text, newest first
    Find {
        /// A part of the name, without regard to case and accents
        name: String,
    },
    /// Suspend an account: its API keys are refused from the next request on
    ///
    /// Payments, refunds and returns in progress and webhooks go on. Payers can still pay open charges until they
    /// expire. Users of the dashboard can read and contain a leak. Keys that are issued meanwhile are refused too.
    /// Repeating the command changes nothing.
    Suspend(AccountArguments),
    /// Resume a suspended account: its API keys work from the next request on
    Resume(AccountArguments),
    /// Show one account with its settings and terms
    Show {
        /// The account (acc_…)
        id: AccountId,
    },
    /// Set an account's fees for payments by one method, from the next settlement of a payment on
    SetFees {
        #[command(flatten)]
        account: AccountArguments,
        /// The payment method that the fees apply to
        #[arg(long, value_parser = enum_parser::<PaymentMethod>())]
        method: PaymentMethod,
        /// The acquirer's fee: 10+99 is 10 minor units of the payment's currency (10 centavos, 10 yen) plus 0.99 %
        /// of the amount [default: as before]
        #[arg(long, value_name = "FIXED+BASIS_POINTS", allow_hyphen_values = true, value_parser = fee)]
        #[arg(required_unless_present = "platform")]
        acquirer: Option<Fee>,
        /// The platform's fee, written like the acquirer's fee [default: as before]
        #[arg(long, value_name = "FIXED+BASIS_POINTS", allow_hyphen_values = true, value_parser = fee)]
        platform: Option<Fee>,
    },
    /// Set the hold period of payments by one method, from the next settlement of a payment on
    SetHold {
        #[command(flatten)]
        account: AccountArguments,
        /// The payment method that the hold period applies to
        #[arg(long, value_parser = enum_parser::<PaymentMethod>())]
        method: PaymentMethod,
        /// Calendar days in São Paulo until the money is available; 0: available at once
        #[arg(long, value_parser = clap::value_parser!(u16).range(0..=i64::from(MAX_HOLD_DAYS)))]
        days: u16,
    },
    /// Set the fee of a refund by Pix cash-out, from the next refund on
    SetPixOutFee {
        #[command(flatten)]
        account: AccountArguments,
        /// The fee in centavos, at most R$ 100,00
        #[arg(long, value_parser = clap::value_parser!(i64).range(0..=10_000))]
        centavos: i64,
    },
    /// Set how far below zero a refund may take an account's available balance, from the next refund on
    ///
    /// A refund takes the available balance first, then pending money of other charges.
    SetRefundOverdraft {
        #[command(flatten)]
        account: AccountArguments,
        /// The sum in minor units of each wallet's currency, at most 10000000 (R$ 100.000,00); 0: not below zero
        #[arg(long, value_parser = clap::value_parser!(i64).range(0..=10_000_000))]
        minor_units: i64,
    },
    /// Set the address that an account's emails go to, from the next email on
    SetContact {
        #[command(flatten)]
        account: AccountArguments,
        /// The email address of the account's contact
        #[arg(long)]
        email: MailAddress,
    },
    /// Set the merchant's CPF or CNPJ, which the holder of a payout key must have
    ///
    /// A payout key that was approved before stays approved. Refused if another account has the document.
    SetDocument {
        #[command(flatten)]
        account: AccountArguments,
        /// The CPF or CNPJ, without punctuation
        #[arg(long)]
        document: TaxId,
        /// Set it although another account has it
        #[arg(long)]
        another: bool,
    },
    /// Switch emails to an account's contact on or off, from the next email on
    SetMail {
        #[command(flatten)]
        account: AccountArguments,
        /// on or off
        #[arg(long)]
        mail: Switch,
    },
    /// Set the rate limit of each of an account's API keys, from the next request on
    SetRateLimit {
        #[command(flatten)]
        account: AccountArguments,
        /// Requests per minute
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..=MAX_RATE_LIMIT))]
        per_minute: u64,
    },
    /// Set how many live charges an account may create, from the next charge on
    SetVelocity {
        #[command(flatten)]
        account: AccountArguments,
        /// Charges per ten minutes for one customer, identified by tax document [default: as before]
        #[arg(long, value_parser = clap::value_parser!(u16).range(1..=i64::from(VelocityLimits::MAX_PER_CUSTOMER)))]
        #[arg(required_unless_present_any = ["per_account", "per_link"])]
        per_customer: Option<u16>,
        /// Charges per minute for the whole account [default: as before]
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
        per_account: Option<u32>,
        /// Forms per minute of one payment link, which count for no other limit [default: as before]
        #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
        per_link: Option<u16>,
    },
    /// Raise the number of shards over which an account's rows are spread, for charges from the next one on
    ///
    /// The number can't be lowered again. Each list of the account then reads all shards.
    SetShards {
        #[command(flatten)]
        account: AccountArguments,
        /// The number of shards: 1 to 16, and not less than the present number
        #[arg(long, value_parser = shards)]
        shards: ShardCount,
    },
    /// Set the default expiry of charges, for requests that do not set one, from the next charge on
    SetChargeExpiry {
        #[command(flatten)]
        account: AccountArguments,
        /// Seconds from the creation of a charge until it expires: 60 to 86400
        #[arg(long, value_parser = clap::value_parser!(i64).range(60..=86_400))]
        seconds: i64,
    },
    /// Set when boletos of live charges are due, from the next charge on
    SetBoletoDue {
        #[command(flatten)]
        account: AccountArguments,
        /// Days after the creation, in São Paulo
        #[arg(long, value_parser = clap::value_parser!(u8).range(0..=i64::from(BoletoDueDays::MAX)))]
        days: u8,
    },
    /// Set whether refunds return the fees of the payment, for payments that are settled from now on
    SetFeesOnRefund {
        #[command(flatten)]
        account: AccountArguments,
        /// The payment method that the setting applies to
        #[arg(long, value_parser = enum_parser::<PaymentMethod>())]
        method: PaymentMethod,
        /// return: a refund returns its share of the fees to the merchant; keep: it returns no fees
        #[arg(long, value_parser = enum_parser::<FeesOnRefund>())]
        fees: FeesOnRefund,
    },
    /// Set whether the payer's own document is the only Pix key that refunds may go to, from the next refund
    /// on
    SetRefundsToPayerOnly {
        #[command(flatten)]
        account: AccountArguments,
        /// on: other keys are rejected; off: they are allowed
        #[arg(long)]
        payer_only: Switch,
    },
    /// Set the daily limit of refunds to Pix keys that are not the payer's, from the next refund on
    ///
    /// A day is a calendar day in São Paulo.
    SetThirdPartyRefundLimit {
        #[command(flatten)]
        account: AccountArguments,
        /// The mode, test or live; each has its own limit
        #[arg(long)]
        mode: Mode,
        #[command(flatten)]
        limit: LimitArguments,
    },
    #[command(flatten)]
    Acquirer(acquirer::Command),
}

/// The account that a command changes
#[derive(Args, Clone, Debug)]
pub(crate) struct AccountArguments {
    /// The account (acc_…)
    pub(crate) id: AccountId,
    #[command(flatten)]
    pub(crate) operator: OperatorArguments,
}

/// A daily limit, or no limit
#[derive(Args, Clone, Copy, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct LimitArguments {
    /// The limit in centavos; 0 forbids refunds to keys that are not the payer's
    #[arg(long, value_parser = clap::value_parser!(i64).range(0..=Amount::MAX.minor()))]
    centavos: Option<i64>,
    /// Remove the limit
    #[arg(long)]
    no_limit: bool,
}

/// The highest rate limit of a key, in requests per minute. Each request writes the key's row, and DynamoDB
/// accepts at most 1,000 writes per second to one row.
const MAX_RATE_LIMIT: u64 = 60_000;

/// The maximum length of a merchant's name and city, in characters.
const MAX_NAME_CHARS: usize = 100;

fn name(text: &str) -> Result<String, String> {
    crate::text_of_at_most(text, MAX_NAME_CHARS)
}

/// Fees above this share of a payment, 10 %, may be a mistake.
const HIGH_BASIS_POINTS: u16 = 1_000;

/// The greatest fixed part of a fee, in minor units: an amount in its place is a mistake.
const MAX_FIXED_FEE: i64 = 1_000_000;

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

fn shards(text: &str) -> Result<ShardCount, String> {
    let malformed = || "must be a number from 1 to 16".to_owned();
    text.parse::<u8>().ok().and_then(|number| ShardCount::try_from(number).ok()).ok_or_else(malformed)
}

fn fee(text: &str) -> Result<Fee, String> {
    let malformed = || "must be FIXED+BASIS_POINTS, such as 10+99".to_owned();
    let (fixed, basis_points) = text.split_once('+').ok_or_else(malformed)?;
    let fixed = fixed.parse().map_err(|_| malformed())?;
    let basis_points = basis_points.parse().map_err(|_| malformed())?;
    if fixed > MAX_FIXED_FEE {
        return Err(format!("the fixed part must be at most {MAX_FIXED_FEE} minor units"));
    }
    Fee::new(fixed, basis_points).map_err(str::to_owned)
}

impl Command {
    /// Whether no other command undoes it.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::SetShards { .. } | Self::Acquirer(acquirer::Command::Forget(_)))
    }

    /// Whether it tries the acquirer, and so creates something there.
    pub(crate) fn tries_acquirer(&self) -> bool {
        matches!(self, Self::Acquirer(acquirer::Command::Check(_)))
    }

    /// Whether it changes where an account's money comes from.
    pub(crate) fn sets_acquirer(&self) -> bool {
        use acquirer::Command::{RotateSecret, Set, SetCertificate};
        matches!(self, Self::Acquirer(Set(_) | SetCertificate(_) | RotateSecret(_)))
    }
}

impl AccountArguments {
    async fn settings(
        self,
        stack: &Stack,
        action: fn(Changed) -> Action,
        change: impl Fn(&mut AccountSettings),
    ) -> Result<Account> {
        let (tables, operator) = ((&stack.accounts, &stack.api_keys), stack.operator(&self.operator));
        let now = stack.clock.now();
        let changed = change_account_settings(tables, &self.id, action, change, &operator, now);
        Box::pin(printing_changes(stack, self.id, Box::pin(changed))).await
    }

    /// The keys' rows are changed after the account's.
    async fn suspended(
        self,
        stack: &Stack,
        action: fn(Changed) -> Action,
        suspended: bool,
    ) -> Result<Account> {
        let changed = self.settings(stack, action, |settings| settings.suspended = suspended).await;
        let changed = changed.map_err(|error| format!("{error}\nIt may be done in part: run it again"))?;
        let keys =
            if suspended { "each key of the account is refused" } else { "the keys of the account work" };
        writeln!(std::io::stderr(), "{keys} from the next request on")?;
        Ok(changed)
    }

    pub(crate) async fn terms(
        self,
        stack: &Stack,
        action: fn(Changed) -> Action,
        method: PaymentMethod,
        change: impl Fn(&mut MethodTerms),
    ) -> Result<Account> {
        let change = |settings: &mut AccountSettings| change(settings.terms.0.entry(method).or_default());
        self.settings(stack, action, change).await
    }

    async fn contact(
        self,
        stack: &Stack,
        action: fn(Changed) -> Action,
        change: impl Fn(&mut Contact),
    ) -> Result<Account> {
        self.part(stack, action, |of| &mut of.contact, change).await
    }

    /// Refused if another account has the document, unless `another`.
    async fn document(self, stack: &Stack, document: TaxId, another: bool) -> Result<Account> {
        let has_it = |of: &Account| of.id != self.id && of.document.as_ref() == Some(&document);
        match stack.accounts.all().await?.iter().find(|of| !another && has_it(of)) {
            Some(other) => Err(exists(other, "document").into()),
            None => {
                self.part(stack, Action::SetDocument, |of| &mut of.document, |of| *of = Some(document)).await
            }
        }
    }

    /// Changes a part of the account's row.
    async fn part<P: Serialize + Clone + PartialEq>(
        self,
        stack: &Stack,
        action: fn(Changed) -> Action,
        part: fn(&mut Account) -> &mut P,
        change: impl Fn(&mut P),
    ) -> Result<Account> {
        let (operator, now) = (stack.operator(&self.operator), stack.clock.now());
        let changed = stack.accounts.change(&self.id, action, part, change, &operator, now);
        Box::pin(printing_changes(stack, self.id, Box::pin(changed))).await
    }
}

/// Makes a change, and prints the fields that it changed.
async fn printing_changes(
    stack: &Stack,
    id: AccountId,
    change: Pin<Box<impl Future<Output = Result<Account, AccountError>>>>,
) -> Result<Account> {
    let before = view(&Box::pin(stack.existing_account(&id)).await?);
    let changed = change.await?;
    print_changes(&before, &view(&changed))?;
    Ok(changed)
}

pub(crate) async fn run(stack: &Stack, command: Command) -> Result<CommandOutcome> {
    let now = stack.clock.now();
    let account = match command {
        Command::Open { merchant_name, merchant_city, contact, another, operator } => {
            require_unlike_others(stack, (&merchant_name, contact.as_ref()), another).await?;
            let settings = AccountSettings::new(&merchant_name, &merchant_city);
            let contact = Contact { address: contact, mail_off: false };
            stack.accounts.open(settings, contact, &stack.operator(&operator), now).await?
        }
        Command::List => {
            let accounts = stack.accounts.all().await?;
            print_list(stack, "accounts", accounts.iter().map(view))?;
            return Ok(CommandOutcome::Succeeded);
        }
        Command::Find { name } => {
            let (accounts, name) = (stack.accounts.all().await?, folded(&name));
            let found = accounts.iter().filter(|of| folded(&of.settings.merchant_name).contains(&name));
            print_list(stack, "accounts", found.map(view))?;
            return Ok(CommandOutcome::Succeeded);
        }
        Command::Show { id } => stack.existing_account(&id).await?,
        Command::Acquirer(command) => return Box::pin(acquirer::run(stack, command)).await,
        Command::Suspend(account) => account.suspended(stack, Action::SuspendAccount, true).await?,
        Command::Resume(account) => account.suspended(stack, Action::ResumeAccount, false).await?,
        Command::SetFees { account, method, acquirer, platform } => {
            let set = |terms: &mut MethodTerms| {
                terms.acquirer_fee = acquirer.unwrap_or(terms.acquirer_fee);
                terms.platform_fee = platform.unwrap_or(terms.platform_fee);
            };
            let changed = account.terms(stack, Action::SetFees, method, set).await?;
            let MethodTerms { acquirer_fee, platform_fee, .. } = changed.settings.terms.for_method(method);
            let points = acquirer_fee.basis_points.saturating_add(platform_fee.basis_points);
            if points > HIGH_BASIS_POINTS {
                writeln!(std::io::stderr(), "warning: both fees take {points} basis points of each payment")?;
            }
            changed
        }
        Command::SetHold { account, method, days } => {
            account.terms(stack, Action::SetHold, method, |terms| terms.hold_days = days).await?
        }
        Command::SetFeesOnRefund { account, method, fees } => {
            account.terms(stack, Action::SetFeesOnRefund, method, |terms| terms.fees_on_refund = fees).await?
        }
        Command::SetContact { account, email } => {
            account.contact(stack, Action::SetContact, |of| of.address = Some(email.clone())).await?
        }
        Command::SetDocument { account, document, another } => {
            account.document(stack, document, another).await?
        }
        Command::SetMail { account, mail } => {
            account.contact(stack, Action::SetMail, |of| of.mail_off = mail == Switch::Off).await?
        }
        Command::SetPixOutFee { account, centavos } => {
            let fee = MinorUnits::new(centavos);
            account.settings(stack, Action::SetPixOutFee, |of| of.pix_out_fee = fee).await?
        }
        Command::SetRefundOverdraft { account, minor_units } => {
            let sum = MinorUnits::new(minor_units);
            account.settings(stack, Action::SetRefundOverdraft, |of| of.refund_overdraft = sum).await?
        }
        Command::SetRateLimit { account, per_minute } => {
            account.settings(stack, Action::SetRateLimit, |of| of.rate_limit_per_minute = per_minute).await?
        }
        Command::SetVelocity { account, per_customer, per_account, per_link } => {
            let set = |AccountSettings { velocity, .. }: &mut AccountSettings| {
                velocity.per_customer = per_customer.unwrap_or(velocity.per_customer);
                velocity.per_account = per_account.unwrap_or(velocity.per_account);
                velocity.per_link = per_link.unwrap_or(velocity.per_link);
            };
            account.settings(stack, Action::SetVelocity, set).await?
        }
        Command::SetShards { account: AccountArguments { id, operator }, shards } => {
            let tables = (&stack.accounts, &stack.api_keys);
            let operator = stack.operator(&operator);
            let raised = Box::pin(raise_shards(tables, &id, shards, &operator, now));
            Box::pin(printing_changes(stack, id, raised)).await?
        }
        Command::SetChargeExpiry { account, seconds } => {
            let action = Action::SetChargeExpiry;
            account.settings(stack, action, |of| of.charge_expires_in_seconds = seconds).await?
        }
        Command::SetBoletoDue { account, days } => {
            let days = BoletoDueDays::new(days).ok_or("too many days")?;
            account.settings(stack, Action::SetBoletoDue, |of| of.boleto_due_days = days).await?
        }
        Command::SetRefundsToPayerOnly { account, payer_only } => {
            let (action, is_on) = (Action::SetRefundsToPayerOnly, payer_only == Switch::On);
            account.settings(stack, action, |of| of.refunds_to_payer_only = is_on).await?
        }
        Command::SetThirdPartyRefundLimit { account, mode, limit } => {
            let set = |settings: &mut AccountSettings| {
                *settings.third_party_refunds.for_mode_mut(mode) = limit.centavos;
            };
            account.settings(stack, Action::SetThirdPartyRefundLimit, set).await?
        }
    };
    print_json(&view(&account))?;
    Ok(CommandOutcome::Succeeded)
}

/// Checks that no account has this merchant's name or contact, unless `another`, so that a repeated `open` opens no second
/// account. The list may lack an account that was opened in the same second.
async fn require_unlike_others(
    stack: &Stack,
    (name, contact): (&str, Option<&MailAddress>),
    another: bool,
) -> Result<()> {
    let user_of = |address: Option<&MailAddress>| address.map(|address| UserId::from_email(address.as_str()));
    let (name, contact) = (folded(name), user_of(contact));
    let user = match &contact {
        Some(id) => stack.users.find(id).await?,
        None => None,
    };
    for of in stack.accounts.all().await?.iter().filter(|_| !another) {
        if folded(&of.settings.merchant_name) == name {
            return Err(exists(of, "name").into());
        }
        let has_user = user.as_ref().is_some_and(|user| user.account == of.id);
        if has_user || (contact.is_some() && user_of(of.contact.address.as_ref()) == contact) {
            return Err(exists(of, "e-mail address").into());
        }
    }
    Ok(())
}

fn exists(account: &Account, what: &str) -> String {
    let Account { id, settings, .. } = account;
    let name = &settings.merchant_name;
    format!(
        "the account {id} ({name}) has this {what}: nothing was changed. --another permits two accounts with it"
    )
}

fn view(account: &Account) -> Value {
    let settings = &account.settings;
    let methods = settings.terms.0.iter().map(|(method, terms)| {
        let fee = |fee: Fee| json!({"fixed": fee.fixed, "basis_points": fee.basis_points});
        json!({
            "method": method,
            "acquirer_fee": fee(terms.acquirer_fee),
            "platform_fee": fee(terms.platform_fee),
            "hold_days": terms.hold_days,
            "fees_on_refund": terms.fees_on_refund,
        })
    });
    json!({
        "id": account.id,
        "merchant_name": settings.merchant_name,
        "merchant_city": settings.merchant_city,
        "document": account.document,
        "contact": account.contact.address,
        "brand": account.brand,
        "suspended": settings.suspended,
        "mail": if account.contact.mail_off { "off" } else { "on" },
        "charge_expires_in_seconds": settings.charge_expires_in_seconds,
        "boleto_due_days": settings.boleto_due_days,
        "rate_limit_per_minute": settings.rate_limit_per_minute,
        "velocity": settings.velocity,
        "shards": settings.shards.new_charges,
        "pix_out_fee": settings.pix_out_fee,
        "refund_overdraft": settings.refund_overdraft,
        "refunds_to_payer_only": settings.refunds_to_payer_only,
        "third_party_refund_limit": {
            "test": settings.third_party_refunds.test,
            "live": settings.third_party_refunds.live,
        },
        "terms": methods.collect::<Vec<_>>(),
        "created_at": account.created_at,
    })
}
