//! One operation of the API.

use shared::http::field::Definitions;

use super::errors::{self, ErrorCode};
use crate::responses::Success;

/// Lists the tags: variant, name and description.
macro_rules! tags {
    ($($tag:ident $name:literal $text:literal;)*) => {
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub(super) enum Tag {
            $($tag),*
        }

        impl Tag {
            /// All tags with their names and descriptions.
            pub(super) const ALL: &[(Self, &str, &str)] = &[$((Self::$tag, $name, $text)),*];
        }
    };
}

tags! {
    Charges "Charges" "Pix charges with public statuses.";
    Payments "Payments" "The same objects in the transaction format, by six methods.";
    Refunds "Refunds" "Refunds of settled payments, whole or in parts.";
    Wallets "Wallets" "Balances and the statement of the account.";
    WebhookEndpoints "Webhook endpoints" "URLs that receive signed events.";
    Deliveries "Deliveries" "Attempts to deliver events to endpoints.";
    Events "Events" "The events themselves, to catch up after an outage.";
    MedCases "MED cases" "Claims of payers' banks on paid Pix charges, with appeals and evidence. Each route also exists under `/v1/infractions`.";
    ApiKeys "Log-in and API keys" "Dashboard tokens, and the account's API keys.";
    Checkout "Hosted checkout" "Public pages on which payers pay.";
    Sandbox "Sandbox" "With a test key, these routes simulate the acquirer, the payer and the payer's bank.";
    BankNotifications "Notifications of banks" "Routes for banks, not for merchants.";
    Description "Description of the API" "This description and the documentation.";
}

impl Tag {
    pub(super) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(tag, ..)| *tag == self).map_or("", |(_, name, _)| name)
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Access {
    ApiKey,
    TestKey,
    Dashboard,
    /// Like `Dashboard`; the user must be an OWNER or ADMIN.
    DashboardManager,
    Public,
    Bank,
}

impl Access {
    pub(super) fn has_caller(self) -> bool {
        !matches!(self, Self::Public | Self::Bank)
    }
}

#[derive(Clone, Copy)]
pub(super) enum Body {
    None,
    Json(Definitions),
    Form(Definitions),
    PixNotification,
}

#[derive(Clone, Copy)]
pub(crate) struct Operation {
    pub(super) route: &'static str,
    pub(super) id: &'static str,
    pub(super) tag: Tag,
    pub(super) summary: &'static str,
    pub(super) text: &'static str,
    pub(super) access: Access,
    pub(super) query: Definitions,
    pub(super) body: Body,
    pub(super) example: Option<&'static str>,
    pub(crate) successes: &'static [Success],
    pub(super) request_headers: &'static [&'static str],
    pub(super) response_headers: &'static [&'static str],
    errors: &'static [ErrorCode],
    /// Whether the response is a file of the function, so that no dependency can fail.
    is_static: bool,
    pub(super) is_page: bool,
}

pub(super) const fn api(
    route: &'static str,
    id: &'static str,
    tag: Tag,
    summary: &'static str,
    text: &'static str,
) -> Operation {
    Operation {
        route,
        id,
        tag,
        summary,
        text,
        access: Access::ApiKey,
        query: &[],
        body: Body::None,
        example: None,
        successes: &[],
        request_headers: &[],
        response_headers: &[],
        errors: &[],
        is_static: false,
        is_page: false,
    }
}

impl Operation {
    pub(super) const fn access(self, access: Access) -> Self {
        Self { access, ..self }
    }

    pub(super) const fn successes(self, successes: &'static [Success]) -> Self {
        Self { successes, ..self }
    }

    pub(super) const fn query(self, query: Definitions) -> Self {
        Self { query, ..self }
    }

    pub(super) const fn json(self, fields: Definitions, example: &'static str) -> Self {
        Self { body: Body::Json(fields), example: Some(example), ..self }
    }

    pub(super) const fn form(self, fields: Definitions) -> Self {
        Self { body: Body::Form(fields), ..self }
    }

    pub(super) const fn pix_notification(self, example: &'static str) -> Self {
        Self { body: Body::PixNotification, example: Some(example), ..self }
    }

    pub(super) const fn request_headers(self, request_headers: &'static [&'static str]) -> Self {
        Self { request_headers, ..self }
    }

    pub(super) const fn response_headers(self, response_headers: &'static [&'static str]) -> Self {
        Self { response_headers, ..self }
    }

    pub(super) const fn errors(self, errors: &'static [ErrorCode]) -> Self {
        Self { errors, ..self }
    }

    /// Errors are HTML pages, because the caller is a person's browser.
    pub(super) const fn page(self) -> Self {
        Self { is_page: true, ..self }
    }

    pub(super) const fn is_static(self) -> Self {
        Self { is_static: true, ..self }
    }

    pub(super) fn method(&self) -> &'static str {
        self.route.split_once(' ').map_or("", |(method, _)| method)
    }

    pub(super) fn path(&self) -> &'static str {
        self.route.split_once(' ').map_or("", |(_, path)| path)
    }

    pub(super) fn variables(&self) -> Vec<&'static str> {
        let parts = self.path().split('/');
        parts.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect()
    }

    pub(super) fn all_errors(&self) -> Vec<ErrorCode> {
        let mut all = self.errors.to_vec();
        match self.access {
            Access::ApiKey => {
                all.extend([errors::UNAUTHORIZED, errors::ACCOUNT_SUSPENDED, errors::RATE_LIMITED]);
            }
            Access::Dashboard => {
                all.extend([errors::UNAUTHORIZED, errors::TOTP_ENROLMENT, errors::RATE_LIMITED]);
            }
            Access::TestKey => {
                let of_key = [errors::ACCOUNT_SUSPENDED, errors::LIVE_KEY];
                all.extend(of_key.into_iter().chain([errors::UNAUTHORIZED, errors::RATE_LIMITED]));
            }
            Access::DashboardManager => {
                all.extend([errors::UNAUTHORIZED, errors::TOTP_ENROLMENT, errors::ROLE_REQUIRED]);
                all.push(errors::RATE_LIMITED);
            }
            Access::Bank => all.push(errors::UNAUTHORIZED),
            Access::Public => {}
        }
        // Every route under /v1 refuses unknown query parameters, except those of banks.
        if self.path().starts_with("/v1/") && self.access != Access::Bank {
            all.push(errors::INVALID_REQUEST);
        }
        if !self.variables().is_empty() && self.access != Access::Bank {
            all.push(errors::NOT_FOUND);
        }
        if !self.is_static {
            all.extend([errors::INTERNAL, errors::UNAVAILABLE]);
        }
        all.sort();
        all.dedup();
        all
    }
}
