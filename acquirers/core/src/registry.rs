//! The kinds of acquirers. A further kind is one line here, and its own command for operators.

use std::fmt::Display;

use acquirer_kit::setting::AcquirerUrl;
use acquirer_kit::{ConnectionOf, Connectors, Kind, KindCredentials, KindOfAcquirer, Now};
use api_pix::PixSettings;
use btcpay_client::BtcpaySettings;
use serde::{Deserialize, Serialize};
use stripe_client::StripeSettings;
use strum::IntoStaticStr;

use crate::AcquirerError;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $settings:ty;)+) => {
        /// The settings that only acquirers of one kind have.
        #[derive(Clone, Debug, Deserialize, IntoStaticStr, PartialEq, Serialize)]
        #[serde(rename_all = "snake_case", tag = "kind")]
        #[strum(serialize_all = "snake_case")]
        pub enum KindSettings {
            $($(#[$doc])* $kind($settings),)+
        }

        /// What only the functions that call an acquirer may read. It is of the settings' kind.
        #[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
        #[serde(rename_all = "snake_case", tag = "kind")]
        pub enum Credentials {
            $($kind(<$settings as Kind>::Credentials),)+
        }

        #[derive(Clone, Debug)]
        pub(crate) enum OpenClient {
            $($kind(<$settings as Kind>::Client),)+
        }

        impl KindSettings {
            pub(crate) fn of_kind(&self) -> &dyn KindOfAcquirer {
                match self {
                    $(Self::$kind(settings) => settings,)+
                }
            }

            pub(crate) fn of_kind_mut(&mut self) -> &mut dyn KindOfAcquirer {
                match self {
                    $(Self::$kind(settings) => settings,)+
                }
            }

            pub(crate) fn knowing(self, before: Option<&Self>, is_same_url: bool) -> Self {
                match (self, before) {
                    $(
                        (Self::$kind(settings), Some(Self::$kind(before))) => {
                            Self::$kind(settings.knowing(Some(before), is_same_url))
                        }
                        (Self::$kind(settings), _) => Self::$kind(settings.knowing(None, false)),
                    )+
                }
            }

            pub(crate) fn open(
                &self,
                credentials: &Credentials,
                at: (&AcquirerUrl, u32),
                now: Now,
            ) -> Result<OpenClient, AcquirerError> {
                match (self, credentials) {
                    $(
                        (Self::$kind(settings), Credentials::$kind(credentials)) => {
                            settings.open(credentials, at, now).map(OpenClient::$kind).map_err(unusable)
                        }
                    )+
                    _ => Err(unusable("the credentials are of another kind than the settings")),
                }
            }

            pub(crate) fn connectors(
                &self,
                client: OpenClient,
                of: ConnectionOf<'_>,
            ) -> Result<Connectors, AcquirerError> {
                match (self, client) {
                    $((Self::$kind(settings), OpenClient::$kind(client)) => Ok(settings.connectors(client, of)),)+
                    _ => Err(unusable("the client is of another kind than the settings")),
                }
            }
        }

        impl Credentials {
            pub(crate) fn of_kind(&self) -> &dyn KindCredentials {
                match self {
                    $(Self::$kind(credentials) => credentials,)+
                }
            }
        }
    };
}

kinds! {
    /// A bank that offers the API Pix of Brazil's Central Bank.
    Pix = PixSettings;
    /// Stripe, which takes payments on a page of its own.
    Stripe = StripeSettings;
    /// A BTCPay Server, by which payers pay to the merchant's own wallet.
    Btcpay = BtcpaySettings;
}

fn unusable(why: impl Display) -> AcquirerError {
    AcquirerError::unavailable(&why.to_string())
}
