//! Validates the requests that make and change a payment link.

use domain::charge::Metadata;
use domain::ids::PaymentLinkId;
use domain::money::{Amount, Currency};
use domain::payment_link::{AskedField, LinkAmount, MAX_PAYMENTS, PaymentLink, may_hold_place};
use domain::payment_method::PaymentMethod;
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary as _;

use crate::charge::payment::request::{check_currency, return_address};
use crate::charge::request::{METADATA, canonical_hash, metadata, normalised};
use shared::http::field::{
    AtMost, BodyFields, Boolean, CURRENCY_CODE, Definitions, DistinctWords, Integer, LIMIT, MinorAmount,
    Parsed, Text, instant,
};
use shared::http::{Fields, JsonObject, JsonValue, Object, Problem, Query};

shared::fields! {
    AMOUNT: MinorAmount = "amount", MinorAmount, Optional, 1990,
        "What a payment costs, in the smallest unit of the currency. Leave it out, and send `min_amount` and `max_amount`, to let the payer type it.";
    MIN_AMOUNT: MinorAmount = "min_amount", MinorAmount, Optional, 500,
        "The smallest amount that a payer may type.";
    MAX_AMOUNT: MinorAmount = "max_amount", MinorAmount, Optional, 50000,
        "The largest amount that a payer may type.";
    CURRENCY: Parsed<Currency> = "currency", CURRENCY_CODE, DefaultsTo("BRL"), "BRL",
        "The currency of the amounts. Every method must accept it.";
    METHODS: DistinctWords<PaymentMethod> = "payment_methods",
        DistinctWords { words: PaymentMethod::vocabulary, noun: "method" }, Required, ["PIX"],
        "The methods by which payers may pay. A repeated one counts once.";
    DESCRIPTION: Text = "description", Text::lines(1, 500), Optional, "Aula de violão",
        "The purpose of the payment, which the payer reads. It may contain line breaks.";
    ASK: DistinctWords<AskedField> = "ask",
        DistinctWords { words: AskedField::vocabulary, noun: "field" }, Optional, ["name", "email"],
        "What the page asks of each payer. What the methods need is asked too: a boleto's payer and address, the phone of MB WAY.";
    SUCCESS_URL: Text = "success_url", Text::of(1, 2048), Optional, "https://loja.example/obrigado",
        "An http or https URL to which the page leads after a payment.";
    MAX_COUNT: Integer = "max_payments",
        Integer { min: 1, max: AtMost::Refused(MAX_PAYMENTS), unit: "payments" }, Optional, 30,
        "The most payments. Then a charge can be paid for 15 minutes, and the methods must be `PIX`, `CREDIT_CARD` or `MBWAY`.";
    EXPIRES_AT: Parsed<Timestamp> = "expires_at",
        instant("must be an ISO 8601 date (a day in America/Sao_Paulo) or date-time, such as 2026-12-24 or 2026-12-24T18:00:00-03:00"),
        Optional, "2026-12-24T18:00:00-03:00",
        "When the link ends, in the future. Charges that were made before can be paid until they expire.";
    ACTIVE: Boolean = "active", Boolean, Optional, false,
        "Whether payers can make charges.";
    STARTING_AFTER: Parsed<PaymentLinkId> = "starting_after", Parsed::id("must be a payment link id (pl_…)"),
        Optional, "pl_01kb5cpq4t0000000000000000",
        "The cursor: the `next_cursor` of the previous page, a payment link id.";
}

pub const PAYMENT_LINK_BODY: BodyFields = BodyFields::strict(&[
    &AMOUNT,
    &MIN_AMOUNT,
    &MAX_AMOUNT,
    &CURRENCY,
    &METHODS,
    &DESCRIPTION,
    &ASK,
    &SUCCESS_URL,
    &MAX_COUNT,
    &EXPIRES_AT,
    &METADATA,
]);

/// The body of `PATCH /v1/payment_links/{id}`. A field that is absent stays as it is, and `null` removes it.
pub const PAYMENT_LINK_CHANGE_BODY: BodyFields =
    BodyFields::strict(&[&ACTIVE, &DESCRIPTION, &ASK, &SUCCESS_URL, &MAX_COUNT, &EXPIRES_AT, &METADATA]);

pub const PAYMENT_LINKS_QUERY: Definitions = &[&LIMIT, &STARTING_AFTER];

/// What may change of a link.
#[derive(Clone, Debug, Default)]
struct Terms {
    description: Option<String>,
    ask: Vec<AskedField>,
    success_url: Option<String>,
    max_payments: Option<u32>,
    expires_at: Option<Timestamp>,
    metadata: Metadata,
}

impl Terms {
    fn read(fields: &mut Fields, root: &Object<'_>, now: Timestamp) -> Self {
        let mut ask = fields.read(root, &ASK).unwrap_or_default();
        ask.sort_unstable();
        let success_url = fields.read(root, &SUCCESS_URL);
        let success_url = success_url.and_then(|text| return_address(fields, SUCCESS_URL.name, Some(&text)));
        let expires_at = fields.read(root, &EXPIRES_AT);
        if expires_at.is_some_and(|end| end <= now) {
            fields.reject(EXPIRES_AT.name, "must be in the future");
        }
        let sent = fields.dictionary(root, &METADATA);
        Self {
            description: fields.read(root, &DESCRIPTION),
            ask,
            success_url,
            max_payments: fields.read(root, &MAX_COUNT).and_then(|count| u32::try_from(count).ok()),
            expires_at,
            metadata: metadata(fields, sent, None),
        }
    }
}

/// 400 if a charge of a method could hold a place for days.
fn check_places(fields: &mut Fields, methods: &[PaymentMethod], max_payments: Option<u32>) {
    let unfit: Vec<&str> =
        methods.iter().filter(|method| !may_hold_place(**method)).map(|method| method.as_str()).collect();
    if max_payments.is_some() && !unfit.is_empty() {
        let rule = format!("does not go with {}, whose charges stay open for long", unfit.join(", "));
        fields.reject(MAX_COUNT.name, rule);
    }
}

/// A valid request for a link.
#[derive(Clone, Debug)]
pub struct NewPaymentLink {
    amount: LinkAmount,
    currency: Currency,
    methods: Vec<PaymentMethod>,
    terms: Terms,
    hash: String,
}

impl NewPaymentLink {
    /// Adds every failing field to `fields`.
    pub fn from_body(fields: &mut Fields, body: &JsonObject, now: Timestamp) -> Option<Self> {
        let body = &normalised(body);
        let root = fields.body(body, PAYMENT_LINK_BODY);
        let amount = amount(fields, &root);
        let (currency, methods) = (fields.read(&root, &CURRENCY), fields.read(&root, &METHODS));
        let terms = Terms::read(fields, &root, now);
        let methods = methods?;
        check_places(fields, &methods, terms.max_payments);
        let currency = currency?;
        check_currency(fields, (METHODS.name, &methods), currency);
        Some(Self { amount: amount?, currency, methods, terms, hash: canonical_hash(body.clone()) })
    }

    /// Reports every failing field at once.
    pub fn parse(body: &JsonObject, now: Timestamp) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        let parsed = Self::from_body(&mut fields, body, now);
        fields.finish(parsed)
    }

    pub(crate) fn link(self, id: PaymentLinkId, scope: domain::ids::Scope, now: Timestamp) -> PaymentLink {
        let Terms { description, ask, success_url, max_payments, expires_at, metadata } = self.terms;
        PaymentLink {
            id,
            scope,
            active: true,
            amount: self.amount,
            currency: self.currency,
            methods: self.methods,
            description,
            ask,
            success_url,
            max_payments,
            expires_at,
            metadata,
            request_hash: self.hash,
            created_at: now,
            updated_at: now,
            version: 1,
        }
    }
}

fn amount(fields: &mut Fields, root: &Object<'_>) -> Option<LinkAmount> {
    let is_open = root.has_value(&MIN_AMOUNT) || root.has_value(&MAX_AMOUNT);
    match (root.has_value(&AMOUNT), is_open) {
        (true, false) => return fields.read(root, &AMOUNT).map(LinkAmount::Fixed),
        (true, true) => {
            fields.reject(AMOUNT.name, "must be left out with `min_amount` or `max_amount`");
            return None;
        }
        (false, _) => {}
    }
    if !is_open {
        fields.reject(AMOUNT.name, "is required, or `min_amount` and `max_amount`");
        return None;
    }
    let mut bound = |field, name: &str| -> Option<Amount> {
        if !root.has_value(field) {
            fields.reject(name, "is required without `amount`");
        }
        fields.read(root, field)
    };
    let (min, max) = (bound(&MIN_AMOUNT, MIN_AMOUNT.name), bound(&MAX_AMOUNT, MAX_AMOUNT.name));
    let (min, max) = (min?, max?);
    if max < min {
        fields.reject(MAX_AMOUNT.name, "must not be less than `min_amount`");
    }
    Some(LinkAmount::Between { min, max })
}

/// A valid change of a link.
#[derive(Clone, Debug)]
pub struct PaymentLinkChange {
    active: Option<bool>,
    sent: Vec<&'static str>,
    terms: Terms,
}

impl PaymentLinkChange {
    /// The change that deactivates a link, or activates it again.
    pub fn of_active(active: bool) -> Self {
        Self { active: Some(active), sent: Vec::new(), terms: Terms::default() }
    }

    /// Reports every failing field at once.
    pub fn parse(body: &JsonObject, now: Timestamp) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        let root = fields.body(body, PAYMENT_LINK_CHANGE_BODY);
        let active = fields.read(&root, &ACTIVE);
        if body.get(ACTIVE.name).is_some_and(JsonValue::is_null) {
            fields.reject(ACTIVE.name, "must be true or false");
        }
        let terms = Terms::read(&mut fields, &root, now);
        let names =
            [DESCRIPTION.name, ASK.name, SUCCESS_URL.name, MAX_COUNT.name, EXPIRES_AT.name, METADATA.name];
        let sent = names.into_iter().filter(|name| body.get(*name).is_some()).collect();
        fields.finish(Some(Self { active, sent, terms }))
    }

    /// Whether the link's charges will be others.
    pub(crate) fn is_of_charges(&self) -> bool {
        let of_charges = [DESCRIPTION.name, ASK.name, SUCCESS_URL.name, METADATA.name];
        self.sent.iter().any(|name| of_charges.contains(name))
    }

    /// The changed link. 400 if the result is not a valid link.
    pub(crate) fn apply(&self, link: &PaymentLink, now: Timestamp) -> Result<PaymentLink, Problem> {
        let Self { active, sent, terms } = self;
        let is_sent = |name: &str| sent.contains(&name);
        let mut next = PaymentLink {
            active: active.unwrap_or(link.active),
            updated_at: now,
            version: link.version.saturating_add(1),
            ..link.clone()
        };
        let terms = terms.clone();
        if is_sent(DESCRIPTION.name) {
            next.description = terms.description;
        }
        if is_sent(ASK.name) {
            next.ask = terms.ask;
        }
        if is_sent(SUCCESS_URL.name) {
            next.success_url = terms.success_url;
        }
        if is_sent(MAX_COUNT.name) {
            next.max_payments = terms.max_payments;
        }
        if is_sent(EXPIRES_AT.name) {
            next.expires_at = terms.expires_at;
        }
        if is_sent(METADATA.name) {
            next.metadata = terms.metadata;
        }
        let mut fields = Fields::new();
        check_places(&mut fields, &next.methods, next.max_payments);
        if is_sent(MAX_COUNT.name) && link.max_payments.is_none() && next.max_payments.is_some() {
            fields.reject(MAX_COUNT.name, "can't be added to a link that was made without; make a new one");
        }
        fields.finish(Some(next))
    }
}

/// A maximum that is less than the payments that were made and the open charges.
pub(crate) fn below_used(used: u32) -> Problem {
    let rule = format!("must be at least {used}: the payments that were made, and the open charges");
    Problem::field(MAX_COUNT.name, rule)
}

/// A page of the list of links.
#[derive(Clone, Copy, Debug)]
pub struct PaymentLinkPage {
    pub limit: usize,
    pub starting_after: Option<PaymentLinkId>,
}

impl PaymentLinkPage {
    /// Reports every failing parameter at once.
    pub fn parse(query: &Query) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        query.allow_only(&mut fields, PAYMENT_LINKS_QUERY);
        let page = Self {
            limit: query.count(&mut fields, &LIMIT),
            starting_after: query.read(&mut fields, &STARTING_AFTER),
        };
        fields.finish(Some(page))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::object;

    #[test]
    fn a_currency_in_lower_case_is_the_same_request() {
        let parse = |currency: &str| {
            let body = json!({"amount": 1, "payment_methods": ["PIX"], "currency": currency});
            NewPaymentLink::parse(&object(&body), Timestamp::MIN).unwrap()
        };
        let (lower, upper) = (parse("brl"), parse("BRL"));
        assert_eq!((lower.currency, &lower.hash), (Currency::BRL, &upper.hash));
    }
}
