//! Authenticates the sender of a notification, by the account's callback settings.

use std::convert::Infallible;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::Extensions;
use axum::http::request::Parts;
use domain::ids::AccountId;
use domain::time::Timestamp;
use lambda_http::request::RequestContext as ApiGateway;
use secrecy::{ExposeSecret, SecretString};
use shared::acquirer::configuration::{CallbackAuthentication, CallbackSettings};
use shared::http::{IdPair, Problem, RequestContext};

use super::BankNotifications;

/// The authenticated sender of a notification: the bank of an account, or one that the account used before.
///
/// The settings are read for each request, so that a revoked token is refused at once. Every failure is
/// answered with the same 401, also if the account does not exist.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) bank: BankNotifications,
    /// The settings of the sender's connection.
    pub(super) callback: CallbackSettings,
    /// The time of the request.
    pub(super) now: Timestamp,
}

impl FromRequestParts<BankNotifications> for Sender {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, bank: &BankNotifications) -> Result<Self, Problem> {
        let Ok(context) = RequestContext::from_request_parts(parts, bank).await;
        let Ok(IdPair(account, token)) =
            IdPair::<AccountId, PathToken>::from_request_parts(parts, bank).await;
        let (account, token) = account.zip(token).ok_or(Problem::UnknownSender)?;
        let stored = bank.acquirers.callback_settings(&account).await?.ok_or(Problem::UnknownSender)?;
        let callback = stored.of_token(token.0.expose_secret()).ok_or(Problem::UnknownSender)?;
        let is_authentic = match callback.authentication {
            CallbackAuthentication::Mtls => {
                let expected = callback.certificate_subject.as_deref();
                expected.is_some() && certificate_subject(&parts.extensions) == expected
            }
            CallbackAuthentication::Token => {
                // With an unknown address, only settings without ranges accept the notification.
                context
                    .source
                    .ip()
                    .map_or(callback.source_addresses.is_empty(), |address| callback.accepts_source(address))
            }
        };
        if !is_authentic {
            return Err(Problem::UnknownSender);
        }
        Ok(Self { bank: bank.clone(), callback: callback.clone(), now: bank.clock.now() })
    }
}

/// The token in a path.
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
