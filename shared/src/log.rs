//! Logs, by `RUST_LOG`: of a deployed function JSON lines on standard output.

use tracing_subscriber::EnvFilter;

/// What the libraries may log at most: below this they log whole events and requests, with keys and documents in them.
const LIBRARIES: [&str; 13] = [
    "aws_config=warn",
    "aws_runtime=warn",
    "aws_sdk_dynamodb=warn",
    "aws_sdk_s3=warn",
    "aws_sdk_sqs=warn",
    "aws_sigv4=warn",
    "aws_smithy_runtime=warn",
    "dynoxide=error",
    "hyper=warn",
    "hyper_util=warn",
    "lambda_http=warn",
    "lambda_runtime=warn",
    "s3s=warn",
];

/// What is logged: what `RUST_LOG` asks for, else `default`, and of libraries no more than keeps secrets out.
pub fn filter(default: &str) -> EnvFilter {
    let asked = EnvFilter::try_from_default_env().unwrap_or_else(|_unset| EnvFilter::new(default));
    let caps = LIBRARIES.iter().filter_map(|text| text.parse().ok());
    caps.fold(asked, EnvFilter::add_directive)
}

/// Starts logging. A failure is logged once, where it is handled; no body, key, token or full document is.
pub fn start() {
    let log = tracing_subscriber::fmt().json().with_env_filter(filter("info"));
    log.with_current_span(false).without_time().init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_asked_for_libraries_log_no_requests() {
        let filter = filter("trace").to_string();
        for cap in LIBRARIES {
            assert!(filter.split(',').any(|directive| directive == cap), "{cap} is not in {filter}");
        }
    }
}
