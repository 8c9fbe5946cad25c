use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder;
use aws_sdk_dynamodb::types::builders::PutBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};
use local::embedded::{Embedded, Listen, State};
use local::provision::provision;
use local::sdk;
use local::template::Template;
use shared::clock::Clock;

use super::*;

async fn start() -> (Embedded, FaultProxy, aws_sdk_dynamodb::Client) {
    let embedded = Embedded::start(&State::InMemory, Listen::AnyPort, &[], &Clock::default()).await.unwrap();
    provision(&Template::deployed().unwrap(), &embedded.database(), &embedded.endpoints()).await.unwrap();
    let proxy = FaultProxy::start().await.unwrap();
    let client = sdk::dynamodb(&proxy.fronts().url(Upstream::DynamoDb, &embedded.endpoints().dynamodb_url));
    (embedded, proxy, client)
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

/// A put of a row that is also in the index `list`.
fn put(client: &aws_sdk_dynamodb::Client, pk: &str) -> PutItemFluentBuilder {
    client
        .put_item()
        .table_name("StateTable")
        .item("pk", text(pk))
        .item("sk", text("x"))
        .item("list_pk", text("l"))
        .item("list_sk", text(pk))
}

/// The row of [`put`] as an item of a transaction.
fn transactional_put(client: &aws_sdk_dynamodb::Client, pk: &str) -> PutBuilder {
    Put::builder().table_name("StateTable").set_item(put(client, pk).get_item().clone())
}

fn transaction(put: PutBuilder) -> Vec<TransactWriteItem> {
    vec![TransactWriteItem::builder().put(put.build().unwrap()).build()]
}

/// The budgets in `testing/service/tests/service/budgets.rs` rely on these prices.
#[tokio::test]
async fn each_kind_of_request_consumes_the_units_that_aws_bills() {
    let (_embedded, proxy, client) = start().await;
    proxy.count_partitions();
    let units = |report: Report| {
        let by_key: f64 = report.units_by_key.iter().map(|key| key.units).sum();
        assert!((by_key - report.write_units).abs() < f64::EPSILON, "{report:?}");
        (report.write_units, report.read_units)
    };
    let update = |set: &str, value: &str| {
        let update = client.update_item().table_name("StateTable").key("pk", text("a")).key("sk", text("x"));
        update.update_expression(format!("SET {set} = :v")).expression_attribute_values(":v", text(value))
    };
    put(&client, "a").send().await.unwrap();
    proxy.reset();

    update("note", "1").send().await.unwrap();
    assert_eq!(
        units(proxy.report()),
        (1.0, 0.0),
        "an update that changes no index key: one unit in the table"
    );
    proxy.reset();

    update("list_sk", "b").send().await.unwrap();
    assert_eq!(
        units(proxy.report()),
        (3.0, 0.0),
        "a changed index key: also a delete and a put in the index"
    );
    proxy.reset();

    put(&client, "l").item("note", text(&"x".repeat(1500))).send().await.unwrap();
    assert_eq!(
        units(proxy.report()),
        (3.0, 0.0),
        "a row of 1.5 KB: two units in the table, one in the index"
    );
    proxy.reset();

    let items = transaction(transactional_put(&client, "t"));
    client.transact_write_items().set_transact_items(Some(items)).send().await.unwrap();
    assert_eq!(units(proxy.report()), (3.0, 0.0), "a transaction: two units in the table, one in the index");
    proxy.reset();

    let page =
        client.query().table_name("StateTable").index_name("list").key_condition_expression("list_pk = :l");
    page.expression_attribute_values(":l", text("l")).send().await.unwrap();
    assert_eq!(units(proxy.report()), (0.0, 0.5), "a query of an index: half a unit");
}

/// A ceiling for the whole test.
fn ceiling(write: f64) -> Ceiling {
    Ceiling { write, period: Duration::from_hours(1) }
}

/// A client that does not retry, so that each response is seen.
fn without_retries(proxy: &FaultProxy) -> aws_sdk_dynamodb::Client {
    let config = sdk::dynamodb(&proxy.url()).config().to_builder();
    aws_sdk_dynamodb::Client::from_conf(config.retry_config(RetryConfig::disabled()).build())
}

#[tokio::test]
async fn writes_above_the_ceiling_of_a_partition_are_throttled_in_the_table_and_in_an_index() {
    let (_embedded, proxy, _client) = start().await;
    let client = without_retries(&proxy);
    proxy.throttle(ceiling(3.0));
    // The rows have partition keys of their own, but share that of the index.
    for pk in ["a", "b", "c"] {
        put(&client, pk).send().await.unwrap();
    }
    let error = put(&client, "d").send().await.unwrap_err().into_service_error();
    let PutItemError::ThrottlingException(throttled) = error else { panic!("{error:?}") };
    let reason = &throttled.throttling_reasons()[0];
    assert_eq!(reason.reason(), Some("IndexWriteKeyRangeThroughputExceeded"));
    assert!(reason.resource().unwrap().ends_with(":table/StateTable/index/list"), "{reason:?}");

    let row = client.put_item().table_name("StateTable").item("pk", text("a"));
    for sk in ["1", "2"] {
        row.clone().item("sk", text(sk)).send().await.unwrap();
    }
    let throttled = row.clone().item("sk", text("3")).send().await.unwrap_err().into_service_error();
    let PutItemError::ThrottlingException(throttled) = throttled else { panic!("{throttled:?}") };
    assert_eq!(
        throttled.throttling_reasons()[0].reason(),
        Some("TableWriteKeyRangeThroughputExceeded"),
        "{throttled:?}"
    );
    // Another partition is not affected.
    let other = client.put_item().table_name("StateTable").item("pk", text("z")).item("sk", text("1"));
    other.send().await.unwrap();
    assert_eq!(proxy.throttled_requests(), 2);
}

#[test]
fn each_kind_of_request_is_recorded_with_its_action_and_its_leading_keys() {
    let recorded = |operation: &str, body: Value| -> Vec<String> {
        let calls = calls::calls("F", operation, &body);
        let keys = |call: &Call| call.leading_keys.iter().cloned().collect::<Vec<_>>().join(",");
        calls.iter().map(|call| format!("{} {} [{}]", call.action, call.resource, keys(call))).collect()
    };
    let row = |pk: &str| json!({"pk": {"S": pk}, "sk": {"S": "x"}});
    assert_eq!(recorded("PutItem", json!({"TableName": "T", "Item": row("a")})), ["dynamodb:PutItem T [a]"]);
    assert_eq!(
        recorded("UpdateItem", json!({"TableName": "T", "Key": row("a")})),
        ["dynamodb:UpdateItem T [a]"]
    );
    let batch = json!({"RequestItems": {"S": {"Keys": [row("c")]}, "T": {"Keys": [row("a"), row("b")]}}});
    assert_eq!(
        recorded("BatchGetItem", batch),
        ["dynamodb:BatchGetItem S [c]", "dynamodb:BatchGetItem T [a,b]"]
    );
    let query = json!({
        "TableName": "T", "IndexName": "list",
        "ExpressionAttributeValues": {":p": {"S": "l"}, ":q": {"S": "m"}},
        "KeyConditionExpression": "#partition = :p AND list_sk BETWEEN :q AND :q",
    });
    assert_eq!(recorded("Query", query), ["dynamodb:Query T/index/list [l]"]);
    let items = json!({"TransactItems": [
        {"Put": {"TableName": "T", "Item": row("a")}},
        {"ConditionCheck": {"TableName": "T", "Key": row("b")}},
        {"Delete": {"TableName": "S", "Key": row("c")}},
    ]});
    assert_eq!(
        recorded("TransactWriteItems", items),
        ["dynamodb:PutItem T [a]", "dynamodb:ConditionCheckItem T [b]", "dynamodb:DeleteItem S [c]"]
    );
    assert_eq!(recorded("Scan", json!({"TableName": "T"})), ["dynamodb:Scan T []"]);
}
