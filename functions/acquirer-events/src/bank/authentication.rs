use std::convert::Infallible;
use std::fmt::Display;
use std::str::FromStr;

use acquirer_core::configuration::{AccountAcquirer, CallbackAuthentication};
use axum::extract::FromRequestParts;
use axum::http::Extensions;
use axum::http::request::Parts;
use domain::ids::AccountId;
use domain::time::Timestamp;
use lambda_http::request::RequestContext as ApiGateway;
use secrecy::{ExposeSecret, SecretString};
use shared::http::{IdPair, Problem, RequestContext, Result};
use shared::metrics;

use super::BankNotifications;

/// The authenticated sender of a notification: the bank of an account, or one that the account used before.
///
/// The settings are read for each request, so that a revoked token is refused at once. Every failure is
/// answered with the same 401, also if the account does not exist.
#[derive(Debug)]
pub(super) struct NotificationSender {
    pub(super) bank: BankNotifications,
    pub(super) acquirer: AccountAcquirer,
    pub(super) now: Timestamp,
}

impl FromRequestParts<BankNotifications> for NotificationSender {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, bank: &BankNotifications) -> Result<Self> {
        let Ok(context) = RequestContext::from_request_parts(parts, bank).await;
        let Ok(IdPair(account, token)) =
            IdPair::<AccountId, PathToken>::from_request_parts(parts, bank).await;
        let (account, token) = account.zip(token).ok_or(Problem::UnknownSender)?;
        let found = bank.acquirers.of_token(&account, token.0.expose_secret()).await?;
        let acquirer = found.ok_or(Problem::UnknownSender)?;
        let choice = &acquirer.callback.choice;
        let is_authentic = match choice.authentication {
            CallbackAuthentication::Mtls => {
                let expected = choice.certificate_subject.as_deref();
                expected.is_some() && certificate_subject(&parts.extensions) == expected
            }
            CallbackAuthentication::Token => {
                // With an unknown address, only settings without ranges accept the notification.
                context.source.ip().map_or(choice.source_addresses.is_empty(), |address| {
                    acquirer.callback.accepts_source(address)
                })
            }
        };
        if !is_authentic {
            return Err(refused(&acquirer, "it has another certificate or address than the bank's"));
        }
        Ok(Self { bank: bank.clone(), acquirer, now: bank.clock.now() })
    }
}

/// Reports a notification that presents a valid token. Only the acquirer knows the token, so its certificate, secret,
/// address or clock has changed, and an operator must act.
pub(super) fn refused(acquirer: &AccountAcquirer, why: impl Display) -> Problem {
    tracing::warn!(account = %acquirer.account, connection = %acquirer.connection, %why, "a notification is refused");
    metrics::increment(metrics::NOTIFICATIONS_REFUSED);
    Problem::UnknownSender
}

#[derive(Debug)]
struct PathToken(SecretString);

impl FromStr for PathToken {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.into()))
    }
}

/// Returns the subject of the client certificate that API Gateway verified. `None`: the client sent none.
fn certificate_subject(extensions: &Extensions) -> Option<&str> {
    match extensions.get() {
        Some(ApiGateway::ApiGatewayV2(context)) => {
            context.authentication.as_ref()?.client_cert.as_ref()?.subject_dn.as_deref()
        }
        _ => None,
    }
}
