//! Creates the functions of the template from the same libraries that are deployed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use acquirer_events::bank::BankNotifications;
use aws_lambda_events::{dynamodb, sqs};
use event_dispatcher::Dispatcher;
use ledger_verifier::LedgerVerifier;
use mailer::Mailer;
use mailer::sender::Sender;
use scheduler::Scheduler;
use serde_json::Value;
use shared::app::App;
use shared::clock::Clock;
use shared::store::Aws;
use webhook_worker::worker::Worker;

use crate::error::{Error, Result};
use crate::lambda::{Environment, Functions, Invoke, event_function, http_function};
use crate::template::{Template, TemplateValues};

/// If it is not set, emails are only logged.
pub(crate) const MAIL_DIRECTORY: &str = "MAIL_DIRECTORY";

/// Lambda sets some of them, and the others exist only on this machine.
pub(crate) type ExtraVariables = BTreeMap<String, String>;

/// `names_callers`: the session token of a function's requests is its logical id, so that the fault proxy can
/// record its calls.
pub(crate) fn create_functions(
    template: &Template,
    values: &TemplateValues,
    extra: &ExtraVariables,
    clock: &Clock,
    names_callers: bool,
) -> Result<Functions> {
    let mut functions = Functions::new();
    for declared in &template.functions {
        let logical_id = declared.logical_id.as_str();
        let mut environment = template.environment(logical_id, values)?;
        environment.extend(extra.clone());
        if names_callers {
            environment.insert("AWS_SESSION_TOKEN".to_owned(), logical_id.to_owned());
        }
        let (id, clock) = (declared.logical_id.clone(), clock.clone());
        let create = move || create_function(&id, &environment, &clock);
        let environment = Environment::start(create)?;
        functions = functions.with_environment(logical_id, environment);
    }
    Ok(functions)
}

fn create_function(
    logical_id: &str,
    environment: &BTreeMap<String, String>,
    clock: &Clock,
) -> Result<Invoke> {
    let var = |name: &str| environment.get(name).cloned();
    let failed = |e: &(dyn std::error::Error + 'static)| Error::because(&format!("starting {logical_id}"), e);
    let aws = Aws::from_vars(&var).map_err(|e| failed(&e))?;
    let app = || App::from_vars(&aws, clock.clone(), &var).map_err(|e| failed(&e));
    Ok(match logical_id {
        "ChargesFunction" => http_function(charges::router(app()?)),
        "PaymentsFunction" => http_function(payments::router(app()?)),
        "WalletsFunction" => http_function(wallets::router(app()?)),
        "WebhooksFunction" => {
            let webhooks =
                webhooks::Webhooks::from_vars(&aws, clock.clone(), &var).map_err(|e| failed(&e))?;
            http_function(webhooks::router(webhooks))
        }
        "MedFunction" => {
            let med = med::Med::from_vars(&aws, clock.clone(), &var).map_err(|e| failed(&e))?;
            http_function(med::router(med))
        }
        "ApiKeysFunction" => {
            let app = api_keys::ApiKeysApp::from_vars(&aws, clock.clone(), &var).map_err(|e| failed(&e))?;
            http_function(api_keys::router(app))
        }
        "AcquirerEventsFunction" => http_function(acquirer_events::router(app()?)),
        "BankNotificationsFunction" => {
            let bank = BankNotifications::from_vars(&aws, clock.clone(), &var).map_err(|e| failed(&e))?;
            http_function(acquirer_events::bank::router(bank))
        }
        "CheckoutFunction" => {
            let checkout =
                checkout::Checkout::from_vars(&aws, clock.clone(), &var).map_err(|e| failed(&e))?;
            http_function(checkout::router(checkout))
        }
        "EventDispatcherFunction" => {
            let dispatcher = Dispatcher::from_vars(&aws, clock.clone(), &var).map_err(|e| failed(&e))?;
            event_function(move |event: dynamodb::Event| {
                let dispatcher = dispatcher.clone();
                async move { Ok::<_, Error>(dispatcher.handle(event).await) }
            })
        }
        "WebhookWorkerFunction" => {
            let worker = Worker::from_vars(&aws, clock.clone(), &var).map_err(|e| failed(&e))?;
            event_function(move |event: sqs::SqsEvent| {
                let worker = worker.clone();
                async move { Ok::<_, Error>(worker.handle(event).await) }
            })
        }
        "AcquirerWorkerFunction" => {
            let worker = acquirer_worker::AcquirerWorker::from_vars(&aws, clock.clone(), &var)
                .map_err(|e| failed(&e))?;
            event_function(move |event: sqs::SqsEvent| {
                let worker = worker.clone();
                async move { Ok::<_, Error>(worker.handle(event).await) }
            })
        }
        "MailerFunction" => {
            let directory = var(MAIL_DIRECTORY).map(PathBuf::from);
            let sender = directory.map_or(Sender::Nowhere, Sender::Directory);
            let mailer = Mailer::from_vars(&aws, clock.clone(), sender, &var).map_err(|e| failed(&e))?;
            event_function(move |event: sqs::SqsEvent| {
                let mailer = mailer.clone();
                async move { Ok::<_, Error>(mailer.handle(event).await) }
            })
        }
        "SchedulerFunction" => {
            let work = Scheduler::from_vars(&aws, clock.clone(), &var).map_err(|e| failed(&e))?;
            event_function(move |event: Value| {
                let work = work.clone();
                async move { work.handle(&event).await }
            })
        }
        "LedgerVerifierFunction" => {
            let verifier = LedgerVerifier::from_vars(&aws, clock.clone(), &var).map_err(|e| failed(&e))?;
            event_function(move |_event: Value| {
                let verifier = verifier.clone();
                async move { verifier.run().await }
            })
        }
        unknown => {
            return Err(Error::new(format!(
                "the template declares {unknown}, which the local service does not contain"
            )));
        }
    })
}
