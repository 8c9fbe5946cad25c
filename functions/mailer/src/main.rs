use aws_lambda_events::sqs::SqsEvent;
use mailer::Mailer;
use mailer::sender::EmailSender;
use mailer::ses::Ses;

shared::event_main!(
    |aws, clock, var| Mailer::from_vars(aws, clock, EmailSender::Ses(Ses::from_vars(aws, var)), var)?,
    |mailer, event: SqsEvent| mailer.handle(event).await,
);
