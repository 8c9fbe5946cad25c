//! The bodies of requests. A field that is unknown or of another type is refused.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use crate::error::ApiError;
use crate::state::{ON_CHAIN, Status};

/// Reads a body. The message of an error names the field.
pub(crate) fn read<T: DeserializeOwned>(body: &Value) -> Result<T, ApiError> {
    // The library reads the fields of an object from a list too.
    let is_list = |place: &&&str| body.pointer(place).is_some_and(Value::is_array);
    if let Some(place) = ["", "/checkout", "/receipt", "/authorizedEvents"].iter().find(is_list) {
        return Err(ApiError::invalid(place, "The value must be an object."));
    }
    serde_json::from_value(body.clone()).map_err(|error| ApiError::invalid("", &error.to_string()))
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct CreateInvoice {
    pub(crate) amount: Option<String>,
    pub(crate) currency: Option<String>,
    pub(crate) additional_search_terms: Option<Vec<String>>,
    pub(crate) metadata: Map<String, Value>,
    pub(crate) checkout: Option<Checkout>,
    pub(crate) receipt: Option<Receipt>,
}

/// An answer has the same fields.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Checkout {
    pub(crate) speed_policy: Option<SpeedPolicy>,
    pub(crate) payment_methods: Option<Vec<String>>,
    pub(crate) default_payment_method: Option<String>,
    pub(crate) lazy_payment_methods: Option<bool>,
    pub(crate) expiration_minutes: Option<u32>,
    pub(crate) monitoring_minutes: Option<u32>,
    pub(crate) payment_tolerance: Option<Number>,
    #[serde(rename = "redirectURL")]
    pub(crate) redirect_url: Option<String>,
    pub(crate) redirect_automatically: Option<bool>,
    pub(crate) default_language: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[expect(clippy::enum_variant_names, reason = "the names are those of the API")]
pub(crate) enum SpeedPolicy {
    HighSpeed,
    MediumSpeed,
    LowMediumSpeed,
    LowSpeed,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Receipt {
    enabled: Option<bool>,
    #[serde(rename = "showQR")]
    show_qr: Option<bool>,
    show_payments: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpdateInvoice {
    pub(crate) metadata: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MarkInvoice {
    pub(crate) status: Status,
}

/// An answer has the same fields, but the secret only when the webhook is created.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Webhook {
    pub(crate) url: String,
    #[serde(default = "yes")]
    pub(crate) enabled: bool,
    #[serde(default = "yes")]
    pub(crate) automatic_redelivery: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<String>,
    #[serde(default)]
    pub(crate) authorized_events: AuthorizedEvents,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct AuthorizedEvents {
    pub(crate) everything: bool,
    pub(crate) specific_events: Vec<String>,
}

impl Default for AuthorizedEvents {
    fn default() -> Self {
        Self { everything: true, specific_events: Vec::new() }
    }
}

fn yes() -> bool {
    true
}

/// The body of any control request.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Control {
    pub(crate) invoice: Option<String>,
    pub(crate) order_id: Option<String>,
    pub(crate) amount: Option<String>,
    pub(crate) confirmed: bool,
    pub(crate) count: Option<u32>,
    pub(crate) status: Option<Status>,
    pub(crate) kind: String,
    pub(crate) on: Option<String>,
}

impl Checkout {
    /// Adds the defaults of the store.
    /// Errors: The path of a field that is not valid, and why.
    pub(crate) fn complete(self) -> Result<Self, ApiError> {
        let refuse = |name: &str, message| Err(ApiError::invalid(&format!("checkout.{name}"), message));
        let methods = self.payment_methods.iter().flatten();
        let is_other = |method: &String| ![ON_CHAIN, "BTC"].contains(&method.as_str());
        if methods.chain(&self.default_payment_method).any(is_other) {
            return refuse("paymentMethods", "Invalid PaymentMethodId");
        }
        let expiration = self.expiration_minutes.unwrap_or(15);
        if expiration == 0 {
            return refuse("expirationMinutes", "Expiration time must be at least 30 seconds");
        }
        let tolerance = self.payment_tolerance.unwrap_or(0.into());
        if percent(&tolerance).is_none() {
            return refuse("paymentTolerance", "PaymentTolerance can only be between 0 and 100 percent");
        }
        Ok(Self {
            speed_policy: self.speed_policy.or(Some(SpeedPolicy::MediumSpeed)),
            payment_methods: Some(vec![ON_CHAIN.to_owned()]),
            expiration_minutes: Some(expiration),
            monitoring_minutes: self.monitoring_minutes.or(Some(1_440)),
            payment_tolerance: Some(tolerance),
            ..self
        })
    }
}

/// 100 per cent, as [`percent`] returns it.
pub(crate) const WHOLE: i128 = 100_000_000;

/// Returns millionths of a per cent. `None` if the number is not from 0 to 100.
pub(crate) fn percent(number: &Number) -> Option<i128> {
    crate::decimal::parse(&number.to_string(), 6).filter(|parts| (0..=WHOLE).contains(parts))
}
