//! Masks CPFs, CNPJs and what may be one in texts that people read, and in logs.

use serde_json::Value;

use crate::tax_id::TaxId;

/// The most characters between two characters of a document, such as ` - `.
const MOST_BETWEEN: usize = 3;

/// Masks each CPF and CNPJ in a text so that its owner recognises it, however its groups are divided:
/// `529.982.247-25`, `529 982 247 25`, `cpf=52998224725.pdf`. Numbers with wrong check digits remain.
pub fn without_documents(text: &str) -> String {
    replace_documents(text, TaxId::masked)
}

/// Replaces what may be a CPF, a CNPJ or a phone number by `***`: what [`without_documents`] masks, and a run of
/// digits, capitals and punctuation with 11 to 14 digits and nothing else, or with 14 characters that end in two
/// digits. The longer ids of a Pix remain.
pub fn mask_documents(text: &str) -> String {
    mask_runs(text, |_| false)
}

/// Masks the strings, numbers and names of fields of a JSON value. A number may lack the zeros that a document begins
/// with.
pub fn mask_json(value: Value, mask: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => mask(&text).into(),
        Value::Number(number) => {
            let digits = number.to_string();
            let padded = match digits.len() {
                9 | 10 => format!("{digits:0>11}"),
                13 => format!("{digits:0>14}"),
                _ => digits.clone(),
            };
            let shown = if TaxId::parse(&padded).is_ok() { mask(&padded) } else { mask(&digits) };
            if shown == digits { Value::Number(number) } else { shown.into() }
        }
        Value::Array(items) => items.into_iter().map(|item| mask_json(item, mask)).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (mask(&name), mask_json(value, mask))).collect()
        }
        Value::Null | Value::Bool(_) => value,
    }
}

fn replace_documents(text: &str, shown: impl Fn(&TaxId) -> String) -> String {
    let mut replaced = String::with_capacity(text.len());
    let (mut rest, mut is_in_number) = (text, false);
    while let Some(c) = rest.chars().next() {
        let begins = c.is_ascii_digit() || c.is_ascii_uppercase();
        if let Some((document, after)) = (begins && !is_in_number).then(|| document_at(rest)).flatten() {
            replaced.push_str(&shown(&document));
            rest = after;
        } else {
            replaced.push(c);
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
            is_in_number = c.is_ascii_digit();
        }
    }
    replaced
}

/// The document with which a text begins, and the text after it.
fn document_at(text: &str) -> Option<(TaxId, &str)> {
    let (mut bare, mut between) = (String::with_capacity(14), 0_usize);
    for (at, c) in text.char_indices() {
        if c.is_ascii_alphanumeric() && bare.len() < 14 {
            bare.push(c);
            between = 0;
            let after = text.get(at.saturating_add(1)..)?;
            let is_whole =
                !after.starts_with(|next: char| next.is_ascii_digit() || next.is_ascii_uppercase());
            let document = TaxId::parse(&bare).ok().filter(|_| is_whole);
            if let Some(document) = document {
                return Some((document, after));
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

/// Like [`mask_documents`], and also replaces each run of letters, digits and punctuation that `is_private`.
pub fn mask_runs(text: &str, is_private: impl Fn(&str) -> bool) -> String {
    let text = replace_documents(text, |_| "***".to_owned());
    let mut masked = String::with_capacity(text.len());
    let mut run = String::new();
    for c in text.chars().chain(std::iter::once('\0')) {
        if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '/' | '_' | '@') {
            run.push(c);
            continue;
        }
        masked.push_str(if may_contain_document(&run) || is_private(&run) { "***" } else { &run });
        run.clear();
        masked.push(c);
    }
    masked.pop();
    masked
}

fn may_contain_document(run: &str) -> bool {
    // No document has lower-case letters, so they end one.
    run.split(|c: char| c.is_ascii_lowercase()).any(|piece| {
        let characters: Vec<char> = piece.chars().filter(char::is_ascii_alphanumeric).collect();
        let has_only_digits = characters.iter().all(char::is_ascii_digit);
        let ends_as_cnpj = characters.iter().rev().take(2).all(char::is_ascii_digit);
        match characters.len() {
            14 => ends_as_cnpj,
            11..=13 => has_only_digits,
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_in_a_text_are_masked() {
        for (text, expected) in [
            ("CPF 29537995593 inválido", "CPF *** inválido"),
            ("CPF 295.379.955-93.", "CPF ***."),
            ("cpf=29537995593/nome", "cpf=***/nome"),
            ("11122233344/nome", "***"),
            ("CNPJ 12ABC34501DE35", "CNPJ ***"),
            ("CNPJ 12.ABC.345/01DE-35", "CNPJ ***"),
            ("chave +5511999990000", "chave +***"),
            ("\"29537995593\"", "\"***\""),
            ("E9999900420261122120000000000001", "E9999900420261122120000000000001"),
            ("O campo cob.valor.original é 10.00", "O campo cob.valor.original é 10.00"),
            ("charge00000000000000000000000001", "charge00000000000000000000000001"),
            ("2026-11-22T12:00:00Z", "2026-11-22T12:00:00Z"),
            ("7d9f0335-8dcc-4054-9bf9-0dbd61d36906", "7d9f0335-8dcc-4054-9bf9-0dbd61d36906"),
        ] {
            assert_eq!(mask_documents(text), expected, "{text}");
        }
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
                assert!(mask_documents(&text).contains("***"), "{text}");
                assert!(!mask_documents(&text).contains("982"), "{text}");
            }
        }
        let cnpj = "CNPJ 12.ABC.345/01DE-35 e 11 222 333 0001 81";
        assert_eq!(without_documents(cnpj), "CNPJ **.ABC.345/****-** e **.222.333/****-**");
        for other in
            ["529.982.247-26", "152998224725", "529982247251", "E9999900420261122120000000000001", ""]
        {
            assert_eq!(without_documents(other), other);
        }
    }

    #[test]
    fn the_documents_in_json_are_masked_as_values_numbers_and_names() {
        let value = serde_json::json!({"52998224725": [52_998_224_725_u64, 1_990], "cpf": 191, "b": 9_998_224_722_u64});
        let shown = mask_json(value, &|text| without_documents(text)).to_string();
        assert_eq!(shown, r#"{"***.982.247-**":["***.982.247-**",1990],"b":9998224722,"cpf":191}"#);
        let numbers = mask_json(serde_json::json!([9_999_999_994_u64, 3_u8]), &|text| mask_documents(text));
        assert_eq!(numbers.to_string(), "[9999999994,3]");
    }
}
