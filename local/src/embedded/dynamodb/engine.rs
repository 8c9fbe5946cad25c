//! Executes the operations of DynamoDB and of DynamoDB Streams with the functions of the crate dynoxide.
//!
//! dynoxide has an HTTP server and a type `Database` of its own. They are not used, because they parse each
//! request three times, scan all recent idempotency tokens in each transaction, and hide the SQLite
//! connection, which needs an index and other settings.

use std::fmt::Display;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use domain::time::Timestamp;
use dynoxide::DynoxideError;
use dynoxide::actions::transact_write_items::TransactWriteItemsRequest;
use dynoxide::actions::vector_lifecycle::VectorIndexLifecycle;
use dynoxide::actions::{
    batch_get_item, batch_write_item, create_table, delete_item, delete_table, describe_stream,
    describe_table, describe_time_to_live, get_item, get_records, get_shard_iterator, list_streams,
    list_tables, put_item, query, scan, transact_get_items, transact_write_items, update_item,
    update_time_to_live,
};
use dynoxide::storage::Storage;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use shared::clock::Clock;

use super::tokens::{Seen, Tokens};
use crate::embedded::State;

/// The number of SQL statements that SQLite does not have to parse again. dynoxide executes about twenty
/// different ones for each table.
const CACHED_STATEMENTS: usize = 256;

/// How many rows are read for expired ones while requests wait.
const EXPIRY_PAGE: usize = 100;

pub(crate) type Result<T> = std::result::Result<T, DynoxideError>;

struct ServiceClock(Clock);

impl dynoxide::storage_backend::Clock for ServiceClock {
    fn now_unix_secs(&self) -> u64 {
        u64::try_from(self.0.now().seconds()).unwrap_or_default()
    }

    fn now_unix_secs_f64(&self) -> f64 {
        Duration::from_millis(u64::try_from(self.0.now().millis()).unwrap_or_default()).as_secs_f64()
    }
}

pub(crate) struct Engine {
    storage: Storage,
    tokens: Tokens,
    vector_indexes: VectorIndexLifecycle,
}

impl Engine {
    /// Opens the database, and creates it if it does not exist.
    pub(super) fn open(state: &State, clock: &Clock) -> Result<Self> {
        let storage = match state.directory() {
            None => Storage::memory()?,
            Some(directory) => Storage::new(&directory.join("dynamodb.sqlite").to_string_lossy())?,
        };
        let storage = storage.with_clock(Arc::new(ServiceClock(clock.clone())));
        let connection = storage.conn();
        connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
        // - `synchronous`: SQLite does not sync each commit to the disk. A killed process loses none; a machine that
        //   loses its power loses the last ones.
        // - `locking_mode`: the process locks the file once, instead of in each transaction. No other process
        //   uses the file.
        // - `cache_size`: 64 MiB instead of 2 MiB, so that the inner pages of all indexes stay in memory.
        // - `wal_autocheckpoint`: a page that many commits change is copied to the file once in 4,000 written
        //   pages (16 MiB), instead of once in 1,000.
        // - `stream_order`: without this index, each write to a table reads all records of the table's
        //   stream, and so does each read of the stream.
        connection.execute_batch(
            "PRAGMA synchronous = NORMAL;
             PRAGMA locking_mode = EXCLUSIVE;
             PRAGMA cache_size = -65536;
             PRAGMA wal_autocheckpoint = 4000;
             CREATE INDEX IF NOT EXISTS stream_order
                 ON _stream_records (table_name, CAST(sequence_number AS INTEGER));",
        )?;
        Ok(Self { storage, tokens: Tokens::default(), vector_indexes: VectorIndexLifecycle::new() })
    }

    pub(crate) fn execute(&mut self, operation: &str, body: &[u8]) -> Result<Vec<u8>> {
        let storage = &self.storage;
        match operation {
            "BatchGetItem" => run(body, |request| batch_get_item::execute(storage, request)),
            "DescribeStream" => run(body, |request| describe_stream::execute(storage, request)),
            "DescribeTable" => {
                run(body, |request| describe_table::execute(storage, request, &self.vector_indexes))
            }
            "DescribeTimeToLive" => run(body, |request| describe_time_to_live::execute(storage, request)),
            "GetItem" => run(body, |request| get_item::execute(storage, request)),
            "GetRecords" => run(body, |request| get_records::execute(storage, request)),
            "GetShardIterator" => run(body, |request| get_shard_iterator::execute(storage, request)),
            "ListStreams" => run(body, |request| list_streams::execute(storage, request)),
            "ListTables" => run(body, |request| list_tables::execute(storage, request)),
            "Query" => run(body, |request| query::execute(storage, request)),
            "Scan" => run(body, |request| scan::execute(storage, request)),
            "TransactGetItems" => run(body, |request| transact_get_items::execute(storage, request)),
            "BatchWriteItem" => run(body, |request| batch_write_item::execute(storage, request)),
            "CreateTable" => run(body, |request| create_table::execute(storage, request)),
            "DeleteItem" => run(body, |request| delete_item::execute(storage, request)),
            "DeleteTable" => self.delete_table(body),
            "PutItem" => run(body, |request| put_item::execute(storage, request)),
            "TransactWriteItems" => self.transact(body),
            "UpdateItem" => run(body, |request| update_item::execute(storage, request)),
            "UpdateTimeToLive" => run(body, |request| update_time_to_live::execute(storage, request)),
            unknown => Err(DynoxideError::SerializationException(format!("unknown operation {unknown}"))),
        }
    }

    pub(crate) fn call(&mut self, operation: &str, request: &Value) -> Result<Value> {
        let response = self.execute(operation, request.to_string().as_bytes())?;
        serde_json::from_slice(&response).map_err(|error| internal(&error))
    }

    fn delete_table(&mut self, body: &[u8]) -> Result<Vec<u8>> {
        let request: delete_table::DeleteTableRequest = parse(body)?;
        let name = request.table_name.clone();
        let deleted = ready(delete_table::execute(&self.storage, request, &self.vector_indexes))?;
        self.storage.conn().execute("DELETE FROM _stream_records WHERE table_name = ?1", [name])?;
        self.tokens = Tokens::default();
        respond(&deleted)
    }

    /// Executes a transaction, unless one with the same token was executed in the last ten minutes.
    fn transact(&mut self, body: &[u8]) -> Result<Vec<u8>> {
        let request: TransactWriteItemsRequest = parse(body)?;
        let Some(token) = request.client_request_token.clone() else {
            return respond(&ready(transact_write_items::execute(&self.storage, request))?);
        };
        let items = serde_json::to_value(&request.transact_items).map_err(|e| internal(&e))?;
        match self.tokens.find(&token, &items) {
            Seen::Never => {}
            Seen::Same => return Ok(b"{}".to_vec()),
            Seen::WithOtherItems => {
                return Err(DynoxideError::IdempotentParameterMismatchException(
                    "the token was used for a transaction with other items".to_owned(),
                ));
            }
        }
        let response = ready(transact_write_items::execute(&self.storage, request))?;
        self.tokens.add(token, &items);
        respond(&response)
    }

    /// If it is the same as before, nothing changed.
    pub(super) fn changes(&self) -> u64 {
        self.storage.conn().total_changes()
    }

    /// The tables whose expired rows are deleted, each with the attribute that has the time of expiry.
    pub(super) fn expiring_tables(&mut self) -> Result<Vec<(String, String)>> {
        let listed = self.call("ListTables", &json!({}))?;
        let mut found = Vec::new();
        for table in elements(&listed, "/TableNames").filter_map(Value::as_str) {
            let described = self.call("DescribeTimeToLive", &json!({ "TableName": table }))?;
            let attribute = described.pointer("/TimeToLiveDescription/AttributeName").and_then(Value::as_str);
            found.extend(attribute.map(|attribute| (table.to_owned(), attribute.to_owned())));
        }
        Ok(found)
    }

    /// Reads a page of a table's rows, and deletes the expired ones. Returns the key at which the next page begins.
    pub(super) fn delete_expired(
        &mut self,
        (table, attribute): &(String, String),
        now: Timestamp,
        start: Option<Value>,
    ) -> Result<Option<Value>> {
        let mut scan = json!({
            "TableName": table, "Limit": EXPIRY_PAGE,
            "FilterExpression": "#ttl < :now", "ProjectionExpression": "pk, sk",
            "ExpressionAttributeNames": {"#ttl": attribute},
            "ExpressionAttributeValues": {":now": {"N": now.seconds().to_string()}},
        });
        if let (Some(start), Some(scan)) = (start, scan.as_object_mut()) {
            scan.insert("ExclusiveStartKey".to_owned(), start);
        }
        let page = self.call("Scan", &scan)?;
        for key in elements(&page, "/Items") {
            self.call("DeleteItem", &json!({ "TableName": table, "Key": key }))?;
        }
        Ok(page.get("LastEvaluatedKey").cloned())
    }

    /// Deletes the stream records that were created before a time of the service's clock.
    pub(super) fn trim_streams(&self, before: Timestamp) -> Result<usize> {
        let delete = "DELETE FROM _stream_records WHERE created_at < ?1";
        Ok(self.storage.conn().execute(delete, [before.seconds()])?)
    }
}

fn elements<'a>(answer: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    answer.pointer(list).and_then(Value::as_array).into_iter().flatten()
}

fn run<Q, R, F>(body: &[u8], action: impl FnOnce(Q) -> F) -> Result<Vec<u8>>
where
    Q: DeserializeOwned,
    R: Serialize,
    F: Future<Output = Result<R>>,
{
    respond(&ready(action(parse(body)?))?)
}

/// Returns the output of one of dynoxide's futures. They never wait, because SQLite blocks.
pub(super) fn ready<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => Err(internal(&"the database waits")),
    }
}

fn parse<Q: DeserializeOwned>(body: &[u8]) -> Result<Q> {
    serde_json::from_slice(body).map_err(|error| {
        let text = error.to_string();
        // dynoxide marks the errors of values that have the right type, but are invalid.
        match text.strip_prefix("VALIDATION:").or_else(|| text.strip_prefix("VALIDATION_REQUEST:")) {
            Some(text) => DynoxideError::ValidationException(text.to_owned()),
            None => DynoxideError::SerializationException(text),
        }
    })
}

fn respond(response: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(response).map_err(|e| internal(&e))
}

pub(crate) fn internal(error: &dyn Display) -> DynoxideError {
    DynoxideError::InternalServerError(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The statements of dynoxide 3.2 (`src/storage.rs`) that each write and each read of a stream execute.
    const STREAM_STATEMENTS: [&str; 2] = [
        "SELECT COALESCE(MAX(CAST(sequence_number AS INTEGER)), 0) + 1 FROM _stream_records WHERE table_name = 'T'",
        "SELECT event_name, keys_json, new_image, old_image, sequence_number, created_at, user_identity, event_id
         FROM _stream_records
         WHERE table_name = 'T' AND shard_id = 'S' AND CAST(sequence_number AS INTEGER) > 7
         ORDER BY CAST(sequence_number AS INTEGER) ASC
         LIMIT 100",
    ];

    fn plan(engine: &Engine, statement: &str) -> String {
        let connection = engine.storage.conn();
        let mut explained = connection.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
        let steps = explained.query_map([], |row| row.get::<_, String>("detail")).unwrap();
        steps.map(rusqlite::Result::unwrap).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn writes_and_reads_of_a_stream_search_an_index() {
        let engine = Engine::open(&State::InMemory, &Clock::default()).unwrap();
        for statement in STREAM_STATEMENTS {
            let plan = plan(&engine, statement);
            assert!(plan.contains("SEARCH _stream_records USING") && plan.contains("stream_order"), "{plan}");
            assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{plan}");
        }
    }

    fn records(engine: &Engine) -> usize {
        let count = "SELECT COUNT(*) FROM _stream_records";
        engine.storage.conn().query_row(count, [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn stream_records_have_the_time_of_the_services_clock_and_are_deleted_by_it() {
        let clock = Clock::default();
        let mut engine = Engine::open(&State::InMemory, &clock).unwrap();
        create_table(&mut engine);
        let start = clock.now();
        for hours in [0, 1] {
            clock.advance(hours * 3_600_000);
            put(&mut engine, &hours.to_string());
        }
        assert_eq!(engine.trim_streams(start).unwrap(), 0);
        assert_eq!(engine.trim_streams(start.saturating_plus_seconds(60)).unwrap(), 1);
        assert_eq!(records(&engine), 1);
    }

    #[test]
    fn expired_rows_are_deleted_a_page_at_a_time() {
        let mut engine = with_table();
        assert_eq!(engine.expiring_tables().unwrap(), []);
        let on = json!({"Enabled": true, "AttributeName": "ttl"});
        let on = json!({"TableName": "Table", "TimeToLiveSpecification": on});
        execute(&mut engine, "UpdateTimeToLive", &on).unwrap();
        let table = ("Table".to_owned(), "ttl".to_owned());
        assert_eq!(engine.expiring_tables().unwrap(), std::slice::from_ref(&table));
        let now = Clock::default().now();
        for row in 0..=2 * EXPIRY_PAGE {
            let expires = now.seconds() + if row % 2 == 0 { -1 } else { 1 };
            let item = json!({"pk": {"S": row.to_string()}, "ttl": {"N": expires.to_string()}});
            execute(&mut engine, "PutItem", &json!({"TableName": "Table", "Item": item})).unwrap();
        }
        put(&mut engine, "without a time");
        let (mut next, mut pages) = (None, 0);
        loop {
            next = engine.delete_expired(&table, now, next).unwrap();
            pages += 1;
            if next.is_none() {
                break;
            }
        }
        let left = execute(&mut engine, "Scan", &json!({"TableName": "Table", "Select": "COUNT"})).unwrap();
        assert_eq!((pages, &left["Count"]), (3, &json!(EXPIRY_PAGE + 1)));
    }

    fn with_table() -> Engine {
        let mut engine = Engine::open(&State::InMemory, &Clock::default()).unwrap();
        create_table(&mut engine);
        engine
    }

    fn create_table(engine: &mut Engine) {
        let table = json!({
            "TableName": "Table",
            "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
            "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
            "BillingMode": "PAY_PER_REQUEST",
            "StreamSpecification": {"StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES"},
        });
        execute(engine, "CreateTable", &table).unwrap();
    }

    fn put(engine: &mut Engine, pk: &str) {
        execute(engine, "PutItem", &json!({"TableName": "Table", "Item": {"pk": {"S": pk}}})).unwrap();
    }

    fn execute(engine: &mut Engine, operation: &str, request: &Value) -> std::result::Result<Value, String> {
        let response = engine.execute(operation, request.to_string().as_bytes());
        let response = response.map_err(|error| error.error_type().to_owned())?;
        Ok(serde_json::from_slice(&response).unwrap())
    }

    /// A transaction that adds 1 to a counter.
    fn addition(token: &str, amount: &str) -> Value {
        json!({
            "ClientRequestToken": token,
            "TransactItems": [{"Update": {
                "TableName": "Table",
                "Key": {"pk": {"S": "counter"}},
                "UpdateExpression": "ADD n :n",
                "ExpressionAttributeValues": {":n": {"N": amount}},
            }}],
        })
    }

    #[test]
    fn a_repeated_token_executes_a_transaction_once_and_other_items_are_rejected() {
        let mut engine = with_table();
        for token in ["first", "first", "second"] {
            execute(&mut engine, "TransactWriteItems", &addition(token, "1")).unwrap();
        }
        let error = execute(&mut engine, "TransactWriteItems", &addition("first", "2")).unwrap_err();
        assert!(error.ends_with("IdempotentParameterMismatchException"), "{error}");
        let get = json!({"TableName": "Table", "Key": {"pk": {"S": "counter"}}});
        assert_eq!(execute(&mut engine, "GetItem", &get).unwrap()["Item"]["n"]["N"], "2");
    }

    #[test]
    fn a_failed_transaction_can_be_repeated_with_its_token() {
        let mut engine = with_table();
        let mut checked = addition("token", "1");
        checked["TransactItems"][0]["Update"]["ConditionExpression"] = json!("attribute_exists(pk)");
        let error = execute(&mut engine, "TransactWriteItems", &checked).unwrap_err();
        assert!(error.ends_with("TransactionCanceledException"), "{error}");
        execute(&mut engine, "TransactWriteItems", &addition("other", "1")).unwrap();
        execute(&mut engine, "TransactWriteItems", &checked).unwrap();
        let get = json!({"TableName": "Table", "Key": {"pk": {"S": "counter"}}});
        assert_eq!(execute(&mut engine, "GetItem", &get).unwrap()["Item"]["n"]["N"], "2");
    }
}
