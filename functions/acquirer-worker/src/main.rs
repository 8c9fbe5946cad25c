//! The entry point of the Lambda function.

use acquirer_worker::AcquirerWorker;
use aws_lambda_events::sqs::SqsEvent;

shared::event_main!(
    |aws, clock, var| AcquirerWorker::from_vars(aws, clock, var)?,
    |worker, event: SqsEvent| worker.handle(event).await,
);
