//! The differences between banks that the API Pix leaves open.

use strum::{EnumString, IntoStaticStr, VariantArray};

/// A set of differences. Each profile combines habits that real banks have.
#[derive(Clone, Copy, Debug, Default, EnumString, IntoStaticStr, PartialEq, Eq, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Profile {
    /// Reports all optional fields: payer, BR Code and key.
    #[default]
    Complete,
    /// Requires a query parameter on each request, and limits the period of `GET /pix` to 5 days.
    AppKey,
    /// Requires a header on each request. Reads the client's credentials from the body of the token request.
    AccountHeader,
    /// Reports only what the Central Bank's document requires, and tests a callback URL before it registers
    /// it.
    Minimal,
    /// Writes the local time of Brasília as if it were UTC, 3 hours behind, and reads the times of queries in the
    /// same way. Its `Date` header is right.
    LocalTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenAuthentication {
    Basic,
    Body,
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each field is an independent difference between banks")]
pub struct Behaviour {
    pub token_path: &'static str,
    pub base_path: &'static str,
    pub token_authentication: TokenAuthentication,
    pub token_lifetime_s: i64,
    /// A header that each API request must have, with its value.
    pub required_header: Option<(&'static str, &'static str)>,
    /// A query parameter that each API request must have, with its value.
    pub required_parameter: Option<(&'static str, &'static str)>,
    /// A header that the registration of a callback URL must have, with its value.
    pub webhook_header: Option<(&'static str, &'static str)>,
    /// True if the bank posts an object without `pix` to a callback URL before it registers it.
    pub tests_webhook_url: bool,
    /// The text that the bank appends to the path of a callback URL.
    pub callback_suffix: &'static str,
    /// True if the bank also sends callbacks for Pix without cob and txid. The Central Bank's document
    /// excludes these callbacks.
    pub notifies_without_txid: bool,
    /// True if reads and callbacks name the payer in `pagador`, an extension of many banks.
    pub shows_payer: bool,
    /// True if a cob has `pixCopiaECola`.
    pub shows_copia_e_cola: bool,
    /// True if the BR Code contains the amount of the cob.
    pub br_code_has_amount: bool,
    /// The largest number of Pix in one callback. Callbacks that are due together are sent together.
    pub callback_max_pix: usize,
    /// True if a Pix has `chave` and `componentesValor`.
    pub shows_key: bool,
    /// True if a `PUT` of an active cob revises it. If false, it is a 400, because the txid is in use.
    pub revises_by_put: bool,
    /// The longest period of `GET /pix` and `GET /cob`, in seconds.
    pub max_period_s: i64,
    /// How far the times of cobs, Pix, devoluções and queries are ahead of the bank's clock, in seconds. Negative
    /// if they are behind.
    pub times_ahead_s: i64,
}

const COMPLETE: Behaviour = Behaviour {
    token_path: "/oauth/token",
    base_path: "/v2",
    token_authentication: TokenAuthentication::Basic,
    token_lifetime_s: 3_600,
    required_header: None,
    required_parameter: None,
    webhook_header: None,
    tests_webhook_url: false,
    callback_suffix: "/pix",
    notifies_without_txid: false,
    shows_payer: true,
    shows_copia_e_cola: true,
    br_code_has_amount: false,
    callback_max_pix: 1,
    shows_key: true,
    revises_by_put: true,
    max_period_s: 366 * 86_400,
    times_ahead_s: 0,
};

const APP_KEY: Behaviour = Behaviour {
    base_path: "/pix/v2",
    token_lifetime_s: 600,
    required_parameter: Some(("app-key", "d27b67790cffab50136be17db0050c56b9d1a5b1")),
    shows_payer: false,
    revises_by_put: false,
    max_period_s: 5 * 86_400,
    ..COMPLETE
};

const ACCOUNT_HEADER: Behaviour = Behaviour {
    token_path: "/oauth/v2/token",
    base_path: "/pix/v2",
    token_authentication: TokenAuthentication::Body,
    required_header: Some(("x-conta-corrente", "1234567")),
    callback_suffix: "",
    notifies_without_txid: true,
    br_code_has_amount: true,
    callback_max_pix: 100,
    max_period_s: 90 * 86_400,
    ..COMPLETE
};

const MINIMAL: Behaviour = Behaviour {
    token_lifetime_s: 300,
    webhook_header: Some(("x-skip-mtls-checking", "true")),
    tests_webhook_url: true,
    shows_payer: false,
    shows_copia_e_cola: false,
    shows_key: false,
    max_period_s: 31 * 86_400,
    ..COMPLETE
};

const LOCAL_TIME: Behaviour = Behaviour { times_ahead_s: -3 * 3_600, ..COMPLETE };

impl Profile {
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Returns the name of the profile, such as `app_key`.
    pub fn name(self) -> &'static str {
        self.into()
    }

    pub fn parse(name: &str) -> Option<Self> {
        name.parse().ok()
    }

    pub fn behaviour(self) -> &'static Behaviour {
        match self {
            Self::Complete => &COMPLETE,
            Self::AppKey => &APP_KEY,
            Self::AccountHeader => &ACCOUNT_HEADER,
            Self::Minimal => &MINIMAL,
            Self::LocalTime => &LOCAL_TIME,
        }
    }
}
