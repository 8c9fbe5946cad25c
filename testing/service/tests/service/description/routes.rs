//! Checks that the description has exactly the routes of the functions, and that the template routes each of
//! them to a function.

use std::collections::BTreeSet;

use local::template::{Route, Template};

use super::served::{is_of_acquirer, served};

#[test]
fn the_description_has_exactly_the_routes_of_the_functions() {
    let described: BTreeSet<String> = openapi::routes().into_iter().collect();
    let served = served();
    let missing: Vec<&String> = served.difference(&described).collect();
    let gone: Vec<&String> = described.difference(&served).collect();
    assert_eq!((missing, gone), (Vec::<&String>::new(), Vec::<&String>::new()));
}

#[test]
fn every_described_route_is_in_the_template_and_every_route_of_the_template_is_described() {
    let template = Template::deployed().unwrap();
    let routes: Vec<(&str, &str)> = template
        .functions
        .iter()
        .flat_map(|function| &function.routes)
        .filter_map(|route| match route {
            Route::Path { method, path } => Some((method.as_str(), path.as_str())),
            Route::Default => None,
        })
        .collect();
    let described = openapi::routes();
    let described: Vec<(&str, &str)> = described.iter().map(|route| route.split_once(' ').unwrap()).collect();
    for (method, path) in &described {
        assert!(routes.iter().any(|route| serves(*route, method, path)), "{method} {path}");
    }
    // The dashboard and the pages of payment links are for people.
    let is_described =
        |path: &str| !path.starts_with("/dashboard") && !path.starts_with("/pay/") && !is_of_acquirer(path);
    for route in routes.into_iter().filter(|(_, path)| is_described(path)) {
        assert!(described.iter().any(|(method, path)| serves(route, method, path)), "{route:?}");
    }
}

/// Whether a route of the template serves a described one. `{proxy+}` matches one or more segments.
fn serves((method, template): (&str, &str), described_method: &str, path: &str) -> bool {
    let is_method = method == "ANY" || method == described_method;
    let mut segments = path.split('/');
    for expected in template.split('/') {
        let Some(segment) = segments.next() else { return false };
        if expected == "{proxy+}" {
            return is_method;
        }
        if expected != segment {
            return false;
        }
    }
    is_method && segments.next().is_none()
}
