//! Checks that the crates below `shared` depend on no crate of a higher layer, and on no crate for async
//! code, HTTP or AWS.

/// For each lower layer: its name, its manifest, the workspace crates that it may use, and one dependency
/// that it has. The last one shows that [`dependencies`] parses the manifest.
const LAYERS: [(&str, &str, &[&str], &str); 2] = [
    ("artefacts", include_str!("../../artefacts/Cargo.toml"), &[], "qrcode"),
    ("domain", include_str!("../Cargo.toml"), &["artefacts"], "chrono"),
];

const WORKSPACE: &str = include_str!("../../Cargo.toml");

/// Crates that the lower layers must not use. A name that ends in `*` is a prefix.
const FORBIDDEN: [&str; 10] =
    ["async-*", "aws-*", "aws_*", "axum", "http", "http-*", "hyper*", "lambda_*", "tokio*", "tower*"];

/// Returns each dependency's name and the rest of its line, from all dependency tables, including those for
/// dev and build.
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
fn lower_layers_depend_on_no_higher_layer() {
    let workspace = dependencies(WORKSPACE);
    let workspace_crates: Vec<&str> =
        workspace.iter().filter(|(_, rest)| rest.contains("path")).map(|(name, _)| *name).collect();
    for (layer, manifest, allowed, expected) in LAYERS {
        assert!(
            workspace_crates.contains(&"shared") && workspace_crates.contains(&layer),
            "{workspace_crates:?}"
        );
        // The check below reads single lines, so it would miss the keys `path` and `package` of a
        // `[dependencies.name]` table.
        assert!(!manifest.contains("dependencies."), "{layer}: list each dependency on one line");
        let dependencies = dependencies(manifest);
        assert!(dependencies.iter().any(|(name, _)| *name == expected), "{layer}: {dependencies:?}");
        for (name, rest) in dependencies {
            let is_higher = workspace_crates.contains(&name) && !allowed.contains(&name);
            assert!(!is_forbidden(name) && !is_higher, "{layer}: {name} belongs to a higher layer");
            assert!(
                !rest.contains("path") && !rest.contains("package"),
                "{layer}: {name} must not set path or package, which hide the crate's name"
            );
        }
    }
}
