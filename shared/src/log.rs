//! Logs, by `RUST_LOG`: of a deployed function JSON lines on standard output.

use tracing::{Level, Subscriber};
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::layer::{Filter, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt};

/// Libraries that log whole events and requests below a warning, with keys and documents in them.
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

/// What is logged: what `RUST_LOG` asks for, else `default`, and of those libraries warnings alone, whatever is asked for.
pub fn filter<S: Subscriber>(default: &str) -> impl Filter<S> {
    capped(EnvFilter::try_from_default_env().unwrap_or_else(|_unset| EnvFilter::new(default)))
}

fn capped<S: Subscriber>(asked: EnvFilter) -> impl Filter<S> {
    asked.and(filter_fn(|metadata| {
        let name = metadata.target().split("::").next().unwrap_or_default();
        *metadata.level() <= Level::WARN || !LIBRARIES.contains(&name)
    }))
}

/// Starts logging. A failure is logged once, where it is handled; no body, key, token or full document is.
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
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn whatever_is_asked_for_libraries_log_no_requests() {
        let written = Written::default();
        let writer = written.clone();
        let lines = fmt::layer().with_writer(move || writer.clone());
        let asked = "trace,aws_smithy_runtime::client=trace,hyper[{body}]=trace";
        let log = tracing_subscriber::registry().with(lines.with_filter(capped(EnvFilter::new(asked))));
        tracing::subscriber::with_default(log, || {
            tracing::trace!(target: "aws_smithy_runtime::client::orchestrator", body = "secret", "request");
            tracing::debug!(target: "hyper::proto", body = "secret", "request");
            tracing::warn!(target: "hyper::proto", "a warning");
            tracing::info!(target: "shared::http", "a line of ours");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert!(!text.contains("secret"), "{text}");
        assert!(text.contains("a warning") && text.contains("a line of ours"), "{text}");
    }
}
