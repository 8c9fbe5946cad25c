//! Sends the DynamoDB requests of one `POST /v1/pix/charges` with the bare AWS SDK. This is the baseline to
//! which `local/benches/instructions.rs` compares the function.
//!
//! Usage: `sdk_calls REQUESTS [ROUNDS]`. `REQUESTS` is a JSON file of recorded requests, `[{"target",
//! "body"}]`. Each round sends all of them in order. Without `ROUNDS` the program is a Lambda function that
//! runs one round for each invocation. The environment variables and the HTTP client are those of the function
//! `charges`; the rest of the client is the SDK's default.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    reason = "a failing benchmark program may panic"
)]

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use aws_sdk_dynamodb::config::BehaviorVersion;
use aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure};
use aws_sdk_dynamodb::{Client, Config};
use lambda_http::http::StatusCode;
use lambda_http::{Error, service_fn};
use serde_json::Value;
use shared::random;
use shared::store::{Aws, endpoint_url, timeouts};

/// The number of hexadecimal digits of a round's random suffix.
const SUFFIX_DIGITS: usize = 32;

/// A recorded request that can be sent repeatedly.
enum Request {
    Update(UpdateItemFluentBuilder),
    /// An insert. Each round replaces the end of the partition key with a new random suffix, so that the row
    /// does not exist yet.
    Put {
        put: PutItemFluentBuilder,
        key_prefix: String,
    },
}

impl Request {
    fn new(client: &Client, recorded: &Value) -> Self {
        let body = &recorded["body"];
        let text = |name: &str| body[name].as_str().map(str::to_owned);
        match recorded["target"].as_str() {
            Some("DynamoDB_20120810.UpdateItem") => Self::Update(
                client
                    .update_item()
                    .set_table_name(text("TableName"))
                    .set_key(item(&body["Key"]))
                    .set_update_expression(text("UpdateExpression"))
                    .set_condition_expression(text("ConditionExpression"))
                    .set_expression_attribute_values(item(&body["ExpressionAttributeValues"]))
                    .set_return_values(text("ReturnValues").as_deref().map(ReturnValue::from)),
            ),
            Some("DynamoDB_20120810.PutItem") => {
                let on_failure = text("ReturnValuesOnConditionCheckFailure");
                let key = body["Item"]["pk"]["S"].as_str().expect("the recorded item has no partition key");
                let put = client
                    .put_item()
                    .set_table_name(text("TableName"))
                    .set_item(item(&body["Item"]))
                    .set_condition_expression(text("ConditionExpression"))
                    .set_return_values_on_condition_check_failure(
                        on_failure.as_deref().map(ReturnValuesOnConditionCheckFailure::from),
                    );
                Self::Put { put, key_prefix: key[..key.len().saturating_sub(SUFFIX_DIGITS)].to_owned() }
            }
            _ => panic!("unsupported request: {recorded}"),
        }
    }

    async fn send(&self) {
        match self {
            Self::Update(update) => {
                update.clone().send().await.expect("UpdateItem failed");
            }
            Self::Put { put, key_prefix } => {
                let suffix = u128::from_be_bytes(random::bytes().expect("no random bytes available"));
                let key = AttributeValue::S(format!("{key_prefix}{suffix:0SUFFIX_DIGITS$x}"));
                put.clone().item("pk", key).send().await.expect("PutItem failed");
            }
        }
    }
}

fn item(value: &Value) -> Option<HashMap<String, AttributeValue>> {
    let fields = value.as_object()?;
    Some(fields.iter().map(|(name, value)| (name.clone(), attribute(value))).collect())
}

/// Converts an attribute from DynamoDB's JSON, such as `{"S": "text"}`.
fn attribute(value: &Value) -> AttributeValue {
    let typed = value.as_object().and_then(|typed| typed.iter().next());
    match typed.map(|(kind, value)| (kind.as_str(), value)) {
        Some(("S", Value::String(text))) => AttributeValue::S(text.clone()),
        Some(("N", Value::String(number))) => AttributeValue::N(number.clone()),
        Some(("BOOL", Value::Bool(value))) => AttributeValue::Bool(*value),
        Some(("NULL", Value::Bool(value))) => AttributeValue::Null(*value),
        Some(("L", Value::Array(values))) => AttributeValue::L(values.iter().map(attribute).collect()),
        Some(("M", fields)) => AttributeValue::M(item(fields).unwrap_or_default()),
        _ => panic!("unsupported attribute: {value}"),
    }
}

/// Builds a client with the SDK's own signer, endpoint rules and `User-Agent`.
fn sdk_client(aws: &Aws, url: Option<String>) -> Client {
    let mut config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(aws.region())
        .credentials_provider(aws.credentials())
        .http_client(aws.http())
        .timeout_config(timeouts());
    config.set_endpoint_url(url);
    Client::from_conf(config.build())
}

async fn run_round(requests: &[Request]) {
    for request in requests {
        request.send().await;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let requests = std::fs::read(arguments.next().expect("the argument REQUESTS is missing"))?;
    let requests: Vec<Value> = serde_json::from_slice(&requests)?;
    let var = |name: &str| std::env::var(name).ok();
    let client = sdk_client(&Aws::from_vars(&var)?, endpoint_url(&var, "DYNAMODB"));
    let requests: Arc<[Request]> = requests.iter().map(|recorded| Request::new(&client, recorded)).collect();
    let Some(rounds) = arguments.next() else {
        let handler = service_fn(move |_: lambda_http::Request| {
            let requests = Arc::clone(&requests);
            async move {
                run_round(&requests).await;
                Ok::<_, Infallible>((StatusCode::CREATED, ""))
            }
        });
        return lambda_http::run(handler).await;
    };
    for _ in 0..rounds.parse()? {
        run_round(&requests).await;
    }
    Ok(())
}
