use std::path::PathBuf;

use domain::account::terms::FeesOnRefund;
use domain::ids::AccountId;
use domain::payment_method::PaymentMethod;
use domain::pix_key::PixKey;
use domain::vocabulary::Vocabulary as _;
use secrecy::SecretString;
use shared::acquirer::configuration::{
    AcquirerChoice, AcquirerSettings, AcquirerUrl, AddressRange, CallbackAuthentication, CallbackChoice,
    ClientId, ClientIdentity, ConnectionName, Credentials, DEFAULT_EXPIRE_AFTER_SECONDS,
    DEFAULT_MAX_PERIOD_SECONDS, DEFAULT_REQUESTS_PER_SECOND, InvalidSetting, KindSettings, NamedSecret,
    PixCredentials, PixSettings, Secret, SendPix, ServerAuthorities, StripeAccount, StripeCredentials,
    StripeSettings, TokenAuthentication, TokenScope,
};

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
}

#[derive(clap::Args, Debug)]
pub(crate) struct SetPix {
    /// The name of the connection: the same name changes its settings, and another name is another connection
    #[arg(long, default_value_t)]
    name: ConnectionName,
    /// The base URL of the acquirer's API, to which paths such as /cob/{txid} are appended
    #[arg(long, value_name = "URL")]
    base_url: String,
    /// The OAuth 2 token endpoint for the client credentials grant
    #[arg(long, value_name = "URL")]
    token_url: String,
    /// The OAuth 2 client id that the acquirer issued
    #[arg(long)]
    client_id: ClientId,
    /// File with the client secret, one line [default: a prompt, or standard input]
    #[arg(long, value_name = "FILE")]
    client_secret_file: Option<PathBuf>,
    /// How the client authenticates to the token endpoint: the header Authorization, or the form
    #[arg(long, value_name = "METHOD", default_value = "basic", value_parser = enum_parser::<TokenAuthentication>())]
    token_authentication: TokenAuthentication,
    /// The scope to request, words separated by spaces [default: none, so that the bank applies its own]
    #[arg(long)]
    scope: Option<TokenScope>,
    /// The merchant's Pix key, which receives the payments
    #[arg(long)]
    pix_key: PixKey,
    /// PEM file with the client certificate for mutual TLS, followed by its chain of issuers
    #[arg(long, value_name = "FILE", requires = "private_key")]
    certificate: Option<PathBuf>,
    /// PEM file with the private key of the client certificate
    #[arg(long, value_name = "FILE", requires = "certificate")]
    private_key: Option<PathBuf>,
    /// PEM file with authorities that may issue the bank's server certificate, besides the public ones
    #[arg(long, value_name = "FILE")]
    additional_ca: Option<PathBuf>,
    /// An extra header of each request to the API, and a file with its value (repeatable)
    #[arg(long, value_name = "NAME=FILE", value_parser = named_file)]
    header_file: Vec<NamedFile>,
    /// An extra query parameter of each request to the API, and a file with its value (repeatable)
    #[arg(long, value_name = "NAME=FILE", value_parser = named_file)]
    query_file: Vec<NamedFile>,
    /// An extra header of the request that registers the webhook, and a file with its value (repeatable)
    #[arg(long, value_name = "NAME=FILE", value_parser = named_file)]
    webhook_header_file: Vec<NamedFile>,
    /// The longest period that the bank's GET /pix accepts, in seconds: one hour to 366 days
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_MAX_PERIOD_SECONDS)]
    max_period_seconds: u32,
    /// The most requests a second that one function instance sends to the bank: 1 to 1000
    #[arg(long, value_name = "REQUESTS", default_value_t = DEFAULT_REQUESTS_PER_SECOND)]
    requests_per_second: u32,
    /// Seconds from the expiry of a charge until it is removed at the bank: 0 to 3600
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_EXPIRE_AFTER_SECONDS)]
    expire_after_seconds: u32,
    /// The dialect in which the bank sends a Pix, which refunds by cash-out need; local: the bank for laptops
    #[arg(long, value_name = "DIALECT", default_value = "none", value_parser = enum_parser::<SendPix>())]
    send_pix: SendPix,
    /// How the bank's notifications are authenticated, besides the token in their URL: by the bank's client
    /// certificate, or by their source address
    #[arg(long, value_name = "METHOD", value_parser = enum_parser::<CallbackAuthentication>())]
    callback_auth: CallbackAuthentication,
    /// The subject of the bank's client certificate, as API Gateway reports it; with --callback-auth mtls
    #[arg(long, value_name = "SUBJECT")]
    certificate_subject: Option<String>,
    /// An address or range that notifications may come from (repeatable); with --callback-auth token
    #[arg(long, value_name = "CIDR")]
    source_address: Vec<AddressRange>,
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

#[derive(clap::Args, Debug)]
pub(crate) struct SetStripe {
    /// The name of the connection: the same name changes its settings, and another name is another connection
    #[arg(long)]
    name: ConnectionName,
    /// File with the restricted or secret key, one line [default: a prompt, or standard input]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The payment methods of new charges that go to this connection
    #[arg(long, value_delimiter = ',', required = true, value_parser = method)]
    methods: Vec<PaymentMethod>,
    /// Whether the fees of a payment stay with the merchant when it is refunded; Stripe keeps its own
    #[arg(long, value_name = "keep|return", value_parser = enum_parser::<FeesOnRefund>())]
    pub(super) fees_on_refund: FeesOnRefund,
    /// The base URL of the API
    #[arg(long, value_name = "URL", default_value = stripe_client::API_URL)]
    base_url: String,
    /// The base URL of uploads
    #[arg(long, value_name = "URL", default_value = stripe_client::FILES_URL)]
    files_url: String,
    /// The most requests a second that one function instance sends: 1 to 1000
    #[arg(long, value_name = "REQUESTS", default_value_t = DEFAULT_REQUESTS_PER_SECOND)]
    requests_per_second: u32,
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

impl SetPix {
    /// Checks the arguments, and reads the client secret last, so that invalid arguments fail before the
    /// prompt. Without `--callback-base-url`, the base URL is that of `before` or of the service on this machine.
    pub(super) fn choice(&self, stack: &Stack, before: Option<&CallbackChoice>) -> Result<AcquirerChoice> {
        let policy = stack.address_policy();
        let callback_base_url = callback_base_url(stack, self.callback_base_url.as_deref(), before)?;
        let identity = match self.certificate.as_deref().zip(self.private_key.as_deref()) {
            Some((certificate, key)) => {
                Some(ClientIdentity::new(&read_pem_file(certificate)?, read_pem_file(key)?.into())?)
            }
            None => None,
        };
        let additional_ca = match &self.additional_ca {
            Some(file) => {
                Some(ServerAuthorities::new(&read_pem_file(file)?).map_err(named("additional-ca"))?)
            }
            None => None,
        };
        let settings = AcquirerSettings {
            name: self.name.clone(),
            base_url: AcquirerUrl::base(&self.base_url, &policy).map_err(named("base-url"))?,
            requests_per_second: self.requests_per_second,
            expire_after_seconds: self.expire_after_seconds,
            kind: KindSettings::Pix(PixSettings {
                client_id: self.client_id.clone(),
                token_authentication: self.token_authentication,
                scope: self.scope.clone(),
                additional_ca,
                max_period_seconds: self.max_period_seconds,
                pix_key: self.pix_key.clone(),
                send_pix: self.send_pix,
                filter_verified: false,
            }),
        };
        let callback = CallbackChoice {
            base_url: callback_base_url,
            authentication: self.callback_auth,
            certificate_subject: self.certificate_subject.clone(),
            source_addresses: self.source_address.clone(),
        };
        let credentials = Credentials::Pix(PixCredentials {
            token_url: AcquirerUrl::token(&self.token_url, &policy).map_err(named("token-url"))?,
            identity,
            headers: read_extras(&self.header_file, NamedSecret::header, "header-file")?,
            query_parameters: read_extras(&self.query_file, NamedSecret::query_parameter, "query-file")?,
            webhook_headers: read_extras(
                &self.webhook_header_file,
                NamedSecret::header,
                "webhook-header-file",
            )?,
            client_secret: self.client_secret()?,
        });
        let choice = AcquirerChoice { settings, credentials, callback };
        choice.check()?;
        Ok(choice)
    }

    fn client_secret(&self) -> Result<Secret> {
        let secret = match &self.client_secret_file {
            Some(file) => read_secret_file(file)?,
            None => read_secret("client secret")?,
        };
        Ok(Secret::credential(secret).map_err(|error| format!("the client secret {error}"))?)
    }
}

impl SetStripe {
    /// Checks the arguments. `account` and `key` are what a trial of the key needs and saw.
    pub(super) fn choice(
        &self,
        stack: &Stack,
        before: Option<&CallbackChoice>,
        (account, key): (&str, &SecretString),
    ) -> Result<AcquirerChoice> {
        let policy = stack.address_policy();
        let stripe = StripeSettings {
            methods: self.methods.clone(),
            stripe_account: account.parse::<StripeAccount>()?,
            files_url: AcquirerUrl::base(&self.files_url, &policy).map_err(named("files-url"))?,
            webhook_endpoint: None,
        };
        let settings = AcquirerSettings {
            name: self.name.clone(),
            base_url: AcquirerUrl::base(&self.base_url, &policy).map_err(named("base-url"))?,
            requests_per_second: self.requests_per_second,
            // Stripe's own clock ends a session.
            expire_after_seconds: 0,
            kind: KindSettings::Stripe(stripe),
        };
        let callback = CallbackChoice {
            base_url: callback_base_url(stack, self.callback_base_url.as_deref(), before)?,
            authentication: CallbackAuthentication::Token,
            certificate_subject: None,
            source_addresses: Vec::new(),
        };
        let api_key = Secret::credential(key.clone()).map_err(|error| format!("the key {error}"))?;
        let credentials = Credentials::Stripe(StripeCredentials { api_key });
        let choice = AcquirerChoice { settings, credentials, callback };
        choice.check()?;
        Ok(choice)
    }

    pub(super) fn key(&self) -> Result<SecretString> {
        match &self.key_file {
            Some(file) => read_secret_file(file),
            None => read_secret("key"),
        }
    }

    /// Returns the settings of a client that tries a key.
    pub(super) fn connection(&self, key: &SecretString) -> stripe_client::ConnectionSettings {
        stripe_client::ConnectionSettings {
            base_url: self.base_url.clone(),
            files_url: self.files_url.clone(),
            api_key: key.clone(),
            requests_per_second: Some(self.requests_per_second),
        }
    }

    pub(super) fn methods(&self) -> &[PaymentMethod] {
        &self.methods
    }

    pub(super) fn name(&self) -> &ConnectionName {
        &self.name
    }
}

/// Without an argument, the base URL is that of `before` or of the service on this machine.
fn callback_base_url(
    stack: &Stack,
    argument: Option<&str>,
    before: Option<&CallbackChoice>,
) -> Result<AcquirerUrl> {
    match (argument, before, stack.local_base_url()) {
        (Some(text), _, _) | (None, None, Some(text)) => {
            Ok(AcquirerUrl::base(text, &stack.address_policy()).map_err(named("callback-base-url"))?)
        }
        (None, Some(before), _) => Ok(before.base_url.clone()),
        (None, None, None) => Err("--callback-base-url is required for a deployed stack".into()),
    }
}

fn read_extras(
    files: &[NamedFile],
    parse: impl Fn(&str, SecretString) -> Result<NamedSecret, InvalidSetting>,
    argument: &'static str,
) -> Result<Vec<NamedSecret>> {
    let read = |extra: &NamedFile| -> Result<NamedSecret> {
        Ok(parse(&extra.name, read_secret_file(&extra.file)?).map_err(named(argument))?)
    };
    files.iter().map(read).collect()
}
