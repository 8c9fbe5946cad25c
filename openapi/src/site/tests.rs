use std::collections::{BTreeSet, HashSet};

use serde_json::json;
use shared::http::{Detail, Problem};
use strum::EnumCount as _;

use super::block::Block;
use super::description::Description;
use super::guide::{CHAPTERS, SAMPLES};
use super::*;

/// A small description with one of each construct that the pages read.
fn document() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Payment service", "version": "1", "summary": "Pix charges.", "description": "Pix charges.\n\nMore about it."},
        "tags": [{"name": "Charges", "description": "A charge asks one payer for an amount."}, {"name": "Keys"}],
        "security": [{"apiKey": []}],
        "paths": {
            "/v1/charges/{id}": {
                "parameters": [{"$ref": "#/components/parameters/ChargeId"}],
                "get": {
                    "operationId": "getCharge", "summary": "Read a charge", "tags": ["Charges"],
                    "responses": {
                        "200": {"description": "The charge.", "content": {"application/json": {
                            "schema": {"$ref": "#/components/schemas/Charge"}}}},
                        "404": {"$ref": "#/components/responses/NotFound"},
                    },
                },
            },
            "/v1/charges": {"post": {
                "operationId": "createCharge", "summary": "Create a charge", "tags": ["Charges"],
                "description": "Creates a charge | once.",
                "parameters": [{
                    "name": "Idempotency-Key", "in": "header", "required": true,
                    "schema": {"type": "string", "minLength": 8, "maxLength": 128},
                }],
                "requestBody": {"content": {"application/json": {
                    "schema": {"$ref": "#/components/schemas/CreateCharge"},
                    "examples": {"minimal": {"summary": "The least", "value": {"amount": 1990}}},
                }}},
                "responses": {
                    "201": {"description": "Created.", "content": {"application/json": {
                        "schema": {"$ref": "#/components/schemas/Charge"}}}},
                    "409": {"description": "A conflict.", "content": {"application/json": {"schema": {"allOf": [
                        {"$ref": "#/components/schemas/Status"},
                        {"properties": {"error": {"properties": {"code": {"enum": ["reused"]}}}}},
                    ]}}}},
                },
            }},
            "/v1/api-keys/{id}/parts/{part_id}": {"delete": {
                "operationId": "deletePart", "summary": "Delete a part", "tags": ["Keys"],
                "security": [{"bearer": []}],
                "parameters": [
                    {"name": "id", "in": "path", "required": true, "schema": {"type": "string"}},
                    {"name": "part_id", "in": "path", "required": true, "schema": {"type": "string"}},
                ],
                "responses": {"204": {"description": "Deleted."}},
            }},
            "/open": {"get": {
                "operationId": "getOpen", "summary": "Read what is public", "tags": ["Keys"], "security": [],
                "responses": {"200": {"description": "A page.", "content": {"text/html": {}}}},
            }},
        },
        "webhooks": {"charge.paid": {"post": {
            "summary": "The charge was paid.",
            "requestBody": {"content": {"application/json": {
                "schema": {"type": "object", "properties": {"id": {"type": "string"}}}}}},
        }}},
        "components": {
            "securitySchemes": {
                "apiKey": {"type": "apiKey", "in": "header", "name": "apikey"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
            "parameters": {"ChargeId": {
                "name": "id", "in": "path", "required": true, "description": "The charge.",
                "schema": {"type": "string"}, "example": "ch_81549006-475b-811c-b292-793f61c77ab2",
            }},
            "responses": {"NotFound": {"description": "No such object <here>."}},
            "schemas": {
                "CreateCharge": {
                    "type": "object", "required": ["amount"],
                    "properties": {
                        "amount": {"type": "integer", "minimum": 1, "description": "Minor units."},
                        "customer": {"type": ["object", "null"], "properties": {"name": {"type": "string"}}},
                    },
                },
                "Charge": {
                    "type": "object", "description": "A charge.", "required": ["id"],
                    "properties": {
                        "id": {"type": "string"},
                        "status": {"enum": ["pending", "paid"], "type": "string"},
                        "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Status"}},
                    },
                    "examples": [{"id": "ch_1", "status": "pending"}],
                },
                "Status": {"type": "string", "enum": ["a", "b"], "description": "A status."},
            },
        },
    })
}

fn file(path: &str) -> String {
    files(&document()).into_iter().find(|file| file.path == path).unwrap().content
}

/// Returns the values of an attribute, such as `id`.
fn attributes<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
    html.split(&format!(" {name}=\"")).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

/// Returns the articles of the page by their names.
fn articles(html: &str) -> Vec<(&str, &str)> {
    let articles = html
        .split("<article data-page=\"")
        .skip(1)
        .map(|article| article.split("</article>").next().unwrap());
    articles.map(|article| article.split_once('"').unwrap()).collect()
}

#[test]
fn every_link_has_a_target_on_the_page_that_it_names() {
    let html = file("docs/site/index.html");
    let ids = attributes(&html, "id");
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len(), "an id occurs twice");
    let articles = articles(&html);
    for link in attributes(&html, "href") {
        if let Some(id) = link.strip_prefix('#') {
            assert!(["content", "contents"].contains(&id), "{link}");
        } else if let Some((page, id)) =
            link.strip_prefix("/docs/").map(|link| link.split_once('#').unwrap_or((link, link)))
        {
            let (_, article) =
                articles.iter().find(|(name, _)| *name == page).unwrap_or_else(|| panic!("{link}"));
            assert!(attributes(article, "id").contains(&id), "{link}");
        } else {
            assert!(link.starts_with('/') || link.starts_with("https://"), "{link}");
        }
    }
}

#[test]
fn a_chapter_and_a_group_of_the_reference_have_a_page_each() {
    let html = file("docs/site/index.html");
    let articles = articles(&html);
    let names: Vec<&str> = articles.iter().map(|(name, _)| *name).collect();
    let chapters = CHAPTERS.iter().map(|chapter| chapter.name);
    let groups = ["reference", "tag-charges", "tag-keys", "events", "schemas"];
    assert_eq!(names, [""].into_iter().chain(chapters).chain(groups).collect::<Vec<_>>());
    for (name, article) in articles {
        assert_eq!(article.matches("<h1").count(), 1, "{name}");
    }
}

#[test]
fn every_link_of_the_markdown_has_a_target() {
    let markdown = file("docs/site/docs.md");
    for link in markdown.split("](#").skip(1).map(|rest| rest.split(')').next().unwrap()) {
        assert!(markdown.contains(&format!("<a id=\"{link}\"></a>")), "{link}");
    }
    assert!(
        !markdown.contains(".md)") && !markdown.contains(".md#"),
        "a link names a file of the repository"
    );
}

#[test]
fn the_page_makes_no_request_and_has_no_script() {
    let html = file("docs/site/index.html");
    for forbidden in ["<script", "<img", "<link", "<iframe", " src=", " style=", "@import", "url("] {
        assert!(!html.contains(forbidden), "{forbidden}");
    }
}

#[test]
fn every_sample_is_in_the_guide() {
    let shown: BTreeSet<String> = guide::blocks()
        .into_iter()
        .filter_map(|block| match block {
            Block::Fold { blocks, .. } => Some(blocks),
            _ => None,
        })
        .flatten()
        .map(|block| match block {
            Block::Code { text, .. } => text,
            other => panic!("{other:?}"),
        })
        .collect();
    for (path, program) in SAMPLES {
        assert!(shown.contains(program), "{path}");
    }
    let markdown = file("docs/site/docs.md");
    assert!(!markdown.contains("](../"), "a link names a file of the repository");
}

#[test]
fn every_chapter_of_the_directory_is_in_the_guide() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide");
    let files =
        std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let files: BTreeSet<String> = files.collect();
    let chapters: BTreeSet<String> = CHAPTERS.iter().map(|chapter| format!("{}.md", chapter.name)).collect();
    assert_eq!(files, chapters);
}

#[test]
fn the_index_lists_chapters_and_routes() {
    insta::assert_snapshot!(file("docs/site/llms.txt"), @r##"
    # Payment service

    > Pix charges.

    All links are relative to the host of the API. The Markdown page contains the whole guide and the reference of all routes.

    ## Documentation

    - [Guide and reference](/docs.md): everything as one Markdown page
    - [OpenAPI 3.1 description](/v1/openapi.json): all routes, schemas and events

    ## Guide

    - [Quickstart](/docs.md#quickstart): You need three things: the base URL of the service, a test key, and a way to send HTTP requests.
    - [Authentication](/docs.md#authentication): Send the header `apikey: <key>` with every request.
    - [Requests and responses](/docs.md#requests): The base URL is the same for test and live keys; the key selects the mode.
    - [Idempotency](/docs.md#idempotency): A request can fail although the service carried it out: the connection breaks, or the response comes too late.
    - [Errors](/docs.md#errors): Every error of the service has this body.
    - [Charges and payments](/docs.md#charges): A charge and a payment are two views of one object.
    - [Webhooks](/docs.md#webhooks): The service posts events to the URLs that you register.
    - [Refunds](/docs.md#refunds): `POST /v1/payments/{id}/refund` refunds a settled Pix or card payment, whole or in parts.
    - [Wallets](/docs.md#wallets): A wallet is the balance of an account in one currency and mode.
    - [MED and evidence](/docs.md#med): In a MED case (Mecanismo Especial de Devolução) the payer's bank claims a paid Pix back, for example because the payer reports a fraud.
    - [Dashboard](/docs.md#dashboard): The dashboard shows your account's charges, money, disputes and webhooks in a browser, in Portuguese, English or Spanish.
    - [Team](/docs.md#team): Owners of an account invite and remove the users of its dashboard, and decide their roles.
    - [Test with the sandbox](/docs.md#sandbox): With a test key, no request reaches a bank.
    - [Build a shop](/docs.md#shop): A shop needs seven programs, from the order to the end of the day.
    - [Going live](/docs.md#going-live): A live key creates charges at the bank of your account, and by card at its card acquirer.
    - [Changelog](/docs.md#changelog): What changes in the API for merchants.

    ## Reference

    - [Charges](/docs.md#tag-charges): `POST /v1/charges`, `GET /v1/charges/{id}`
    - [Keys](/docs.md#tag-keys): `GET /open`, `DELETE /v1/api-keys/{id}/parts/{part_id}`

    ## Optional

    - [The same as a web page](/docs): for people
    "##);
}

/// Returns the reference from the section with an id up to the section with the next id.
fn reference_between(id: &str, next: &str) -> String {
    let document = document();
    let description = Description::new(&document);
    let markdown = markdown::page(description, &reference::blocks(description));
    let (_, rest) = markdown.split_once(&format!("<a id=\"{id}\"></a>")).unwrap();
    rest.split_once(&format!("<a id=\"{next}\"></a>")).map_or(rest, |(section, _)| section).to_owned()
}

#[test]
fn an_operation_shows_types_limits_examples_and_responses() {
    insta::assert_snapshot!(reference_between("operation-createCharge", "operation-getCharge"), @r##"

    #### Create a charge

    `POST /v1/charges`

    Creates a charge | once.

    Authentication: an API key in the header `apikey`.

    | parameter | type | description |
    | --- | --- | --- |
    | `Idempotency-Key` | header; string, 8 to 128 characters; required |  |

    The request has a body, `application/json`:

    | field | type | description |
    | --- | --- | --- |
    | `amount` | integer, at least 1; required | Minor units. |
    | `customer` | object or null |  |
    | `customer.name` | string |  |

    Example of a request: The least

    ```json
    {
      "amount": 1990
    }
    ```

    | status | body | meaning |
    | --- | --- | --- |
    | 201 | [Charge](#schema-Charge) | Created. |
    | 409 | [Status](#schema-Status) with `reused` | A conflict. |

    Example of a response with 201

    ```json
    {
      "id": "ch_1",
      "status": "pending"
    }
    ```
    "##);
}

#[test]
fn events_and_schemas_are_listed() {
    insta::assert_snapshot!(reference_between("events", ""), @r##"

    ### Events

    <a id="event-charge-paid"></a>

    #### `charge.paid`

    The charge was paid.

    Body: object

    <a id="schemas"></a>

    ### Schemas

    <a id="schema-Charge"></a>

    #### Charge

    A charge.

    | field | type | description |
    | --- | --- | --- |
    | `id` | string; required |  |
    | `parts` | array of [Status](#schema-Status) |  |
    | `status` | string: `pending`, `paid` |  |

    <a id="schema-CreateCharge"></a>

    #### CreateCharge

    | field | type | description |
    | --- | --- | --- |
    | `amount` | integer, at least 1; required | Minor units. |
    | `customer` | object or null |  |
    | `customer.name` | string |  |

    <a id="schema-Status"></a>

    #### Status

    A status.

    Type: string: `a`, `b`
    "##);
}

#[test]
fn html_in_a_description_is_shown_as_text() {
    let html = file("docs/site/index.html");
    assert!(html.contains("No such object &lt;here&gt;."));
    assert!(html.contains("Creates a charge | once."));
}

/// One problem of each variant.
fn problems() -> Vec<Problem> {
    let text = || "A sentence.".to_owned();
    let details = || vec![Detail::new("amount", "is required")];
    vec![
        Problem::Invalid(details()),
        Problem::InvalidAmount(details()),
        Problem::Unreadable(text()),
        Problem::Unauthorized,
        Problem::NotLoggedIn,
        Problem::WrongCredentials,
        Problem::SecondFactorRequired,
        Problem::SecondFactorDemanded,
        Problem::LogInAgain { back: text() },
        Problem::UnknownSender,
        Problem::ApiKeyRoleRequired,
        Problem::AccountSuspended,
        Problem::CustomerVelocityExceeded,
        Problem::AccountVelocityExceeded,
        Problem::LiveKeyNotAllowed,
        Problem::CdnBypassed,
        Problem::CrossSiteRequest,
        Problem::RoleRequired { role: "ADMIN" },
        Problem::ModeChanged,
        Problem::NotFound { what: "charge" },
        Problem::NoSuchRoute { method: text(), path: text() },
        Problem::IdempotencyKeyReused,
        Problem::EvidenceNotUploaded,
        Problem::EvidenceSizeMismatch { declared: 1, stored: 2 },
        Problem::Unprocessable(text()),
        Problem::UnprocessableField { param: "amount", message: text() },
        Problem::PaymentNotCancellable { status: "PAID" },
        Problem::PaymentNotRefundable { status: "PENDING" },
        Problem::ReturnWindowOver(text()),
        Problem::ChargeDisputed { is_over: false },
        Problem::RefundExceedsRemaining { remaining: 1 },
        Problem::InsufficientBalance { needed: 2, available: 1 },
        Problem::RefundNotSupported(text()),
        Problem::RateLimited { retry_after_seconds: 1 },
        Problem::TooManyTests { limit: 1, retry_after_seconds: 1 },
        Problem::TooManyLogins { limit: 1, retry_after_seconds: 1 },
        Problem::LiveChargesStopped,
        Problem::Unavailable(text()),
        Problem::Busy,
        Problem::Internal(text()),
    ]
}

#[test]
fn the_guide_lists_every_error_code_with_its_status() {
    let problems = problems();
    let variants: HashSet<_> = problems.iter().map(std::mem::discriminant).collect();
    assert_eq!(
        variants.len(),
        Problem::COUNT,
        "add the new variant to `problems`, and its code to the guide"
    );
    let sent: BTreeSet<(String, String)> = problems
        .iter()
        .map(|problem| (problem.status().as_str().to_owned(), problem.code().to_owned()))
        .collect();
    let page = include_str!("../../../docs/guide/errors.md");
    let (_, table) = page.split_once("## All codes").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains('`'))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    assert!(rows.iter().all(|row| row.len() == 4 && row.iter().all(|cell| !cell.is_empty())), "{rows:?}");
    let listed: BTreeSet<(String, String)> =
        rows.iter().map(|row| (row[0].to_owned(), row[1].trim_matches('`').to_owned())).collect();
    assert_eq!((listed.len(), &listed), (rows.len(), &sent));
}

#[test]
fn the_generated_files_are_up_to_date() {
    for File { path, content } in files(&crate::document()) {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
        if std::env::var_os("UPDATE_DESCRIPTION").is_some() {
            std::fs::write(&file, &content).unwrap();
        }
        let is_same = std::fs::read_to_string(&file).is_ok_and(|written| written == content);
        assert!(is_same, "{path} is out of date: run UPDATE_DESCRIPTION=1 cargo test -p openapi");
    }
}
