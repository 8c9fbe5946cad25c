//! Logs of a deployed function: JSON lines on standard output, by `RUST_LOG`.

use tracing_subscriber::EnvFilter;

/// What the libraries may log at most: below this they log whole events and requests, with keys and documents in them.
const LIBRARIES: [&str; 6] = [
    "aws_config=warn",
    "aws_sdk_dynamodb=warn",
    "aws_smithy_runtime=warn",
    "hyper=warn",
    "lambda_http=warn",
    "lambda_runtime=warn",
];

/// Starts logging. A failure is logged once, where it is handled; no body, key, token or full document is.
pub fn start() {
    let mut filter = EnvFilter::try_from_default_env().unwrap_or_else(|_unset| EnvFilter::new("info"));
    for directive in LIBRARIES.iter().filter_map(|text| text.parse().ok()) {
        filter = filter.add_directive(directive);
    }
    tracing_subscriber::fmt().json().with_env_filter(filter).with_current_span(false).without_time().init();
}
