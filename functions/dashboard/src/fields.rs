//! What the value of a filter must be.

use pages::Word;

use crate::words as w;

pages::words! { ,
    DATE_RULE = "Use uma data, como 2026-11-26.", "Use a date, such as 2026-11-26.", "Use una fecha, como 2026-11-26.";
    DOCUMENT_RULE = "Use o CPF ou o CNPJ, com ou sem pontos, de até 32 caracteres.", "Use the CPF or CNPJ, with or without points, of at most 32 characters.", "Use el CPF o el CNPJ, con o sin puntos, de hasta 32 caracteres.";
    END_TO_END_RULE = "Use os 32 caracteres do comprovante do Pix, que começam com E.", "Use the 32 characters of the Pix receipt, which begin with E.", "Use los 32 caracteres del comprobante del Pix, que empiezan con E.";
    TXID_RULE = "Use as 26 letras e números do txid da cobrança.", "Use the 26 letters and digits of the charge's txid.", "Use las 26 letras y números del txid del cobro.";
    NAME_RULE = "Use só letras e espaços, como Maria Souza.", "Use letters and spaces alone, such as Maria Souza.", "Use solo letras y espacios, como Maria Souza.";
}

/// What the value of a filter must be.
pub(crate) fn rule(field: &str) -> Word {
    match field {
        "created_after" | "created_before" | "paid_after" | "paid_before" => DATE_RULE,
        "amount" => w::of_code("invalid_amount"),
        "customer_id" => DOCUMENT_RULE,
        "customer_email" => w::of_code("invalid_email"),
        "end_to_end_id" => END_TO_END_RULE,
        "txid" => TXID_RULE,
        "customer_name" => NAME_RULE,
        _ => w::of_code(""),
    }
}
