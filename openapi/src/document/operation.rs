//! One operation of the API.

use shared::http::field::{BodyFields, Definitions};
use shared::http::{ErrorCode, ProblemKind};

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
        use ProblemKind::{
            AccountSuspended, ApiKeyRoleRequired, Internal, Invalid, LiveKeyNotAllowed, NotFound,
            RateLimited, SecondFactorDemanded, Unauthorized, Unavailable,
        };
        let of_access: &[ProblemKind] = match self.access {
            Access::ApiKey => &[Unauthorized, AccountSuspended, RateLimited],
            Access::Dashboard => &[Unauthorized, SecondFactorDemanded, RateLimited],
            Access::TestKey => &[Unauthorized, AccountSuspended, LiveKeyNotAllowed, RateLimited],
            Access::DashboardManager => {
                &[Unauthorized, SecondFactorDemanded, ApiKeyRoleRequired, RateLimited]
            }
            Access::Bank => &[Unauthorized],
            Access::Public => &[],
        };
        // Every route under /v1 refuses unknown query parameters, except those of banks.
        let refuses_parameters = self.path().starts_with("/v1/") && self.access != Access::Bank;
        let has_object = !self.variables().is_empty() && self.access != Access::Bank;
        let common = [
            (refuses_parameters, Invalid),
            (has_object, NotFound),
            (!self.is_static, Internal),
            (!self.is_static, Unavailable),
        ];
        let common = common.iter().filter(|(applies, _)| *applies).map(|(_, error)| error);
        let mut all = self.errors.to_vec();
        all.extend(of_access.iter().chain(common).map(|error| error.error_code()));
        all.sort();
        all.dedup();
        all
    }
}
