//! Configures logging. `RUST_LOG` selects the log lines. A deployed function writes them to standard output
//! as JSON.

use std::process::ExitCode;

use lambda_http::{Context, Error};
use tracing::instrument::Instrumented;
use tracing::{Event, Instrument, Level, Subscriber};
use tracing_subscriber::filter::{FilterExt, Targets, filter_fn};
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields, MakeWriter};
use tracing_subscriber::layer::{Filter, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use crate::metrics;

/// All libraries that write log lines. Below WARN, some log whole events and requests, with API keys and documents, or
/// presigned URLs and the names of files.
const LIBRARIES: [&str; 28] = [
    "aws_config",
    "aws_runtime",
    "aws_sdk_dynamodb",
    "aws_sdk_s3",
    "aws_sdk_ses",
    "aws_sdk_sqs",
    "aws_sigv4",
    "aws_smithy_checksums",
    "aws_smithy_http",
    "aws_smithy_http_client",
    "aws_smithy_runtime",
    "aws_smithy_runtime_api",
    "aws_types",
    "axum",
    "axum_core",
    "dynoxide",
    "h2",
    "hyper",
    "hyper_util",
    "lambda_http",
    "lambda_runtime",
    "lambda_runtime_api_client",
    "lettre",
    "rustls",
    "s3s",
    "s3s_fs",
    "tower",
    "tower_http",
];

/// Returns the filter of log lines: the value of `RUST_LOG`, or `default` if the variable is not set or not
/// valid. The value lists levels, also for targets, such as `info,shared::store=debug`. Lines below WARN of the libraries that log the contents of requests are always dropped, even if
/// `RUST_LOG` selects them.
pub fn filter<S: Subscriber>(default: &str) -> impl Filter<S> {
    let requested = std::env::var("RUST_LOG").ok().filter(|text| !text.is_empty());
    let requested = requested.and_then(|text| text.parse::<Targets>().ok());
    without_library_details(requested.unwrap_or_else(|| default.parse().unwrap_or_default()))
}

fn without_library_details<S: Subscriber>(requested: Targets) -> impl Filter<S> {
    requested.and(filter_fn(|metadata| {
        let name = metadata.target().split("::").next().unwrap_or_default();
        *metadata.level() <= Level::WARN || !LIBRARIES.contains(&name)
    }))
}

/// Starts logging and metrics, then runs a deployed function. If the function can't start, for example because
/// a variable is missing, this logs why, and the process exits with an error.
///
/// Two rules apply to all log lines. A failure is logged once, where it is handled. Bodies, API keys, tokens,
/// e-mail addresses and whole documents are never logged.
pub async fn run(function: impl Future<Output = Result<(), Error>>) -> ExitCode {
    metrics::start();
    tracing_subscriber::registry().with(json_lines(std::io::stdout).with_filter(filter("info"))).init();
    match function.await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "the function can't start");
            ExitCode::FAILURE
        }
    }
}

/// Adds the id of an invocation to all log lines of `work`.
pub fn in_invocation<F: Future>(context: &Context, work: F) -> Instrumented<F> {
    // Enabled at every log level, so that error lines have the id too.
    work.instrument(tracing::error_span!("invocation", aws_request_id = context.request_id))
}

fn json_lines<S, W>(writer: W) -> fmt::Layer<S, JsonFields, JsonLine, W>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: for<'writer> MakeWriter<'writer> + 'static,
{
    fmt::layer().fmt_fields(JsonFields::new()).event_format(JsonLine).with_writer(writer)
}

/// Formats a log line as one flat JSON object: level, target, the fields of the spans around the event, such as
/// `request_id`, and the fields of the event. The format of the library nests them, so that a query would need
/// another name for the same field of a span and of an event.
struct JsonLine;

impl<S> FormatEvent<S, JsonFields> for JsonLine
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        let metadata = event.metadata();
        write!(writer, r#"{{"level":"{}","target":"{}""#, metadata.level(), metadata.target())?;
        for span in context.event_scope().into_iter().flatten() {
            if let Some(fields) = span.extensions().get::<FormattedFields<JsonFields>>() {
                write_members(&mut writer, &fields.fields)?;
            }
        }
        let mut fields = String::new();
        context.field_format().format_fields(Writer::new(&mut fields), event)?;
        write_members(&mut writer, &fields)?;
        writer.write_str("}\n")
    }
}

/// Writes the members of a JSON object, each after a comma.
fn write_members(writer: &mut Writer<'_>, object: &str) -> std::fmt::Result {
    let members = object.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
    if members.is_empty() { Ok(()) } else { write!(writer, ",{members}") }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeWriter, Read, pipe};
    use std::sync::Arc;

    use super::*;

    /// Returns what is logged by `write` to the subscriber that `log_to` creates.
    fn logged<S>(log_to: impl FnOnce(Arc<PipeWriter>) -> S, write: impl FnOnce()) -> String
    where
        S: tracing::Subscriber + Send + Sync + 'static,
    {
        let (mut reader, writer) = pipe().unwrap();
        tracing::subscriber::with_default(log_to(Arc::new(writer)), write);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn libraries_never_log_requests_even_if_rust_log_selects_them() {
        let requested = "trace,aws_smithy_runtime::client=trace,hyper=trace";
        let log_to = |writer: Arc<PipeWriter>| {
            let filter = without_library_details(requested.parse().unwrap());
            tracing_subscriber::registry().with(fmt::layer().with_writer(writer).with_filter(filter))
        };
        let text = logged(log_to, || {
            tracing::trace!(target: "aws_smithy_runtime::client::orchestrator", body = "secret", "request");
            tracing::debug!(target: "hyper::proto", body = "secret", "request");
            tracing::warn!(target: "hyper::proto", "a warning");
            tracing::info!(target: "shared::http", "a line of ours");
        });
        assert!(!text.contains("secret"), "{text}");
        assert!(text.contains("a warning") && text.contains("a line of ours"), "{text}");
    }

    #[test]
    fn no_library_that_can_write_log_lines_is_missing_in_the_list() {
        let lock = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock")).unwrap();
        for package in lock.split("[[package]]").filter(|package| package.contains("\nsource = ")) {
            let name = package.split('"').nth(1).unwrap();
            let library = name.trim_end_matches("-rs").replace('-', "_");
            let logs = package.contains("\n \"tracing\",") && !name.starts_with("tracing");
            assert!(!logs || LIBRARIES.contains(&&*library), "{name}");
        }
    }

    #[test]
    fn a_line_is_one_flat_json_object_with_the_fields_of_its_spans() {
        let log_to = |writer: Arc<PipeWriter>| tracing_subscriber::registry().with(json_lines(writer));
        let text = logged(log_to, || {
            let span = tracing::error_span!("request", request_id = "a\"b", aws_request_id = None::<&str>);
            let _entered = span.enter();
            tracing::error!(charge = "ch_1", status = 201, "it's \"done\"");
            tracing::info_span!("empty").in_scope(|| tracing::info!("no fields"));
        });
        let lines = [
            r#"{"level":"ERROR","target":"shared::log::tests","request_id":"a\"b","charge":"ch_1","message":"it's \"done\"","status":201}"#,
            r#"{"level":"INFO","target":"shared::log::tests","request_id":"a\"b","message":"no fields"}"#,
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    }
}
