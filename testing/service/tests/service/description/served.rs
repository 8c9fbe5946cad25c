//! The routes of the functions, read from their sources, because axum's router does not list them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// Returns the routes of all functions but those of the dashboard, its forms, and the brand, which are for people.
pub(super) fn served() -> BTreeSet<String> {
    let mut served = BTreeSet::new();
    let is_for_people = |path: &PathBuf| {
        path.ends_with("forms.rs")
            || path.ends_with("brand.rs")
            || path.components().any(|part| part.as_os_str() == "dashboard")
    };
    for path in sources_of_functions().into_iter().filter(|path| !is_for_people(path)) {
        served.extend(declared_routes(&fs::read_to_string(path).unwrap()));
    }
    served.retain(|route| !route.contains(" /dashboard/") && !is_of_acquirer(route));
    assert!(served.len() > 50, "{served:?}");
    served
}

/// An acquirer calls it, whose own documents describe the request.
pub(super) fn is_of_acquirer(route: &str) -> bool {
    route.ends_with("/{token}/hosted")
}

/// Returns the routes of all functions.
pub(crate) fn all_routes() -> BTreeSet<String> {
    let sources = sources_of_functions().into_iter().map(|path| fs::read_to_string(path).unwrap());
    sources.flat_map(|source| declared_routes(&source)).collect()
}

/// Returns the paths of the dashboard's forms.
pub(crate) fn form_routes() -> BTreeSet<String> {
    let routes = all_routes().into_iter();
    let forms = routes.filter_map(|route| route.strip_prefix("POST ").map(ToOwned::to_owned));
    forms.filter(|path| path.starts_with("/dashboard/")).collect()
}

fn sources_of_functions() -> Vec<PathBuf> {
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../functions"))
}

/// Returns the library sources under a directory.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && path.components().any(|part| part.as_os_str() == "src")
        {
            found.push(path);
        }
    }
    found
}

/// Returns the routes that a source adds to its router by `.route(path, methods)`. The path is a text or a constant,
/// or it begins with a variable that stands for each text of the constant `PATHS`.
fn declared_routes(source: &str) -> Vec<String> {
    let constant = source.split_once("const PATHS").and_then(|(_, rest)| rest.split_once(" = "));
    let prefixes = constant.map_or(Vec::new(), |(_, rest)| texts(rest.split_once(';').unwrap().0));
    let mut routes = Vec::new();
    for (_, rest) in source.match_indices(".route(").map(|(at, found)| source.split_at(at + found.len())) {
        let call = &rest[..closing(rest)];
        let (path, methods) = call.split_once(',').unwrap();
        let paths = match texts(path).first() {
            Some(text) if text.starts_with("{path}") => {
                let suffix = text.trim_start_matches("{path}").replace("{{", "{").replace("}}", "}");
                prefixes.iter().map(|prefix| format!("{prefix}{suffix}")).collect()
            }
            Some(text) => vec![text.clone()],
            None => match source.split_once(&format!("const {}: &str = ", path.trim())) {
                Some((_, text)) => texts(text).into_iter().take(1).collect(),
                None => prefixes.clone(),
            },
        };
        // Pages that do not exist.
        if methods.trim().starts_with("any(") {
            continue;
        }
        let methods = methods_of(source, methods.trim());
        assert!(!paths.is_empty() && !methods.is_empty(), "{call}");
        for path in &paths {
            routes.extend(methods.iter().map(|method| format!("{method} {path}")));
        }
    }
    routes
}

/// Returns the methods of an expression such as `post(create).get(list)`, or of the variable that it names.
fn methods_of(source: &str, expression: &str) -> Vec<String> {
    let is_called = |text: &str, method: &str| {
        text.match_indices(&format!("{method}("))
            .any(|(at, _)| !text[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_'))
    };
    let called = |text: &str| -> Vec<String> {
        METHODS.iter().filter(|method| is_called(text, method)).map(|method| method.to_uppercase()).collect()
    };
    let found = called(expression);
    if !found.is_empty() {
        return found;
    }
    let (_, definition) = source.split_once(&format!("let {expression} = ")).unwrap();
    called(definition.split_once(';').unwrap().0)
}

/// Returns the position of the parenthesis that closes a call, given the text after the opening one.
fn closing(text: &str) -> usize {
    let mut depth = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' if depth == 0 => return at,
            ')' => depth -= 1,
            _ => {}
        }
    }
    panic!("a call does not end: {text}");
}

/// Returns the quoted texts.
fn texts(source: &str) -> Vec<String> {
    source.split('"').skip(1).step_by(2).map(ToOwned::to_owned).collect()
}
