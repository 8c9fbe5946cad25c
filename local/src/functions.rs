//! Creates the functions of the template from the same libraries that are deployed.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;

use acquirer_events::bank::BankNotifications;
use acquirer_worker::AcquirerWorker;
use api_keys::ApiKeysApp;
use aws_lambda_events::sqs::SqsEvent;
use axum::Router;
use checkout::Checkout;
use event_dispatcher::Dispatcher;
use ledger_verifier::LedgerVerifier;
use mailer::Mailer;
use mailer::sender::EmailSender;
use reports_worker::ReportsWorker;
use scheduler::Scheduler;
use serde_json::Value;
use shared::clock::Clock;
use shared::config::Vars;
use shared::store::Aws;
use webhook_worker::worker::Worker;

use crate::error::{Error, Result};
use crate::lambda::{Environment, Functions, Invoke, event_function, http_function};
use crate::template::{Template, TemplateValues};

/// If it is not set, emails are only logged.
pub(crate) const MAIL_DIRECTORY: &str = "MAIL_DIRECTORY";

/// `extra`: variables that Lambda sets, and those that exist only on this machine.
pub(crate) fn create_functions(
    template: &Template,
    values: &TemplateValues,
    extra: &BTreeMap<String, String>,
    clock: &Clock,
) -> Result<Functions> {
    let mut functions = Functions::new();
    for declared in &template.functions {
        let logical_id = declared.logical_id.as_str();
        let mut environment = template.environment(logical_id, values)?;
        environment.extend(extra.clone());
        // The session token of a function's requests is its logical id, so that the fault proxy can record its calls.
        environment.insert("AWS_SESSION_TOKEN".to_owned(), logical_id.to_owned());
        let (id, clock) = (declared.logical_id.clone(), clock.clone());
        let create = move || {
            create_function(&id, &environment, &clock)
                .map_err(|e| Error::because(&format!("starting {id}"), &*e))
        };
        let environment = Environment::start(create)?;
        functions = functions.with_environment(logical_id, environment);
    }
    Ok(functions)
}

/// Creates a function of events. Each invocation has its own clone of the state.
macro_rules! of_events {
    ($state:ident, |$event:ident: $type:ty| $handled:expr) => {
        event_function(move |$event: $type| {
            let $state = $state.clone();
            async move { $handled }
        })
    };
}

#[expect(clippy::unnecessary_wraps, reason = "`event_function` takes functions that can fail")]
fn infallible<T>(response: T) -> std::result::Result<T, Infallible> {
    Ok(response)
}

/// Returns the router of a function behind the gateway; `None`: no request reaches the function.
pub fn router(
    logical_id: &str,
    aws: &Aws,
    clock: Clock,
    var: Vars<'_>,
) -> std::result::Result<Option<Router>, Box<dyn std::error::Error>> {
    Ok(Some(match logical_id {
        "ChargesFunction" => charges::router(charges::app(aws, clock, var)?),
        "PaymentsFunction" => payments::router(payments::app(aws, clock, var)?),
        "WalletsFunction" => wallets::router(wallets::app(aws, clock, var)?),
        "ReportsFunction" => reports::router(reports::app(aws, clock, var)?),
        "WebhooksFunction" => webhooks::router(webhooks::app(aws, clock, var)?),
        "MedFunction" => med::router(med::app(aws, clock, var)?),
        "ApiKeysFunction" => api_keys::router(ApiKeysApp::from_vars(aws, clock, var)?),
        "AcquirerEventsFunction" => acquirer_events::router(acquirer_events::app(aws, clock, var)?),
        "BankNotificationsFunction" => {
            acquirer_events::bank::router(BankNotifications::from_vars(aws, clock, var)?)
        }
        "CheckoutFunction" => checkout::router(Checkout::from_vars(aws, clock, var)?),
        "DashboardFunction" => dashboard::router(dashboard::app(aws, clock, var)?),
        _ => return Ok(None),
    }))
}

fn create_function(
    logical_id: &str,
    environment: &BTreeMap<String, String>,
    clock: &Clock,
) -> std::result::Result<Invoke, Box<dyn std::error::Error>> {
    let var: &dyn Fn(&str) -> Option<String> = &|name| environment.get(name).cloned();
    let (aws, clock) = (&Aws::from_vars(var)?, clock.clone());
    if let Some(router) = router(logical_id, aws, clock.clone(), var)? {
        return Ok(http_function(router));
    }
    Ok(match logical_id {
        "EventDispatcherFunction" => {
            let dispatcher = Dispatcher::from_vars(aws, clock, var)?;
            of_events!(dispatcher, |event: Value| dispatcher.handle(event).await)
        }
        "WebhookWorkerFunction" => {
            let worker = Worker::from_vars(aws, clock, var)?;
            of_events!(worker, |event: SqsEvent| infallible(worker.handle(event).await))
        }
        "AcquirerWorkerFunction" => {
            let worker = AcquirerWorker::from_vars(aws, clock, var)?;
            of_events!(worker, |event: SqsEvent| infallible(worker.handle(event).await))
        }
        "MailerFunction" => {
            let directory = var(MAIL_DIRECTORY).map(PathBuf::from);
            let sender = directory.map_or(EmailSender::Nowhere, EmailSender::Directory);
            let mailer = Mailer::from_vars(aws, clock, sender, var)?;
            of_events!(mailer, |event: SqsEvent| infallible(mailer.handle(event).await))
        }
        "ReportsWorkerFunction" => {
            let worker = ReportsWorker::from_vars(aws, clock, var)?;
            of_events!(worker, |event: SqsEvent| infallible(worker.handle(event).await))
        }
        "SchedulerFunction" => {
            let scheduler = Scheduler::from_vars(aws, clock, var)?;
            of_events!(scheduler, |event: Value| scheduler.handle(&event).await)
        }
        "LedgerVerifierFunction" => {
            let verifier = LedgerVerifier::from_vars(aws, clock, var)?;
            of_events!(verifier, |_event: Value| verifier.run().await)
        }
        unknown => {
            return Err(
                format!("the template declares {unknown}, which the local service does not contain").into()
            );
        }
    })
}
