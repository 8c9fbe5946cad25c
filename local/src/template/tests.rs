use shared::store::DUE_SHARDS;
use webhook_worker::sender::TIME_LIMIT;

use super::*;

fn template_values() -> TemplateValues {
    TemplateValues {
        parameters: BTreeMap::from([
            ("CheckoutBaseUrl".to_owned(), "http://127.0.0.1:3000/checkout".to_owned()),
            ("DashboardTokenPublicKeys".to_owned(), "a key".to_owned()),
        ]),
        secrets: BTreeMap::from([("DashboardTokenSecret".to_owned(), "a secret".to_owned())]),
        sqs_url: "http://127.0.0.1:9324".to_owned(),
    }
}

#[test]
fn the_deployed_template_declares_the_expected_resources_and_event_sources() {
    let template = Template::deployed().unwrap();
    let tables: Vec<&str> = template.tables.iter().map(|table| table.logical_id.as_str()).collect();
    assert_eq!(tables, ["ApiKeysTable", "SecretsTable", "StateTable"]);
    let state = template.tables.iter().find(|table| table.logical_id == "StateTable").unwrap();
    assert_eq!(state.ttl_attribute.as_deref(), Some("ttl"));
    assert_eq!(state.create["StreamSpecification"]["StreamEnabled"], true);
    assert_eq!(state.create["GlobalSecondaryIndexes"].as_array().unwrap().len(), 5);
    let buckets: Vec<String> = template.buckets.iter().map(|bucket| bucket_name(bucket)).collect();
    assert_eq!(buckets, ["documents-bucket", "failed-records-bucket", "trail-bucket"]);

    let worker = template.function("WebhookWorkerFunction").unwrap();
    let names = ["DeliveryQueue", "TestDeliveryQueue"];
    assert!(worker.queues.iter().map(|source| &*source.queue).eq(names));
    for name in names {
        let queue = template.queues.iter().find(|queue| queue.logical_id == name).unwrap();
        let visibility: u64 = queue.attributes["VisibilityTimeout"].parse().unwrap();
        assert!(
            visibility >= 6 * worker.timeout_s,
            "messages would be received again while the worker still processes them"
        );
        let redrive: Value = serde_json::from_str(&queue.attributes["RedrivePolicy"]).unwrap();
        assert_eq!(redrive["deadLetterTargetArn"], queue_arn("DeliveryDeadLetterQueue"));
        assert!(
            redrive["maxReceiveCount"].as_u64().unwrap() >= 5 * 12 * 3_600 / visibility,
            "an outage of 12 hours would give up messages of {name}"
        );
        assert_eq!(queue.attributes["MessageRetentionPeriod"], "1209600", "{name}");
    }
    assert!(worker.timeout_s >= TIME_LIMIT.as_secs() + 15, "Lambda would end posts before their limit");

    let stream = &template.function("EventDispatcherFunction").unwrap().streams[0];
    assert_eq!(
        (stream.table.as_str(), stream.batch_size, stream.parallelization_factor),
        ("StateTable", 100, 10)
    );
    let root = intrinsics::json(TEMPLATE).unwrap();
    let source =
        &root["Resources"]["EventDispatcherFunction"]["Properties"]["Events"]["StateChanges"]["Properties"];
    assert_eq!(
        (&source["BisectBatchOnFunctionError"], &source["MaximumRetryAttempts"]),
        (&json!(true), &json!(-1))
    );
    let failed = &source["DestinationConfig"]["OnFailure"]["Destination"];
    assert_eq!(failed, &json!({"!GetAtt": "FailedRecordsBucket.Arn"}));
    for function in template
        .functions
        .iter()
        .filter(|function| !function.queues.is_empty() || !function.streams.is_empty())
    {
        let events = &root["Resources"][&function.logical_id]["Properties"]["Events"];
        let sources = events.as_object().unwrap().values().filter(|event| event["Type"] != "Schedule");
        for source in sources {
            assert_eq!(source["Properties"]["FunctionResponseTypes"], json!(["ReportBatchItemFailures"]));
        }
    }
    let recovery = Schedule { minutes: 2, input: Some(json!({"task": "recover-messages"})) };
    let shard = |shard| Schedule { minutes: 1, input: Some(json!({"shard": shard})) };
    let schedules: Vec<Schedule> = [recovery].into_iter().chain((0..DUE_SHARDS).map(shard)).collect();
    assert_eq!(
        template.function("SchedulerFunction").unwrap().schedules,
        schedules,
        "each shard of the due index needs a schedule"
    );
    let replay = Schedule { minutes: 1, input: Some(json!({"task": "replay-postponed"})) };
    assert_eq!(template.function("EventDispatcherFunction").unwrap().schedules, [replay]);
    let verifier = template.function("LedgerVerifierFunction").unwrap();
    assert_eq!(verifier.schedules, [Schedule { minutes: 1_440, input: None }]);
    assert!(
        verifier.timeout_s >= ledger_verifier::TIME_LIMIT.as_secs() + 30,
        "Lambda would end it before its limit"
    );
    assert!(template.function("CheckoutFunction").unwrap().routes.contains(&Route::Default));
}

#[test]
fn functions_with_sessions_receive_the_public_keys_and_one_the_token_secret_which_must_have_a_value() {
    let template = Template::deployed().unwrap();
    let receivers = |received: &str| -> Vec<&str> {
        let names = template.functions.iter().map(|function| function.logical_id.as_str());
        let receives = |name: &&str| {
            let environment = template.environment(name, &template_values()).unwrap();
            environment.values().any(|value| value == received)
        };
        names.filter(receives).collect()
    };
    assert_eq!(receivers("a secret"), ["ApiKeysFunction"]);
    let readers = [
        "AcquirerEventsFunction",
        "ApiKeysFunction",
        "ChargesFunction",
        "DashboardFunction",
        "MedFunction",
        "PaymentsFunction",
        "ReportsFunction",
        "WalletsFunction",
        "WebhooksFunction",
    ];
    assert_eq!(receivers("a key"), readers);
    let without_secrets = TemplateValues { secrets: BTreeMap::new(), ..template_values() };
    let missing = template.environment("ApiKeysFunction", &without_secrets).unwrap_err();
    assert!(missing.to_string().contains("DashboardTokenSecret has no value"), "{missing}");
}

/// Returns the functions with routes on an API of the deployed template, each with its paths.
fn routes_of(api: &str) -> BTreeMap<String, Vec<String>> {
    let root = intrinsics::json(TEMPLATE).unwrap();
    let mut routes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, resource) in root["Resources"].as_object().unwrap() {
        for event in resource["Properties"]["Events"].as_object().into_iter().flat_map(Map::values) {
            let properties = &event["Properties"];
            if event["Type"] == "HttpApi" && properties["ApiId"]["!Ref"] == api {
                let path = properties["Path"].as_str().unwrap_or("$default").to_owned();
                routes.entry(name.clone()).or_default().push(path);
            }
        }
    }
    routes
}

#[test]
fn banks_notifications_have_an_api_of_their_own_that_only_a_stack_with_a_host_for_them_has() {
    let routes = routes_of("AcquirerEventsApi");
    assert_eq!(routes.keys().collect::<Vec<_>>(), ["BankNotificationsFunction"]);
    let prefix = "/v1/acquirer-events/{account}/{token}";
    assert!(routes.values().flatten().all(|path| path.starts_with(prefix)), "{routes:?}");
    let others = routes_of("HttpApi");
    assert!(!others.values().flatten().any(|path| path.starts_with("/v1/acquirer-events")));
    assert!(others["AcquirerEventsFunction"].contains(&"/v1/sandbox/{proxy+}".to_owned()));

    let root = intrinsics::json(TEMPLATE).unwrap();
    let resources = &root["Resources"];
    let api = &resources["AcquirerEventsApi"];
    assert_eq!(api["Properties"]["DisableExecuteApiEndpoint"], true);
    for resource in [api, &resources["BankNotificationsFunction"]] {
        assert_eq!(resource["Condition"], "ReceivesBankNotifications");
    }
    assert_eq!(
        resources["BankDomain"]["Properties"]["MutualTlsAuthentication"]["TruststoreUri"],
        json!({"!Ref": "BankTruststoreUri"})
    );
    assert!(resources["BankTokenDomain"]["Properties"]["MutualTlsAuthentication"].is_null());
    for name in ["AcquirerEventsApi", "HttpApi"] {
        let format = resources[name]["Properties"]["AccessLogSettings"]["Format"].as_str().unwrap();
        assert!(
            format.contains("$context.routeKey") && !format.contains("$context.path"),
            "{name}: {format}"
        );
    }
    for (name, parameter) in root["Parameters"].as_object().unwrap() {
        assert!(!name.starts_with("Bank") || parameter["Default"] == "", "{name}");
    }
}

/// Resolves `value` as an environment variable. Returns the error.
fn error_of(value: &str) -> String {
    let text = format!(
        "Resources:\n  F:\n    Type: AWS::Serverless::Function\n    Properties:\n      \
         Environment: {{ Variables: {{ V: {value} }} }}\n"
    );
    Template::parse(&text).unwrap().environment("F", &template_values()).unwrap_err().to_string()
}

#[test]
fn an_unsupported_intrinsic_function_or_reference_is_an_error_that_names_it() {
    let text = error_of("!ImportValue other");
    assert_eq!(text, "F.Environment.V: !ImportValue is not supported on this machine");
    for (value, name) in
        [("!If [A, b, c]", "!If"), ("!GetAtt Docs.DomainName", "!GetAtt"), ("!Ref Nothing", "Nothing")]
    {
        let text = error_of(value);
        assert!(text.contains(name), "{text}");
    }
}
