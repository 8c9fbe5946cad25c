//! The data of a payer that some methods need and that merchants send in the metadata.

use std::fmt;

use serde_json::Value;

use super::{Customer, Metadata};

/// The lengths that Brazilian acquirers take, in characters.
const MAX_LINE_CHARS: usize = 200;
const MAX_CITY_CHARS: usize = 100;

/// The digits of a postal code (CEP), and those of a phone number with its country (E.164).
const POSTAL_CODE_DIGITS: usize = 8;
const PHONE_DIGITS: std::ops::RangeInclusive<usize> = 8..=15;

/// A field of the metadata that is missing or breaks its rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`metadata.{field}` {rule}")]
pub struct PayerDataError {
    /// The path below `metadata`, such as `payerAddress.state`.
    pub field: &'static str,
    pub rule: &'static str,
}

/// The payer's address in Brazil, `metadata.payerAddress`, which a boleto names.
#[derive(Clone, Eq, PartialEq)]
pub struct PayerAddress {
    pub line1: String,
    pub city: String,
    /// Two capital letters, such as `SP`.
    pub state: String,
    /// Eight digits.
    pub postal_code: String,
}

impl fmt::Debug for PayerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PayerAddress(***)")
    }
}

impl PayerAddress {
    /// Of the metadata.
    pub const KEY: &str = "payerAddress";

    pub fn of(metadata: &Metadata) -> Result<Self, PayerDataError> {
        let map = metadata.to_map();
        let address = map.get(Self::KEY).and_then(Value::as_object).ok_or(PayerDataError {
            field: Self::KEY,
            rule: "must be an object with `line1`, `city`, `state` and `postal_code`: a boleto names the payer's address",
        })?;
        let text = |name: &str| address.get(name).and_then(Value::as_str).unwrap_or_default().trim();
        let within = |text: &str, most: usize| {
            (1..=most).contains(&text.chars().count()) && !text.chars().any(char::is_control)
        };
        let check = |is_valid: bool, field, rule| {
            if is_valid { Ok(()) } else { Err(PayerDataError { field, rule }) }
        };
        let (line1, city, state) = (text("line1"), text("city"), text("state"));
        let postal_code = text("postal_code").replacen('-', "", 1);
        check(
            within(line1, MAX_LINE_CHARS),
            "payerAddress.line1",
            "must be street and number, 1 to 200 characters",
        )?;
        check(within(city, MAX_CITY_CHARS), "payerAddress.city", "must be 1 to 100 characters")?;
        check(
            state.len() == 2 && state.bytes().all(|byte| byte.is_ascii_alphabetic()),
            "payerAddress.state",
            "must be two letters, such as SP",
        )?;
        check(
            postal_code.len() == POSTAL_CODE_DIGITS && postal_code.bytes().all(|byte| byte.is_ascii_digit()),
            "payerAddress.postal_code",
            "must be eight digits, such as 01310-100",
        )?;
        let state = state.to_ascii_uppercase();
        Ok(Self { line1: line1.to_owned(), city: city.to_owned(), state, postal_code })
    }
}

/// Checks for `+` and 8 to 15 digits, the first of which is not zero.
pub fn is_e164(phone: &str) -> bool {
    let digits = phone.strip_prefix('+').unwrap_or_default();
    PHONE_DIGITS.contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && !digits.starts_with('0')
}

/// Returns the phone in E.164 that an MB WAY payment is requested at: `metadata.phone`, else that of the customer.
pub fn mbway_phone(metadata: &Metadata, customer: &Customer) -> Result<String, PayerDataError> {
    let typed = metadata.text("phone").or_else(|| customer.phone.clone()).unwrap_or_default();
    let phone: String = typed.chars().filter(|sign| !" -.()".contains(*sign)).collect();
    let rule = "must be the payer's phone with the country, such as +351912345678: MB WAY asks there";
    if is_e164(&phone) { Ok(phone) } else { Err(PayerDataError { field: "phone", rule }) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metadata(sent: &Value) -> Metadata {
        Metadata::from_request(sent.as_object().unwrap(), None)
    }

    #[test]
    fn an_address_is_read_with_its_state_and_postal_code_in_one_form() {
        let sent = json!({"line1": " Av. Paulista, 1 ", "city": "São Paulo", "state": "sp", "postal_code": "01310-100"});
        let address = PayerAddress::of(&metadata(&json!({"payerAddress": sent}))).unwrap();
        assert_eq!((&*address.line1, &*address.city), ("Av. Paulista, 1", "São Paulo"));
        assert_eq!((&*address.state, &*address.postal_code), ("SP", "01310100"));
        assert!(!format!("{address:?}").contains("Paulista"));
        for (field, value) in [
            ("line1", json!("")),
            ("line1", json!("x".repeat(201))),
            ("line1", json!("a\nb")),
            ("city", json!(null)),
            ("city", json!("x".repeat(101))),
            ("state", json!("SPA")),
            ("state", json!("S1")),
            ("postal_code", json!(1_310_100)),
            ("postal_code", json!("0131-0100-")),
            ("postal_code", json!("0131010")),
        ] {
            let mut wrong = sent.clone();
            wrong[field] = value;
            let error = PayerAddress::of(&metadata(&json!({"payerAddress": wrong}))).unwrap_err();
            assert_eq!(error.field.strip_prefix("payerAddress."), Some(field));
        }
        for missing in [json!({}), json!({"payerAddress": "Av. Paulista"})] {
            assert_eq!(PayerAddress::of(&metadata(&missing)).unwrap_err().field, "payerAddress");
        }
    }

    #[test]
    fn the_phone_of_the_metadata_comes_before_the_customers() {
        let customer = Customer { phone: Some("+351 912 345 678".to_owned()), ..Customer::default() };
        let phone = |sent: &Value| mbway_phone(&metadata(sent), &customer);
        assert_eq!(phone(&json!({})).unwrap(), "+351912345678");
        assert_eq!(phone(&json!({"phone": "+1 (415) 555-0100"})).unwrap(), "+14155550100");
        for wrong in ["912345678", "+0351912345678", "+1234567", "+1234567890123456", "+351abc345678", ""] {
            assert_eq!(phone(&json!({"phone": wrong})).unwrap_err().field, "phone", "{wrong}");
        }
        assert!(mbway_phone(&Metadata::default(), &Customer::default()).is_err());
    }
}
