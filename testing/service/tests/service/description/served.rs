//! The routes of the functions, as their routers print them, because axum does not list them.

use std::collections::BTreeSet;

use axum::Router;
use local::functions::router;
use local::template::Template;
use shared::auth::dashboard::token::public_key_of;
use shared::clock::Clock;
use shared::store::Aws;

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// Returns the routes of all functions but those of pages that are for people.
pub(super) fn served() -> BTreeSet<String> {
    let is_for_people = |route: &str| {
        route.contains(" /dashboard")
            || route.contains(" /pay/")
            || route.contains(" /checkout/logos/")
            || route.ends_with(" /checkout/{raw_id}/receipt")
    };
    let mut served = all_routes();
    served.retain(|route| !is_for_people(route) && !is_of_acquirer(route));
    assert!(served.len() > 50, "{served:?}");
    served
}

/// An acquirer calls it, whose own documents describe the request.
pub(super) fn is_of_acquirer(route: &str) -> bool {
    route.ends_with("/{token}/hosted")
}

/// Returns the routes of all functions.
pub(crate) fn all_routes() -> BTreeSet<String> {
    // The routers read nothing, so any value that has the form of a variable's will do.
    let secret = "A".repeat(43);
    let var = |name: &str| match name {
        "ORIGIN_SECRETS" | "PRODUCT_NAME" | "PRODUCT_MARK" => None,
        "DASHBOARD_TOKEN_SECRET" => Some(secret.clone()),
        "DASHBOARD_TOKEN_PUBLIC_KEYS" => public_key_of(&secret.clone().into()).ok(),
        other => Some(format!("http://{other}")),
    };
    let aws = Aws::from_vars(&var).unwrap();
    let functions = Template::deployed().unwrap().functions;
    let routers = functions.iter().map(|of| router(&of.logical_id, &aws, Clock::default(), &var).unwrap());
    routers.flatten().flat_map(|router| routes_of(&router)).collect()
}

/// Returns the paths of the dashboard's forms.
pub(crate) fn form_routes() -> BTreeSet<String> {
    let routes = all_routes().into_iter();
    let forms = routes.filter_map(|route| route.strip_prefix("POST ").map(ToOwned::to_owned));
    forms.filter(|path| path.starts_with("/dashboard/")).collect()
}

/// Returns the routes that a router prints: first the methods of each number, then its path. A route of any method is
/// one of pages that do not exist.
fn routes_of(router: &Router) -> Vec<String> {
    let printed = format!("{router:?}");
    let (table, _) = printed.split_once(", fallback_router: ").unwrap();
    let (methods, paths) = table.split_once(", node: ").unwrap();
    let mut found = Vec::new();
    for path in paths.split("RouteId(").skip(1) {
        let (number, path) = path.split_once("): \"").unwrap();
        let (_, of_number) = methods.split_once(&format!("RouteId({number}): ")).unwrap();
        let (of_number, _) = of_number.split_once(", fallback: ").unwrap();
        let path = path.split('"').next().unwrap();
        let handled = METHODS.iter().filter(|method| !of_number.contains(&format!("{method}: None")));
        found.extend(handled.map(|method| format!("{} {path}", method.to_uppercase())));
    }
    found
}
