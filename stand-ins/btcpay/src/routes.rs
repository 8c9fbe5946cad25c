//! The routes of the API.

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::requests::{MarkInvoice, read};
use crate::state::{Invoice, ON_CHAIN, Result, State, Status};

/// What an operation gets of its request.
pub(crate) struct Call {
    /// The id of the invoice or the webhook in the path, if there is one.
    pub(crate) id: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) body: Value,
}

type Run = fn(&mut State, &Call) -> Result<Value>;

/// A method with the path after `/api/v1/`, the right that it needs, if any, and the operation, which returns the body
/// of the answer. Null: it has none. Paths are those of the document of version 2.4.1.
pub(crate) type Route = (&'static str, &'static str, Run);

const VIEW: &str = "btcpay.store.canviewinvoices";
const CREATE: &str = "btcpay.store.cancreateinvoice";
const MODIFY: &str = "btcpay.store.canmodifyinvoices";
const WEBHOOKS: &str = "btcpay.store.webhooks.canmodifywebhooks";
const VIEW_STORE: &str = "btcpay.store.canviewstoresettings";

static ROUTES: [Route; 15] = [
    ("GET server/info", "", |_, _| {
        Ok(json!({
            "version": "2.4.1", "supportedPaymentMethods": [ON_CHAIN], "fullySynched": true, "syncStatus": [],
        }))
    }),
    ("GET api-keys/current", "", |state, _| {
        let permissions = &state.behaviour.permissions;
        Ok(json!({"apiKey": state.api_key, "label": "stand-in", "permissions": permissions}))
    }),
    ("GET stores/{storeId}", VIEW_STORE, |state, _| Ok(store(state))),
    ("GET stores/{storeId}/payment-methods", VIEW_STORE, |_, call| {
        call.flag("onlyEnabled", false)?;
        Ok(json!([{"enabled": true, "paymentMethodId": ON_CHAIN}]))
    }),
    ("GET stores/{storeId}/invoices", VIEW, |state, call| call.list_invoices(state)),
    ("POST stores/{storeId}/invoices", CREATE, |state, call| state.create_invoice(&call.body)),
    ("GET invoices/{invoiceId}", VIEW, |state, call| {
        let with_methods = call.flag("includePaymentMethods", false)?;
        Ok(state.shown(state.invoice(&call.id)?, with_methods))
    }),
    ("PUT invoices/{invoiceId}", MODIFY, |state, call| state.update_invoice(&call.id, &call.body)),
    ("GET invoices/{invoiceId}/payment-methods", VIEW, |state, call| {
        Ok(state.invoice(&call.id)?.shown_methods(call.flag("onlyAccountedPayments", true)?))
    }),
    ("POST invoices/{invoiceId}/status", MODIFY, |state, call| {
        state.mark_invoice(&call.id, read::<MarkInvoice>(&call.body)?.status)
    }),
    ("GET stores/{storeId}/webhooks", WEBHOOKS, |state, _| Ok(state.list_webhooks())),
    ("POST stores/{storeId}/webhooks", WEBHOOKS, |state, call| state.create_webhook(&call.body)),
    ("GET webhooks/{webhookId}", WEBHOOKS, |state, call| state.webhook(&call.id)),
    ("PUT webhooks/{webhookId}", WEBHOOKS, |state, call| state.update_webhook(&call.id, &call.body)),
    ("DELETE webhooks/{webhookId}", WEBHOOKS, |state, call| state.delete_webhook(&call.id)),
];

/// Finds a route, with the store in the path, and the id after it. Until version 2.4 the path of an invoice or a webhook
/// named the store too, and such a path still works.
pub(crate) fn find(method: &str, path: &str) -> Option<(&'static Route, Option<String>, String)> {
    let path = path.strip_prefix("/api/v1/")?;
    let mut segments: Vec<&str> = path.split('/').collect();
    let store = segments.get(1).filter(|_| path.starts_with("stores/")).map(|store| (*store).to_owned());
    if store.is_some() && segments.len() > 3 {
        segments.drain(..2);
    }
    let given = [&[method], segments.as_slice()].concat();
    let is_given = |(expected, given): (&str, &&str)| expected.starts_with('{') || expected == *given;
    let is_route = |(name, ..): &&Route| {
        let expected = name.split([' ', '/']);
        expected.clone().count() == given.len() && expected.zip(&given).all(is_given)
    };
    let id = segments.get(1).copied().unwrap_or_default().to_owned();
    Some((ROUTES.iter().find(is_route)?, store, id))
}

impl Call {
    fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.query.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn flag(&self, name: &str, default: bool) -> Result<bool> {
        match self.values(name).next() {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(_) => Err(ApiError::invalid(name, "The value must be true or false.")),
        }
    }

    fn whole<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>> {
        let read = |text: &str| {
            text.parse().map_err(|_| ApiError::invalid(name, "The value must be an integer of at least 0."))
        };
        self.values(name).next().map(read).transpose()
    }

    fn list_invoices(&self, state: &State) -> Result<Value> {
        let (from, until): (Option<i64>, Option<i64>) = (self.whole("startDate")?, self.whole("endDate")?);
        if from.zip(until).is_some_and(|(from, until)| from > until) {
            return Err(ApiError::invalid("startDate", "startDate should not be above endDate"));
        }
        let statuses = self.values("status").map(|status| read(&status.into()));
        let statuses: Vec<Status> = statuses.collect::<Result<_>>()?;
        let orders: Vec<&str> = self.values("orderId").collect();
        let text = self.values("textSearch").next().unwrap_or_default();
        let is_listed = |invoice: &&Invoice| {
            let (order, created) =
                (invoice.order_id().unwrap_or_default(), invoice.created_ms.div_euclid(1_000));
            let mut terms = invoice.search_terms.iter().map(String::as_str).chain([order, &invoice.id]);
            (orders.is_empty() || orders.contains(&order))
                && (statuses.is_empty() || statuses.contains(&invoice.status))
                && from.is_none_or(|from| created >= from)
                && until.is_none_or(|until| created <= until)
                && terms.any(|term| term.contains(text))
        };
        let skip: usize = self.whole("skip")?.unwrap_or_default();
        let take: usize = self.whole("take")?.unwrap_or(usize::MAX);
        let with_methods = self.flag("includePaymentMethods", false)?;
        let listed = state.newest_first().into_iter().filter(is_listed).skip(skip).take(take);
        Ok(listed.map(|invoice| state.shown(invoice, with_methods)).collect())
    }
}

fn store(state: &State) -> Value {
    json!({
        "id": state.store_id, "name": "Stand-in", "defaultCurrency": state.behaviour.default_currency,
        "invoiceExpiration": 900, "monitoringExpiration": 86_400, "speedPolicy": "MediumSpeed",
        "paymentTolerance": 0, "networkFeeMode": "Never", "defaultPaymentMethod": ON_CHAIN,
    })
}
