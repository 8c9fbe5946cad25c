//! Checks that the crates below `shared` depend on no crate for AWS, and those below `acquirer-http` on no
//! crate for async code or HTTP. Cargo already refuses a dependency on a crate of a higher layer as a cycle.

const ASYNC_HTTP_OR_AWS: &[&str] =
    &["async-*", "aws-*", "aws_*", "axum", "http", "http-*", "hyper*", "lambda_*", "tokio*", "tower*"];

const AWS_OR_SERVER: &[&str] = &["aws-*", "aws_*", "axum", "lambda_*", "serde_dynamo"];

/// The manifest of each crate, a dependency that it has, which shows that [`dependencies`] parses the
/// manifest, and those that it must not use. A name that ends in `*` is a prefix.
const LAYERS: [(&str, &str, &[&str]); 7] = [
    (include_str!("../../artefacts/Cargo.toml"), "qrcode", ASYNC_HTTP_OR_AWS),
    (include_str!("../Cargo.toml"), "chrono", ASYNC_HTTP_OR_AWS),
    (include_str!("../../acquirers/http/Cargo.toml"), "hyper", AWS_OR_SERVER),
    (include_str!("../../acquirers/btcpay/Cargo.toml"), "hyper", AWS_OR_SERVER),
    (include_str!("../../acquirers/kit/Cargo.toml"), "async-trait", AWS_OR_SERVER),
    (include_str!("../../acquirers/pix/Cargo.toml"), "hyper", AWS_OR_SERVER),
    (include_str!("../../acquirers/stripe/Cargo.toml"), "hyper", AWS_OR_SERVER),
];

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

#[test]
fn lower_layers_depend_on_no_crate_of_a_higher_layer() {
    for (manifest, expected, forbidden) in LAYERS {
        // Only single lines are read, so the keys of a `[dependencies.name]` table would be missed.
        assert!(!manifest.contains("dependencies."), "list each dependency on one line: {manifest}");
        let all = dependencies(manifest);
        assert!(all.iter().any(|(name, _)| *name == expected), "{expected}: {all:?}");
        for (name, rest) in all {
            let is_forbidden = forbidden.iter().any(|listed| match listed.strip_suffix('*') {
                Some(prefix) => name.starts_with(prefix),
                None => name == *listed,
            });
            assert!(!is_forbidden, "{name} belongs to a higher layer: {manifest}");
            assert!(!rest.contains("package"), "{name} must not hide the crate's name: {manifest}");
        }
        // Cargo finds no cycle in a client that uses another one or a stand-in.
        let before_tests = manifest.split("[dev-dependencies]").next().unwrap_or_default();
        let used = dependencies(before_tests);
        for other in [
            "api-pix",
            "bank",
            "btcpay-stand-in",
            "btcpay-client",
            "stand-in-kit",
            "stripe-client",
            "stripe-stand-in",
        ] {
            assert!(!used.iter().any(|(name, _)| *name == other), "only tests may use {other}: {manifest}");
        }
    }
}
