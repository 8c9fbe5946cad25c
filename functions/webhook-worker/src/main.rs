use aws_lambda_events::sqs::SqsEvent;
use webhook_worker::worker::Worker;

shared::event_main!(|aws, clock, var| Worker::from_vars(aws, clock, var)?, |worker, event: SqsEvent| worker
    .handle(event)
    .await,);
