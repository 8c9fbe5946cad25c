//! The bodies of successful responses and of webhooks: the schemas of the service's views, the schema of each
//! route's responses and of each event type's body.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use acquirer_core::{NoticeView, NotificationView, ProviderStatusView};
use domain::webhook::event_type::{CatalogEntry, EventType};
use effects::rollup::view::{MetricsView, StatsView};
use effects::webhook::body_schema::{body_schema, body_schema_name};
use effects::webhook::delivery::{AttemptListView, DeliveryListView, DeliveryStats, DeliveryView};
use effects::webhook::endpoint::{
    DeletedView, EndpointListView, EndpointView, OverrideSecretView, SecretView,
};
use effects::webhook::log::{EventListView, EventView};
use effects::webhook::recovery::{RecoveryListView, RecoveryView};
use effects::webhook::resend::ResentView;
use money::charge::payment::view::{CreatedPaymentView, DocumentView, PaymentView};
use money::charge::view::{ChargeListView, ChargeView};
use money::med::evidence::{EvidenceListView, EvidenceView, UploadView};
use money::med::{CaseListView, CaseView};
use money::payment_link::{PaymentLinkListView, PaymentLinkView};
use money::refund::{RefundListView, RefundView};
use money::report::{DeletedReportView, ReportListView, ReportScheduleListView, ReportView};
use money::wallet::view::{BalanceView, FlatBalanceView, StatementView, WalletView};
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};
use services::{PaymentListView, TimelineView};
use shared::api_key::view::{ApiKeyListView, IssuedView, RevokedView};
use shared::auth::dashboard::log_in::NewTokenView;
use shared::http::{ErrorBody, ListView, WholeListView};
use shared::request_log::{ErrorGroup, LoggedRequest, RecordingView};

const SCHEMAS_PATH: &str = "/components/schemas";

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Content {
    Json(&'static str),
    Media(&'static str),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Success {
    pub(crate) status: u16,
    /// Empty: the response has no body.
    pub(crate) contents: &'static [Content],
}

pub(crate) fn webhook_bodies() -> Vec<(EventType, String)> {
    EventType::ALL.iter().map(|(_, event_type)| (*event_type, body_schema_name(*event_type))).collect()
}

/// Adds the schemas of types to those of a generator.
macro_rules! define {
    ($generator:ident: $($view:ty),*) => {
        $($generator.subschema_for::<$view>();)*
    };
}

pub(crate) fn schemas() -> BTreeMap<String, Value> {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
        settings.definitions_path = SCHEMAS_PATH.into();
        settings.meta_schema = None;
        settings.transforms.push(Box::new(RecursiveTransform(plain)));
    });
    let mut generator = SchemaGenerator::new(settings);
    define!(generator:
        ApiKeyListView<'_>, IssuedView<'_>, RevokedView, NewTokenView<'_>, ChargeView<'_>,
        ChargeListView<'_>, TimelineView, CaseView<'_>, CaseListView<'_>, EvidenceView<'_>,
        EvidenceListView<'_>, UploadView, CreatedPaymentView<'_>, PaymentView<'_>, PaymentListView<'_>,
        StatsView, MetricsView, ProviderStatusView, DocumentView, RefundView<'_>, RefundListView<'_>,
        PaymentLinkView, PaymentLinkListView,
        ReportView, ReportListView, DeletedReportView, ReportScheduleListView<'_>,
        ResentView, NotificationView, NoticeView, BalanceView, FlatBalanceView, StatementView<'_>,
        EndpointView<'_>, EndpointListView<'_>, DeletedView, SecretView<'_>, OverrideSecretView<'_>,
        DeliveryView<'_>, DeliveryListView<'_>, AttemptListView<'_>, DeliveryStats, RecoveryView<'_>, RecoveryListView<'_>, EventView, EventListView, ErrorBody<'_>,
        LoggedRequest, ListView<LoggedRequest, String>, WholeListView<ErrorGroup>, RecordingView
    );
    for (event_type, _) in webhook_bodies() {
        body_schema(event_type, &mut generator);
    }
    let arrays_and_unions = [
        (
            "WalletList",
            json!({
                "description": "The wallets of the account, the one in the primary currency first.",
                "type": "array",
                "items": generator.subschema_for::<WalletView>(),
            }),
        ),
        (
            "AnyWalletBalance",
            json!({
                "description": "The balances in all currencies, or the balance in the requested `currency`.",
                "anyOf": [
                    generator.subschema_for::<BalanceView>(),
                    generator.subschema_for::<FlatBalanceView>(),
                ],
            }),
        ),
        (
            "EventCatalog",
            json!({
                "description": "The event types that endpoints can subscribe to.",
                "type": "array",
                "items": generator.subschema_for::<CatalogEntry>(),
            }),
        ),
    ];
    let definitions = generator.definitions_mut();
    definitions.extend(arrays_and_unions.map(|(name, schema)| (name.to_owned(), schema)));
    let mut schemas: BTreeMap<String, Value> = generator.take_definitions(true).into_iter().collect();
    split_endpoint(&mut schemas);
    schemas
}

/// Joins the lines of a description, removes formats that only Rust has, and writes enumerations as generators of
/// clients read them: `oneOf` of constants as `enum`, and a boolean constant as any boolean.
fn plain(schema: &mut Schema) {
    list_words(schema);
    if schema.get("const").is_some_and(Value::is_boolean) {
        schema.remove("const");
    }
    if let Some(Value::String(description)) = schema.get_mut("description") {
        let paragraphs = description.split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
        *description = paragraphs.collect::<Vec<_>>().join("\n\n");
    }
    if schema.get("format").and_then(Value::as_str).is_some_and(|format| format.starts_with("uint")) {
        schema.remove("format");
    }
}

/// Moves the meanings of an enumeration's words into its description.
fn list_words(schema: &mut Schema) {
    let variants = schema.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    let words: Option<Vec<(Value, String)>> = variants
        .map(|variant| {
            let word = variant.get("const").filter(|word| word.is_string())?;
            Some((word.clone(), variant.get("description").map(bare).unwrap_or_default()))
        })
        .collect();
    let Some(words) = words.filter(|words| !words.is_empty()) else { return };
    let mut description = schema.get("description").map(bare).unwrap_or_default();
    for (word, meaning) in &words {
        let _ = write!(description, "\n\n`{}`: {meaning}", bare(word));
    }
    schema.remove("oneOf");
    schema.insert("type".to_owned(), "string".into());
    schema.insert("enum".to_owned(), words.into_iter().map(|(word, _)| word).collect());
    schema.insert("description".to_owned(), description.into());
}

fn bare(text: &Value) -> String {
    text.as_str().unwrap_or_default().to_owned()
}

/// Divides the schema of an endpoint in two, because only the response to the registration contains the secret,
/// and it always does.
fn split_endpoint(schemas: &mut BTreeMap<String, Value>) {
    let Some(endpoint) = schemas.get_mut("WebhookEndpoint") else { return };
    let mut registered = endpoint.clone();
    for field in ["secret", "standardWebhooksSecret"] {
        if let Some(required) = registered.get_mut("required").and_then(Value::as_array_mut) {
            required.push(field.into());
        }
        if let Some(properties) = endpoint.get_mut("properties").and_then(Value::as_object_mut) {
            properties.remove(field);
        }
    }
    if let Some(schema) = registered.as_object_mut() {
        schema.insert("description".to_owned(), "A new webhook endpoint, with its secret.".into());
    }
    schemas.insert("RegisteredWebhookEndpoint".to_owned(), registered);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use shared::request_log::HARMLESS_FIELDS;

    use super::*;

    /// Calls `visit` for a value and all values in it, with their paths.
    fn walk(path: &str, value: &Value, visit: &mut dyn FnMut(&str, &Value)) {
        visit(path, value);
        match value {
            Value::Object(map) => {
                map.iter().for_each(|(name, value)| walk(&format!("{path}/{name}"), value, visit));
            }
            Value::Array(values) => {
                let items = values.iter().enumerate();
                items.for_each(|(index, value)| walk(&format!("{path}/{index}"), value, visit));
            }
            _ => {}
        }
    }

    fn walk_all(mut visit: impl FnMut(&str, &Value)) {
        for (name, schema) in schemas() {
            walk(&name, &schema, &mut visit);
        }
    }

    #[test]
    fn each_property_has_a_description() {
        let mut bare = Vec::new();
        walk_all(|path, value| {
            for (name, property) in value.get("properties").and_then(Value::as_object).into_iter().flatten() {
                if property.get("description").is_none() {
                    bare.push(format!("{path}/{name}"));
                }
            }
        });
        assert_eq!(bare, Vec::<String>::new());
        let bare: Vec<String> = schemas()
            .into_iter()
            .filter(|(_, schema)| schema.get("description").is_none())
            .map(|(name, _)| name)
            .collect();
        assert_eq!(bare, Vec::<String>::new());
    }

    #[test]
    fn a_description_is_written_for_readers_of_the_api() {
        let mut internal = Vec::new();
        walk_all(|path, value| {
            let description = value.get("description").and_then(Value::as_str).unwrap_or_default();
            let of_source = ["[`", "::", "(contract", "(design", "on the wire", "row"];
            if of_source.iter().any(|text| description.contains(text)) {
                internal.push(format!("{path}: {description}"));
            }
        });
        assert_eq!(internal, Vec::<String>::new());
    }

    #[test]
    fn each_route_and_event_type_has_a_schema_and_each_schema_a_use() {
        let schemas = schemas();
        let of_routes = crate::document::OPERATIONS.iter().flat_map(|operation| operation.successes);
        let named = of_routes.flat_map(|success| success.contents).filter_map(|content| match content {
            Content::Json(name) => Some((*name).to_owned()),
            Content::Media(_) => None,
        });
        let mut used: BTreeSet<String> = named.collect();
        used.extend(webhook_bodies().into_iter().map(|(_, name)| name));
        used.insert("Error".to_owned());
        walk_all(|_, value| {
            let name = value.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
            used.extend(name.map(str::to_owned));
        });
        assert_eq!(schemas.into_keys().collect::<BTreeSet<_>>(), used);
    }

    #[test]
    fn each_example_has_the_required_fields_of_its_schema() {
        let (document, schemas) = (crate::document::document(), schemas());
        let mut lacking = Vec::new();
        walk("", &document["paths"], &mut |path, value| {
            let name = value["schema"]["$ref"].as_str().and_then(|path| path.rsplit('/').next());
            let example = value["examples"]["default"]["value"].as_object();
            let (Some(name), Some(example)) = (name, example) else { return };
            let required = schemas[name]["required"].as_array().into_iter().flatten();
            let names = required.filter_map(Value::as_str).filter(|name| !example.contains_key(*name));
            lacking.extend(names.map(|name| format!("{path}: {name}")));
        });
        assert_eq!(lacking, Vec::<String>::new());
    }

    /// The log of requests shows these fields of bodies. A new field is not shown until it is added to the list.
    #[test]
    fn each_field_that_the_log_of_requests_shows_exists_and_is_no_secret() {
        let mut known = BTreeSet::new();
        walk("", &crate::document::document(), &mut |_, value| {
            let properties = value.get("properties").and_then(Value::as_object);
            known.extend(properties.into_iter().flat_map(|properties| properties.keys().cloned()));
        });
        for field in HARMLESS_FIELDS.split(' ') {
            assert!(known.contains(field), "{field} is no field of the API");
            let name = field.to_lowercase();
            let forbidden = [
                "key",
                "secret",
                "token",
                "url",
                "password",
                "totp",
                "headers",
                "name",
                "email",
                "phone",
                "metadata",
                "description",
                "reason",
                "base64",
                "payload",
            ];
            assert!(
                !forbidden.iter().any(|word| name.contains(word)),
                "{field} may contain a secret or a person"
            );
        }
    }

    #[test]
    fn generators_of_clients_can_read_each_schema() {
        let schemas = schemas();
        let status = &schemas["ChargeStatus"];
        assert_eq!((&status["type"], &status["enum"][1]), (&json!("string"), &json!("processing")));
        assert!(status["description"].as_str().unwrap().contains("\n\n`pending`: Not paid yet."), "{status}");
        assert_eq!(schemas["Event"]["anyOf"][0]["$ref"], "#/components/schemas/CanonicalEvent");
        let mapping = &schemas["CanonicalEvent"]["discriminator"]["mapping"];
        assert_eq!(mapping["charge.paid"], "#/components/schemas/ChargePaidEvent");
        let mut unreadable = Vec::new();
        let document = crate::document::document();
        walk("", &document, &mut |path, value| {
            let is_word = |part: &Value| part.get("const").is_some_and(Value::is_string);
            let is_union =
                value.get("oneOf").and_then(Value::as_array).is_some_and(|parts| parts.iter().any(is_word));
            let is_array = value["type"] == "array" || value["type"] == json!(["array", "null"]);
            let pattern = value.get("pattern").and_then(Value::as_str).unwrap_or("^");
            if is_union
                || (is_array && value.get("items").is_none())
                || !pattern.starts_with('^')
                || value["const"].is_boolean()
            {
                unreadable.push(path.to_owned());
            }
        });
        assert_eq!(unreadable, Vec::<String>::new());
    }

    #[test]
    fn an_optional_field_is_absent_or_null_as_the_response_has_it() {
        let schemas = schemas();
        let charge = &schemas["Charge"];
        assert!(!charge["required"].as_array().unwrap().contains(&json!("expected_payer_tax_id")));
        assert_eq!(charge["properties"]["expected_payer_tax_id"]["type"], "string");
        let payment = &schemas["Payment"];
        assert!(payment["required"].as_array().unwrap().contains(&json!("paidAt")));
        assert_eq!(payment["properties"]["paidAt"]["type"], json!(["string", "null"]));
        assert!(schemas["WebhookEndpoint"]["properties"].get("secret").is_none());
        assert_eq!(schemas["ChargePaidEvent"]["properties"]["type"]["const"], "charge.paid");
    }
}
