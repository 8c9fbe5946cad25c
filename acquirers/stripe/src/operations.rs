use domain::acquirer::OddObject;
use domain::money::Amount;
use domain::payment_method::PaymentMethod;
use hyper::Method;
use serde::de::DeserializeOwned;

use crate::API_VERSION;
use crate::client::Client;
use crate::error::ApiError;
use crate::form::Form;
use crate::objects::{
    Account, BalanceTransaction, CheckoutSession, Dispute, Hidden, Metadata, Page, PaymentIntent, Refund,
    Resource, UploadedFile, WebhookEndpoint, id_of,
};
use crate::requests::{ApiRequest, FILES, ListQuery, NewIntent, NewSession, item, upload};
use crate::verify::Event;
use crate::voucher::VoucherMethod;

/// The rights that a restricted key needs, as Stripe's dashboard names them, each with the path and query of a request
/// that needs it: a read, or for a right to write a POST without parameters, which Stripe refuses. Boleto, Multibanco and
/// MB WAY write `PaymentIntents`.
const RIGHTS: [(&str, &str, &str); 9] = [
    ("Accounts: read", "/v1/account", ""),
    ("Checkout Sessions: write", CheckoutSession::PATH, ""),
    ("PaymentIntents: read", PaymentIntent::PATH, ""),
    ("Charges and Refunds: write", Refund::PATH, ""),
    ("Balance transaction sources: read", BalanceTransaction::PATH, "?expand[0]=data.source"),
    ("Disputes: write", Dispute::PATH, "/du_unknown"),
    ("Files: write", FILES, ""),
    ("Events: read", Event::PATH, ""),
    ("Webhook Endpoints: write", WebhookEndpoint::PATH, ""),
];

/// `key` is the idempotency key of a request that changes something: 1 to 255 visible characters, valid for 24 hours.
impl Client {
    /// Reads an object: a session or payment with its last try and the fee.
    pub async fn retrieve<T: Resource>(&self, id: &str) -> Result<T, ApiError> {
        let query = Form::default().list("expand", T::EXPANDED);
        same(self.read(ApiRequest::get(T::PATH, &item(id)?, &query)).await?, id)
    }

    /// Reads one page of a list, the newest first.
    pub async fn list<T: Resource>(&self, query: ListQuery<'_>) -> Result<Page<T>, ApiError> {
        let page: Page<T> = self.read(ApiRequest::get(T::PATH, "", &query.form())).await?;
        if page.has_more && page.next_cursor().is_none_or(str::is_empty) {
            return Err(malformed("a page that others follow must end with an object that has an id"));
        }
        Ok(page)
    }

    pub async fn account(&self) -> Result<Account, ApiError> {
        self.read(ApiRequest::get("/v1/account", "", &Form::default())).await
    }

    /// Returns the rights for these methods that the key lacks. Nothing is created or changed.
    pub async fn missing_rights(&self, methods: &[PaymentMethod]) -> Result<Vec<&'static str>, ApiError> {
        let mut missing = Vec::new();
        let creates_intents = methods.iter().any(|method| VoucherMethod::of(*method).is_some());
        for (right, list, rest) in RIGHTS {
            let creates = creates_intents && list == PaymentIntent::PATH;
            let right = if creates { "PaymentIntents: write" } else { right };
            let rest = rest.to_owned();
            let request = if right.ends_with("write") {
                let key = format!("right:{list}:{}", self.now().millis());
                ApiRequest::post(list, rest, Form::default().body(), &key)?
            } else {
                ApiRequest { rest, ..ApiRequest::get(list, "", &Form::default()) }
            };
            match self.call(request).await {
                Err(ApiError::Answered { status: 403, .. }) => missing.push(right),
                Ok(_) | Err(ApiError::Answered { status: 400 | 404, .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(missing)
    }

    pub async fn create_session(&self, new: &NewSession, key: &str) -> Result<CheckoutSession, ApiError> {
        self.post(CheckoutSession::PATH, String::new(), new.form()?, key).await
    }

    /// Ends a session, so that it can't be paid. Stripe refuses it unless the session is open.
    pub async fn expire_session(&self, id: &str, key: &str) -> Result<CheckoutSession, ApiError> {
        let form = Form::default().list("expand", CheckoutSession::EXPANDED);
        same(self.post(CheckoutSession::PATH, format!("{}/expire", item(id)?), form, key).await?, id)
    }

    /// Creates a payment and confirms it, so that the payer can pay.
    pub async fn create_intent(&self, new: &NewIntent, key: &str) -> Result<PaymentIntent, ApiError> {
        self.post(PaymentIntent::PATH, String::new(), new.form(), key).await
    }

    /// Cancels a payment that was created without a session, so that it can't be paid. Stripe refuses it once it is paid,
    /// and mostly while it is processed.
    pub async fn cancel_intent(&self, id: &str, key: &str) -> Result<PaymentIntent, ApiError> {
        let form = Form::default().list("expand", PaymentIntent::EXPANDED);
        same(self.post(PaymentIntent::PATH, format!("{}/cancel", item(id)?), form, key).await?, id)
    }

    pub async fn create_refund(
        &self,
        payment_intent: &str,
        amount: Amount,
        metadata: &Metadata,
        key: &str,
    ) -> Result<Refund, ApiError> {
        let form = Form::default().set("payment_intent", payment_intent).set("amount", amount.minor());
        self.post(Refund::PATH, String::new(), form.metadata("metadata", metadata), key).await
    }

    /// Stores evidence by the names of its fields, such as `uncategorized_text`. With `submit`, it is sent to the payer's
    /// bank, usually once only. All texts together have at most 150,000 characters.
    pub async fn update_dispute(
        &self,
        id: &str,
        evidence: &[(&str, &str)],
        submit: bool,
        key: &str,
    ) -> Result<Dispute, ApiError> {
        let form = evidence
            .iter()
            .fold(Form::default(), |form, (field, value)| form.set(&format!("evidence[{field}]"), value));
        same(self.post(Dispute::PATH, item(id)?, form.set("submit", submit), key).await?, id)
    }

    /// Uploads a file for a dispute's evidence: PDF, JPEG or PNG.
    pub async fn upload_file(
        &self,
        name: &str,
        content_type: &str,
        content: &[u8],
        key: &str,
    ) -> Result<UploadedFile, ApiError> {
        let body = upload(name, content_type, content)?;
        self.read(ApiRequest::post(FILES, String::new(), body, key)?).await
    }

    /// Registers a URL for notifications in the forms of [`API_VERSION`]. Only this answer has the secret of their
    /// signatures.
    pub async fn create_webhook_endpoint(
        &self,
        url: &Hidden<String>,
        events: &[&str],
        key: &str,
    ) -> Result<WebhookEndpoint, ApiError> {
        let form = Form::default().set("url", &url.0).set("api_version", API_VERSION);
        self.post(WebhookEndpoint::PATH, String::new(), form.list("enabled_events", events), key).await
    }

    /// Removes a registered URL. It also succeeds if there is none.
    pub async fn delete_webhook_endpoint(&self, id: &str) -> Result<(), ApiError> {
        let get = ApiRequest::get(WebhookEndpoint::PATH, &item(id)?, &Form::default());
        match self.call(ApiRequest { method: Method::DELETE, ..get }).await {
            Ok(_) | Err(ApiError::Answered { status: 404, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn post<T: DeserializeOwned>(
        &self,
        list: &'static str,
        item: String,
        form: Form,
        key: &str,
    ) -> Result<T, ApiError> {
        self.read(ApiRequest::post(list, item, form.body(), key)?).await
    }

    async fn read<T: DeserializeOwned>(&self, request: ApiRequest) -> Result<T, ApiError> {
        let body = self.call(request).await?;
        // The parser's own text may quote the answer.
        serde_json::from_slice(&body).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            let why = format!("not as documented at line {line}, column {column}");
            match serde_json::from_slice(&body) {
                Ok(object) => ApiError::Odd(OddObject::new(id_of(&object), why)),
                Err(_) => ApiError::Malformed(why),
            }
        })
    }
}

fn same<T: Resource>(object: T, id: &str) -> Result<T, ApiError> {
    let is_same = object.id() == id;
    is_same.then_some(object).ok_or_else(|| malformed("`id` must be that of the request"))
}

fn malformed(reason: &str) -> ApiError {
    ApiError::Malformed(reason.to_owned())
}
