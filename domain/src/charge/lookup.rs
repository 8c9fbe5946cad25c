//! Rows by which a charge is found by its order number, its payment link, or its customer's e-mail address or name. A
//! row's key has a keyed hash of the value: neither the table nor a stream record has a second copy of personal data.

use serde::Serialize;

use artefacts::text::folded;

use super::Charge;
use crate::base32;
use crate::ids::{ChargeId, PaymentLinkId, Scope, lookup_hash};
use crate::row::{Key, Row};

/// The longest order number by which a charge is found, in characters.
pub const MAX_ORDER_CHARS: usize = 200;

/// A value by which charges are found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LookupValue {
    /// The merchant's order number: the metadata `order_id`, else `orderId`, `order` or `pedido`.
    Order(String),
    /// `customer.email`, in lower case.
    Email(String),
    /// The payment link at which the payer made the charge.
    Link(PaymentLinkId),
    /// A word of `customer.name`, or several, without accents and in lower case.
    Name(Vec<String>),
}

impl LookupValue {
    /// Reads an order number. `None`: it is blank or longer than [`MAX_ORDER_CHARS`].
    pub fn order(text: &str) -> Option<Self> {
        let text = text.trim();
        (1..=MAX_ORDER_CHARS).contains(&text.chars().count()).then(|| Self::Order(text.to_owned()))
    }

    /// Reads an e-mail address, whose case is ignored.
    pub fn email(text: &str) -> Self {
        Self::Email(text.trim().to_lowercase())
    }

    /// Reads words of a name. `None`: it has no letter, or another sign than those of names.
    pub fn name(text: &str) -> Option<Self> {
        let is_of_name =
            |c: char| c.is_alphabetic() || c.is_whitespace() || matches!(c, '.' | '-' | '\'' | '’');
        let words = words_of(text);
        (text.chars().all(is_of_name) && !words.is_empty()).then_some(Self::Name(words))
    }

    /// Checks whether a charge is found by the value. One word must begin or end the name; several must be in it in their
    /// order.
    pub fn is_of(&self, charge: &Charge) -> bool {
        match self {
            Self::Name(typed) => {
                let name = charge.customer.name.as_deref().map(words_of).unwrap_or_default();
                let mut rest = name.iter();
                match typed.as_slice() {
                    [word] => [name.first(), name.last()].contains(&Some(word)),
                    typed => typed.iter().all(|word| rest.any(|other| other == word)),
                }
            }
            Self::Order(_) => Self::order_of(charge).as_ref() == Some(self),
            Self::Email(_) => Self::email_of(charge).as_ref() == Some(self),
            Self::Link(link) => charge.link == Some(*link),
        }
    }

    fn order_of(charge: &Charge) -> Option<Self> {
        charge.metadata.order_number().and_then(|order| Self::order(&order))
    }

    fn email_of(charge: &Charge) -> Option<Self> {
        charge.customer.email.as_deref().map(Self::email)
    }

    /// Returns the partitions of which the first with a charge has those that are found by the value: a charge has rows of
    /// the first and the last word of its name alone. A last name has fewer charges than a first one. `salt`: the account's.
    pub fn partitions(&self, scope: &Scope, salt: &[u8]) -> Vec<String> {
        match self {
            Self::Name(words) => {
                let ends = [words.last(), words.first().filter(|_| words.len() > 1)].into_iter().flatten();
                ends.map(|word| Self::Name(vec![word.clone()]).partition(scope, salt)).collect()
            }
            Self::Order(_) | Self::Email(_) | Self::Link(_) => vec![self.partition(scope, salt)],
        }
    }

    /// Returns the partition of the charges that have the value, of which a name has one word.
    pub fn partition(&self, scope: &Scope, salt: &[u8]) -> String {
        let (kind, value) = match self {
            Self::Order(order) => ("order", order.clone()),
            Self::Email(email) => ("email", email.clone()),
            Self::Link(link) => ("link", link.to_string()),
            Self::Name(words) => ("name", words.last().cloned().unwrap_or_default()),
        };
        let hash = lookup_hash(salt, &[&scope.to_string(), kind, &value]);
        format!("{PREFIX}{scope}#{}", base32::encode(hash).as_str())
    }
}

/// The words with a letter, without accents, in lower case.
fn words_of(name: &str) -> Vec<String> {
    let has_letter = |word: &&str| word.chars().any(char::is_alphabetic);
    folded(name).split_whitespace().filter(has_letter).map(str::to_owned).collect()
}

/// The first and the last word of a name; one of them if they are equal.
fn ends_of(name: &str) -> Vec<String> {
    let words = words_of(name);
    let (first, last) = (words.first(), words.last());
    first.into_iter().chain(last.filter(|last| Some(*last) != first)).cloned().collect()
}

const PREFIX: &str = "lookup#";

/// The row by which a charge is found. It never changes.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Lookup {
    #[serde(skip)]
    key: Key,
}

impl Lookup {
    /// Returns the charge that a sort key names. Its form is that of [`Charge::list_sort`].
    pub fn charge_of(sort: &str) -> Option<ChargeId> {
        sort.split_once('#').and_then(|(_, raw)| ChargeId::parse_any(raw).ok())
    }
}

impl Row for Lookup {
    fn key(&self) -> Key {
        self.key.clone()
    }
}

/// The values by which a charge is found: its order number, its payment link, and the e-mail address and two words of the
/// name of its customer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Lookups {
    pub scope: Scope,
    sort: String,
    values: Vec<LookupValue>,
}

impl Lookups {
    /// Returns the values of a charge. `None`: it has none.
    pub fn of(charge: &Charge) -> Option<Self> {
        let ends = charge.customer.name.as_deref().map(ends_of).unwrap_or_default();
        let words = ends.into_iter().map(|word| LookupValue::Name(vec![word]));
        let link = charge.link.map(LookupValue::Link);
        let values =
            [LookupValue::order_of(charge), LookupValue::email_of(charge), link].into_iter().flatten();
        let values: Vec<LookupValue> = values.chain(words).collect();
        (!values.is_empty()).then(|| Self { scope: charge.scope, sort: charge.list_sort(), values })
    }

    /// Returns the rows. `salt`: the account's.
    pub fn rows(&self, salt: &[u8]) -> impl Iterator<Item = Lookup> {
        let key = |value: &LookupValue| Key { pk: value.partition(&self.scope, salt), sk: self.sort.clone() };
        self.values.iter().map(move |value| Lookup { key: key(value) })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::charge::testing::waiting;
    use crate::charge::{Customer, Metadata};
    use crate::ids::Mode;

    fn charge(metadata: &serde_json::Value, email: Option<&str>) -> Charge {
        let customer = Customer { email: email.map(str::to_owned), ..Customer::default() };
        let metadata = Metadata::from_request(metadata.as_object().unwrap(), None);
        Charge { customer, metadata, ..waiting() }
    }

    #[test]
    fn a_charge_is_found_by_its_order_number_and_its_customers_email() {
        for (metadata, order) in [
            (json!({"order_id": "4711"}), Some("4711")),
            (json!({"order_id": 4711}), Some("4711")),
            (json!({"orderId": " 4711 "}), Some("4711")),
            (json!({"pedido": "4711"}), Some("4711")),
            (json!({"pedido": "1", "orderId": "2", "order_id": "3"}), Some("3")),
            (json!({"pedido": "1", "orderId": " ", "order_id": null}), Some("1")),
            (json!({"order": "4711", "pedido": "1"}), Some("4711")),
            (json!({"x": {"order_id": "4711"}}), None),
            (json!({"order_id": "x".repeat(201)}), None),
            (json!({}), None),
        ] {
            let charge = charge(&metadata, None);
            let found = Lookups::of(&charge).map(|lookups| lookups.values);
            assert_eq!(found, order.map(|order| vec![LookupValue::Order(order.to_owned())]), "{metadata}");
            assert_eq!(LookupValue::order("4711").unwrap().is_of(&charge), order == Some("4711"));
        }
        let by_email = charge(&json!({}), Some("Maria@Example.com"));
        assert!(LookupValue::email("MARIA@example.com").is_of(&by_email));
        assert!(!LookupValue::order("maria@example.com").unwrap().is_of(&by_email));
    }

    #[test]
    fn a_charge_is_found_by_the_first_and_last_word_of_its_customers_name() {
        let named = |name: &str| {
            let customer = Customer { name: Some(name.to_owned()), ..Customer::default() };
            Charge { customer, ..waiting() }
        };
        let charge = named("Maria José da Silva Gonçalves");
        for (typed, expected) in [
            ("maria", true),
            ("GONCALVES", true),
            ("Maria Gonçalves", true),
            ("maria da silva goncalves", true),
            ("Maria José", true),
            ("silva gonçalves", true),
            ("Gonçalves Maria", false),
            ("Silva", false),
            ("Ana Gonçalves", false),
        ] {
            assert_eq!(LookupValue::name(typed).unwrap().is_of(&charge), expected, "{typed}");
        }
        for text in ["", " - ", "maria2", "R$ 10", "#maria"] {
            assert_eq!(LookupValue::name(text), None, "{text}");
        }
        let rows = |name: &str| Lookups::of(&named(name)).map_or(0, |lookups| lookups.rows(b"salt").count());
        assert_eq!([rows("Maria José Gonçalves"), rows("Maria"), rows("Ana ANÁ"), rows("  ")], [2, 1, 1, 0]);
        let rows: Vec<String> = Lookups::of(&charge).unwrap().rows(b"salt").map(|row| row.key().pk).collect();
        let partitions = |typed| LookupValue::name(typed).unwrap().partitions(&charge.scope, b"salt");
        assert_eq!(partitions("Maria Goncalves"), [&*rows[1], &*rows[0]]);
        assert_eq!(partitions("Maria José")[1], rows[0]);
        assert_eq!(partitions("silva gonçalves")[0], rows[1]);
    }

    #[test]
    fn a_key_names_the_charge_and_has_neither_the_value_nor_an_unkeyed_hash() {
        let charge = charge(&json!({"order_id": "4711"}), Some("maria@example.com"));
        let lookups = Lookups::of(&charge).unwrap();
        let rows: Vec<Lookup> = lookups.rows(b"salt").collect();
        let keys: Vec<Key> = rows.iter().map(Row::key).collect();
        assert_eq!(keys.len(), 2);
        for key in &keys {
            assert_eq!(Lookup::charge_of(&key.sk), Some(charge.id));
            assert!(!key.pk.contains("4711") && !key.pk.contains("maria"), "{}", key.pk);
        }
        let order = LookupValue::order("4711").unwrap();
        let partition = |salt: &[u8], scope: Scope| order.partition(&scope, salt);
        assert_eq!(keys[0].pk, partition(b"salt", charge.scope));
        assert_ne!(keys[0].pk, partition(b"another", charge.scope));
        let other_mode = Scope { mode: Mode::Live, ..charge.scope };
        let hash = |partition: String| partition.rsplit('#').next().unwrap().to_owned();
        assert_ne!(
            hash(partition(b"salt", Scope { mode: Mode::Test, ..charge.scope })),
            hash(partition(b"salt", other_mode))
        );
        let same_text = LookupValue::Email("4711".to_owned()).partition(&charge.scope, b"salt");
        assert_ne!(keys[0].pk, same_text, "the kind is part of the hash");
    }
}
