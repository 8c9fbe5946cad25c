//! Payment links: addresses at which payers make charges of a merchant, each by a form of its own.
//!
//! A link with a maximum number of payments has a place for each. A charge takes a place when it is made, and gives it back
//! when it ends unpaid. A payment after that is returned, as one of any ended charge. So no more payments are credited than
//! there are places.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::charge::{Charge, Metadata};
use crate::ids::{ChargeId, PaymentLinkId, Scope, Scoped};
use crate::money::{Amount, Currency};
use crate::payment_method::PaymentMethod;
use crate::row::{Indexes, Key, Row, sortable};
use crate::time::Timestamp;

/// How long a charge can be paid that has a place, in seconds: 15 minutes.
pub const PLACE_SECONDS: i64 = 15 * 60;

/// The most open charges with a place that one address has.
pub const MAX_OPEN_OF_ADDRESS: usize = 2;

/// The most payments that a link can be limited to. Its open charges are in one row, which must stay small.
pub const MAX_PAYMENTS: u32 = 10_000;

/// The most open charges of a link with places.
const MAX_OPEN: usize = 500;

/// What the payer pays.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkAmount {
    Fixed(Amount),
    /// The payer types it.
    Between {
        min: Amount,
        max: Amount,
    },
}

impl LinkAmount {
    pub fn fixed(self) -> Option<Amount> {
        if let Self::Fixed(amount) = self { Some(amount) } else { None }
    }

    /// The smallest and the largest amount of a payment.
    pub fn range(self) -> (Amount, Amount) {
        match self {
            Self::Fixed(amount) => (amount, amount),
            Self::Between { min, max } => (min, max),
        }
    }

    /// The smallest and the largest amount that the payer may type.
    pub fn bounds(self) -> Option<(Amount, Amount)> {
        if let Self::Between { min, max } = self { Some((min, max)) } else { None }
    }
}

/// What a shop asks of each payer.
#[derive(
    Clone,
    Copy,
    Debug,
    Deserialize,
    Eq,
    IntoStaticStr,
    JsonSchema,
    Ord,
    PartialEq,
    PartialOrd,
    Serialize,
    VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[schemars(rename = "AskedField")]
#[doc = "What a payment link asks of the payer."]
pub enum AskedField {
    /// The name.
    Name,
    /// The e-mail address.
    Email,
    /// The CPF or CNPJ, or the tax id of another country.
    Document,
    /// The phone number.
    Phone,
    /// The postal address.
    Address,
}

crate::named!(AskedField);

/// A payment link as stored in its row. [`Places`] and [`LinkTotals`] are rows of their own.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PaymentLink {
    pub id: PaymentLinkId,
    pub scope: Scope,
    pub active: bool,
    pub amount: LinkAmount,
    pub currency: Currency,
    /// At least one.
    pub methods: Vec<PaymentMethod>,
    pub description: Option<String>,
    /// In the order of [`AskedField`], each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<AskedField>,
    pub success_url: Option<String>,
    pub max_payments: Option<u32>,
    #[serde(default, with = "domain::time::millis_option")]
    pub expires_at: Option<Timestamp>,
    /// Copied to each charge.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
    pub request_hash: String,
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    #[serde(with = "domain::time::millis")]
    pub updated_at: Timestamp,
    pub version: u64,
}

impl PaymentLink {
    pub fn key_of(id: PaymentLinkId) -> Key {
        Key { pk: Self::partition(id), sk: "link".to_owned() }
    }

    /// The partition of the link's rows.
    pub fn partition(id: PaymentLinkId) -> String {
        format!("payment-link#{id}")
    }

    pub fn list_partition(scope: &Scope) -> String {
        format!("payment-links#{scope}")
    }

    /// The sort key in the list: the time of creation, then the id.
    pub fn list_sort(&self) -> String {
        format!("{}#{}", sortable(self.created_at), self.id)
    }

    /// Whether a payer can make a charge, if there is a place.
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.active && self.expires_at.is_none_or(|end| now < end)
    }

    /// What the form of the payer has, in the order of [`AskedField`]: what the shop asks, and what the methods need.
    pub fn fields(&self) -> Vec<AskedField> {
        let needed = self.methods.iter().flat_map(|method| needed_by(*method)).copied();
        let mut fields: Vec<AskedField> = self.ask.iter().copied().chain(needed).collect();
        fields.sort_unstable();
        fields.dedup();
        fields
    }
}

/// What an acquirer needs of the payer of a charge by this method.
fn needed_by(method: PaymentMethod) -> &'static [AskedField] {
    match method {
        PaymentMethod::Boleto => {
            &[AskedField::Name, AskedField::Email, AskedField::Document, AskedField::Address]
        }
        PaymentMethod::Mbway => &[AskedField::Phone],
        PaymentMethod::Multibanco => &[AskedField::Email],
        PaymentMethod::Pix | PaymentMethod::CreditCard | PaymentMethod::Crypto => &[],
    }
}

/// Whether a charge by this method ends so soon that it may hold a place. A boleto can be paid for days.
pub fn may_hold_place(method: PaymentMethod) -> bool {
    match method {
        PaymentMethod::Pix | PaymentMethod::CreditCard | PaymentMethod::Mbway => true,
        PaymentMethod::Boleto | PaymentMethod::Multibanco | PaymentMethod::Crypto => false,
    }
}

impl Scoped for PaymentLink {
    fn scope(&self) -> Scope {
        self.scope
    }
}

impl Row for PaymentLink {
    fn key(&self) -> Key {
        Self::key_of(self.id)
    }

    fn indexes(&self) -> Indexes {
        Indexes { list: Some((Self::list_partition(&self.scope), self.list_sort())), ..Indexes::default() }
    }
}

/// The places of a link with a maximum of payments.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Places {
    pub link: PaymentLinkId,
    /// How many are paid.
    pub paid: u32,
    pub taken: Vec<Place>,
    /// 0 before the first write.
    pub version: u64,
}

#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Place {
    #[serde(rename = "c")]
    pub charge: ChargeId,
    /// A hash of the payer's network address, if it is known.
    #[serde(rename = "a")]
    pub address: Option<String>,
}

/// Why there is no place for a charge.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NoPlace {
    #[error("all payments of the link have been made")]
    Full,
    /// Until one of the open charges ends.
    #[error("all places of the link are taken by open charges")]
    Taken,
    #[error("this address has two open charges of the link")]
    Address,
}

impl Places {
    pub fn key_of(link: PaymentLinkId) -> Key {
        Key { pk: PaymentLink::partition(link), sk: "places".to_owned() }
    }

    pub fn empty(link: PaymentLinkId) -> Self {
        Self { link, paid: 0, taken: Vec::new(), version: 0 }
    }

    /// How many are paid or taken.
    pub fn used(&self) -> u32 {
        self.paid.saturating_add(u32::try_from(self.taken.len()).unwrap_or(u32::MAX))
    }

    /// Whether a place is left for an address. `None`: for any.
    pub fn check(&self, max: u32, address: Option<&str>) -> Result<(), NoPlace> {
        let left = usize::try_from(max.saturating_sub(self.paid)).unwrap_or(usize::MAX);
        let of_address = |place: &&Place| address.is_some() && place.address.as_deref() == address;
        if left == 0 {
            Err(NoPlace::Full)
        } else if self.taken.len() >= left.min(MAX_OPEN) {
            Err(NoPlace::Taken)
        } else if self.taken.iter().filter(of_address).count() >= MAX_OPEN_OF_ADDRESS {
            Err(NoPlace::Address)
        } else {
            Ok(())
        }
    }

    #[must_use]
    pub fn with(&self, charge: ChargeId, address: Option<String>) -> Self {
        let mut next = self.clone();
        next.taken.push(Place { charge, address });
        next.version = next.version.saturating_add(1);
        next
    }

    /// The places as the charges are now: one that is paid is counted, and one that ended unpaid is free. A charge that
    /// is not among these keeps its place.
    #[must_use]
    pub fn updated(&self, charges: &[Charge]) -> Self {
        let mut next = self.clone();
        next.taken.retain(|place| {
            let Some(charge) = charges.iter().find(|charge| charge.id == place.charge) else { return true };
            let is_paid = charge.settlement.is_some();
            next.paid = next.paid.saturating_add(u32::from(is_paid));
            !is_paid && (charge.is_open() || charge.is_held_for_review())
        });
        next
    }
}

impl Row for Places {
    fn key(&self) -> Key {
        Self::key_of(self.link)
    }
}

/// What was paid by a link, in a row of its own: each payment adds to it.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
pub struct LinkTotals {
    #[serde(default)]
    pub payments: u64,
    /// Without refunds subtracted, in the currency of the link.
    #[serde(default)]
    pub amount_paid: i64,
}

impl LinkTotals {
    pub const PAYMENTS: &'static str = "payments";
    pub const AMOUNT_PAID: &'static str = "amount_paid";

    pub fn key_of(link: PaymentLinkId) -> Key {
        Key { pk: PaymentLink::partition(link), sk: "totals".to_owned() }
    }
}

/// A paid charge of a link. Its row is inserted with the change of the totals, so that the charge counts once.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct LinkPayment {
    pub link: PaymentLinkId,
    pub charge: ChargeId,
    pub amount: Amount,
}

impl LinkPayment {
    /// The payment that a change of a charge made. `None`: the charge is of no link, or the change is another.
    pub fn of(old: Option<&Charge>, new: &Charge) -> Option<Self> {
        let link = new.link.filter(|_| new.is_settled_since(old))?;
        Some(Self { link, charge: new.id, amount: new.amount })
    }
}

impl Row for LinkPayment {
    fn key(&self) -> Key {
        Key { pk: PaymentLink::partition(self.link), sk: format!("paid#{}", self.charge.raw()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::TransactionStatus;
    use crate::charge::testing::{paid, waiting};
    use crate::ids::Mode;

    fn id(name: &str) -> ChargeId {
        ChargeId::derive(b"salt", Mode::Test, "links", name)
    }

    #[test]
    fn places_are_taken_given_back_and_paid() {
        let link = PaymentLinkId::derive(b"salt", Mode::Test, "link");
        let mut places = Places::empty(link);
        for name in ["1", "2"] {
            assert_eq!(places.check(3, Some("a")), Ok(()));
            places = places.with(id(name), Some("a".to_owned()));
        }
        assert_eq!(places.check(3, Some("a")), Err(NoPlace::Address));
        assert_eq!((places.check(3, Some("b")), places.check(3, None)), (Ok(()), Ok(())));
        places = places.with(id("3"), None);
        assert_eq!(places.check(3, Some("b")), Err(NoPlace::Taken));
        let ended = Charge { id: id("1"), status: TransactionStatus::Expired, ..waiting() };
        let open = Charge { id: id("2"), ..waiting() };
        let paid = Charge { id: id("3"), ..paid() };
        let places = places.updated(&[ended, open, paid]);
        assert_eq!((places.paid, places.taken.len(), places.version), (1, 1, 3));
        assert_eq!(places.check(3, Some("a")), Ok(()));
        assert_eq!((places.check(2, None), places.check(1, None)), (Err(NoPlace::Taken), Err(NoPlace::Full)));
    }
}
