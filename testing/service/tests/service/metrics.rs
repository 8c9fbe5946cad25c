//! Tests that the metrics of the code, the routes, the dashboard and the alarms belong together.

use std::collections::BTreeSet;

use serde_json::Value;
use serde_yaml_ng::Value as Yaml;
use shared::metrics;

use crate::description::all_routes;

/// The metrics that filters of the log count.
const OF_FILTERS: [&str; 2] = ["ErrorsLogged", "RecordsSetAside"];

fn resources() -> Yaml {
    let template: Yaml = serde_yaml_ng::from_str(local::template::TEMPLATE).unwrap();
    template["Resources"].clone()
}

fn own_metrics() -> BTreeSet<&'static str> {
    metrics::ALL.iter().map(|metric| metric.name).chain(OF_FILTERS).collect()
}

/// Returns the AWS namespaces that alarms use.
fn namespaces_of_alarms() -> BTreeSet<String> {
    let text = serde_yaml_ng::to_string(&resources()).unwrap();
    let namespaces = text.lines().filter_map(|line| line.trim().strip_prefix("Namespace: "));
    namespaces.map(str::to_owned).filter(|name| name.starts_with("AWS/")).collect()
}

/// Returns the metrics that the dashboard shows: namespace and name.
fn shown() -> Vec<(String, String)> {
    let body = resources()["Dashboard"]["Properties"]["DashboardBody"].clone();
    let Yaml::Tagged(body) = body else { panic!("the body is no !Sub") };
    let body: Value = serde_json::from_str(body.value.as_str().unwrap()).unwrap();
    let mut shown = Vec::new();
    for widget in body["widgets"].as_array().unwrap() {
        for metric in widget["properties"]["metrics"].as_array().unwrap() {
            if let Some(namespace) = metric[0].as_str() {
                shown.push((namespace.to_owned(), metric[1].as_str().unwrap().to_owned()));
                continue;
            }
            let expression = metric[0]["expression"].as_str().unwrap();
            let (schema, name) = expression.split_once("} MetricName=\"").unwrap();
            let (_, schema) = schema.split_once('{').unwrap();
            let name = name.split('"').next().unwrap();
            if let Some((namespace, _)) = schema.split_once(',').filter(|_| schema.starts_with("AWS/")) {
                shown.push((namespace.to_owned(), name.to_owned()));
                continue;
            }
            let (namespace, dimension) = schema.trim_matches('"').split_once("\",").unwrap();
            let of_code = metrics::ALL.iter().find(|metric| metric.name == name).unwrap();
            assert_eq!(of_code.by.map(|by| by.name), Some(dimension), "{name}");
            shown.push((namespace.to_owned(), name.to_owned()));
        }
    }
    shown
}

#[test]
fn the_dashboard_shows_all_metrics_of_the_code_and_no_other() {
    let (own, of_alarms) = (own_metrics(), namespaces_of_alarms());
    let mut missing = own.clone();
    for (namespace, name) in shown() {
        if namespace == "${AWS::StackName}" {
            assert!(own.contains(name.as_str()), "{name}");
            missing.remove(name.as_str());
        } else {
            assert!(of_alarms.contains(&namespace), "{namespace} {name}");
        }
    }
    // An alarm watches the ends of certificates. A graph of them shows nothing.
    assert_eq!(missing, BTreeSet::from(["BankCertificateDays"]));
}

#[test]
fn alarms_use_only_metrics_that_exist() {
    let own = own_metrics();
    let mut used = 0;
    for (name, alarm) in resources().as_mapping().unwrap() {
        let properties = &alarm["Properties"];
        let is_own = matches!(&properties["Namespace"], Yaml::Tagged(tagged) if tagged.tag == "Ref");
        if alarm["Type"] == "AWS::CloudWatch::Alarm" && is_own {
            let metric = properties["MetricName"].as_str().unwrap();
            assert!(own.contains(metric), "{name:?} {metric}");
            used += 1;
        }
    }
    assert!(used >= 8, "{used}");
}

#[test]
fn every_route_has_metrics_of_its_own_or_of_its_family() {
    let routes = all_routes();
    for route in &routes {
        let (method, path) = route.split_once(' ').unwrap();
        assert_ne!(metrics::route_name(method, path), "other", "{route}");
    }
    assert!(routes.len() > 40, "{routes:?}");
}
