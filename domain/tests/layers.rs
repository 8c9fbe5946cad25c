//! The crate stays below the others: its manifest names no crate of the workspace but `artefacts`, no async runtime, no HTTP, no
//! AWS.

const MANIFEST: &str = include_str!("../Cargo.toml");
const WORKSPACE: &str = include_str!("../../Cargo.toml");

/// A name that ends in `*` is a prefix.
const FORBIDDEN: [&str; 9] =
    ["async-*", "aws-*", "aws_*", "axum", "http*", "hyper*", "lambda_*", "tokio*", "tower*"];

/// Each dependency's name with the rest of its line, from every table of dependencies (dev and build too).
fn dependencies(manifest: &str) -> Vec<(&str, &str)> {
    let mut listed = Vec::new();
    let mut in_table = false;
    for line in manifest.lines() {
        if let Some(table) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            in_table = table.ends_with("dependencies");
        } else if in_table && let Some(end) = line.find(['.', ' ', '=']) {
            listed.push(line.split_at(end));
        }
    }
    listed
}

fn is_forbidden(name: &str) -> bool {
    FORBIDDEN.iter().any(|forbidden| match forbidden.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == *forbidden,
    })
}

#[test]
fn no_dependency_is_of_a_higher_layer() {
    let workspace = dependencies(WORKSPACE);
    let ours: Vec<&str> =
        workspace.iter().filter(|(_, rest)| rest.contains("path")).map(|(name, _)| *name).collect();
    assert!(ours.contains(&"shared") && ours.contains(&"domain"), "{ours:?}");

    // In the form `[dependencies.name]` the test would miss the keys `path` and `package`.
    assert!(!MANIFEST.contains("dependencies."), "list each dependency on one line");
    let dependencies = dependencies(MANIFEST);
    assert!(dependencies.iter().any(|(name, _)| *name == "chrono"), "{dependencies:?}");
    for (name, rest) in dependencies {
        assert!(
            !is_forbidden(name) && (name == "artefacts" || !ours.contains(&name)),
            "{name} is of a higher layer"
        );
        assert!(!rest.contains("path") && !rest.contains("package"), "{name} hides which crate it is");
    }
}
