//! Checks that the crates below `shared` depend on no crate of a higher layer and on no crate for AWS. Those
//! below `acquirer-http` also depend on no crate for async code or HTTP.

/// A crate below `shared`.
struct Layer {
    name: &'static str,
    manifest: &'static str,
    /// The workspace crates that it may use.
    allowed: &'static [&'static str],
    /// The workspace crates that only its tests may use.
    allowed_in_tests: &'static [&'static str],
    /// A dependency that it has, which shows that [`dependencies`] parses the manifest.
    expected: &'static str,
    /// The other crates that it must not use. A name that ends in `*` is a prefix.
    forbidden: &'static [&'static str],
}

const LAYERS: [Layer; 6] = [
    Layer {
        name: "artefacts",
        manifest: include_str!("../../artefacts/Cargo.toml"),
        allowed: &[],
        allowed_in_tests: &[],
        expected: "qrcode",
        forbidden: &ASYNC_HTTP_OR_AWS,
    },
    Layer {
        name: "domain",
        manifest: include_str!("../Cargo.toml"),
        allowed: &["artefacts"],
        allowed_in_tests: &[],
        expected: "chrono",
        forbidden: &ASYNC_HTTP_OR_AWS,
    },
    Layer {
        name: "acquirer-http",
        manifest: include_str!("../../acquirers/http/Cargo.toml"),
        allowed: &["domain"],
        allowed_in_tests: &[],
        expected: "hyper",
        forbidden: &AWS_OR_SERVER,
    },
    Layer {
        name: "acquirer-kit",
        manifest: include_str!("../../acquirers/kit/Cargo.toml"),
        allowed: &["acquirer-http", "domain"],
        allowed_in_tests: &[],
        expected: "async-trait",
        forbidden: &AWS_OR_SERVER,
    },
    Layer {
        name: "api-pix",
        manifest: include_str!("../../acquirers/api-pix/Cargo.toml"),
        allowed: &["acquirer-http", "acquirer-kit", "domain"],
        allowed_in_tests: &["bank"],
        expected: "hyper",
        forbidden: &AWS_OR_SERVER,
    },
    Layer {
        name: "stripe-client",
        manifest: include_str!("../../acquirers/stripe/Cargo.toml"),
        allowed: &["acquirer-http", "acquirer-kit", "domain"],
        allowed_in_tests: &["stripe-stand-in"],
        expected: "hyper",
        forbidden: &AWS_OR_SERVER,
    },
];

const WORKSPACE: &str = include_str!("../../Cargo.toml");

const ASYNC_HTTP_OR_AWS: [&str; 10] =
    ["async-*", "aws-*", "aws_*", "axum", "http", "http-*", "hyper*", "lambda_*", "tokio*", "tower*"];

const AWS_OR_SERVER: [&str; 5] = ["aws-*", "aws_*", "axum", "lambda_*", "serde_dynamo"];

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

fn is_listed(name: &str, list: &[&str]) -> bool {
    list.iter().any(|listed| match listed.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == *listed,
    })
}

#[test]
fn lower_layers_depend_on_no_higher_layer() {
    let workspace = dependencies(WORKSPACE);
    let workspace_crates: Vec<&str> =
        workspace.iter().filter(|(_, rest)| rest.contains("path")).map(|(name, _)| *name).collect();
    for Layer { name: layer, manifest, allowed, allowed_in_tests, expected, forbidden } in LAYERS {
        assert!(
            workspace_crates.contains(&"shared") && workspace_crates.contains(&layer),
            "{workspace_crates:?}"
        );
        // The check below reads single lines, so it would miss the keys `path` and `package` of a
        // `[dependencies.name]` table.
        assert!(!manifest.contains("dependencies."), "{layer}: list each dependency on one line");
        let all = dependencies(manifest);
        assert!(all.iter().any(|(name, _)| *name == expected), "{layer}: {all:?}");
        for (name, rest) in &all {
            let is_ours = workspace_crates.contains(name);
            let is_higher = is_ours && !allowed.contains(name) && !allowed_in_tests.contains(name);
            assert!(!is_listed(name, forbidden) && !is_higher, "{layer}: {name} belongs to a higher layer");
            assert!(
                !rest.contains("path") && !rest.contains("package"),
                "{layer}: {name} must not set path or package, which hide the crate's name"
            );
        }
        let before_tests = manifest.split("[dev-dependencies]").next().unwrap_or_default();
        for (name, _) in dependencies(before_tests) {
            assert!(!allowed_in_tests.contains(&name), "{layer}: only the tests may use {name}");
        }
    }
}
