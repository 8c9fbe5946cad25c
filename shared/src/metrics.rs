//! Metrics in CloudWatch's embedded metric format: a JSON line on standard output, from which CloudWatch takes
//! the values. A function needs no request and no permission for them. The lines do not depend on `RUST_LOG`.
//!
//! CloudWatch bills each metric with each value of its dimension. So the metrics and the values are fixed
//! lists, and [`count`] is their number (docs/operations/monitoring.md has the price).

use std::fmt::{Display, Write as _};
use std::io::Write as _;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use domain::money::Currency;

/// The environment variable with the namespace of the metrics: the name of the stack. Without it, or if it is
/// empty, no metrics are written.
const NAMESPACE_VARIABLE: &str = "METRICS_NAMESPACE";

static NAMESPACE: OnceLock<String> = OnceLock::new();

#[derive(Clone, Copy, Debug)]
pub struct Metric {
    pub name: &'static str,
    pub unit: &'static str,
    /// The dimension by which it is divided, if any.
    pub by: Option<Dimension>,
}

/// A dimension of metrics, with all values that it can have.
#[derive(Clone, Copy, Debug)]
pub struct Dimension {
    pub name: &'static str,
    pub values: &'static [&'static str],
}

impl Metric {
    const fn count(name: &'static str) -> Self {
        Self { name, unit: "Count", by: None }
    }

    const fn by(self, dimension: Dimension) -> Self {
        Self { by: Some(dimension), ..self }
    }

    const fn in_unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }
}

/// Replaces the value of a dimension that is not in its list.
const OTHER: &str = "other";

const ROUTE: Dimension = Dimension {
    name: "Route",
    values: &[
        "POST /v1/charges",
        "GET /v1/charges",
        "GET /v1/charges/{id}",
        "GET /v1/charges/{id}/timeline",
        "POST /v1/pix/charges",
        "POST /v1/payments",
        "GET /v1/payments",
        "GET /v1/payments/stats",
        "GET /v1/payments/metrics",
        "GET /v1/payments/{id}",
        "POST /v1/payments/{id}/cancel",
        "GET /v1/payments/{id}/provider-status",
        "GET /v1/payments/{id}/receipt",
        "POST /v1/payments/{id}/refund",
        "GET /v1/payments/{id}/refunds",
        "POST /v1/payments/{id}/resend-webhook",
        "GET /v1/wallets",
        "GET /v1/wallets/balance",
        "GET /v1/wallets/transactions",
        "GET /v1/webhooks/event-catalog",
        "GET /v1/webhooks/deliveries",
        "GET /v1/webhooks/deliveries/{id}",
        "GET /v1/webhooks/deliveries/{id}/attempts",
        "POST /v1/webhooks/deliveries/{id}/resend",
        "GET /v1/webhooks/stats",
        "GET /v1/openapi.json",
        "GET /llms.txt",
        "/checkout",
        "/dashboard",
        "/docs",
        "/pay",
        "/v1/acquirer-events",
        "/v1/api-keys",
        "/v1/auth",
        "/v1/events",
        "/v1/infractions",
        "/v1/med",
        "/v1/payment_links",
        "/v1/reports",
        "/v1/request",
        "/v1/sandbox",
        "/v1/webhooks",
        OTHER,
    ],
};

const OUTCOME: Dimension =
    Dimension { name: "Outcome", values: &["delivered", "retried", "exhausted", "cancelled", "abandoned"] };

const CURRENCY: Dimension = Dimension { name: "Currency", values: &["BRL", "EUR", "USD", OTHER] };

/// Defines the metrics, and the list of all.
macro_rules! metrics {
    ($($(#[$doc:meta])* $NAME:ident = $metric:expr;)+) => {
        $($(#[$doc])* pub const $NAME: Metric = $metric;)+

        pub const ALL: &[Metric] = &[$($NAME),+];
    };
}

metrics! {
    /// The duration of requests. The number of its values is the number of requests.
    REQUEST_DURATION = Metric::count("RequestDuration").in_unit("Milliseconds").by(ROUTE);
    CLIENT_ERRORS = Metric::count("ClientErrors").by(ROUTE);
    SERVER_ERRORS = Metric::count("ServerErrors").by(ROUTE);
    /// Requests that were answered with 401, log-ins included.
    UNAUTHORIZED = Metric::count("Unauthorized");
    RATE_LIMITED = Metric::count("RateLimited");
    /// Log-ins with a wrong password or address, and log-ins during a lock-out.
    LOG_INS_REFUSED = Metric::count("LogInsRefused");
    /// Notifications of acquirers with a valid token in the URL, whose signature, certificate or address is wrong.
    NOTIFICATIONS_REFUSED = Metric::count("NotificationsRefused");
    DELIVERY_ATTEMPTS = Metric::count("DeliveryAttempts").by(OUTCOME);
    /// The time from a live payment's settlement to the first attempt to deliver its event.
    PAID_TO_FIRST_ATTEMPT = Metric::count("PaidToFirstAttempt").in_unit("Milliseconds");
    CHARGES_CREATED = Metric::count("ChargesCreated").by(CURRENCY);
    CHARGES_PAID = Metric::count("ChargesPaid").by(CURRENCY);
    /// The sum of live charges that were paid, in the currency's main unit.
    AMOUNT_PAID = Metric::count("AmountPaid").in_unit("None").by(CURRENCY);
    REFUNDS_FAILED = Metric::count("RefundsFailed");
    /// Returns of payments that the bank can't execute.
    RETURNS_FAILED = Metric::count("ReturnsFailed");
    /// Events of acquirers about charges that their connection does not have.
    EVENTS_IGNORED = Metric::count("EventsIgnored");
    /// MED cases of live charges that were opened.
    CASES_OPENED = Metric::count("CasesOpened");
    EMAILS_SENT = Metric::count("EmailsSent");
    /// Payments that have waited for their review for more than a day, each once an hour.
    REVIEWS_OVERDUE = Metric::count("ReviewsOverdue");
    /// Banks and other acquirers that have not been readable for 15 minutes and have live charges that wait for their
    /// payment, each once a minute.
    BANKS_UNREADABLE = Metric::count("BanksUnreadable");
    /// The days until the client certificate for a bank expires.
    BANK_CERTIFICATE_DAYS = Metric::count("BankCertificateDays");
    /// Ledgers that the daily verification has verified, written at its end.
    LEDGERS_VERIFIED = Metric::count("LedgersVerified");
    /// Differences between ledgers and their postings that the daily verification found.
    LEDGER_DIFFERENCES = Metric::count("LedgerDifferences");
    /// Differences between the days at acquirers and the records, which the daily reconciliation found.
    ACQUIRER_DIFFERENCES = Metric::count("AcquirerDifferences");
}

/// Returns the number of metrics that CloudWatch bills if every metric has a value for every value of its
/// dimension.
pub fn count() -> usize {
    let of = |metric: &Metric| metric.by.map_or(1, |dimension| dimension.values.len());
    ALL.iter().map(of).sum()
}

/// Reads the namespace from the environment. Called once, when a deployed function starts.
pub fn start() {
    if let Some(namespace) = std::env::var(NAMESPACE_VARIABLE).ok().filter(|name| !name.is_empty()) {
        // A second call has no effect.
        let _ = NAMESPACE.set(namespace);
    }
}

/// Returns the metrics' name of a route: `POST /v1/charges`, or the common beginning of routes that have no
/// metrics of their own.
pub fn route_name(method: &str, route: &str) -> &'static str {
    let is_it = |name: &&&str| match name.split_once(' ') {
        Some((of, pattern)) => of == method && pattern == route,
        None => route.starts_with(**name),
    };
    ROUTE.values.iter().find(is_it).copied().unwrap_or(OTHER)
}

/// Writes the metrics of an HTTP request. `route` is its pattern.
pub(crate) fn write_request(method: &str, route: &str, status: u16, duration_ms: u64) {
    if NAMESPACE.get().is_none() {
        return;
    }
    let route = route_name(method, route);
    let duration: (Metric, &dyn Display) = (REQUEST_DURATION, &duration_ms);
    match status {
        400..=499 => write(route, &[duration, (CLIENT_ERRORS, &1)]),
        500.. => write(route, &[duration, (SERVER_ERRORS, &1)]),
        _ => write(route, &[duration]),
    }
    match status {
        401 => increment(UNAUTHORIZED),
        429 => increment(RATE_LIMITED),
        _ => {}
    }
}

/// Adds one to a metric without a dimension.
pub fn increment(metric: Metric) {
    write("", &[(metric, &1)]);
}

pub fn currency_name(currency: Currency) -> &'static str {
    CURRENCY.values.iter().find(|name| **name == currency.as_str()).copied().unwrap_or(OTHER)
}

/// Writes values of metrics with the same dimension. `of` is the value of the dimension, from its list. It is
/// not used for metrics without a dimension.
pub fn write(of: &'static str, values: &[(Metric, &dyn Display)]) {
    if let Some(namespace) = NAMESPACE.get() {
        let millis = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        // One write for the whole line, so that no other line is mixed in. Without standard output, the values
        // are lost, and the function continues.
        let _ = std::io::stdout().lock().write_all(line(namespace, millis, of, values).as_bytes());
    }
}

/// Formats values as a line. Names, units and values of dimensions are constants without characters that JSON
/// escapes. A stack's name consists of letters, digits and hyphens.
fn line(namespace: &str, millis: u128, of: &'static str, values: &[(Metric, &dyn Display)]) -> String {
    let dimension = values.first().and_then(|(metric, _)| metric.by);
    let mut line = String::with_capacity(384);
    // Writing to a string can't fail.
    let _ = write!(
        line,
        r#"{{"_aws":{{"Timestamp":{millis},"CloudWatchMetrics":[{{"Namespace":"{namespace}","Dimensions":[["#
    );
    if let Some(dimension) = dimension {
        let _ = write!(line, r#""{}""#, dimension.name);
    }
    line.push_str(r#"]],"Metrics":["#);
    for (index, (metric, _)) in values.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(line, r#"{comma}{{"Name":"{}","Unit":"{}"}}"#, metric.name, metric.unit);
    }
    line.push_str("]}]}");
    if let Some(dimension) = dimension {
        let _ = write!(line, r#","{}":"{of}""#, dimension.name);
    }
    for (metric, value) in values {
        let _ = write!(line, r#","{}":{value}"#, metric.name);
    }
    line.push_str("}\n");
    line
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_line_is_in_the_embedded_metric_format() {
        let values: [(Metric, &dyn Display); 2] = [(REQUEST_DURATION, &12), (CLIENT_ERRORS, &1)];
        let line = line("payments", 1_795_348_800_123, "POST /v1/charges", &values);
        assert!(line.ends_with("}\n") && line.lines().count() == 1);
        let parsed: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            parsed,
            json!({
                "_aws": {
                    "Timestamp": 1_795_348_800_123_i64,
                    "CloudWatchMetrics": [{
                        "Namespace": "payments",
                        "Dimensions": [["Route"]],
                        "Metrics": [
                            {"Name": "RequestDuration", "Unit": "Milliseconds"},
                            {"Name": "ClientErrors", "Unit": "Count"},
                        ],
                    }],
                },
                "Route": "POST /v1/charges",
                "RequestDuration": 12,
                "ClientErrors": 1,
            })
        );
        let line = super::line("payments", 1, "", &[(UNAUTHORIZED, &1)]);
        let parsed: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(parsed["_aws"]["CloudWatchMetrics"][0]["Dimensions"], json!([[]]));
        assert_eq!((parsed.as_object().unwrap().len(), &parsed["Unauthorized"]), (2, &json!(1)));
    }

    #[test]
    fn at_most_162_metrics_exist_and_names_need_no_escape() {
        assert!(count() <= 162, "{}", count());
        let names: BTreeSet<&str> = ALL.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), ALL.len());
        for metric in ALL {
            let values = metric.by.map_or(&[][..], |dimension| dimension.values);
            for text in [metric.name, metric.unit].iter().chain(values) {
                assert_eq!(serde_json::to_string(text).unwrap(), format!("\"{text}\""));
            }
        }
    }

    #[test]
    fn a_route_has_its_own_name_or_that_of_its_family() {
        assert_eq!(route_name("POST", "/v1/charges"), "POST /v1/charges");
        assert_eq!(route_name("GET", "/v1/charges/{id}"), "GET /v1/charges/{id}");
        assert_eq!(route_name("PATCH", "/v1/webhooks/endpoints/{id}"), "/v1/webhooks");
        assert_eq!(route_name("POST", "/v1/acquirer-events/{account}/{token}"), "/v1/acquirer-events");
        for (method, route) in [("DELETE", "/v1/charges"), ("BREW", "/v1/payments"), ("GET", "(no route)")] {
            assert_eq!(route_name(method, route), "other");
        }
    }

    #[test]
    fn a_currency_without_metrics_of_its_own_is_other() {
        assert_eq!(currency_name(Currency::BRL), "BRL");
        assert_eq!(currency_name(Currency::JPY), "other");
    }
}
