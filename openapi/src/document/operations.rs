//! All operations of the API, in the order of the reference.

use acquirer_events::bodies::{
    FAIL_BODY, PAY_BODY, RESOLVE_CASE_BODY, RESOLVE_REFUND_BODY, REVIEW_BODY, SANDBOX_CASE_BODY,
};
use acquirer_events::simulation::SIMULATION_FORM;
use acquirer_events::three_d_secure::CARD_FORM;
use effects::rollup::view::{METRICS_QUERY, STATS_QUERY};
use effects::webhook::delivery::{DELIVERIES_QUERY, DELIVERY_QUERY};
use effects::webhook::endpoint::{ENDPOINT_BODY, ENDPOINT_CHANGE_BODY, ROTATE_SECRET_BODY};
use effects::webhook::log::EVENTS_QUERY;
use effects::webhook::recovery::RECOVERY_BODY;
use effects::webhook::resend::TEST_QUERY;
use money::charge::CHARGES_QUERY;
use money::charge::payment::request::PAYMENT_BODY;
use money::charge::request::{CHARGE_BODY, PIX_CHARGE_BODY};
use money::med::CASES_QUERY;
use money::med::evidence::EVIDENCE_BODY;
use money::med::request::{APPEAL_BODY, NOTICE_BODY};
use money::payment_link::request::{PAYMENT_LINK_BODY, PAYMENT_LINK_CHANGE_BODY, PAYMENT_LINKS_QUERY};
use money::refund::REFUND_BODY;
use money::report::request::{REPORT_BODY, REPORT_SCHEDULE_BODY, REPORTS_QUERY};
use money::wallet::statement::{BALANCE_QUERY, STATEMENT_QUERY};
use services::{PAYMENTS_QUERY, TIMELINE_QUERY};
use shared::api_key::request::{API_KEY_BODY, ROTATE_API_KEY_BODY};
use shared::auth::dashboard::log_in::LOG_IN_BODY;
use shared::http::ProblemKind;
use shared::request_log::{RECORDING_BODY, REQUESTS_QUERY};

use super::operation::{Access, Body, Operation};
use crate::responses::{Content, Success};

pub(super) const MED_ALIAS: (&str, &str) = ("/v1/med/cases", "/v1/infractions");

const REPLAYED: &[&str] = &["Idempotent-Replayed"];

const PIX_NOTIFICATION: &str = r#"{"pix": [{"endToEndId": "E1234567820261121100000000000001", "txid": "7yajwdvt35gsbahg94yx2nj73v", "valor": "19.90", "horario": "2026-11-21T10:00:00.000Z"}]}"#;

const CACHED: &[&str] = &["ETag", "Cache-Control"];

/// Lists the operations below their tags: route, id, summary, description, successful responses, the fields that differ
/// from [`Operation::DEFAULT`], and the errors of its own.
macro_rules! operations {
    ($(
        tag $tag:literal: $about:literal;
        $(
            $route:literal $id:literal $summary:literal
            $text:literal
            [$($status:literal $([$($kind:ident $content:literal),+])?),+]
            $(.$field:ident($value:expr))* $(errors [$($error:ident),+])?;
        )*
    )*) => {
        pub(super) const TAGS: &[(&str, &str)] = &[$(($tag, $about)),*];

        pub(crate) const OPERATIONS: &[Operation] = &[$($(
            Operation {
                route: $route,
                id: $id,
                tag: $tag,
                summary: $summary,
                text: $text,
                successes: &[$(Success { status: $status, contents: &[$($(Content::$kind($content)),+)?] }),+],
                $($field: $value,)*
                $(errors: &[$(ProblemKind::$error.error_code()),+],)?
                ..Operation::DEFAULT
            }
        ),*),*];
    };
}

operations! {
    tag "Charges": "Pix charges with public statuses.";
    "POST /v1/charges" "createCharge" "Create a Pix charge"
        "Returns the charge with its copy-and-paste code, QR code and checkout page. Retry with the same `Idempotency-Key` after a timeout or a 5xx: no second charge is created."
        [201 [Json "Charge"]] .request_headers(&["Idempotency-Key"]) .response_headers(REPLAYED)
        .body(Body::Json(CHARGE_BODY, r#"{"amount": 1990, "payment_method": "pix", "description": "Pedido 1001", "expires_in": 3600, "customer": {"name": "Ana Souza", "document": "52998224725", "email": "ana@example.com"}, "metadata": {"order_id": "1001"}}"#))
        errors [InvalidAmount, CustomerVelocityExceeded, AccountVelocityExceeded, IdempotencyKeyReused, Unprocessable];
    "POST /v1/pix/charges" "createPixCharge" "Create a Pix charge without naming the method"
        "Like `POST /v1/charges`, but `payment_method` may be left out. Both routes share their idempotency keys."
        [201 [Json "Charge"]] .request_headers(&["Idempotency-Key"]) .response_headers(REPLAYED)
        .body(Body::Json(PIX_CHARGE_BODY, r#"{"amount": 1990, "expected_payer_tax_id": "52998224725", "customer": {"name": "Ana Souza", "document": "52998224725"}}"#))
        errors [InvalidAmount, CustomerVelocityExceeded, AccountVelocityExceeded, IdempotencyKeyReused, Unprocessable];
    "GET /v1/charges" "listCharges" "List charges"
        "Newest first. While `has_more` is true, pass `next_cursor` as `starting_after`. A deployment can switch this route off; it then answers 404."
        [200 [Json "ChargeList"]] .query(CHARGES_QUERY) errors [InvalidAmount];
    "GET /v1/charges/{id}" "getCharge" "Read a charge"
        "For single look-ups. To learn that a charge was paid, use webhooks instead of polling."
        [200 [Json "Charge"]];
    "GET /v1/charges/{id}/timeline" "getChargeTimeline" "Read what happened to a charge"
        "Its statuses, payments with their returns, refunds, MED cases, movements of the wallet, events and their deliveries, oldest first. Each is made by the request, API key or member that it names, or else by the service or a bank. Events are kept for 90 days. While `has_more` is true, pass `next_cursor` as `starting_after`."
        [200 [Json "ChargeTimeline"]] .query(TIMELINE_QUERY);
    tag "Payments": "The same objects in the transaction format, by six methods.";
    "POST /v1/payments" "createPayment" "Create a payment"
        "Creates a payment by one or more methods. The method's data, such as the Pix code or the boleto, is in `GET /v1/payments/{id}` a moment later. The currency must be accepted by every method."
        [201 [Json "CreatedPayment"]] .response_headers(REPLAYED)
        .body(Body::Json(PAYMENT_BODY, r#"{"amount": 1990, "paymentMethods": ["PIX"], "idempotencyKey": "order-1001", "customerName": "Ana Souza", "customerDocument": "52998224725", "customerEmail": "ana@example.com", "metadata": {"order_id": "1001"}}"#))
        errors [InvalidAmount, CustomerVelocityExceeded, AccountVelocityExceeded, IdempotencyKeyReused, Unprocessable];
    "GET /v1/payments" "listPayments" "List payments"
        "Includes the charges created by `/v1/charges`. Page by `page`, or by `starting_after` at any depth."
        [200 [Json "PaymentList"]] .query(PAYMENTS_QUERY);
    "GET /v1/payments/stats" "getPaymentStats" "Read statistics"
        "Totals over a number of business days that ends today. Every count belongs to the day on which the payment was created."
        [200 [Json "PaymentStats"]] .query(STATS_QUERY);
    "GET /v1/payments/metrics" "getPaymentMetrics" "Read the conversion funnel"
        "The funnel, the average ticket, the volume by method and by hour, over a number of business days that ends today."
        [200 [Json "PaymentMetrics"]] .query(METRICS_QUERY);
    "GET /v1/payments/{id}" "getPayment" "Read a payment"
        "Fields that do not belong to the payment's methods are null."
        [200 [Json "Payment"]];
    "POST /v1/payments/{id}/cancel" "cancelPayment" "Cancel an unpaid payment"
        "Only while the status is `WAITING_PAYMENT`, `PENDING` or `PROCESSING`. Money that is held for review is returned to the payer. Refund a settled payment instead."
        [200 [Json "Payment"]] errors [PaymentNotCancellable, Unprocessable];
    "GET /v1/payments/{id}/provider-status" "getProviderStatus" "Read the status at the acquirer"
        "Reads the status from the acquirer, without a cache. A payment that never reached an acquirer has `error` `TRANSACTION_HAS_NO_PROVIDER_REFERENCE`."
        [200 [Json "ProviderStatus"]] errors [Unprocessable];
    "GET /v1/payments/{id}/receipt" "getReceipt" "Read the receipt of a settled payment"
        "A PDF as base64, with the payment's returns."
        [200 [Json "Receipt"]] errors [Unprocessable];
    "POST /v1/payments/{id}/resend-webhook" "resendPaymentEvents" "Send the events of the current status again"
        "Sends the events with the same ids and bodies to the endpoints that are subscribed now. `resent` is false if there is no event or no receiver."
        [200 [Json "ResentWebhook"]];
    tag "Payment links": "Addresses at which payers make charges by a form, for shops without a checkout of their own.";
    "POST /v1/payment_links" "createPaymentLink" "Make a payment link"
        "Send `url` to payers. Each payer makes a charge of their own there, whose events are those of every charge. The charges count for no velocity guard: a link takes 60 forms a minute."
        [201 [Json "PaymentLink"]] .request_headers(&["Idempotency-Key"]) .response_headers(REPLAYED)
        .body(Body::Json(PAYMENT_LINK_BODY, r#"{"amount": 1990, "payment_methods": ["PIX"], "description": "Aula de violão", "ask": ["name", "email"], "max_payments": 30}"#))
        errors [InvalidAmount, IdempotencyKeyReused, Unprocessable];
    "GET /v1/payment_links" "listPaymentLinks" "List payment links"
        "Newest first. While `has_more` is true, pass `next_cursor` as `starting_after`."
        [200 [Json "PaymentLinkList"]] .query(PAYMENT_LINKS_QUERY);
    "GET /v1/payment_links/{id}" "getPaymentLink" "Read a payment link"
        "With the number and the sum of its payments."
        [200 [Json "PaymentLink"]];
    "PATCH /v1/payment_links/{id}" "changePaymentLink" "Change or deactivate a payment link"
        "Send only the fields to change; `null` removes one. `active: false` deactivates the link, and its page says so. Charges that were made before stay as they are."
        [200 [Json "PaymentLink"]]
        .body(Body::Json(PAYMENT_LINK_CHANGE_BODY, r#"{"active": false}"#));
    tag "Refunds": "Refunds of settled payments, whole or in parts.";
    "POST /v1/payments/{id}/refund" "createRefund" "Refund a settled payment"
        "The refund continues asynchronously; `refund.succeeded` or `refund.failed` reports its end. Without `amount`, all that can still be refunded is refunded."
        [201 [Json "Refund"]] .response_headers(REPLAYED)
        .body(Body::Json(REFUND_BODY, r#"{"idempotencyKey": "refund-1001", "amount": 500, "reason": "Item devolvido", "strategy": "devolution"}"#))
        errors [InvalidAmount, IdempotencyKeyReused, Unprocessable, PaymentNotRefundable, ChargeDisputed, RefundExceedsRemaining, InsufficientBalance, RefundNotSupported];
    "GET /v1/payments/{id}/refunds" "listRefunds" "List the refunds of a payment"
        "Newest first."
        [200 [Json "RefundList"]];
    tag "Wallets": "Balances and the statement of the account.";
    "GET /v1/wallets" "listWallets" "List wallets"
        "One wallet for each currency. The BRL wallet is shown even if it had no movement."
        [200 [Json "WalletList"]];
    "GET /v1/wallets/balance" "getBalance" "Read balances"
        "Without `currency`: all currencies, and the primary one at the top. With `currency`: the shorter response for one wallet."
        [200 [Json "AnyWalletBalance"]] .query(BALANCE_QUERY);
    "GET /v1/wallets/transactions" "getStatement" "Read the statement"
        "Every movement with its charge, refund, case or payout. With `Accept: text/csv` the statement is CSV with up to 1,000 lines, and the header `X-Next-Cursor` has the cursor of the next page."
        [200 [Json "WalletTransactionList", Media "text/csv"]]
        .response_headers(&["X-Next-Cursor"]) .query(STATEMENT_QUERY);
    tag "Reports": "Files about a period for accounting, and schedules that make them.";
    "POST /v1/reports" "createReport" "Ask for a report"
        "The file is made in the background; `report.ready` reports it. An account can have two reports in progress in each mode, and ask for 50 a day. A statement is ready only if its opening balance and its movements add up to its closing balance."
        [202 [Json "Report"]] .request_headers(&["Idempotency-Key"]) .response_headers(REPLAYED)
        .body(Body::Json(REPORT_BODY, r#"{"type": "statement", "format": "csv", "from": "2026-11-01", "to": "2026-11-20", "locale": "pt-BR"}"#))
        errors [IdempotencyKeyReused, Unprocessable];
    "GET /v1/reports" "listReports" "List reports"
        "Newest first, without the URLs of their files. While `has_more` is true, pass `next_cursor` as `starting_after`."
        [200 [Json "ReportList"]] .query(REPORTS_QUERY);
    "GET /v1/reports/{id}" "getReport" "Read a report"
        "With a new `url` of the file, which is valid for 5 minutes. Files are kept for 90 days."
        [200 [Json "Report"]];
    "DELETE /v1/reports/{id}" "deleteReport" "Delete a report"
        "With its file. A report that is being made is deleted too."
        [200 [Json "DeletedReport"]];
    "POST /v1/reports/schedules" "createReportSchedule" "Schedule reports"
        "An account can have five schedules in both modes together. Each report is made by 06:00 in São Paulo on the first day after its period, and the member with the address gets an e-mail with a link."
        [201 [Json "ReportSchedule"]]
        .body(Body::Json(REPORT_SCHEDULE_BODY, r#"{"interval": "monthly", "type": "statement", "format": "ofx"}"#))
        errors [Unprocessable];
    "GET /v1/reports/schedules" "listReportSchedules" "List schedules"
        "Oldest first."
        [200 [Json "ReportScheduleList"]];
    "DELETE /v1/reports/schedules/{id}" "deleteReportSchedule" "Delete a schedule"
        "Its reports stay."
        [200 [Json "DeletedReport"]];
    tag "Webhook endpoints": "URLs that receive signed events.";
    "POST /v1/webhooks/endpoints" "createWebhookEndpoint" "Register an endpoint"
        "The response shows `secret` and `standardWebhooksSecret`, only this once. An account can have 50 endpoints in each mode."
        [201 [Json "RegisteredWebhookEndpoint"]]
        .body(Body::Json(ENDPOINT_BODY, r#"{"url": "https://example.com/webhooks", "events": ["charge.paid", "charge.expired", "charge.failed"]}"#))
        errors [Unprocessable];
    "GET /v1/webhooks/endpoints" "listWebhookEndpoints" "List endpoints"
        "Oldest first, without their secrets."
        [200 [Json "WebhookEndpointList"]];
    "GET /v1/webhooks/endpoints/{id}" "getWebhookEndpoint" "Read an endpoint"
        "Without its secret."
        [200 [Json "WebhookEndpoint"]];
    "PATCH /v1/webhooks/endpoints/{id}" "changeWebhookEndpoint" "Change an endpoint"
        "Send only the fields to change. `INACTIVE` cancels the endpoint's pending deliveries permanently."
        [200 [Json "WebhookEndpoint"]]
        .body(Body::Json(ENDPOINT_CHANGE_BODY, r#"{"events": ["charge.paid", "med_case.created"]}"#));
    "DELETE /v1/webhooks/endpoints/{id}" "deleteWebhookEndpoint" "Delete an endpoint"
        "Cancels the endpoint's pending deliveries permanently."
        [200 [Json "DeletedWebhookEndpoint"]];
    "POST /v1/webhooks/endpoints/{id}/rotate-secret" "rotateWebhookSecret" "Replace an endpoint's secret"
        "The new secret signs every delivery from now on and is shown once. Accept both secrets while you deploy the new one."
        [200 [Json "WebhookSecret"]] .body(Body::Json(ROTATE_SECRET_BODY, "{}"));
    "POST /v1/webhooks/endpoints/{id}/test" "testWebhookEndpoint" "Send a test event"
        "Sends a `webhook.test` event, or a sample of another event, to this endpoint. At most 10 a minute."
        [200 [Json "WebhookDelivery"]] .query(TEST_QUERY) errors [Unprocessable];
    "POST /v1/webhooks/endpoints/{id}/recoveries" "recoverWebhookEndpoint" "Send again what failed"
        "After an outage of your server. The service works through the deliveries in steps; read the recovery to follow it. One recovery of an endpoint runs at a time."
        [202 [Json "WebhookRecovery"]] .request_headers(&["Idempotency-Key"]) .response_headers(REPLAYED)
        .body(Body::Json(RECOVERY_BODY, r#"{"since": "2026-11-20T12:00:00-03:00", "until": "2026-11-20T14:00:00-03:00"}"#))
        errors [IdempotencyKeyReused, RecoveryInProgress, EndpointInactive];
    "GET /v1/webhooks/endpoints/{id}/recoveries" "listRecoveries" "List recoveries"
        "The newest 100 of the last 90 days, newest first."
        [200 [Json "WebhookRecoveryList"]];
    "GET /v1/webhooks/endpoints/{id}/recoveries/{recovery_id}" "getRecovery" "Read a recovery"
        "`queued` of `found` is how far it has come."
        [200 [Json "WebhookRecovery"]];
    "POST /v1/webhooks/endpoints/{id}/recoveries/{recovery_id}/cancel" "cancelRecovery" "Cancel a recovery"
        "What it has queued is sent. A recovery that has ended stays as it is."
        [200 [Json "WebhookRecovery"]];
    "POST /v1/webhooks/override-secret/rotate" "rotateOverrideSecret" "Replace the secret for payments' own URLs"
        "This secret signs the deliveries to payments' `webhookUrl`. It is shown once."
        [200 [Json "OverrideSecret"]];
    "GET /v1/webhooks/event-catalog" "listEventTypes" "List all event names"
        "Needs no authentication. `legacy: true` marks the legacy family."
        [200 [Json "EventCatalog"]] .access(Access::Public) .is_static(true);
    tag "Deliveries": "Attempts to deliver events to endpoints.";
    "GET /v1/webhooks/deliveries" "listDeliveries" "List deliveries"
        "The deliveries of the last 90 days, newest first. Page by `offset`, or by `starting_after` at any depth."
        [200 [Json "WebhookDeliveryList"]] .query(DELIVERIES_QUERY);
    "GET /v1/webhooks/deliveries/{id}" "getDelivery" "Read a delivery"
        "With the payload that was sent, and the receiver's last response."
        [200 [Json "WebhookDelivery"]] .query(DELIVERY_QUERY);
    "GET /v1/webhooks/deliveries/{id}/attempts" "listDeliveryAttempts" "List the attempts of a delivery"
        "Each attempt with its time, duration, and status or kind of failure. The guide has a remedy for each kind."
        [200 [Json "WebhookDeliveryAttemptList"]];
    "POST /v1/webhooks/deliveries/{id}/resend" "resendDelivery" "Send an event again"
        "Makes a new delivery of the same event to the same endpoint, even if the endpoint is no longer subscribed to it."
        [200 [Json "WebhookDelivery"]] errors [Unprocessable];
    "GET /v1/webhooks/stats" "getDeliveryStats" "Count deliveries by status"
        "Over the deliveries of the last 90 days."
        [200 [Json "WebhookStats"]];
    tag "Events": "The events themselves, to catch up after an outage.";
    "GET /v1/events" "listEvents" "List events"
        "The events of the last 30 days, newest first, whether or not an endpoint received them. Read this list after an outage of your server, and skip the ids that you have processed."
        [200 [Json "EventList"]] .query(EVENTS_QUERY);
    "GET /v1/events/{id}" "getEvent" "Read an event"
        "For 90 days after the change."
        [200 [Json "Event"]];
    tag "Requests": "The requests of the last 7 days that failed, to find out why.";
    "GET /v1/requests" "listRequests" "List failed requests"
        "Requests with an API key of this mode that ended with an error other than 429, and recorded ones, newest first. An instance of the service logs at most 60 a minute, so the list may lack some of a burst."
        [200 [Json "LoggedRequestList"]] .query(REQUESTS_QUERY);
    "GET /v1/requests/{id}" "getRequest" "Read a failed request"
        "By the service's id of the request, which is `X-Request-Id` of the response unless the client sent one. A request may be missing."
        [200 [Json "LoggedRequest"]];
    "GET /v1/request_errors" "listRequestErrors" "Group failed requests"
        "The newest 500 errors by code, field and route, the group with the newest error first."
        [200 [Json "RequestErrorGroupList"]];
    "POST /v1/requests/record" "recordRequests" "Record requests that succeed"
        "For some minutes, requests with this test key that succeed are in the list too."
        [200 [Json "RequestRecording"]] .access(Access::TestKey) .body(Body::Json(RECORDING_BODY, r#"{"minutes": 15}"#));
    tag "MED cases": "Claims of payers' banks on paid Pix charges, with appeals and evidence. Each route also exists under `/v1/infractions`.";
    "GET /v1/med/cases" "listMedCases" "List MED cases"
        "Newest first, or with `sort` or `deadline_before` the open cases by deadline. Read this list daily, because a MED event whose publication fails is not sent again."
        [200 [Json "MedCaseList"]] .query(CASES_QUERY);
    "GET /v1/med/cases/{id}" "getMedCase" "Read a MED case"
        "`status` with `money_outcome` says what became of the money."
        [200 [Json "MedCase"]];
    "GET /v1/med/cases/{id}/dossier" "getMedCaseDossier" "Download the dossier of a case"
        "A PDF in Portuguese: the case, the charge with its payment, the appeal, the evidence with the SHA-256 of each file, and the timeline with refunds and deliveries. Documents are masked."
        [200 [Media "application/pdf"]];
    "POST /v1/med/cases/{id}/appeal" "appealMedCase" "Contest an open case"
        "A case can be appealed once, while it is `open`."
        [200 [Json "MedCase"]]
        .body(Body::Json(APPEAL_BODY, r#"{"reason": "O pedido 1001 foi entregue em 20/11/2026; o comprovante está anexado."}"#))
        errors [Unprocessable];
    "POST /v1/med/cases/{id}/accept" "acceptMedCase" "Accept the loss of an open case"
        "Final: the amount stays debited."
        [200 [Json "MedCase"]];
    "GET /v1/med/cases/{id}/evidence" "listEvidence" "List the evidence of a case"
        "Confirmed files, newest first. Each `view_url` is valid for 5 minutes."
        [200 [Json "EvidenceList"]];
    "POST /v1/med/cases/{id}/evidence" "requestEvidenceUpload" "Request an upload URL"
        "Upload the file by `PUT` to `upload_url`, within 900 seconds and with exactly the headers in `upload_headers`. Do not send the API key there. Then confirm the upload."
        [201 [Json "EvidenceUpload"]]
        .body(Body::Json(EVIDENCE_BODY, r#"{"file_name": "comprovante.pdf", "file_size": 48213, "mime_type": "application/pdf"}"#))
        errors [Unprocessable];
    "POST /v1/med/cases/{id}/evidence/{evidence_id}/complete" "completeEvidenceUpload" "Confirm an upload"
        "Can be repeated: a confirmed file is returned again."
        [200 [Json "Evidence"]] errors [EvidenceNotUploaded, EvidenceSizeMismatch];
    tag "Log-in and API keys": "Dashboard tokens, and the account's API keys.";
    "POST /v1/auth/login" "logIn" "Log in"
        "Returns a dashboard token that is valid for 12 hours. In a quarter of an hour, 10 log-ins for an e-mail address may fail."
        [200 [Json "DashboardToken"]] .access(Access::Public)
        .body(Body::Json(LOG_IN_BODY, r#"{"email": "owner@loja.example", "password": "correct horse battery staple"}"#))
        errors [Unauthorized, SecondFactorRequired, RateLimited];
    "POST /v1/auth/logout" "logOut" "Log out"
        "Ends this token at once."
        [204] .access(Access::Dashboard);
    "GET /v1/api-keys" "listApiKeys" "List API keys"
        "Without cleartext. Every active user of the account may list keys."
        [200 [Json "ApiKeyList"]] .access(Access::Dashboard);
    "POST /v1/api-keys" "createApiKey" "Issue an API key"
        "`apiKey` is shown only in this response. Without `test: true` the key is a live key, which a suspended account does not get."
        [201 [Json "IssuedApiKey"]]
        .access(Access::DashboardManager) .body(Body::Json(API_KEY_BODY, r#"{"label": "checkout server", "test": true}"#))
        errors [AccountSuspended];
    "POST /v1/api-keys/{id}/rotate" "rotateApiKey" "Replace an API key"
        "The old key stops working at once. The new one keeps its mode, and its label unless a new one is sent."
        [201 [Json "IssuedApiKey"]] .access(Access::DashboardManager) .body(Body::Json(ROTATE_API_KEY_BODY, "{}"));
    "DELETE /v1/api-keys/{id}" "revokeApiKey" "Revoke an API key"
        "Permanent."
        [200 [Json "RevokedApiKey"]] .access(Access::DashboardManager);
    tag "Hosted checkout": "Public pages on which payers pay.";
    "GET /checkout/{raw_id}" "showCheckout" "Show the page on which the payer pays"
        "Its URL is the charge's `checkout_url`."
        [200 [Media "text/html"]] .access(Access::Public) .is_page(true);
    "GET /checkout/{raw_id}/qr.png" "showQrCode" "Show the QR code"
        "Its URL is the charge's `qr_code_url`."
        [200 [Media "image/png"]] .access(Access::Public);
    "GET /checkout/{raw_id}/crypto.png" "showCryptoQrCode" "Show the QR code of a crypto address"
        "For a payment by `CRYPTO`. It has the address, and for Bitcoin the amount."
        [200 [Media "image/png"]] .access(Access::Public);
    "GET /checkout/{raw_id}/boleto.pdf" "showBoleto" "Show the boleto"
        "While the boleto can be paid. Its URL is the payment's `boletoPdfUrl`. With a live key it leads to the bank's PDF."
        [200 [Media "application/pdf"], 303] .access(Access::Public);
    "GET /checkout/{raw_id}/card" "showCardAuthentication" "Show the page of a payment by card"
        "Its URL is the payment's `cardRedirectUrl`. With a test key it is the sandbox's 3-D Secure page, with a live key it leads to the acquirer's page."
        [200 [Media "text/html"], 303] .access(Access::Public) .is_page(true);
    "POST /checkout/{raw_id}/card" "decideCardAuthentication" "Decide the authentication of a test card"
        "The form of the sandbox's 3-D Secure page."
        [303] .access(Access::Public) .is_page(true) .response_headers(&["Location"]) .body(Body::Form(CARD_FORM));
    "POST /checkout/{raw_id}/simulate" "simulatePayment" "Simulate the payment of a test charge"
        "The form of a test charge's checkout page. At most 10 simulations of a charge a minute."
        [303] .access(Access::Public) .response_headers(&["Location"]) .body(Body::Form(SIMULATION_FORM))
        errors [Invalid, RateLimited];
    tag "Sandbox": "With a test key, these routes simulate the acquirer, the payer and the payer's bank.";
    "POST /v1/sandbox/charges/{id}/pay" "payTestCharge" "Pay a test charge"
        "With another `amount` the charge stays unpaid and the money goes back."
        [200 [Json "Charge"]] .access(Access::TestKey)
        .body(Body::Json(PAY_BODY, r#"{"payer_name": "Ana Souza", "payer_tax_id": "52998224725"}"#))
        errors [InvalidAmount, Unprocessable];
    "POST /v1/sandbox/charges/{id}/fail" "failTestCharge" "Decline a test charge"
        "The charge becomes `failed`."
        [200 [Json "Charge"]]
        .access(Access::TestKey) .body(Body::Json(FAIL_BODY, r#"{"reason": "Saldo insuficiente", "code": "refused"}"#))
        errors [Unprocessable];
    "POST /v1/sandbox/charges/{id}/expire" "expireTestCharge" "Expire a test charge"
        "As if its time had passed."
        [200 [Json "Charge"]] .access(Access::TestKey) errors [Unprocessable];
    "POST /v1/sandbox/charges/{id}/review" "reviewTestCharge" "Decide a payment that is held for review"
        "`approve` credits the money, `return` sends it back to the payer."
        [200 [Json "Charge"]]
        .access(Access::TestKey) .body(Body::Json(REVIEW_BODY, r#"{"decision": "approve"}"#)) errors [Unprocessable];
    "POST /v1/sandbox/charges/{id}/med-cases" "openTestMedCase" "Open a MED case"
        "The payer's bank claims a paid test charge back. A repeated `notice_id` refers to the same case."
        [201 [Json "MedCase"]] .access(Access::TestKey)
        .body(Body::Json(SANDBOX_CASE_BODY, r#"{"type": "med", "reason": "Não reconheço este pagamento", "method": "scam"}"#))
        errors [InvalidAmount, Unprocessable];
    "POST /v1/sandbox/med/cases/{id}/request-evidence" "requestTestEvidence" "Ask the merchant for evidence"
        "Sets `evidence_requested_at` and sends `med_case.updated`."
        [200 [Json "MedCase"]] .access(Access::TestKey) errors [Unprocessable];
    "POST /v1/sandbox/med/cases/{id}/resolve" "resolveTestMedCase" "Decide a MED case"
        "As the central bank's channel would."
        [200 [Json "MedCase"]]
        .access(Access::TestKey) .body(Body::Json(RESOLVE_CASE_BODY, r#"{"decision": "merchant"}"#))
        errors [Unprocessable];
    "POST /v1/sandbox/refunds/{id}/resolve" "resolveTestRefund" "End a refund"
        "For refunds with the reason `sandbox:hold`. Other refunds end after about two seconds."
        [200 [Json "Refund"]] .access(Access::TestKey) .body(Body::Json(RESOLVE_REFUND_BODY, r#"{"status": "REFUNDED"}"#))
        errors [Unprocessable];
    tag "Notifications of banks": "Routes for banks, not for merchants.";
    "POST /v1/acquirer-events/{account}/{token}" "notify" "Report payments or the test of a URL"
        "A bank calls this URL, which an operator registers there. Each reported payment is read back from the bank before it is credited."
        [200 [Json "NotificationStored"]]
        .access(Access::Bank) .body(Body::PixNotification(PIX_NOTIFICATION)) errors [Invalid];
    "POST /v1/acquirer-events/{account}/{token}/pix" "notifyPix" "Report payments"
        "Like the URL without `/pix`, which some banks add by themselves."
        [200 [Json "NotificationStored"]]
        .access(Access::Bank) .body(Body::PixNotification(PIX_NOTIFICATION)) errors [Invalid];
    "POST /v1/acquirer-events/{account}/{token}/med" "notifyMed" "Report a MED case"
        "The body is signed in `X-Signature`. While the Pix is not credited to a charge, the response is 202 and the notice is tried again."
        [200 [Json "ProcessedMedNotice"], 202 [Json "NotificationStored"]]
        .access(Access::Bank) .request_headers(&["X-Signature"])
        .body(Body::Json(NOTICE_BODY, r#"{"notice_id": "n-1001", "infraction_id": "91d65e98-97c0-4b0f-b577-73625da1f9fc", "end_to_end_id": "E1234567820261121100000000000001", "status": "OPEN", "situation": "SCAM", "amount": 1990, "reason": "Não reconheço este pagamento", "reported_at": "2026-11-21T10:00:00.000Z"}"#))
        errors [InvalidAmount, Invalid];
    tag "Description of the API": "This description and the documentation.";
    "GET /v1/openapi.json" "getDescription" "Read this description"
        "OpenAPI 3.1. Send `If-None-Match` with the last `ETag` to get a 304."
        [200 [Media "application/json"], 304] .access(Access::Public) .response_headers(CACHED) .is_static(true);
    "GET /docs" "showDocumentation" "Show the documentation"
        "The first page, with the contents of the guide and the reference."
        [200 [Media "text/html"], 304] .access(Access::Public) .response_headers(CACHED) .is_static(true);
    "GET /docs/{page}" "showDocumentationPage" "Show a page of the documentation"
        "A chapter of the guide or a group of the reference. The page `search` finds sections by the words in `q`."
        [200 [Media "text/html"], 304] .access(Access::Public) .response_headers(CACHED) .is_static(true) .is_page(true);
    "GET /docs.md" "getDocumentationAsMarkdown" "Read the documentation as Markdown"
        "The same text as all pages."
        [200 [Media "text/markdown"], 304] .access(Access::Public) .response_headers(CACHED) .is_static(true);
    "GET /llms.txt" "getIndexForLanguageModels" "Read the index for language models"
        "Links to the documentation, as llmstxt.org describes."
        [200 [Media "text/plain"], 304] .access(Access::Public) .response_headers(CACHED) .is_static(true);
}
