use std::path::{Path, PathBuf};

use acquirer_core::configuration::{
    AcquirerChoice, AcquirerSettings, AcquirerUrl, AddressRange, BtcpayCredentials, BtcpaySettings,
    CallbackAuthentication, CallbackChoice, ClientId, ClientIdentity, ConfiguredAcquirer, ConnectionName,
    Credentials, DEFAULT_CARD_REQUESTS_PER_SECOND, DEFAULT_EXPIRE_AFTER_SECONDS, DEFAULT_MAX_PERIOD_SECONDS,
    DEFAULT_REQUESTS_PER_SECOND, InvalidSetting, KindSettings, NamedSecret, PixCredentials, PixSettings,
    Secret, SendPix, ServerAuthorities, StoreId, StripeAccount, StripeCredentials, StripeSettings,
    TokenAuthentication, TokenScope,
};
use clap::ValueHint;
use domain::account::terms::FeesOnRefund;
use domain::ids::AccountId;
use domain::payment_method::PaymentMethod;
use domain::pix_key::PixKey;
use domain::vocabulary::Vocabulary as _;
use secrecy::SecretString;

use super::secret_files::{NamedFile, named_file, read_pem_file, read_secret, read_secret_file};
use crate::enum_parser::enum_parser;
use crate::target::Stack;
use crate::{OperatorArguments, Result};

#[derive(clap::Args, Debug)]
pub(crate) struct SetAcquirer {
    /// The account (acc_…)
    pub(super) id: AccountId,
    #[command(subcommand)]
    pub(super) kind: Kind,
}

#[derive(clap::Subcommand, Debug)]
pub(crate) enum Kind {
    /// Any bank that implements the Central Bank's API Pix
    Pix(Box<SetPix>),
    /// Stripe, for cards, on a page of Stripe's
    Stripe(SetStripe),
    /// The merchant's own BTCPay Server, for crypto
    Btcpay(SetBtcpay),
}

/// For a connection that exists, an option that is not named keeps its value.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(clap::Args, Debug)]
pub(crate) struct SetPix {
    /// The name of the connection: the same name changes its settings, and another name is another connection
    #[arg(long, default_value_t)]
    name: ConnectionName,
    /// The base URL of the acquirer's API, to which paths such as /cob/{txid} are appended
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The OAuth 2 token endpoint for the client credentials grant
    #[arg(long, value_name = "URL")]
    token_url: Option<String>,
    /// The OAuth 2 client id that the acquirer issued
    #[arg(long)]
    client_id: Option<ClientId>,
    /// File with the client secret, one line; `-` is a prompt, or standard input [default: `-` for a new
    /// connection]
    #[arg(long, value_name = "FILE")]
    client_secret_file: Option<PathBuf>,
    /// How the client authenticates to the token endpoint: the header Authorization, or the form [default: basic]
    #[arg(long, value_name = "METHOD", value_parser = enum_parser::<TokenAuthentication>())]
    token_authentication: Option<TokenAuthentication>,
    /// The scope to request, words separated by spaces [default: none, so that the bank applies its own]
    #[arg(long)]
    scope: Option<TokenScope>,
    /// The merchant's Pix key, which receives the payments
    #[arg(long)]
    pix_key: Option<PixKey>,
    /// PEM file with the client certificate for mutual TLS, followed by its chain of issuers
    #[arg(long, value_name = "FILE", requires = "private_key")]
    certificate: Option<PathBuf>,
    /// PEM file with the private key of the client certificate
    #[arg(long, value_name = "FILE", requires = "certificate")]
    private_key: Option<PathBuf>,
    /// PEM file with authorities that may issue the bank's server certificate, besides the public ones
    #[arg(long, value_name = "FILE")]
    additional_ca: Option<PathBuf>,
    /// An extra header of each request to the API, and a file with its value (repeatable); headers with other
    /// names stay
    #[arg(long, value_name = "NAME=FILE", value_parser = named_file, value_hint = ValueHint::FilePath)]
    header_file: Vec<NamedFile>,
    /// An extra query parameter of each request to the API, and a file with its value (repeatable)
    #[arg(long, value_name = "NAME=FILE", value_parser = named_file, value_hint = ValueHint::FilePath)]
    query_file: Vec<NamedFile>,
    /// An extra header of the request that registers the webhook, and a file with its value (repeatable)
    #[arg(long, value_name = "NAME=FILE", value_parser = named_file, value_hint = ValueHint::FilePath)]
    webhook_header_file: Vec<NamedFile>,
    /// First remove a setting that has no value otherwise (repeatable)
    #[arg(long, value_name = "SETTING")]
    unset: Vec<Unset>,
    /// The longest period that the bank's GET /pix accepts, in seconds: one hour to 366 days [default: 366 days]
    #[arg(long, value_name = "SECONDS")]
    max_period_seconds: Option<u32>,
    /// The most requests a second that one function instance sends to the bank: 1 to 1000 [default: 20]
    #[arg(long, value_name = "REQUESTS")]
    requests_per_second: Option<u32>,
    /// Seconds from the expiry of a charge until it is removed at the bank: 0 to 3600 [default: 60]
    #[arg(long, value_name = "SECONDS")]
    expire_after_seconds: Option<u32>,
    /// The dialect in which the bank sends a Pix, which refunds by cash-out need [default: none]; local: the
    /// bank for laptops
    #[arg(long, value_name = "DIALECT", value_parser = enum_parser::<SendPix>())]
    send_pix: Option<SendPix>,
    /// How the bank's notifications are authenticated, besides the token in their URL: by the bank's client
    /// certificate, or by their source address
    #[arg(long, value_name = "METHOD", value_parser = enum_parser::<CallbackAuthentication>())]
    callback_auth: Option<CallbackAuthentication>,
    /// The subject of the bank's client certificate, as API Gateway reports it; with --callback-auth mtls
    #[arg(long, value_name = "SUBJECT")]
    certificate_subject: Option<String>,
    /// An address or range that notifications may come from (repeatable; replaces the list); with
    /// --callback-auth token
    #[arg(long, value_name = "CIDR")]
    source_address: Vec<AddressRange>,
    /// Accept notifications from any address
    #[arg(long, conflicts_with = "source_address")]
    no_source_address: bool,
    /// Permit --source-address to name addresses whose notifications were refused before
    #[arg(long, requires = "source_address")]
    widen_source_addresses: bool,
    /// The public base URL of the API for notifications [default: the one that was set before, or the service
    /// on this machine]
    #[arg(long, value_name = "URL")]
    callback_base_url: Option<String>,
    /// Do not try the credentials at the bank before they replace earlier ones
    #[arg(long)]
    pub(super) no_check: bool,
    /// Do not register the URL for notifications at the bank
    #[arg(long)]
    pub(super) no_register_webhook: bool,
    #[command(flatten)]
    pub(super) operator: OperatorArguments,
}

/// A setting that a bank may have none of.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Unset {
    Scope,
    Certificate,
    AdditionalCa,
    Header,
    Query,
    WebhookHeader,
}

/// For a connection that exists, an option that is not named keeps its value.
#[derive(clap::Args, Debug)]
pub(crate) struct SetStripe {
    /// The name of the connection: the same name changes its settings, and another name is another connection
    #[arg(long)]
    pub(super) name: ConnectionName,
    /// File with the restricted or secret key, one line; `-` is a prompt, or standard input [default: `-` for a
    /// new connection]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The payment methods of new charges that go to this connection
    #[arg(long, value_delimiter = ',', value_parser = method)]
    methods: Option<Vec<PaymentMethod>>,
    /// Whether the fees of a payment stay with the merchant when it is refunded; Stripe keeps its own. Required
    /// for a new connection
    #[arg(long, value_name = "keep|return", value_parser = enum_parser::<FeesOnRefund>())]
    pub(super) fees_on_refund: Option<FeesOnRefund>,
    /// The base URL of the API [default: that of Stripe]
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The base URL of uploads [default: that of Stripe]
    #[arg(long, value_name = "URL")]
    files_url: Option<String>,
    /// The most requests a second that one function instance sends: 1 to 1000 [default: 80]
    #[arg(long, value_name = "REQUESTS")]
    requests_per_second: Option<u32>,
    /// The public base URL of the API for notifications [default: the one that was set before, or the service
    /// on this machine]
    #[arg(long, value_name = "URL")]
    callback_base_url: Option<String>,
    #[command(flatten)]
    pub(super) operator: OperatorArguments,
}

/// For a connection that exists, an option that is not named keeps its value.
#[derive(clap::Args, Debug)]
pub(crate) struct SetBtcpay {
    /// The name of the connection: the same name changes its settings, and another name is another connection
    #[arg(long)]
    name: ConnectionName,
    /// The URL of the server, which is https
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The id of the store, as its settings show it
    #[arg(long, value_name = "ID")]
    store: Option<StoreId>,
    /// File with an API key, one line; `-` is a prompt, or standard input [default: `-` for a new connection]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The most requests a second that one function instance sends: 1 to 1000 [default: 20]
    #[arg(long, value_name = "REQUESTS")]
    requests_per_second: Option<u32>,
    /// The public base URL of the API for notifications [default: the one that was set before, or the service
    /// on this machine]
    #[arg(long, value_name = "URL")]
    callback_base_url: Option<String>,
    #[command(flatten)]
    pub(super) operator: OperatorArguments,
}

fn method(text: &str) -> Result<PaymentMethod, String> {
    let name = text.to_ascii_uppercase().replace('-', "_");
    PaymentMethod::named(&name).ok_or_else(|| format!("{text} is no payment method, such as CREDIT_CARD"))
}

fn named(argument: &'static str) -> impl Fn(InvalidSetting) -> String {
    move |error| format!("--{argument}: {error}")
}

fn parsed<T, U>(
    given: Option<T>,
    argument: &'static str,
    parse: impl FnOnce(T) -> Result<U, InvalidSetting>,
) -> Result<Option<U>, String> {
    given.map(parse).transpose().map_err(named(argument))
}

/// Returns the connection with this name, also a retired one.
pub(super) fn known<'a>(
    all: &'a [ConfiguredAcquirer],
    name: &ConnectionName,
) -> Option<&'a ConfiguredAcquirer> {
    all.iter().find(|each| each.acquirer.settings.name == *name)
}

/// Returns what a connection has, or what a new one begins with.
fn or_new(
    before: Option<&ConfiguredAcquirer>,
    new: impl FnOnce() -> Result<(AcquirerSettings, Credentials)>,
) -> Result<(AcquirerSettings, Credentials)> {
    before.map_or_else(new, |before| Ok((before.acquirer.settings.clone(), before.credentials.clone())))
}

fn required<T>(named: Option<T>, argument: &str) -> Result<T> {
    named.ok_or_else(|| format!("--{argument} is required for a new connection").into())
}

/// Without a value, the field stays as it is.
fn set<T>(field: &mut T, named: Option<T>) {
    if let Some(value) = named {
        *field = value;
    }
}

/// Stands for the account of a key that was not tried yet.
const UNTRIED_ACCOUNT: &str = "acct_untried";

fn other_kind(name: &ConnectionName) -> String {
    format!("the connection {name} is to another kind of acquirer; choose another --name")
}

impl SetPix {
    /// Checks the arguments, and reads the client secret last, so that invalid arguments fail before the
    /// prompt.
    pub(super) fn choice(&self, stack: &Stack, all: &[ConfiguredAcquirer]) -> Result<AcquirerChoice> {
        let policy = stack.address_policy();
        let before = known(all, &self.name);
        let base_url = parsed(self.base_url.as_deref(), "base-url", |url| AcquirerUrl::base(url, &policy))?;
        let token_url =
            parsed(self.token_url.as_deref(), "token-url", |url| AcquirerUrl::token(url, &policy))?;
        let identity = self.certificate.as_deref().zip(self.private_key.as_deref());
        let identity =
            identity.map(|(certificate, key)| read_identity(stack, certificate, key)).transpose()?;
        let additional_ca =
            self.additional_ca.as_deref().map(|file| read_pem_file(stack, file)).transpose()?;
        let additional_ca = parsed(additional_ca, "additional-ca", |pem| ServerAuthorities::new(&pem))?;
        let headers = read_extras(stack, &self.header_file, NamedSecret::header, "header-file")?;
        let query = read_extras(stack, &self.query_file, NamedSecret::query_parameter, "query-file")?;
        let of_webhook =
            read_extras(stack, &self.webhook_header_file, NamedSecret::header, "webhook-header-file")?;
        let callback = self.callback(stack, all, before.map(|before| &before.acquirer.callback.choice))?;
        let (mut settings, mut credentials) =
            or_new(before, || self.new_connection(stack, base_url.clone(), token_url.clone()))?;
        set(&mut settings.base_url, base_url);
        set(&mut settings.requests_per_second, self.requests_per_second);
        set(&mut settings.expire_after_seconds, self.expire_after_seconds);
        let (Some(pix), Some(secrets)) = (settings.pix_mut(), credentials.pix_mut()) else {
            return Err(other_kind(&self.name).into());
        };
        self.unset.iter().for_each(|setting| setting.remove(pix, secrets));
        set(&mut pix.client_id, self.client_id.clone());
        set(&mut pix.token_authentication, self.token_authentication);
        set(&mut pix.scope, self.scope.clone().map(Some));
        set(&mut pix.additional_ca, additional_ca.map(Some));
        set(&mut pix.max_period_seconds, self.max_period_seconds);
        set(&mut pix.pix_key, self.pix_key.clone());
        set(&mut pix.send_pix, self.send_pix);
        set(&mut secrets.token_url, token_url);
        set(&mut secrets.identity, identity.map(Some));
        add_extras(&mut secrets.headers, headers);
        add_extras(&mut secrets.query_parameters, query);
        add_extras(&mut secrets.webhook_headers, of_webhook);
        if before.is_some() && self.client_secret_file.is_some() {
            secrets.client_secret = self.client_secret(stack)?;
        }
        let choice = AcquirerChoice { settings, credentials, callback };
        choice.check()?;
        Ok(choice)
    }

    fn new_connection(
        &self,
        stack: &Stack,
        base_url: Option<AcquirerUrl>,
        token_url: Option<AcquirerUrl>,
    ) -> Result<(AcquirerSettings, Credentials)> {
        let settings = AcquirerSettings {
            name: self.name.clone(),
            base_url: required(base_url, "base-url")?,
            requests_per_second: DEFAULT_REQUESTS_PER_SECOND,
            expire_after_seconds: DEFAULT_EXPIRE_AFTER_SECONDS,
            kind: KindSettings::Pix(PixSettings {
                client_id: required(self.client_id.clone(), "client-id")?,
                token_authentication: TokenAuthentication::Basic,
                scope: None,
                additional_ca: None,
                max_period_seconds: DEFAULT_MAX_PERIOD_SECONDS,
                pix_key: required(self.pix_key.clone(), "pix-key")?,
                send_pix: SendPix::None,
                filter_verified: false,
            }),
        };
        let credentials = PixCredentials {
            token_url: required(token_url, "token-url")?,
            client_secret: self.client_secret(stack)?,
            identity: None,
            headers: Vec::new(),
            query_parameters: Vec::new(),
            webhook_headers: Vec::new(),
        };
        Ok((settings, Credentials::Pix(credentials)))
    }

    /// Another method of authentication starts without the settings of the former one. Notifications from more
    /// addresses than before need a flag.
    fn callback(
        &self,
        stack: &Stack,
        all: &[ConfiguredAcquirer],
        before: Option<&CallbackChoice>,
    ) -> Result<CallbackChoice> {
        let base_url = callback_base_url(stack, self.callback_base_url.as_deref(), all, before)?;
        let former = before.map(|before| before.authentication);
        let authentication = required(self.callback_auth.or(former), "callback-auth")?;
        let same = before.filter(|before| before.authentication == authentication);
        let source_addresses = match same {
            _ if !self.source_address.is_empty() || self.no_source_address => self.source_address.clone(),
            None if before.is_some() && authentication == CallbackAuthentication::Token => {
                return Err(
                    "name the bank's addresses with --source-address, or accept any with --no-source-address"
                        .into(),
                );
            }
            same => same.map(|same| same.source_addresses.clone()).unwrap_or_default(),
        };
        let former = same.map(|same| &same.source_addresses[..]).unwrap_or_default();
        let is_new = |range: &&AddressRange| !former.iter().any(|former| former.contains(range));
        let added = source_addresses.iter().find(is_new).filter(|_| !former.is_empty());
        if let Some(range) = added.filter(|_| !self.widen_source_addresses) {
            return Err(format!(
                "{range} has addresses whose notifications were refused before; --widen-source-addresses permits them"
            )
            .into());
        }
        let subject = same.and_then(|same| same.certificate_subject.clone());
        let certificate_subject = self.certificate_subject.clone().or(subject);
        Ok(CallbackChoice { base_url, authentication, certificate_subject, source_addresses })
    }

    fn client_secret(&self, stack: &Stack) -> Result<Secret> {
        read_named_secret(stack, self.client_secret_file.as_deref(), "client secret")
    }
}

impl Unset {
    fn remove(self, pix: &mut PixSettings, secrets: &mut PixCredentials) {
        match self {
            Self::Scope => pix.scope = None,
            Self::Certificate => secrets.identity = None,
            Self::AdditionalCa => pix.additional_ca = None,
            Self::Header => secrets.headers.clear(),
            Self::Query => secrets.query_parameters.clear(),
            Self::WebhookHeader => secrets.webhook_headers.clear(),
        }
    }
}

impl SetStripe {
    /// Checks the arguments, and reads the key last. A trial of the key then shows its account.
    pub(super) fn choice(&self, stack: &Stack, all: &[ConfiguredAcquirer]) -> Result<AcquirerChoice> {
        let policy = stack.address_policy();
        let before = known(all, &self.name);
        let url = |text: &str| AcquirerUrl::base(text, &policy);
        let base_url = parsed(self.base_url.as_deref(), "base-url", url)?;
        let files_url = parsed(self.files_url.as_deref(), "files-url", url)?;
        let of_account = before.map(|before| &before.acquirer.callback.choice);
        let callback = signed_callback(stack, self.callback_base_url.as_deref(), all, of_account)?;
        let (mut settings, mut credentials) = or_new(before, || {
            required(self.fees_on_refund, "fees-on-refund")?;
            let stripe = StripeSettings {
                methods: required(self.methods.clone(), "methods")?,
                stripe_account: UNTRIED_ACCOUNT.parse::<StripeAccount>()?,
                files_url: url(stripe_client::FILES_URL)?,
                webhook_endpoint: None,
            };
            let settings = AcquirerSettings {
                name: self.name.clone(),
                base_url: url(stripe_client::API_URL)?,
                requests_per_second: DEFAULT_CARD_REQUESTS_PER_SECOND,
                // Stripe's own clock ends a session.
                expire_after_seconds: 0,
                kind: KindSettings::Stripe(stripe),
            };
            let api_key = read_named_secret(stack, self.key_file.as_deref(), "key")?;
            Ok((settings, Credentials::Stripe(StripeCredentials { api_key })))
        })?;
        set(&mut settings.base_url, base_url);
        set(&mut settings.requests_per_second, self.requests_per_second);
        let (KindSettings::Stripe(stripe), Credentials::Stripe(secrets)) =
            (&mut settings.kind, &mut credentials)
        else {
            return Err(other_kind(&self.name).into());
        };
        set(&mut stripe.methods, self.methods.clone());
        set(&mut stripe.files_url, files_url);
        if before.is_some() && self.key_file.is_some() {
            secrets.api_key = read_named_secret(stack, self.key_file.as_deref(), "key")?;
        }
        let choice = AcquirerChoice { settings, credentials, callback };
        choice.check()?;
        Ok(choice)
    }
}

impl SetBtcpay {
    /// Checks the arguments, and reads the key last.
    pub(super) fn choice(&self, stack: &Stack, all: &[ConfiguredAcquirer]) -> Result<AcquirerChoice> {
        let before = known(all, &self.name);
        let url = |text: &str| AcquirerUrl::base(text, &stack.address_policy());
        let base_url = parsed(self.base_url.as_deref(), "base-url", url)?;
        let of_account = before.map(|before| &before.acquirer.callback.choice);
        let callback = signed_callback(stack, self.callback_base_url.as_deref(), all, of_account)?;
        let (mut settings, mut credentials) = or_new(before, || {
            let btcpay = BtcpaySettings {
                methods: vec![PaymentMethod::Crypto],
                store: required(self.store.clone(), "store")?,
                webhook_endpoint: None,
            };
            let settings = AcquirerSettings {
                name: self.name.clone(),
                base_url: required(base_url.clone(), "base-url")?,
                requests_per_second: DEFAULT_REQUESTS_PER_SECOND,
                // The server's own clock ends an invoice.
                expire_after_seconds: 0,
                kind: KindSettings::Btcpay(btcpay),
            };
            let api_key = read_named_secret(stack, self.key_file.as_deref(), "key")?;
            Ok((settings, Credentials::Btcpay(BtcpayCredentials { api_key })))
        })?;
        set(&mut settings.base_url, base_url);
        set(&mut settings.requests_per_second, self.requests_per_second);
        let (KindSettings::Btcpay(btcpay), Credentials::Btcpay(secrets)) =
            (&mut settings.kind, &mut credentials)
        else {
            return Err(other_kind(&self.name).into());
        };
        // Its open charges could not be found there, and its key would be sent elsewhere.
        if self.store.as_ref().is_some_and(|store| *store != btcpay.store) {
            return Err(
                format!("the connection {} is to another store; choose another --name", self.name).into()
            );
        }
        let is_moved = before.is_some_and(|before| before.acquirer.settings.base_url != settings.base_url);
        if is_moved && self.key_file.is_none() {
            return Err("another --base-url needs --key-file, too".into());
        }
        if before.is_some() && self.key_file.is_some() {
            secrets.api_key = read_named_secret(stack, self.key_file.as_deref(), "key")?;
        }
        let choice = AcquirerChoice { settings, credentials, callback };
        choice.check()?;
        Ok(choice)
    }
}

/// That of notifications which are signed.
fn signed_callback(
    stack: &Stack,
    argument: Option<&str>,
    all: &[ConfiguredAcquirer],
    before: Option<&CallbackChoice>,
) -> Result<CallbackChoice> {
    Ok(CallbackChoice {
        base_url: callback_base_url(stack, argument, all, before)?,
        authentication: CallbackAuthentication::Token,
        certificate_subject: None,
        source_addresses: Vec::new(),
    })
}

/// Reads a client certificate and its private key.
pub(super) fn read_identity(stack: &Stack, certificate: &Path, key: &Path) -> Result<ClientIdentity> {
    Ok(ClientIdentity::new(&read_pem_file(stack, certificate)?, read_pem_file(stack, key)?.into())?)
}

/// Reads a secret from a file. `-` or no file: from a prompt or standard input.
pub(super) fn read_named_secret(stack: &Stack, file: Option<&Path>, name: &str) -> Result<Secret> {
    let secret = match file.filter(|file| *file != Path::new("-")) {
        Some(file) => read_secret_file(stack, file)?,
        None => read_secret(name)?,
    };
    Ok(Secret::credential(secret).map_err(|error| format!("the {name} {error}"))?)
}

/// Without an argument, the base URL is that of `before`, of another connection, or of the service on this machine.
fn callback_base_url(
    stack: &Stack,
    argument: Option<&str>,
    all: &[ConfiguredAcquirer],
    before: Option<&CallbackChoice>,
) -> Result<AcquirerUrl> {
    let before = before.or(all.first().map(|each| &each.acquirer.callback.choice));
    match (argument, before, stack.local_base_url()) {
        (Some(text), _, _) | (None, None, Some(text)) => {
            Ok(AcquirerUrl::base(text, &stack.address_policy()).map_err(named("callback-base-url"))?)
        }
        (None, Some(before), _) => Ok(before.base_url.clone()),
        (None, None, None) => Err("--callback-base-url is required for a deployed stack".into()),
    }
}

fn read_extras(
    stack: &Stack,
    files: &[NamedFile],
    parse: impl Fn(&str, SecretString) -> Result<NamedSecret, InvalidSetting>,
    argument: &'static str,
) -> Result<Vec<NamedSecret>> {
    let read = |extra: &NamedFile| -> Result<NamedSecret> {
        Ok(parse(&extra.name, read_secret_file(stack, &extra.file)?).map_err(named(argument))?)
    };
    files.iter().map(read).collect()
}

/// Adds values. Each replaces the one of its name.
fn add_extras(extras: &mut Vec<NamedSecret>, added: Vec<NamedSecret>) {
    extras.retain(|extra| added.iter().all(|added| added.name() != extra.name()));
    extras.extend(added);
}
