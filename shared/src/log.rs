//! Configures logging. `RUST_LOG` selects the log lines. A deployed function writes them to standard output
//! as JSON.

use tracing::{Level, Subscriber};
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::layer::{Filter, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt};

/// Libraries that log whole events and requests, including API keys and documents, at levels below WARN.
const LIBRARIES: [&str; 18] = [
    "aws_config",
    "aws_runtime",
    "aws_sdk_dynamodb",
    "aws_sdk_s3",
    "aws_sdk_ses",
    "aws_sdk_sqs",
    "aws_sigv4",
    "aws_smithy_http_client",
    "aws_smithy_runtime",
    "dynoxide",
    "h2",
    "hyper",
    "hyper_util",
    "lambda_http",
    "lambda_runtime",
    "lettre",
    "rustls",
    "s3s",
];

/// Returns the filter of log lines: the value of `RUST_LOG`, or `default` if the variable is not set or not
/// valid. Lines below WARN of the libraries that log the contents of requests are always dropped, even if
/// `RUST_LOG` selects them.
pub fn filter<S: Subscriber>(default: &str) -> impl Filter<S> {
    without_library_details(
        EnvFilter::try_from_default_env().unwrap_or_else(|_unset| EnvFilter::new(default)),
    )
}

fn without_library_details<S: Subscriber>(requested: EnvFilter) -> impl Filter<S> {
    requested.and(filter_fn(|metadata| {
        let name = metadata.target().split("::").next().unwrap_or_default();
        *metadata.level() <= Level::WARN || !LIBRARIES.contains(&name)
    }))
}

/// Starts logging. Two rules apply to all log lines. A failure is logged once, where it is handled. Bodies,
/// API keys, tokens and whole documents are never logged.
pub fn start() {
    let lines = fmt::layer().json().with_current_span(false).without_time();
    tracing_subscriber::registry().with(lines.with_filter(filter("info"))).init();
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Output(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Output {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn libraries_never_log_requests_even_if_rust_log_selects_them() {
        let output = Output::default();
        let writer = output.clone();
        let lines = fmt::layer().with_writer(move || writer.clone());
        let requested = "trace,aws_smithy_runtime::client=trace,hyper[{body}]=trace";
        let log = tracing_subscriber::registry()
            .with(lines.with_filter(without_library_details(EnvFilter::new(requested))));
        tracing::subscriber::with_default(log, || {
            tracing::trace!(target: "aws_smithy_runtime::client::orchestrator", body = "secret", "request");
            tracing::debug!(target: "hyper::proto", body = "secret", "request");
            tracing::warn!(target: "hyper::proto", "a warning");
            tracing::info!(target: "shared::http", "a line of ours");
        });
        let text = String::from_utf8(output.0.lock().unwrap().clone()).unwrap();
        assert!(!text.contains("secret"), "{text}");
        assert!(text.contains("a warning") && text.contains("a line of ours"), "{text}");
    }
}
