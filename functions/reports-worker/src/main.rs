//! The entry point of the Lambda function.

use aws_lambda_events::sqs::SqsEvent;
use reports_worker::ReportsWorker;

shared::event_main!(
    |aws, clock, var| ReportsWorker::from_vars(aws, clock, var)?,
    |worker, event: SqsEvent| worker.handle(event).await,
);
