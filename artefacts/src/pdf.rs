//! PDF documents: the boleto and the payment receipt, one A4 page each, and reports of several pages.
//!
//! A text is truncated when it exceeds its space on the page. A letter that the font lacks becomes its base letter.
//! The same fields always produce the same file. The crate `pdf-writer` writes the file.
//!
//! The boleto has the layout that banks require: a compensation slip 95 to 108 mm high at the foot of the
//! page, with a barcode of 103 by 13 mm. Source: Banco do Brasil, *Especificações técnicas para confecção de
//! boleto de cobrança*.

mod page;
mod report;
mod text;

use chrono::NaiveDate;

use self::page::{Page, Style};
pub use self::report::{Part, report_pdf};
use self::text::Font;
pub use self::text::encode as windows_1252;
use crate::boleto::Boleto;
use crate::interleaved;

const LABEL: Style = Style::new(Font::Regular, 6);
const SMALL: Style = Style::new(Font::Regular, 8);
const VALUE: Style = Style::new(Font::Regular, 9);
const STRONG: Style = Style::new(Font::Bold, 9);
const NOTICE: Style = Style::new(Font::Bold, 10);
const LINE: Style = Style::new(Font::Bold, 11);
const HEADING: Style = Style::new(Font::Bold, 14);
const TITLE: Style = Style::new(Font::Bold, 18);

// Positions are in millimetres from the top left corner of the page.
const LEFT: f32 = 15.0;
const RIGHT: f32 = 195.0;
const AMOUNTS: f32 = 150.0;

/// Top of the compensation slip: 108 mm above the foot of the page.
const CUT: f32 = 189.0;

const BARS_SIZE_MM: (f32, f32) = (103.0, 13.0);

#[derive(Debug, Clone, Copy)]
pub struct BoletoDocument<'a> {
    pub boleto: &'a Boleto,
    /// The boleto's amount, formatted: `R$ 1.234,56`. It must equal [`Boleto::amount_centavos`].
    pub amount: &'a str,
    pub beneficiary: &'a str,
    /// The payer's name; `None` prints "Não informado".
    pub payer: Option<&'a str>,
    pub document_number: &'a str,
    pub instructions: &'a [&'a str],
}

/// The payer's tax id is missing on purpose: a receipt must not show it.
#[derive(Debug, Clone, Copy)]
pub struct ReceiptDocument<'a> {
    pub merchant: &'a str,
    /// The amount paid, formatted: `R$ 1.234,56`.
    pub amount: &'a str,
    pub method: &'a str,
    /// The time of payment, formatted, with its time zone: `21/11/2026 15:04:05 (horário de São Paulo)`.
    pub paid_at: &'a str,
    /// The Pix end-to-end id; `None` for other methods.
    pub end_to_end_id: Option<&'a str>,
    pub transaction_id: &'a str,
    /// The name of the merchant's customer, who need not be the payer; `None` omits the row.
    pub customer: Option<&'a str>,
    pub returns: &'a [ReceiptReturn],
    /// The sum of all returns, formatted; `None` if nothing was returned.
    pub returned_total: Option<&'a str>,
    pub is_card: bool,
    pub is_test: bool,
}

#[derive(Debug, Clone)]
pub struct ReceiptReturn {
    /// The amount, formatted: `R$ 1.234,56`.
    pub amount: String,
    /// `None`: it is not known, as for a loss in a MED dispute.
    pub at: Option<String>,
    /// The bank's id of the return; `None` omits it.
    pub id: Option<String>,
}

/// Returns the PDF of a sandbox boleto, which states that it can't be paid. The file is smaller than 20 kB.
pub fn boleto_pdf(document: &BoletoDocument<'_>) -> Vec<u8> {
    let mut page = Page::new();
    notice(
        &mut page,
        12.0,
        "DOCUMENTO DE TESTE - NÃO PAGUE",
        "Este boleto foi gerado no ambiente de testes (sandbox). Não tem valor e nenhum banco o aceita.",
    );
    payers_part(&mut page, document);
    page.rule((LEFT, CUT), (RIGHT, CUT), 0.5, true);
    compensation_slip(&mut page, document);
    page.finish("Boleto de teste")
}

fn payers_part(page: &mut Page, document: &BoletoDocument<'_>) {
    let boleto = document.boleto;
    page.text((LEFT, 42.0), TITLE, 130, 1, "Boleto");
    page.text_right((RIGHT, 42.0), SMALL, 50, "Recibo do pagador");
    page.text((LEFT, 52.0), HEADING, 180, 2, document.beneficiary);

    page.rule((LEFT, 62.0), (RIGHT, 62.0), 0.5, false);
    let rows = [
        ("Valor", document.amount.to_owned()),
        ("Vencimento", date(boleto.due())),
        ("Pagador", document.payer.unwrap_or("Não informado").to_owned()),
        ("Número do documento", document.document_number.to_owned()),
    ];
    let y = list(page, 70.0, &rows);
    page.text((LEFT, y + 4.0), SMALL.gray(0.4), 180, 1, "Linha digitável");
    page.text((LEFT, y + 10.0), LINE, 180, 1, &boleto.formatted_line());
}

fn compensation_slip(page: &mut Page, document: &BoletoDocument<'_>) {
    let boleto = document.boleto;
    let top = CUT + 11.0;
    page.text((LEFT, top - 2.5), STRONG, 34, 1, "Banco de teste");
    page.text((54.0, top - 2.5), HEADING, 12, 1, boleto.bank().as_str());
    page.text_right((RIGHT, top - 2.5), LINE, 128, &boleto.formatted_line());
    page.rule((51.0, top - 8.0), (51.0, top), 1.0, false);
    page.rule((66.0, top - 8.0), (66.0, top), 1.0, false);
    page.rule((LEFT, top), (RIGHT, top), 1.0, false);

    let (row, wide, narrow) = (9.0, 132, 42);
    cell(page, (LEFT, top), wide, "Local de pagamento", "Nenhum: documento de teste");
    amount_cell(page, top, narrow, "Vencimento", &date(boleto.due()));
    page.rule((LEFT, top + row), (RIGHT, top + row), 0.5, false);
    cell(page, (LEFT, top + row), wide, "Beneficiário", document.beneficiary);
    amount_cell(page, top + row, narrow, "(=) Valor do documento", document.amount);
    page.rule((LEFT, top + 2.0 * row), (RIGHT, top + 2.0 * row), 0.5, false);
    cell(page, (LEFT, top + 2.0 * row), wide, "Número do documento", document.document_number);
    amount_cell(page, top + 2.0 * row, narrow, "Moeda", "Real");
    page.rule((LEFT, top + 3.0 * row), (RIGHT, top + 3.0 * row), 0.5, false);

    page.text((LEFT + 1.0, top + 3.0 * row + 3.0), LABEL, wide, 1, "Instruções");
    let mut y = top + 3.0 * row + 7.0;
    for instruction in document.instructions.iter().take(INSTRUCTIONS_MAX) {
        y = page.text((LEFT + 1.0, y), SMALL, wide, 1, instruction);
    }
    let foot = top + 59.0;
    page.rule((AMOUNTS, top), (AMOUNTS, foot), 0.5, false);
    page.rule((LEFT, foot), (RIGHT, foot), 0.5, false);
    cell(page, (LEFT, foot), 178, "Pagador", document.payer.unwrap_or("Não informado"));
    page.rule((LEFT, foot + row), (RIGHT, foot + row), 1.0, false);

    // The left margin of the page is the quiet zone that readers need before the first bar.
    page.bars(
        (LEFT, foot + row + 3.0),
        BARS_SIZE_MM,
        &interleaved::widths(&boleto.barcode()),
        interleaved::MODULES,
    );
    page.text_right((RIGHT, foot + row + 4.5), SMALL, 60, "Ficha de compensação");
    page.text_right((RIGHT, foot + row + 9.0), STRONG, 60, "Teste: não pode ser pago");
}

const INSTRUCTIONS_MAX: usize = 7;

pub(crate) const RETURNS_MAX: usize = 8;

/// The file is smaller than 20 kB.
pub fn receipt_pdf(document: &ReceiptDocument<'_>) -> Vec<u8> {
    let mut page = Page::new();
    if document.is_test {
        notice(
            &mut page,
            12.0,
            "DOCUMENTO DE TESTE",
            "Este pagamento foi simulado no ambiente de testes (sandbox). Nenhum dinheiro foi movimentado.",
        );
    }
    page.text((LEFT, 42.0), TITLE, 180, 1, "Comprovante de pagamento");
    page.text((LEFT, 52.0), HEADING, 180, 2, document.merchant);
    page.rule((LEFT, 62.0), (RIGHT, 62.0), 0.5, false);

    let mut rows = vec![
        ("Valor", document.amount.to_owned()),
        ("Forma de pagamento", document.method.to_owned()),
        ("Pago em", document.paid_at.to_owned()),
        ("Recebedor", document.merchant.to_owned()),
    ];
    rows.extend(document.customer.map(|customer| ("Cliente", customer.to_owned())));
    rows.extend(document.end_to_end_id.map(|id| ("ID fim a fim (EndToEndId)", id.to_owned())));
    rows.push(("ID da transação", document.transaction_id.to_owned()));
    // A Pix is returned, a card payment reversed.
    let (total, one, id_of_one, others) = if document.is_card {
        ("Total estornado", "Estorno", "ID do estorno", "Outros estornos")
    } else {
        ("Total devolvido", "Devolução", "ID da devolução", "Outras devoluções")
    };
    rows.extend(document.returned_total.map(|sum| (total, sum.to_owned())));
    for returned in document.returns.iter().take(RETURNS_MAX) {
        let (amount, at) = (&returned.amount, returned.at.as_ref());
        rows.push((one, at.map_or_else(|| amount.clone(), |at| format!("{amount} em {at}"))));
        rows.extend(returned.id.clone().map(|id| (id_of_one, id)));
    }
    if let Some(more) = document.returns.len().checked_sub(RETURNS_MAX).filter(|more| *more > 0) {
        rows.push((others, more.to_string()));
    }
    let y = list(&mut page, 70.0, &rows);
    page.rule((LEFT, y), (RIGHT, y), 0.5, false);
    page.finish(if document.is_test {
        "Comprovante de pagamento de teste"
    } else {
        "Comprovante de pagamento"
    })
}

fn notice(page: &mut Page, y: f32, heading: &str, text: &str) {
    page.fill((LEFT, y), (RIGHT - LEFT, 15.0), 0.9);
    page.text((LEFT + 4.0, y + 6.0), NOTICE, 170, 1, heading);
    page.text((LEFT + 4.0, y + 11.5), SMALL, 170, 1, text);
}

fn list(page: &mut Page, y: f32, rows: &[(&str, String)]) -> f32 {
    rows.iter().fold(y, |y, (label, value)| {
        page.text((LEFT, y), SMALL.gray(0.4), 48, 1, label);
        // A value of two lines is higher than a row.
        page.text((LEFT + 50.0, y), VALUE, 130, 2, value).max(y + 3.0) + 4.0
    })
}

fn cell(page: &mut Page, at: (f32, f32), width_mm: u16, label: &str, value: &str) {
    page.text((at.0 + 1.0, at.1 + 3.0), LABEL, width_mm, 1, label);
    page.text((at.0 + 1.0, at.1 + 7.2), VALUE, width_mm, 1, value);
}

fn amount_cell(page: &mut Page, y: f32, width_mm: u16, label: &str, value: &str) {
    page.text((AMOUNTS + 1.0, y + 3.0), LABEL, width_mm, 1, label);
    page.text_right((RIGHT - 1.0, y + 7.2), STRONG, width_mm, value);
}

fn date(day: NaiveDate) -> String {
    day.format("%d/%m/%Y").to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn boleto(centavos: u64) -> Boleto {
        let due = NaiveDate::from_ymd_opt(2026, 12, 1).unwrap();
        Boleto::sandbox([7; 16], centavos, due).unwrap()
    }

    fn boleto_document(boleto: &Boleto) -> BoletoDocument<'_> {
        BoletoDocument {
            boleto,
            amount: "R$ 1.234,56",
            beneficiary: "Padaria São João & Irmãos (Açaí) Ltda.",
            payer: Some("José da Conceição"),
            document_number: "0e7a5a1c-6f0e-8a43-9d1c-1b2f3c4d5e6f",
            instructions: &["Não receber após o vencimento.", "Dúvidas: fale com a loja."],
        }
    }

    fn receipt_document() -> ReceiptDocument<'static> {
        ReceiptDocument {
            merchant: "Padaria São João & Irmãos (Açaí) Ltda.",
            amount: "R$ 1.234,56",
            method: "Pix",
            paid_at: "20/11/2026 22:02:03 (horário de São Paulo)",
            end_to_end_id: Some("E12345678202611210102abcdef12345"),
            transaction_id: "0e7a5a1c-6f0e-8a43-9d1c-1b2f3c4d5e6f",
            customer: Some("José da Conceição"),
            returns: &[],
            returned_total: None,
            is_card: false,
            is_test: true,
        }
    }

    /// Returns the operands of `Tj` in the page's content, in order. Decodes them as ISO 8859-1, which covers
    /// the accents of these texts.
    fn texts(file: &[u8]) -> Vec<String> {
        let mut texts = Vec::new();
        let mut rest = file;
        while let Some(at) = rest.windows(4).position(|window| window == b" Td\n") {
            rest = &rest[at + 4..];
            let end = rest.windows(4).position(|window| window == b" Tj\n").unwrap();
            texts.push(string(&rest[..end]));
            rest = &rest[end..];
        }
        texts
    }

    fn string(operand: &[u8]) -> String {
        if let Some(hex) = operand.strip_prefix(b"<").and_then(|rest| rest.strip_suffix(b">")) {
            let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
            return hex.chunks(2).map(|pair| char::from(byte(pair))).collect();
        }
        let literal = operand.strip_prefix(b"(").unwrap().strip_suffix(b")").unwrap();
        let text: String = literal.iter().map(|byte| char::from(*byte)).collect();
        text.replace("\\(", "(").replace("\\)", ")").replace("\\\\", "\\")
    }

    fn assert_sound(file: &[u8]) {
        assert!(file.starts_with(b"%PDF-1.7") && file.ends_with(b"%%EOF"), "{:?}", file.last_chunk::<8>());
        assert!(file.len() < 20_000, "{}", file.len());
        let text = String::from_utf8_lossy(file);
        assert_eq!((text.matches("/Type /Page\n").count(), text.matches("/Count 1\n").count()), (1, 1));
        assert_eq!(text.matches("/WinAnsiEncoding").count(), 2);
    }

    #[test]
    fn a_boleto_shows_its_payment_details_and_that_it_is_a_test() {
        let boleto = boleto(123_456);
        let file = boleto_pdf(&boleto_document(&boleto));
        assert_sound(&file);
        insta::assert_json_snapshot!(texts(&file), @r#"
        [
          "DOCUMENTO DE TESTE - NÃO PAGUE",
          "Este boleto foi gerado no ambiente de testes (sandbox). Não tem valor e nenhum banco o aceita.",
          "Boleto",
          "Recibo do pagador",
          "Padaria São João & Irmãos (Açaí) Ltda.",
          "Valor",
          "R$ 1.234,56",
          "Vencimento",
          "01/12/2026",
          "Pagador",
          "José da Conceição",
          "Número do documento",
          "0e7a5a1c-6f0e-8a43-9d1c-1b2f3c4d5e6f",
          "Linha digitável",
          "00093.40886 00955.381389 04799.116878 7 16470000123456",
          "Banco de teste",
          "000",
          "00093.40886 00955.381389 04799.116878 7 16470000123456",
          "Local de pagamento",
          "Nenhum: documento de teste",
          "Vencimento",
          "01/12/2026",
          "Beneficiário",
          "Padaria São João & Irmãos (Açaí) Ltda.",
          "(=) Valor do documento",
          "R$ 1.234,56",
          "Número do documento",
          "0e7a5a1c-6f0e-8a43-9d1c-1b2f3c4d5e6f",
          "Moeda",
          "Real",
          "Instruções",
          "Não receber após o vencimento.",
          "Dúvidas: fale com a loja.",
          "Pagador",
          "José da Conceição",
          "Ficha de compensação",
          "Teste: não pode ser pago"
        ]
        "#);
        assert_eq!(file, boleto_pdf(&boleto_document(&boleto)));
    }

    #[test]
    fn a_boleto_contains_the_bars_of_its_barcode() {
        let boleto = boleto(123_456);
        let file = boleto_pdf(&boleto_document(&boleto));
        let text = String::from_utf8_lossy(&file);
        let bars: Vec<(u16, u8)> = text
            .lines()
            .filter_map(|line| {
                let (x, rest) = line.strip_suffix(" 1 re")?.split_once(" 0 ")?;
                Some((x.parse().ok()?, rest.parse().ok()?))
            })
            .collect();
        let mut x = 0;
        let mut expected = Vec::new();
        for (index, width) in interleaved::widths(&boleto.barcode()).into_iter().enumerate() {
            if index % 2 == 0 {
                expected.push((x, width));
            }
            x += u16::from(width);
        }
        assert_eq!(bars, expected);
    }

    #[test]
    fn a_receipt_shows_amount_method_time_receiver_and_customer() {
        let file = receipt_pdf(&receipt_document());
        assert_sound(&file);
        insta::assert_json_snapshot!(texts(&file), @r#"
        [
          "DOCUMENTO DE TESTE",
          "Este pagamento foi simulado no ambiente de testes (sandbox). Nenhum dinheiro foi movimentado.",
          "Comprovante de pagamento",
          "Padaria São João & Irmãos (Açaí) Ltda.",
          "Valor",
          "R$ 1.234,56",
          "Forma de pagamento",
          "Pix",
          "Pago em",
          "20/11/2026 22:02:03 (horário de São Paulo)",
          "Recebedor",
          "Padaria São João & Irmãos (Açaí) Ltda.",
          "Cliente",
          "José da Conceição",
          "ID fim a fim (EndToEndId)",
          "E12345678202611210102abcdef12345",
          "ID da transação",
          "0e7a5a1c-6f0e-8a43-9d1c-1b2f3c4d5e6f"
        ]
        "#);
    }

    #[test]
    fn a_receipt_shows_the_latest_returns_and_their_sum() {
        let returned = |number: usize| ReceiptReturn {
            amount: format!("R$ {number},00"),
            at: (number > 0).then(|| "21/11/2026 10:00:00 (horário de São Paulo)".to_owned()),
            id: (number > 0).then(|| format!("D12345678202611210102abcdef{number:05}")),
        };
        let print = |returns: &[ReceiptReturn]| {
            let total = Some("R$ 66,00");
            let file = receipt_pdf(&ReceiptDocument { returns, returned_total: total, ..receipt_document() });
            assert_sound(&file);
            texts(&file).split_off(18)
        };
        insta::assert_json_snapshot!(print(&[returned(1), returned(0)]), @r#"
        [
          "Total devolvido",
          "R$ 66,00",
          "Devolução",
          "R$ 1,00 em 21/11/2026 10:00:00 (horário de São Paulo)",
          "ID da devolução",
          "D12345678202611210102abcdef00001",
          "Devolução",
          "R$ 0,00"
        ]
        "#);
        let many: Vec<ReceiptReturn> = (1..=11).map(returned).collect();
        let printed = print(&many);
        assert_eq!(printed.iter().filter(|text| *text == "Devolução").count(), RETURNS_MAX);
        assert!(printed.ends_with(&["Outras devoluções".to_owned(), "3".to_owned()]), "{printed:?}");
        let card = ReceiptDocument {
            returns: &many,
            returned_total: Some("R$ 66,00"),
            is_card: true,
            ..receipt_document()
        };
        let printed = texts(&receipt_pdf(&card)).join("\n");
        assert!(
            printed.contains("Total estornado\nR$ 66,00\nEstorno\n") && !printed.contains("evolu"),
            "{printed}"
        );
    }

    #[test]
    fn an_unknown_field_is_omitted_or_printed_as_nao_informado() {
        let boleto = boleto(1);
        let file = boleto_pdf(&BoletoDocument { payer: None, instructions: &[], ..boleto_document(&boleto) });
        assert_sound(&file);
        assert_eq!(texts(&file).iter().filter(|text| *text == "Não informado").count(), 2);

        let receipt =
            ReceiptDocument { customer: None, end_to_end_id: None, is_test: false, ..receipt_document() };
        let texts = texts(&receipt_pdf(&receipt)).join("\n");
        for absent in ["Pagador", "Cliente", "EndToEndId", "TESTE", "simulado"] {
            assert!(!texts.contains(absent), "{absent}");
        }
    }

    #[test]
    fn long_texts_are_truncated_and_foreign_characters_replaced() {
        let long = "Ação ".repeat(10_000);
        let boleto = boleto(9_999_999_999);
        let lines = [long.as_str(); 50];
        let file = boleto_pdf(&BoletoDocument {
            boleto: &boleto,
            amount: &long,
            beneficiary: &long,
            payer: Some("日本 )) \\ (( Ω"),
            document_number: &long,
            instructions: &lines,
        });
        assert_sound(&file);
        let texts = texts(&file);
        assert_eq!(texts.iter().filter(|text| *text == "?? )) \\ (( ?").count(), 2);
        assert!(texts.iter().all(|text| text.len() < 200));
        assert!(texts.iter().filter(|text| text.ends_with('\u{85}')).count() >= 10, "{texts:?}");
    }

    #[test]
    fn a_report_has_as_many_pages_as_its_text_needs_and_drops_nothing() {
        let line = "Ação nº 1 (vendido e entregue)";
        let long = vec![line; 150].join("\n");
        let parts =
            [Part::Heading("Caso"), Part::Value("Valor", "R$ 30,90".to_owned()), Part::Text(long.clone())];
        let file = report_pdf("Dossiê", Some("DOCUMENTO DE TESTE"), &parts);
        let text = String::from_utf8_lossy(&file);
        assert_eq!((text.matches("/Type /Page\n").count(), text.matches("/Count 3\n").count()), (3, 1));
        let texts = texts(&file);
        assert_eq!(texts.iter().filter(|text| *text == line).count(), 150);
        for expected in ["DOCUMENTO DE TESTE", "Dossiê", "Caso", "Valor", "R$ 30,90", "1/3", "3/3"] {
            assert!(texts.iter().any(|text| text == expected), "{expected}: {texts:?}");
        }
        assert_eq!(file, report_pdf("Dossiê", Some("DOCUMENTO DE TESTE"), &parts));
    }

    proptest! {
        #[test]
        fn drawing_never_panics(a in ".*", b in ".*", c in ".*") {
            let boleto = boleto(1);
            let lines = [a.as_str(), &b, &c];
            assert_sound(&boleto_pdf(&BoletoDocument {
                boleto: &boleto,
                amount: &c,
                beneficiary: &a,
                payer: Some(&b),
                document_number: &c,
                instructions: &lines,
            }));
            assert_sound(&receipt_pdf(&ReceiptDocument {
                merchant: &a,
                amount: &b,
                method: &b,
                paid_at: &a,
                end_to_end_id: Some(&c),
                transaction_id: &a,
                customer: Some(&c),
                ..receipt_document()
            }));
        }
    }
}
