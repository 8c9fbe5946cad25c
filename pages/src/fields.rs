//! The names of fields of forms and filters.

use crate::Word;
use crate::words as w;

crate::words! { ,
    FIELD_CODE = "Código", "Code", "Código";
    FIELD_COLOR = "Cor", "Colour", "Color";
    FIELD_EXPIRES_IN = "Vence em (minutos)", "Expires after (minutes)", "Vence en (minutos)";
    FIELD_REQUEST_ID = "X-Request-Id", "X-Request-Id", "X-Request-Id";
}

/// `None`: people do not see the field.
pub fn field_word(name: &str) -> Option<Word> {
    Some(match name {
        "actor" => w::ACTOR,
        "amount" => w::AMOUNT,
        "code" => FIELD_CODE,
        "color" => FIELD_COLOR,
        "created_after" => w::FROM,
        "created_before" => w::TO,
        "customer" | "customer.name" | "customer_name" => w::CUSTOMER,
        "customer.document" | "customer_id" | "document" => w::DOCUMENT,
        "customer.email" | "customer_email" | "email" => w::EMAIL,
        "day" => w::DAY,
        "description" => w::DESCRIPTION,
        "end_to_end_id" => w::END_TO_END_ID,
        "events" => w::EVENTS,
        "expires_at" => w::ENDS_ON,
        "expires_in" => FIELD_EXPIRES_IN,
        "label" => w::LABEL,
        "logo" => w::LOGO,
        "max_amount" => w::MAX_AMOUNT,
        "max_payments" => w::MAX_PAYMENTS,
        "min_amount" => w::MIN_AMOUNT,
        "method" => w::METHOD,
        "metadata.order_id" | "order_id" => w::ORDER,
        "name" => w::NAME,
        "object" => w::OBJECT,
        "paid_after" => w::PAID_FROM,
        "paid_before" => w::PAID_TO,
        "payment_link" => w::PAYMENT_LINK,
        "phone" => w::PHONE,
        "pix_key" => w::PIX_KEY,
        "reason" => w::REASON,
        "request_id" => FIELD_REQUEST_ID,
        "role" => w::ROLE,
        "route" => w::ROUTE,
        "status" => w::HTTP_STATUS,
        "txid" => w::TXID,
        "type" => w::KIND,
        "url" => w::URL,
        _ => return None,
    })
}
