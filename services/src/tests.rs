//! Checks the fields of every route in this crate, and that the parsers accept their examples and defaults.

use std::collections::BTreeSet;

use domain::ids::Mode;
use domain::url_policy::AddressPolicy;
use serde_json::{Map, Value, json};

use crate::{PAYMENTS_QUERY, PaymentFilter};
use effects::rollup::view::{METRICS_QUERY, STATS_QUERY, StatsQuery};
use effects::webhook::delivery::{DELIVERIES_QUERY, DeliveryFilter};
use effects::webhook::endpoint::{
    ENDPOINT_BODY, ENDPOINT_CHANGE_BODY, EndpointChange, NewEndpoint, ROTATE_SECRET_BODY, check_rotation,
};
use effects::webhook::log::{EVENTS_QUERY, EventFilter};
use money::charge::payment::request::{NewPayment, PAYMENT_BODY};
use money::charge::request::{CHARGE_BODY, ChargeRoute, NewCharge, PIX_CHARGE_BODY};
use money::charge::{CHARGES_QUERY, ChargeFilter};
use money::med::evidence::{EVIDENCE_BODY, EvidenceFile};
use money::med::request::{
    APPEAL_BODY, NOTICE_BODY, SANDBOX_CASE_BODY, appeal_reason, case_notification, notice_content,
};
use money::med::{CASES_QUERY, CaseQuery};
use money::payment_link::request::{
    PAYMENT_LINK_CHANGE_BODY, PAYMENT_LINKS_QUERY, PaymentLinkChange, PaymentLinkPage,
};
use money::refund::{NewRefund, REFUND_BODY};
use money::report::request::{
    NewReport, NewSchedule, REPORT_BODY, REPORT_SCHEDULE_BODY, REPORTS_QUERY, ReportPage,
};
use money::wallet::statement::{
    BALANCE_QUERY, CSV_STATEMENT_QUERY, STATEMENT_QUERY, StatementFilter, StatementFormat, balance_currency,
};
use shared::api_key::request::{API_KEY_BODY, NewApiKey, ROTATE_API_KEY_BODY, new_label};
use shared::auth::dashboard::log_in::{Credentials, LOG_IN_BODY};
use shared::http::field::*;
use shared::http::json::parse_object;
use shared::http::{Fields, JsonObject, Problem, Query};
use shared::request_log::{RECORDING_BODY, REQUESTS_QUERY, RequestFilter, recorded_minutes};

/// Converts a value to the body that a client would send.
fn object(value: &Value) -> JsonObject {
    parse_object(value.to_string().as_bytes()).unwrap()
}

type Parser<T> = fn(&T) -> Result<(), Problem>;

fn charge(body: &JsonObject, route: ChargeRoute) -> Result<(), Problem> {
    let mut fields = Fields::new();
    let charge = NewCharge::from_body(&mut fields, body, route);
    fields.finish(charge).map(drop)
}

/// The bodies with their parsers.
const BODIES: [(BodyFields, Parser<JsonObject>); 18] = [
    (CHARGE_BODY, |body| charge(body, ChargeRoute::Charges)),
    (PIX_CHARGE_BODY, |body| charge(body, ChargeRoute::PixCharges)),
    (PAYMENT_BODY, |body| NewPayment::parse(body, &AddressPolicy::PublicOnly, Mode::Test).map(drop)),
    (REFUND_BODY, |body| NewRefund::parse(body).map(drop)),
    (APPEAL_BODY, |body| appeal_reason(body).map(drop)),
    (EVIDENCE_BODY, |body| EvidenceFile::parse(body).map(drop)),
    (SANDBOX_CASE_BODY, |body| case_notification(body).map(drop)),
    (NOTICE_BODY, |body| notice_content(body, "2026-11-21T10:00:00.000Z".parse().unwrap()).map(drop)),
    (REPORT_BODY, |body| NewReport::parse(body, "2026-11-30T12:00:00.000Z".parse().unwrap()).map(drop)),
    (REPORT_SCHEDULE_BODY, |body| NewSchedule::parse(body).map(drop)),
    (PAYMENT_LINK_CHANGE_BODY, |body| {
        PaymentLinkChange::parse(body, "2026-11-30T12:00:00.000Z".parse().unwrap()).map(drop)
    }),
    (ENDPOINT_BODY, |body| NewEndpoint::parse(body, &AddressPolicy::PublicOnly).map(drop)),
    (ENDPOINT_CHANGE_BODY, |body| EndpointChange::parse(body, &AddressPolicy::PublicOnly).map(drop)),
    (ROTATE_SECRET_BODY, |body| {
        check_rotation(
            body,
            ROTATE_SECRET_BODY.known[0].definition().example.as_str().unwrap().parse().unwrap(),
        )
    }),
    (API_KEY_BODY, |body| NewApiKey::parse(body).map(drop)),
    (ROTATE_API_KEY_BODY, |body| new_label(body).map(drop)),
    (RECORDING_BODY, |body| recorded_minutes(body).map(drop)),
    (LOG_IN_BODY, |body| Credentials::parse(body).map(drop)),
];

/// The query strings with their parsers.
const QUERIES: [(Definitions, Parser<Query>); 13] = [
    (CHARGES_QUERY, |query| ChargeFilter::parse(query).map(drop)),
    (PAYMENTS_QUERY, |query| PaymentFilter::parse(query).map(drop)),
    (STATS_QUERY, |query| StatsQuery::parse(query, STATS_QUERY).map(drop)),
    (METRICS_QUERY, |query| StatsQuery::parse(query, METRICS_QUERY).map(drop)),
    (BALANCE_QUERY, |query| balance_currency(query).map(drop)),
    (STATEMENT_QUERY, |query| StatementFilter::parse(query, StatementFormat::Json).map(drop)),
    (CSV_STATEMENT_QUERY, |query| StatementFilter::parse(query, StatementFormat::Csv).map(drop)),
    (CASES_QUERY, |query| CaseQuery::parse(query).map(drop)),
    (PAYMENT_LINKS_QUERY, |query| PaymentLinkPage::parse(query).map(drop)),
    (REPORTS_QUERY, |query| ReportPage::parse(query).map(drop)),
    (DELIVERIES_QUERY, |query| DeliveryFilter::parse(query).map(drop)),
    (REQUESTS_QUERY, |query| RequestFilter::parse(query).map(drop)),
    (EVENTS_QUERY, |query| EventFilter::parse(query).map(drop)),
];

/// Returns an object with the value that `value` takes of each field.
fn object_of(list: &[Definition], value: fn(&Definition) -> Option<Value>) -> Value {
    let fields = list.iter().filter_map(|field| Some((field.name.to_owned(), value(field)?)));
    Value::Object(fields.collect::<Map<_, _>>())
}

/// The example of a field; for an object, the examples of its fields.
fn deep_example(field: &Definition) -> Value {
    match &field.values {
        Values::Object(fields) => object_of(fields, |field| Some(deep_example(field))),
        _ => field.example.clone(),
    }
}

#[test]
fn a_body_of_examples_is_accepted() {
    for (fields, parse) in BODIES {
        let list = definitions(fields.known);
        for body in [
            object_of(&list, |field| Some(field.example.clone())),
            object_of(&list, |field| Some(deep_example(field))),
        ] {
            parse(&object(&body)).unwrap_or_else(|problem| panic!("{body}: {problem:?}"));
        }
    }
}

#[test]
fn a_body_of_defaults_and_required_fields_is_accepted() {
    for (fields, parse) in BODIES {
        let value = |field: &Definition| {
            field.default.clone().or_else(|| field.required.then(|| field.example.clone()))
        };
        let body = object_of(&definitions(fields.known), value);
        parse(&object(&body)).unwrap_or_else(|problem| panic!("{body}: {problem:?}"));
    }
}

#[test]
fn each_required_field_and_no_other_is_required() {
    for (fields, parse) in BODIES {
        let required: Vec<&str> =
            definitions(fields.known).iter().filter(|field| field.required).map(|field| field.name).collect();
        match parse(&JsonObject::new()) {
            Ok(()) => assert_eq!(required, [""; 0]),
            Err(Problem::Invalid(details) | Problem::InvalidAmount(details)) => {
                let rejected: BTreeSet<&str> = details.iter().map(|detail| detail.param.as_str()).collect();
                assert_eq!(rejected, required.into_iter().collect());
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn each_example_and_each_default_of_a_query_parameter_is_accepted() {
    for (list, parse) in QUERIES {
        for field in definitions(list) {
            for value in [Some(field.example), field.default].into_iter().flatten() {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let query = Query::parse(Some(&format!("{}={text}", field.name)));
                parse(&query).unwrap_or_else(|problem| panic!("{query:?}: {problem:?}"));
            }
            assert!(!field.required, "{}", field.name);
        }
        parse(&Query::parse(None)).unwrap();
        parse(&Query::parse(Some("another=1"))).unwrap_err();
    }
}

#[test]
fn the_example_of_a_header_is_accepted() {
    let example = IDEMPOTENCY_KEY.definition().example;
    assert_eq!(
        IDEMPOTENCY_KEY.kind.read(example.as_str().unwrap().as_bytes()),
        Ok(example.as_str().unwrap())
    );
}

fn check(list: &[Definition]) {
    let names: BTreeSet<&str> = list.iter().map(|field| field.name).collect();
    assert_eq!(names.len(), list.len(), "{names:?}");
    for field in list {
        let name = field.name;
        assert!(!name.is_empty());
        assert!(field.text.ends_with('.') && field.text.len() > 10, "{name}: {}", field.text);
        assert!(!field.example.is_null(), "{name}");
        assert!(field.default.as_ref().is_none_or(|default| !default.is_null()), "{name}");
        if let Values::Object(fields) = &field.values {
            check(fields);
        }
    }
}

#[test]
fn definitions_are_complete_and_names_are_unique() {
    const HEADERS: Definitions = &[&IDEMPOTENCY_KEY];
    let lists = BODIES.iter().map(|(fields, _)| fields.known).chain(QUERIES.iter().map(|(list, _)| *list));
    for list in lists.chain([HEADERS]) {
        check(&definitions(list));
    }
}

#[test]
fn a_field_that_is_not_in_the_list_counts_as_absent() {
    let body = object(&json!({"label": "shop"}));
    let mut fields = Fields::new();
    let label: Field<Text> =
        Field { name: "label", kind: Text::of(0, 9), presence: Presence::Optional, text: "", example: "" };
    let api_key = fields.body(&body, API_KEY_BODY);
    assert_eq!(fields.read(&api_key, &label), Some("shop".to_owned()));
    let log_in = fields.body(&body, LOG_IN_BODY);
    assert_eq!(fields.read(&log_in, &label), None);
    assert!(!log_in.has(&label));
}

#[test]
fn a_misspelt_field_is_refused_and_in_a_strict_body_every_unknown_one() {
    let body = object(&json!({"Label": "a", "te_st": true, "colour": 1, "label": null}));
    let params = |read: fn(&mut Fields, &JsonObject)| {
        let mut fields = Fields::new();
        read(&mut fields, &body);
        let problem = fields.finish(Some(())).unwrap_err();
        problem.params().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let misspelt = params(|fields, body| {
        fields.body(body, BodyFields::open(API_KEY_BODY.known));
    });
    assert_eq!(misspelt, ["Label", "te_st"]);
    let unknown = params(|fields, body| {
        fields.body(body, API_KEY_BODY);
    });
    assert_eq!(unknown, ["Label", "te_st", "colour"]);
}
