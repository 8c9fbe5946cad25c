//! The layers below `shared` stay there: their manifests name no crate of a higher layer, no async runtime, no HTTP, no AWS.

/// Each lower layer with its manifest, the crates of the workspace that it may use, and a dependency that it has.
const LAYERS: [(&str, &str, &[&str], &str); 2] = [
    ("artefacts", include_str!("../../artefacts/Cargo.toml"), &[], "qrcode"),
    ("domain", include_str!("../Cargo.toml"), &["artefacts"], "chrono"),
];

const WORKSPACE: &str = include_str!("../../Cargo.toml");

/// A name that ends in `*` is a prefix.
const FORBIDDEN: [&str; 10] =
    ["async-*", "aws-*", "aws_*", "axum", "http", "http-*", "hyper*", "lambda_*", "tokio*", "tower*"];

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
    for (layer, manifest, allowed, expected) in LAYERS {
        assert!(ours.contains(&"shared") && ours.contains(&layer), "{ours:?}");
        // In the form `[dependencies.name]` the test would miss the keys `path` and `package`.
        assert!(!manifest.contains("dependencies."), "{layer}: list each dependency on one line");
        let dependencies = dependencies(manifest);
        assert!(dependencies.iter().any(|(name, _)| *name == expected), "{layer}: {dependencies:?}");
        for (name, rest) in dependencies {
            let is_higher = ours.contains(&name) && !allowed.contains(&name);
            assert!(!is_forbidden(name) && !is_higher, "{layer}: {name} is of a higher layer");
            assert!(
                !rest.contains("path") && !rest.contains("package"),
                "{layer}: {name} hides which crate it is"
            );
        }
    }
}
