//! What a payer is given to pay with, for each method (contract: Payments).

use artefacts::boleto::Boleto as Slip;
use serde::{Deserialize, Serialize};

use crate::money::Currency;
use crate::payment_method::PaymentMethod;
use crate::time::Timestamp;

/// What a payer needs to pay by Pix.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Pix {
    /// The BR Code: copy-and-paste text and content of the QR image.
    pub br_code: String,
    /// When it stops being payable.
    #[serde(with = "domain::time::millis")]
    pub expires_at: Timestamp,
    /// Its lifetime in seconds.
    pub ttl_seconds: i64,
}

/// The page on which a card is authenticated; its address follows from the charge's id.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Card {
    /// Where the payer comes back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub return_url: Option<String>,
    /// When it stops being payable.
    #[serde(with = "domain::time::millis")]
    pub expires_at: Timestamp,
}

/// A request on the payer's phone.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Mbway {
    /// E.164.
    pub phone: String,
    /// When it stops being payable.
    #[serde(with = "domain::time::millis")]
    pub expires_at: Timestamp,
}

/// What a payer enters at a bank.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Multibanco {
    /// Five digits.
    pub entity: String,
    /// Nine digits, the last two of which check the others.
    pub reference: String,
    /// When it stops being payable.
    #[serde(with = "domain::time::millis")]
    pub expires_at: Timestamp,
}

/// A boleto; its line and its page follow from the barcode.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Boleto {
    /// 44 digits.
    pub barcode: String,
    /// Who is paid, as its page says.
    pub beneficiary: String,
    /// When it stops being payable: the end of its due day in São Paulo.
    #[serde(with = "domain::time::millis")]
    pub expires_at: Timestamp,
}

impl Boleto {
    /// The slip that the barcode is of; `None`: the barcode is none.
    pub fn slip(&self) -> Option<Slip> {
        // Its factor names two days, thousands of days apart; it is the one near its end.
        Slip::from_barcode(&self.barcode, self.expires_at.to_chrono().date_naive()).ok()
    }
}

/// Where a payer sends a token.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Crypto {
    /// The address.
    pub address: String,
    /// An exact decimal amount of `currency`.
    pub amount: String,
    /// Such as `TRON`.
    pub network: String,
    /// Such as `USDT`.
    pub currency: Currency,
    /// When it stops being payable.
    #[serde(with = "domain::time::millis")]
    pub expires_at: Timestamp,
}

/// What the payer is given, for each method that was asked for.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Artefacts {
    /// For Pix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pix: Option<Pix>,
    /// For cards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<Card>,
    /// For MB WAY.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mbway: Option<Mbway>,
    /// For Multibanco.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multibanco: Option<Multibanco>,
    /// For boletos.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boleto: Option<Boleto>,
    /// For tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crypto: Option<Crypto>,
}

impl Artefacts {
    /// When the way to pay by a method is over; `None`: it was not asked for.
    pub fn expires_at(&self, method: PaymentMethod) -> Option<Timestamp> {
        match method {
            PaymentMethod::Pix => self.pix.as_ref().map(|pix| pix.expires_at),
            PaymentMethod::CreditCard => self.card.as_ref().map(|card| card.expires_at),
            PaymentMethod::Mbway => self.mbway.as_ref().map(|mbway| mbway.expires_at),
            PaymentMethod::Multibanco => self.multibanco.as_ref().map(|multibanco| multibanco.expires_at),
            PaymentMethod::Boleto => self.boleto.as_ref().map(|boleto| boleto.expires_at),
            PaymentMethod::Crypto => self.crypto.as_ref().map(|crypto| crypto.expires_at),
        }
    }
}
