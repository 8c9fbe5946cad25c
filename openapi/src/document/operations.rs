//! All operations of the API, in the order of the reference.

use acquirer_events::bodies::{
    FAIL_BODY, PAY_BODY, RESOLVE_CASE_BODY, RESOLVE_REFUND_BODY, REVIEW_BODY, SANDBOX_CASE_BODY,
};
use acquirer_events::simulation::SIMULATION_FORM;
use acquirer_events::three_d_secure::CARD_FORM;
use shared::api_key::request::{API_KEY_BODY, ROTATE_API_KEY_BODY};
use shared::auth::dashboard::log_in::LOG_IN_BODY;
use shared::charge::CHARGES_QUERY;
use shared::charge::payment::request::PAYMENT_BODY;
use shared::charge::request::{CHARGE_BODY, PIX_CHARGE_BODY};
use shared::med::CASES_QUERY;
use shared::med::evidence::EVIDENCE_BODY;
use shared::med::request::{APPEAL_BODY, NOTICE_BODY};
use shared::refund::REFUND_BODY;
use shared::rollup::view::{METRICS_QUERY, STATS_QUERY};
use shared::services::PAYMENTS_QUERY;
use shared::wallet::statement::{BALANCE_QUERY, STATEMENT_QUERY};
use shared::webhook::delivery::DELIVERIES_QUERY;
use shared::webhook::endpoint::{ENDPOINT_BODY, ENDPOINT_CHANGE_BODY, ROTATE_SECRET_BODY};
use shared::webhook::log::EVENTS_QUERY;

use super::errors::{
    ACCOUNT_VELOCITY, CUSTOMER_VELOCITY, DISPUTED, EXCEEDS_REMAINING, INSUFFICIENT_BALANCE, INVALID_AMOUNT,
    INVALID_REQUEST, KEY_REUSED, NOT_CANCELLABLE, NOT_REFUNDABLE, NOT_UPLOADED, RATE_LIMITED,
    REFUND_NOT_SUPPORTED, SIZE_MISMATCH, UNAUTHORIZED, UNPROCESSABLE,
};
use super::operation::{Access, Operation, Tag, api};

pub(super) const MED_ALIAS: (&str, &str) = ("/v1/med/cases", "/v1/infractions");

const REPLAYED: &[&str] = &["Idempotent-Replayed"];

const PIX_NOTIFICATION: &str = r#"{"pix": [{"endToEndId": "E1234567820261121100000000000001", "txid": "7yajwdvt35gsbahg94yx2nj73v", "valor": "19.90", "horario": "2026-11-21T10:00:00.000Z"}]}"#;

const CACHED: &[&str] = &["ETag", "Cache-Control"];

pub(super) const OPERATIONS: &[Operation] = &[
    api(
        "POST /v1/charges",
        "createCharge",
        Tag::Charges,
        "Create a Pix charge",
        "Returns the charge with its copy-and-paste code, QR code and checkout page. Retry with the same `Idempotency-Key` after a timeout or a 5xx: no second charge is created.",
    )
    .request_headers(&["Idempotency-Key"])
    .response_headers(REPLAYED)
    .json(
        CHARGE_BODY,
        r#"{"amount": 1990, "payment_method": "pix", "description": "Pedido 1001", "expires_in": 3600, "customer": {"name": "Ana Souza", "document": "52998224725", "email": "ana@example.com"}, "metadata": {"order": "1001"}}"#,
    )
    .errors(&[INVALID_AMOUNT, CUSTOMER_VELOCITY, ACCOUNT_VELOCITY, KEY_REUSED, UNPROCESSABLE]),
    api(
        "POST /v1/pix/charges",
        "createPixCharge",
        Tag::Charges,
        "Create a Pix charge without naming the method",
        "Like `POST /v1/charges`, but `payment_method` may be left out. Both routes share their idempotency keys.",
    )
    .request_headers(&["Idempotency-Key"])
    .response_headers(REPLAYED)
    .json(
        PIX_CHARGE_BODY,
        r#"{"amount": 1990, "expected_payer_tax_id": "52998224725", "customer": {"name": "Ana Souza", "document": "52998224725"}}"#,
    )
    .errors(&[INVALID_AMOUNT, CUSTOMER_VELOCITY, ACCOUNT_VELOCITY, KEY_REUSED, UNPROCESSABLE]),
    api(
        "GET /v1/charges",
        "listCharges",
        Tag::Charges,
        "List charges",
        "Newest first. While `has_more` is true, pass `next_cursor` as `starting_after`. A deployment can switch this route off; it then answers 404.",
    )
    .query(CHARGES_QUERY),
    api(
        "GET /v1/charges/{id}",
        "getCharge",
        Tag::Charges,
        "Read a charge",
        "For single look-ups. To learn that a charge was paid, use webhooks instead of polling.",
    ),
    api(
        "POST /v1/payments",
        "createPayment",
        Tag::Payments,
        "Create a payment",
        "Creates a payment by one or more methods. The method's data, such as the Pix code or the boleto, is in `GET /v1/payments/{id}` a moment later. The currency must be accepted by every method.",
    )
    .response_headers(REPLAYED)
    .json(
        PAYMENT_BODY,
        r#"{"amount": 1990, "paymentMethods": ["PIX"], "idempotencyKey": "order-1001", "customerName": "Ana Souza", "customerDocument": "52998224725", "customerEmail": "ana@example.com", "metadata": {"order": "1001"}}"#,
    )
    .errors(&[INVALID_AMOUNT, CUSTOMER_VELOCITY, ACCOUNT_VELOCITY, KEY_REUSED, UNPROCESSABLE]),
    api(
        "GET /v1/payments",
        "listPayments",
        Tag::Payments,
        "List payments",
        "Includes the charges created by `/v1/charges`. Page by `page`, or by `starting_after` at any depth.",
    )
    .query(PAYMENTS_QUERY),
    api(
        "GET /v1/payments/stats",
        "getPaymentStats",
        Tag::Payments,
        "Read statistics",
        "Totals over a number of business days that ends today. Every count belongs to the day on which the payment was created.",
    )
    .query(STATS_QUERY),
    api(
        "GET /v1/payments/metrics",
        "getPaymentMetrics",
        Tag::Payments,
        "Read the conversion funnel",
        "The funnel, the average ticket, the volume by method and by hour, over a number of business days that ends today.",
    )
    .query(METRICS_QUERY),
    api(
        "GET /v1/payments/{id}",
        "getPayment",
        Tag::Payments,
        "Read a payment",
        "Fields that do not belong to the payment's methods are null.",
    ),
    api(
        "POST /v1/payments/{id}/cancel",
        "cancelPayment",
        Tag::Payments,
        "Cancel an unpaid payment",
        "Only while the status is `WAITING_PAYMENT`, `PENDING` or `PROCESSING`. Money that is held for review is returned to the payer. Refund a settled payment instead.",
    )
    .errors(&[NOT_CANCELLABLE, UNPROCESSABLE]),
    api(
        "GET /v1/payments/{id}/provider-status",
        "getProviderStatus",
        Tag::Payments,
        "Read the status at the acquirer",
        "Reads the status from the acquirer, without a cache. A payment that never reached an acquirer has `error` `TRANSACTION_HAS_NO_PROVIDER_REFERENCE`.",
    )
    .errors(&[UNPROCESSABLE]),
    api(
        "GET /v1/payments/{id}/receipt",
        "getReceipt",
        Tag::Payments,
        "Read the receipt of a settled payment",
        "A PDF as base64, with the payment's returns.",
    )
    .errors(&[UNPROCESSABLE]),
    api(
        "POST /v1/payments/{id}/resend-webhook",
        "resendPaymentEvents",
        Tag::Payments,
        "Send the events of the current status again",
        "Sends the events with the same ids and bodies to the endpoints that are subscribed now. `resent` is false if there is no event or no receiver.",
    ),
    api(
        "POST /v1/payments/{id}/refund",
        "createRefund",
        Tag::Refunds,
        "Refund a settled payment",
        "The refund continues asynchronously; `refund.succeeded` or `refund.failed` reports its end. Without `amount`, all that can still be refunded is refunded.",
    )
    .response_headers(REPLAYED)
    .json(REFUND_BODY, r#"{"idempotencyKey": "refund-1001", "amount": 500, "reason": "Item devolvido", "strategy": "devolution"}"#)
    .errors(&[
        INVALID_AMOUNT,
        KEY_REUSED,
        UNPROCESSABLE,
        NOT_REFUNDABLE,
        DISPUTED,
        EXCEEDS_REMAINING,
        INSUFFICIENT_BALANCE,
        REFUND_NOT_SUPPORTED,
    ]),
    api(
        "GET /v1/payments/{id}/refunds",
        "listRefunds",
        Tag::Refunds,
        "List the refunds of a payment",
        "Newest first.",
    ),
    api(
        "GET /v1/wallets",
        "listWallets",
        Tag::Wallets,
        "List wallets",
        "One wallet for each currency. The BRL wallet is shown even if it had no movement.",
    ),
    api(
        "GET /v1/wallets/balance",
        "getBalance",
        Tag::Wallets,
        "Read balances",
        "Without `currency`: all currencies, and the primary one at the top. With `currency`: the shorter response for one wallet.",
    )
    .query(BALANCE_QUERY),
    api(
        "GET /v1/wallets/transactions",
        "getStatement",
        Tag::Wallets,
        "Read the statement",
        "Every movement with its charge, refund, case or payout. With `Accept: text/csv` the statement is CSV with up to 1,000 lines, and the header `X-Next-Cursor` has the cursor of the next page.",
    )
    .response_headers(&["X-Next-Cursor"])
    .query(STATEMENT_QUERY),
    api(
        "POST /v1/webhooks/endpoints",
        "createWebhookEndpoint",
        Tag::WebhookEndpoints,
        "Register an endpoint",
        "The response shows `secret` and `standardWebhooksSecret`, only this once. An account can have 50 endpoints in each mode.",
    )
    .json(
        ENDPOINT_BODY,
        r#"{"url": "https://example.com/webhooks", "events": ["charge.paid", "charge.expired", "charge.failed"]}"#,
    )
    .errors(&[UNPROCESSABLE]),
    api(
        "GET /v1/webhooks/endpoints",
        "listWebhookEndpoints",
        Tag::WebhookEndpoints,
        "List endpoints",
        "Without their secrets.",
    ),
    api(
        "GET /v1/webhooks/endpoints/{id}",
        "getWebhookEndpoint",
        Tag::WebhookEndpoints,
        "Read an endpoint",
        "Without its secret.",
    ),
    api(
        "PATCH /v1/webhooks/endpoints/{id}",
        "changeWebhookEndpoint",
        Tag::WebhookEndpoints,
        "Change an endpoint",
        "Send only the fields to change. `INACTIVE` cancels the endpoint's pending deliveries permanently.",
    )
    .json(ENDPOINT_CHANGE_BODY, r#"{"events": ["charge.paid", "med_case.created"]}"#),
    api(
        "DELETE /v1/webhooks/endpoints/{id}",
        "deleteWebhookEndpoint",
        Tag::WebhookEndpoints,
        "Delete an endpoint",
        "Cancels the endpoint's pending deliveries permanently.",
    ),
    api(
        "POST /v1/webhooks/endpoints/{id}/rotate-secret",
        "rotateWebhookSecret",
        Tag::WebhookEndpoints,
        "Replace an endpoint's secret",
        "The new secret signs every delivery from now on and is shown once. Accept both secrets while you deploy the new one.",
    )
    .json(ROTATE_SECRET_BODY, "{}"),
    api(
        "POST /v1/webhooks/endpoints/{id}/test",
        "testWebhookEndpoint",
        Tag::WebhookEndpoints,
        "Send a test event",
        "Sends a `webhook.test` event to this endpoint. At most 10 a minute.",
    )
    .errors(&[UNPROCESSABLE]),
    api(
        "POST /v1/webhooks/override-secret/rotate",
        "rotateOverrideSecret",
        Tag::WebhookEndpoints,
        "Replace the secret for payments' own URLs",
        "This secret signs the deliveries to payments' `webhookUrl`. It is shown once.",
    ),
    api(
        "GET /v1/webhooks/event-catalog",
        "listEventTypes",
        Tag::WebhookEndpoints,
        "List all event names",
        "Needs no authentication. `legacy: true` marks the legacy family.",
    )
    .access(Access::Public)
    .is_static(),
    api(
        "GET /v1/webhooks/deliveries",
        "listDeliveries",
        Tag::Deliveries,
        "List deliveries",
        "The deliveries of the last 90 days, newest first. Page by `offset`, or by `starting_after` at any depth.",
    )
    .query(DELIVERIES_QUERY),
    api(
        "GET /v1/webhooks/deliveries/{id}",
        "getDelivery",
        Tag::Deliveries,
        "Read a delivery",
        "With the payload that was sent, and the receiver's last response.",
    ),
    api(
        "POST /v1/webhooks/deliveries/{id}/resend",
        "resendDelivery",
        Tag::Deliveries,
        "Send an event again",
        "Makes a new delivery of the same event to the same endpoint, even if the endpoint is no longer subscribed to it.",
    )
    .errors(&[UNPROCESSABLE]),
    api(
        "GET /v1/webhooks/stats",
        "getDeliveryStats",
        Tag::Deliveries,
        "Count deliveries by status",
        "Over the deliveries of the last 90 days.",
    ),
    api(
        "GET /v1/events",
        "listEvents",
        Tag::Events,
        "List events",
        "The events of the last 30 days, newest first, whether or not an endpoint received them. Read this list after an outage of your server, and skip the ids that you have processed.",
    )
    .query(EVENTS_QUERY),
    api(
        "GET /v1/events/{id}",
        "getEvent",
        Tag::Events,
        "Read an event",
        "For 90 days after the change.",
    ),
    api(
        "GET /v1/med/cases",
        "listMedCases",
        Tag::MedCases,
        "List MED cases",
        "Newest first. Read this list daily, because a MED event whose publication fails is not sent again.",
    )
    .query(CASES_QUERY),
    api(
        "GET /v1/med/cases/{id}",
        "getMedCase",
        Tag::MedCases,
        "Read a MED case",
        "`status` with `money_outcome` says what became of the money.",
    ),
    api(
        "POST /v1/med/cases/{id}/appeal",
        "appealMedCase",
        Tag::MedCases,
        "Contest an open case",
        "A case can be appealed once, while it is `open`.",
    )
    .json(APPEAL_BODY, r#"{"reason": "O pedido 1001 foi entregue em 20/11/2026; o comprovante está anexado."}"#)
    .errors(&[UNPROCESSABLE]),
    api(
        "POST /v1/med/cases/{id}/accept",
        "acceptMedCase",
        Tag::MedCases,
        "Accept the loss of an open case",
        "Final: the amount stays debited.",
    ),
    api(
        "GET /v1/med/cases/{id}/evidence",
        "listEvidence",
        Tag::MedCases,
        "List the evidence of a case",
        "Confirmed files, newest first. Each `view_url` is valid for 5 minutes.",
    ),
    api(
        "POST /v1/med/cases/{id}/evidence",
        "requestEvidenceUpload",
        Tag::MedCases,
        "Request an upload URL",
        "Upload the file by `PUT` to `upload_url`, within 900 seconds and with exactly the headers in `upload_headers`. Do not send the API key there. Then confirm the upload.",
    )
    .json(EVIDENCE_BODY, r#"{"file_name": "comprovante.pdf", "file_size": 48213, "mime_type": "application/pdf"}"#)
    .errors(&[UNPROCESSABLE]),
    api(
        "POST /v1/med/cases/{id}/evidence/{evidence_id}/complete",
        "completeEvidenceUpload",
        Tag::MedCases,
        "Confirm an upload",
        "Can be repeated: a confirmed file is returned again.",
    )
    .errors(&[NOT_UPLOADED, SIZE_MISMATCH]),
    api(
        "POST /v1/auth/login",
        "logIn",
        Tag::ApiKeys,
        "Log in",
        "Returns a dashboard token that is valid for 12 hours. In a quarter of an hour, 10 log-ins for an e-mail address may fail.",
    )
    .access(Access::Public)
    .json(LOG_IN_BODY, r#"{"email": "owner@loja.example", "password": "correct horse battery staple"}"#)
    .errors(&[UNAUTHORIZED, RATE_LIMITED]),
    api(
        "POST /v1/auth/logout",
        "logOut",
        Tag::ApiKeys,
        "Log out",
        "Ends this token at once.",
    )
    .access(Access::Dashboard),
    api(
        "GET /v1/api-keys",
        "listApiKeys",
        Tag::ApiKeys,
        "List API keys",
        "Without cleartext. Every active user of the account may list keys.",
    )
    .access(Access::Dashboard),
    api(
        "POST /v1/api-keys",
        "createApiKey",
        Tag::ApiKeys,
        "Issue an API key",
        "`apiKey` is shown only in this response. Without `test: true` the key is a live key.",
    )
    .access(Access::DashboardManager)
    .json(API_KEY_BODY, r#"{"label": "checkout server", "test": true}"#),
    api(
        "POST /v1/api-keys/{id}/rotate",
        "rotateApiKey",
        Tag::ApiKeys,
        "Replace an API key",
        "The old key stops working at once. The new one keeps its mode, and its label unless a new one is sent.",
    )
    .access(Access::DashboardManager)
    .json(ROTATE_API_KEY_BODY, "{}"),
    api(
        "DELETE /v1/api-keys/{id}",
        "revokeApiKey",
        Tag::ApiKeys,
        "Revoke an API key",
        "Permanent.",
    )
    .access(Access::DashboardManager),
    api(
        "GET /checkout/{raw_id}",
        "showCheckout",
        Tag::Checkout,
        "Show the page on which the payer pays",
        "Its URL is the charge's `checkout_url`.",
    )
    .access(Access::Public)
    .page(),
    api(
        "GET /checkout/{raw_id}/qr.png",
        "showQrCode",
        Tag::Checkout,
        "Show the QR code",
        "Its URL is the charge's `qr_code_url`.",
    )
    .access(Access::Public),
    api(
        "GET /checkout/{raw_id}/boleto.pdf",
        "showBoleto",
        Tag::Checkout,
        "Show the boleto",
        "While the boleto can be paid. Its URL is the payment's `boletoPdfUrl`.",
    )
    .access(Access::Public),
    api(
        "GET /checkout/{raw_id}/card",
        "showCardAuthentication",
        Tag::Checkout,
        "Show the sandbox's 3-D Secure page",
        "For test payments by card. Its URL is the payment's `cardRedirectUrl`.",
    )
    .access(Access::Public)
    .page(),
    api(
        "POST /checkout/{raw_id}/card",
        "decideCardAuthentication",
        Tag::Checkout,
        "Decide the authentication of a test card",
        "The form of the sandbox's 3-D Secure page.",
    )
    .access(Access::Public)
    .page()
    .response_headers(&["Location"])
    .form(CARD_FORM),
    api(
        "POST /checkout/{raw_id}/simulate",
        "simulatePayment",
        Tag::Checkout,
        "Simulate the payment of a test charge",
        "The form of a test charge's checkout page. At most 10 simulations of a charge a minute.",
    )
    .access(Access::Public)
    .response_headers(&["Location"])
    .form(SIMULATION_FORM)
    .errors(&[INVALID_REQUEST, RATE_LIMITED]),
    api(
        "POST /v1/sandbox/charges/{id}/pay",
        "payTestCharge",
        Tag::Sandbox,
        "Pay a test charge",
        "With another `amount` the charge stays unpaid and the money goes back.",
    )
    .access(Access::TestKey)
    .json(PAY_BODY, r#"{"payer_name": "Ana Souza", "payer_tax_id": "52998224725"}"#)
    .errors(&[INVALID_AMOUNT, UNPROCESSABLE]),
    api(
        "POST /v1/sandbox/charges/{id}/fail",
        "failTestCharge",
        Tag::Sandbox,
        "Decline a test charge",
        "The charge becomes `failed`.",
    )
    .access(Access::TestKey)
    .json(FAIL_BODY, r#"{"reason": "Saldo insuficiente", "code": "refused"}"#)
    .errors(&[UNPROCESSABLE]),
    api(
        "POST /v1/sandbox/charges/{id}/expire",
        "expireTestCharge",
        Tag::Sandbox,
        "Expire a test charge",
        "As if its time had passed.",
    )
    .access(Access::TestKey)
    .errors(&[UNPROCESSABLE]),
    api(
        "POST /v1/sandbox/charges/{id}/review",
        "reviewTestCharge",
        Tag::Sandbox,
        "Decide a payment that is held for review",
        "`approve` credits the money, `return` sends it back to the payer.",
    )
    .access(Access::TestKey)
    .json(REVIEW_BODY, r#"{"decision": "approve"}"#)
    .errors(&[UNPROCESSABLE]),
    api(
        "POST /v1/sandbox/charges/{id}/med-cases",
        "openTestMedCase",
        Tag::Sandbox,
        "Open a MED case",
        "The payer's bank claims a paid test charge back. A repeated `notice_id` refers to the same case.",
    )
    .access(Access::TestKey)
    .json(SANDBOX_CASE_BODY, r#"{"type": "med", "reason": "Não reconheço este pagamento", "method": "scam"}"#)
    .errors(&[INVALID_AMOUNT, UNPROCESSABLE]),
    api(
        "POST /v1/sandbox/med/cases/{id}/request-evidence",
        "requestTestEvidence",
        Tag::Sandbox,
        "Ask the merchant for evidence",
        "Sets `evidence_requested_at` and sends `med_case.updated`.",
    )
    .access(Access::TestKey)
    .errors(&[UNPROCESSABLE]),
    api(
        "POST /v1/sandbox/med/cases/{id}/resolve",
        "resolveTestMedCase",
        Tag::Sandbox,
        "Decide a MED case",
        "As the central bank's channel would.",
    )
    .access(Access::TestKey)
    .json(RESOLVE_CASE_BODY, r#"{"decision": "merchant"}"#)
    .errors(&[UNPROCESSABLE]),
    api(
        "POST /v1/sandbox/refunds/{id}/resolve",
        "resolveTestRefund",
        Tag::Sandbox,
        "End a refund",
        "For refunds with the reason `sandbox:hold`. Other refunds end after about two seconds.",
    )
    .access(Access::TestKey)
    .json(RESOLVE_REFUND_BODY, r#"{"status": "REFUNDED"}"#)
    .errors(&[UNPROCESSABLE]),
    api(
        "POST /v1/acquirer-events/{account}/{token}",
        "notify",
        Tag::BankNotifications,
        "Report payments or the test of a URL",
        "A bank calls this URL, which an operator registers there. Each reported payment is read back from the bank before it is credited.",
    )
    .access(Access::Bank)
    .pix_notification(PIX_NOTIFICATION)
    .errors(&[INVALID_REQUEST]),
    api(
        "POST /v1/acquirer-events/{account}/{token}/pix",
        "notifyPix",
        Tag::BankNotifications,
        "Report payments",
        "Like the URL without `/pix`, which some banks add by themselves.",
    )
    .access(Access::Bank)
    .pix_notification(PIX_NOTIFICATION)
    .errors(&[INVALID_REQUEST]),
    api(
        "POST /v1/acquirer-events/{account}/{token}/med",
        "notifyMed",
        Tag::BankNotifications,
        "Report a MED case",
        "The body is signed in `X-Signature`. While the Pix is not credited to a charge, the response is 202 and the notice is tried again.",
    )
    .access(Access::Bank)
    .request_headers(&["X-Signature"])
    .json(
        NOTICE_BODY,
        r#"{"notice_id": "n-1001", "infraction_id": "91d65e98-97c0-4b0f-b577-73625da1f9fc", "end_to_end_id": "E1234567820261121100000000000001", "status": "OPEN", "situation": "SCAM", "amount": 1990, "reason": "Não reconheço este pagamento", "reported_at": "2026-11-21T10:00:00.000Z"}"#,
    )
    .errors(&[INVALID_AMOUNT, INVALID_REQUEST]),
    api(
        "GET /v1/openapi.json",
        "getDescription",
        Tag::Description,
        "Read this description",
        "OpenAPI 3.1. Send `If-None-Match` with the last `ETag` to get a 304.",
    )
    .access(Access::Public)
    .response_headers(CACHED)
    .is_static(),
    api(
        "GET /docs",
        "showDocumentation",
        Tag::Description,
        "Show the documentation",
        "The first page, with the contents of the guide and the reference.",
    )
    .access(Access::Public)
    .response_headers(CACHED)
    .is_static(),
    api(
        "GET /docs/{page}",
        "showDocumentationPage",
        Tag::Description,
        "Show a page of the documentation",
        "A chapter of the guide or a group of the reference. The page `search` finds sections by the words in `q`.",
    )
    .access(Access::Public)
    .response_headers(CACHED)
    .is_static()
    .page(),
    api(
        "GET /docs.md",
        "getDocumentationAsMarkdown",
        Tag::Description,
        "Read the documentation as Markdown",
        "The same text as all pages.",
    )
    .access(Access::Public)
    .response_headers(CACHED)
    .is_static(),
    api(
        "GET /llms.txt",
        "getIndexForLanguageModels",
        Tag::Description,
        "Read the index for language models",
        "Links to the documentation, as llmstxt.org describes.",
    )
    .access(Access::Public)
    .response_headers(CACHED)
    .is_static(),
];
