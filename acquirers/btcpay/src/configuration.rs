//! The settings and credentials of a connection to a BTCPay Server, which an operator sets.

use acquirer_kit::setting::{AcquirerUrl, InvalidSetting, Secret, require};
use acquirer_kit::{
    ClientSettingsError, ConnectionOf, Connectors, Kind, KindCredentials, KindOfAcquirer, NotVerified,
    Notified, Now, Signed, setting,
};
use domain::payment_method::PaymentMethod;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::verify::verify;
use crate::{BtcpayConnector, Client, ConnectionSettings};

/// The header of the signature.
const SIGNATURE: &str = "btcpay-sig";

const MAX_STORE_CHARS: usize = 64;

setting!(
    /// The id of a store at its server: letters and digits.
    StoreId,
    check_store
);

fn check_store(text: &str) -> Result<(), InvalidSetting> {
    let is_valid =
        (1..=MAX_STORE_CHARS).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    require(is_valid, || format!("must be 1 to {MAX_STORE_CHARS} letters and digits"))
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct BtcpaySettings {
    /// The methods of new charges that go to the connection.
    pub methods: Vec<PaymentMethod>,
    pub store: StoreId,
    /// The server's id of the webhook for notifications. `None`: none is registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_endpoint: Option<String>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct BtcpayCredentials {
    pub api_key: Secret,
}

impl BtcpaySettings {
    /// Returns the settings for the client of the server's API.
    pub fn connection(
        &self,
        credentials: &BtcpayCredentials,
        (base_url, requests_per_second): (&AcquirerUrl, u32),
    ) -> ConnectionSettings {
        ConnectionSettings {
            base_url: base_url.to_string(),
            store: self.store.clone(),
            api_key: credentials.api_key.as_secret().clone(),
            requests_per_second: Some(requests_per_second),
        }
    }
}

impl KindOfAcquirer for BtcpaySettings {
    fn client(&self) -> &str {
        self.store.as_str()
    }

    fn receiver(&self) -> String {
        self.store.to_string()
    }

    fn methods(&self) -> &[PaymentMethod] {
        &self.methods
    }

    fn check(&self, _base_url: &AcquirerUrl) -> Result<(), InvalidSetting> {
        require(self.methods == [PaymentMethod::Crypto], || {
            "`methods` must be CRYPTO, which is all that is taken there".to_owned()
        })
    }

    fn of_client(&self) -> Value {
        json!(self.store)
    }

    fn view(&self) -> Value {
        json!({"store": self.store, "webhook_endpoint": self.webhook_endpoint})
    }

    fn webhook_endpoint(&mut self) -> Option<&mut Option<String>> {
        Some(&mut self.webhook_endpoint)
    }

    fn verify(&self, signed: &Signed<'_>) -> Result<Notified, NotVerified> {
        let header = (signed.header)(SIGNATURE).unwrap_or_default();
        let event = verify(header, signed.body, signed.secrets)
            .map_err(|error| NotVerified::Refused(error.to_string()))?;
        Ok(Notified {
            id: event.id,
            is_foreign: event.store != self.store.as_str(),
            charge: event.charge,
            ..Notified::default()
        })
    }
}

impl Kind for BtcpaySettings {
    type Credentials = BtcpayCredentials;
    type Client = Client;

    fn knowing(self, before: Option<&Self>, is_same_url: bool) -> Self {
        let same = before.filter(|before| is_same_url && before.store == self.store);
        Self { webhook_endpoint: same.and_then(|before| before.webhook_endpoint.clone()), ..self }
    }

    fn open(
        &self,
        credentials: &BtcpayCredentials,
        at: (&AcquirerUrl, u32),
        now: Now,
    ) -> Result<Client, ClientSettingsError> {
        Client::new(&self.connection(credentials, at), now)
    }

    fn connectors(&self, client: Client, _of: ConnectionOf<'_>) -> Connectors {
        Connectors::one(BtcpayConnector::new(client))
    }
}

impl KindCredentials for BtcpayCredentials {
    fn view(&self) -> Value {
        json!({"api_key_fingerprint": self.api_key.fingerprint()})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_credentials_are_checked_and_shown_without_the_key() {
        let url: AcquirerUrl = "https://btcpay.example.com".parse().unwrap();
        let stored = json!({"methods": ["crypto"], "store": "9CiNzKoANXxmk5ayZngSXrHTiVvvgCrwrpFQd4m2K776"});
        let settings: BtcpaySettings = serde_json::from_value(stored.clone()).unwrap();
        settings.check(&url).unwrap();
        assert_eq!(serde_json::to_value(&settings).unwrap(), stored);
        let other = BtcpaySettings { methods: vec![PaymentMethod::Pix], ..settings.clone() };
        assert!(other.check(&url).is_err());
        for store in ["", "a/b", "é", &"a".repeat(65)] {
            assert!(store.parse::<StoreId>().is_err(), "{store}");
        }
        let credentials: BtcpayCredentials = serde_json::from_value(json!({"api_key": "0123abcd"})).unwrap();
        let shown = [credentials.view().to_string(), format!("{credentials:?}")].concat();
        assert!(!shown.contains("0123abcd"), "{shown}");
        let connection = settings.connection(&credentials, (&url, 5));
        assert!(!format!("{connection:?}").contains("0123abcd"));
        assert_eq!(connection.requests_per_second, Some(5));
    }
}
