//! Masks CPFs and CNPJs in texts that people read, in e-mails and in logs.

use serde_json::Value;

use crate::tax_id::{self, TaxId};
use crate::text::is_forbidden_in_line;

/// The most characters between two characters of a document, such as ` - `.
const MOST_BETWEEN: usize = 3;

/// The forms in which documents are written: `0` is a digit, `A` a digit or capital.
const WRITTEN: [&str; 2] = ["000.000.000-00", "AA.AAA.AAA/AAAA-00"];

/// Masks each CPF and CNPJ in a text so that its owner recognises it, however its groups are divided:
/// `529.982.247-25`, `529 982 247 25`, `cpf=52998224725.pdf`. What is punctuated as a document is masked also if its
/// check digits are wrong. Other numbers with wrong check digits remain, such as order numbers.
pub fn without_documents(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let (mut rest, mut is_in_number) = (text, false);
    while let Some(c) = rest.chars().next() {
        let begins = (c.is_ascii_digit() || c.is_ascii_uppercase()) && !is_in_number;
        let found = begins.then(|| document_at(rest).or_else(|| written_at(rest))).flatten();
        if let Some((document, after)) = found {
            masked.push_str(&document);
            rest = after;
        } else {
            masked.push(c);
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
            is_in_number = c.is_ascii_digit();
        }
    }
    masked
}

/// The first name, and the first letter of the last one, without documents. `None`: there is no name.
pub fn masked_name(name: &str) -> Option<String> {
    let name = without_documents(name);
    let mut words = name.split_whitespace();
    let first = words.next()?;
    let initial = words.next_back().and_then(|last| last.chars().next());
    Some(initial.map_or_else(|| first.to_owned(), |initial| format!("{first} {initial}.")))
}

/// Masks the names of customers in a JSON value: `customerName`, and the `name` of a `customer` or `payer`.
pub fn mask_names(value: Value) -> Value {
    mask_names_of(value, false)
}

fn mask_names_of(value: Value, is_person: bool) -> Value {
    let Value::Object(fields) = value else {
        let Value::Array(items) = value else { return value };
        return items.into_iter().map(|item| mask_names_of(item, is_person)).collect();
    };
    let masked = fields.into_iter().map(|(name, value)| {
        let is_name = name == "customerName" || (is_person && name == "name");
        let value = match value {
            Value::String(text) if is_name => masked_name(&text).map_or(Value::Null, Value::from),
            value => mask_names_of(value, matches!(name.as_str(), "customer" | "payer")),
        };
        (name, value)
    });
    masked.collect()
}

/// Masks the documents in the strings, numbers and names of fields of a JSON value. A number may lack the zeros that a
/// document begins with.
pub fn mask_json(value: Value) -> Value {
    match value {
        Value::String(text) => without_documents(&text).into(),
        Value::Number(number) => {
            let digits = number.to_string();
            let length = if digits.len() < 12 { 11 } else { 14 };
            let document = TaxId::parse(&format!("{digits:0>length$}")).ok().filter(|_| digits.len() > 8);
            document.map_or(Value::Number(number), |document| document.masked().into())
        }
        Value::Array(items) => items.into_iter().map(mask_json).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (without_documents(&name), mask_json(value))).collect()
        }
        Value::Null | Value::Bool(_) => value,
    }
}

/// The valid document with which a text begins, masked, and the text after it.
fn document_at(text: &str) -> Option<(String, &str)> {
    let (mut bare, mut between) = (String::with_capacity(14), 0_usize);
    for (at, c) in text.char_indices() {
        if c.is_ascii_alphanumeric() && bare.len() < 14 {
            bare.push(c);
            between = 0;
            let after = text.get(at.saturating_add(1)..)?;
            if let Some(document) = TaxId::parse(&bare).ok().filter(|_| ends_number(after)) {
                return Some((document.masked(), after));
            }
        } else {
            between = between.saturating_add(1);
            if c.is_alphanumeric() || c.is_control() || between > MOST_BETWEEN {
                return None;
            }
        }
    }
    None
}

/// What is written as a document at the beginning of a text, masked, and the text after it.
fn written_at(text: &str) -> Option<(String, &str)> {
    WRITTEN.iter().find_map(|form| {
        let (written, after) = text.split_at_checked(form.len())?;
        let fits = form.bytes().zip(written.bytes()).all(|(place, c)| match place {
            b'0' => c.is_ascii_digit(),
            b'A' => c.is_ascii_digit() || c.is_ascii_uppercase(),
            separator => c == separator,
        });
        let bare: String = written.chars().filter(char::is_ascii_alphanumeric).collect();
        (fits && ends_number(after)).then(|| (tax_id::masked(&bare), after))
    })
}

fn ends_number(after: &str) -> bool {
    !after.starts_with(|next: char| next.is_ascii_digit() || next.is_ascii_uppercase())
}

/// Returns another's text on one line, without control characters and [documents](without_documents). Each run of letters,
/// digits and punctuation that `is_private` becomes `***`.
pub fn one_line(text: impl Iterator<Item = char>, is_private: impl Fn(&str) -> bool) -> String {
    let mut line = String::new();
    let mut run = String::new();
    for c in text.chain(std::iter::once(' ')) {
        if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '/' | '_' | '@') {
            run.push(c);
            continue;
        }
        line.push_str(if is_private(&run) { "***" } else { &run });
        run.clear();
        line.push(if is_forbidden_in_line(c) { ' ' } else { c });
    }
    line.pop();
    without_documents(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_in_a_text_are_masked_and_other_numbers_remain() {
        for (text, expected) in [
            ("CPF 29537995593 inválido", "CPF ***.379.955-** inválido"),
            ("cpf=29537995593/nome", "cpf=***.379.955-**/nome"),
            ("pedido 123.456.789-00.", "pedido ***.456.789-**."),
            ("12.345.678/0001-00", "**.345.678/****-**"),
            ("CNPJ 12ABC34501DE35", "CNPJ **.ABC.345/****-**"),
            ("pedido 12345678900", "pedido 12345678900"),
            ("1123.456.789-00", "1123.456.789-00"),
            ("123.456.789-001", "123.456.789-001"),
            ("chave +5511999990000", "chave +5511999990000"),
            ("E9999900420261122120000000000001", "E9999900420261122120000000000001"),
            ("O campo cob.valor.original é 10.00", "O campo cob.valor.original é 10.00"),
            ("2026-11-22T12:00:00Z", "2026-11-22T12:00:00Z"),
            ("7d9f0335-8dcc-4054-9bf9-0dbd61d36906", "7d9f0335-8dcc-4054-9bf9-0dbd61d36906"),
        ] {
            assert_eq!(without_documents(text), expected, "{text}");
        }
        let line = one_line("a\nb@c.example 52998224725".chars(), |run| run.contains('@'));
        assert_eq!(line, "a *** ***.982.247-**");
    }

    #[test]
    fn a_document_is_found_however_it_is_written() {
        for text in [
            "52998224725",
            "529.982.247-25",
            "529 982 247 25",
            "529·982·247·25",
            "529.982.247 - 25",
            "529_982_247_25",
            "529\u{a0}982\u{a0}247-25",
        ] {
            for (text, expected) in [
                (text.to_owned(), "***.982.247-**".to_owned()),
                (format!("cpf{text}.pdf"), "cpf***.982.247-**.pdf".to_owned()),
                (format!("é {text}, 7"), "é ***.982.247-**, 7".to_owned()),
                (format!("loja 12 {text}é"), "loja 12 ***.982.247-**é".to_owned()),
                (format!("CPF:{text}\n1"), "CPF:***.982.247-**\n1".to_owned()),
            ] {
                assert_eq!(without_documents(&text), expected, "{text}");
            }
        }
        let cnpj = "CNPJ 12.ABC.345/01DE-35 e 11 222 333 0001 81";
        assert_eq!(without_documents(cnpj), "CNPJ **.ABC.345/****-** e **.222.333/****-**");
        for other in
            ["529-982-247-26", "152998224725", "529982247251", "E9999900420261122120000000000001", ""]
        {
            assert_eq!(without_documents(other), other);
        }
    }

    #[test]
    fn the_documents_in_json_are_masked_as_values_numbers_and_names() {
        let value = serde_json::json!({"52998224725": [52_998_224_725_u64, 1_990], "cpf": 191, "b": 9_998_224_722_u64});
        let shown = mask_json(value).to_string();
        assert_eq!(shown, r#"{"***.982.247-**":["***.982.247-**",1990],"b":9998224722,"cpf":191}"#);
        let numbers = mask_json(serde_json::json!([9_999_999_994_u64, 3_u8]));
        assert_eq!(numbers.to_string(), "[9999999994,3]");
    }
}
