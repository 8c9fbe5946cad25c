//! Sends emails by Amazon SES. It uses version 1 of the SES API, because the library of version 1 is half as
//! large as that of version 2. Both versions can send a raw message.

use aws_sdk_ses::config::Builder;
use aws_sdk_ses::config::retry::RetryConfig;
use aws_sdk_ses::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use aws_sdk_ses::operation::send_raw_email::SendRawEmailError;
use aws_sdk_ses::primitives::Blob;
use aws_sdk_ses::types::RawMessage;
use shared::config::Vars;
use shared::store::{Aws, endpoint_url};

use crate::message::EmailMessage;

#[derive(Clone, Debug)]
pub struct Ses(aws_sdk_ses::Client);

impl Ses {
    /// Creates a client. The variables of [`endpoint_url`] replace the regional endpoint.
    pub fn from_vars(aws: &Aws, var: Vars<'_>) -> Self {
        // When a response is lost, the email may have been sent. So the client does not retry. The queue retries
        // later and less often.
        let mut config = Builder::from(&aws.sdk).retry_config(RetryConfig::disabled());
        config.set_endpoint_url(endpoint_url(var, "SES"));
        Self(aws_sdk_ses::Client::from_conf(config.build()))
    }

    /// Sends an email to its `to` address. The request names the recipient, so SES ignores recipients in the
    /// headers.
    /// Errors: The code of a refusal by SES, or the cause of a failed request.
    pub(crate) async fn send(&self, message: &EmailMessage) -> Result<(), String> {
        let raw = RawMessage::builder().data(Blob::new(message.bytes.clone())).build();
        let raw = raw.map_err(|error| error.to_string())?;
        let send = self.0.send_raw_email().source(message.from.as_str()).destinations(message.to.as_str());
        // The text of a refusal may contain the recipient's address, which must not be logged. The code is
        // enough.
        let refusal = |error: SdkError<SendRawEmailError>| match error.as_service_error() {
            Some(refused) => refused.code().unwrap_or("refused").to_owned(),
            None => DisplayErrorContext(error).to_string(),
        };
        send.raw_message(raw).send().await.map_err(refusal)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::task::JoinHandle;
    use tokio::time::timeout;

    use super::*;
    use crate::message::tests::message;

    /// Starts a server that answers one request with `answer`, and creates a client of that server. The
    /// server's task returns the request.
    async fn ses(answer: String) -> (Ses, JoinHandle<(String, TcpListener)>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            let mut part = [0; 4096];
            // The request's body is a form. It is complete when both of these fields have arrived.
            while !String::from_utf8_lossy(&request).contains("RawMessage.Data=")
                || !String::from_utf8_lossy(&request).contains("Destinations.member.1=")
            {
                let length = stream.read(&mut part).await.unwrap();
                request.extend(&part[..length]);
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            (String::from_utf8(request).unwrap(), listener)
        });
        let var = |name: &str| match name {
            "AWS_REGION" => Some("sa-east-1".to_owned()),
            "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => Some("key".to_owned()),
            "AWS_ENDPOINT_URL_DYNAMODB" | "AWS_ENDPOINT_URL_SES" => Some(url.clone()),
            _ => None,
        };
        (Ses::from_vars(&Aws::from_vars(&var).unwrap(), &var), server)
    }

    fn answer(status: &str, body: &str) -> String {
        let length = body.len();
        format!("HTTP/1.1 {status}\r\nContent-Type: text/xml\r\nContent-Length: {length}\r\n\r\n{body}")
    }

    #[tokio::test]
    async fn an_email_is_sent_from_and_to_its_addresses() {
        let body = "<SendRawEmailResponse xmlns=\"http://ses.amazonaws.com/doc/2010-12-01/\"><SendRawEmailResult>\
                    <MessageId>1</MessageId></SendRawEmailResult></SendRawEmailResponse>";
        let (ses, server) = ses(answer("200 OK", body)).await;
        ses.send(&message("Assunto", "Texto\n")).await.unwrap();
        let (request, _) = server.await.unwrap();
        for part in [
            "Action=SendRawEmail&",
            "Source=avisos%40pagamentos.example&",
            "Destinations.member.1=ana%40loja.example&",
        ] {
            assert!(request.contains(part), "{part}: {request}");
        }
    }

    #[tokio::test]
    async fn a_refusal_is_reported_by_its_code_without_the_recipient() {
        let body = "<ErrorResponse xmlns=\"http://ses.amazonaws.com/doc/2010-12-01/\"><Error><Type>Sender</Type>\
                    <Code>MessageRejected</Code><Message>Email address is not verified: ana@loja.example</Message>\
                    </Error><RequestId>1</RequestId></ErrorResponse>";
        let (ses, _server) = ses(answer("400 Bad Request", body)).await;
        assert_eq!(ses.send(&message("Assunto", "Texto\n")).await, Err("MessageRejected".to_owned()));
    }

    #[tokio::test]
    async fn the_client_does_not_retry_when_the_response_is_lost() {
        let (ses, server) = ses(String::new()).await;
        let lost = ses.send(&message("Assunto", "Texto\n")).await.unwrap_err();
        assert!(!lost.contains("ana@"), "{lost}");
        let (_, listener) = server.await.unwrap();
        assert!(timeout(Duration::ZERO, listener.accept()).await.is_err(), "the client sent another request");
    }
}
