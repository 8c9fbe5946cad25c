//! The names of fields of forms and filters.

use crate::Word;
use crate::words as w;

crate::words! { ,
    FIELD_CODE = "Código", "Code", "Código";
    FIELD_COLOR = "Cor", "Colour", "Color";
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
        "customer.document" | "customer_id" => w::DOCUMENT,
        "customer.email" | "customer_email" | "email" => w::EMAIL,
        "day" => w::DAY,
        "description" => w::DESCRIPTION,
        "end_to_end_id" => w::END_TO_END_ID,
        "events" => w::EVENTS,
        "label" => w::LABEL,
        "logo" => w::LOGO,
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
