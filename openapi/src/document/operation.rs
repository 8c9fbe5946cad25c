//! One operation of the API.

use shared::http::field::{BodyFields, Definitions};

use super::errors::{self, ErrorCode};
use crate::responses::Success;

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
    /// With an example, as JSON.
    Json(BodyFields, &'static str),
    Form(Definitions),
    /// An example, as JSON.
    PixNotification(&'static str),
}

#[derive(Clone, Copy)]
pub(crate) struct Operation {
    pub(super) route: &'static str,
    pub(super) id: &'static str,
    pub(super) tag: &'static str,
    pub(super) summary: &'static str,
    pub(super) text: &'static str,
    pub(super) access: Access,
    pub(super) query: Definitions,
    pub(super) body: Body,
    pub(crate) successes: &'static [Success],
    pub(super) request_headers: &'static [&'static str],
    pub(super) response_headers: &'static [&'static str],
    pub(super) errors: &'static [ErrorCode],
    /// Whether the response is a file of the function, so that no dependency can fail.
    pub(super) is_static: bool,
    /// Errors are HTML pages, because the caller is a person's browser.
    pub(super) is_page: bool,
}

impl Operation {
    /// An operation with an API key, without parameters, body and errors of its own.
    pub(super) const DEFAULT: Self = Self {
        route: "",
        id: "",
        tag: "",
        summary: "",
        text: "",
        access: Access::ApiKey,
        query: &[],
        body: Body::None,
        successes: &[],
        request_headers: &[],
        response_headers: &[],
        errors: &[],
        is_static: false,
        is_page: false,
    };

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
