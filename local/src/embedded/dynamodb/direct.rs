//! Sends requests of the functions in this process to the embedded DynamoDB without a connection, which takes
//! less CPU time (docs/decisions/081). The functions use their own AWS clients as usual. Other programs, and
//! functions behind a front, reach the server by its URL.

use aws_sdk_dynamodb::config::{RuntimeComponents, SharedHttpClient};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use hyper::body::Bytes;
use hyper::{Request, Response};
use tokio::sync::{mpsc, oneshot};

/// A request, and the receiver of its response.
pub(super) type Call = (Request<SdkBody>, oneshot::Sender<Response<Bytes>>);

/// Reaches the server without a connection.
#[derive(Clone, Debug)]
pub struct Direct {
    /// The base URL of the server, with a trailing slash.
    url: String,
    calls: mpsc::UnboundedSender<Call>,
}

impl Direct {
    /// Returns also the calls, which the server at `url` receives.
    pub(super) fn new(url: &str) -> (Self, mpsc::UnboundedReceiver<Call>) {
        let (calls, received) = mpsc::unbounded_channel();
        (Self { url: format!("{url}/"), calls }, received)
    }

    /// Returns an HTTP client that sends requests for the server's URL directly, and all others by `others`.
    pub fn or(&self, others: SharedHttpClient) -> SharedHttpClient {
        SharedHttpClient::new(DirectOr { direct: self.clone(), others })
    }
}

/// A client or a connector for the server and for others.
#[derive(Debug)]
struct DirectOr<Others> {
    direct: Direct,
    others: Others,
}

impl HttpClient for DirectOr<SharedHttpClient> {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let others = self.others.http_connector(settings, components);
        SharedHttpConnector::new(DirectOr { direct: self.direct.clone(), others })
    }
}

impl HttpConnector for DirectOr<SharedHttpConnector> {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        if !request.uri().starts_with(&self.direct.url) {
            return self.others.call(request);
        }
        let request = match request.try_into_http1x() {
            Ok(request) => request,
            Err(error) => return HttpConnectorFuture::ready(Err(ConnectorError::user(error.into()))),
        };
        let (responder, response) = oneshot::channel();
        let sent = self.direct.calls.send((request, responder));
        HttpConnectorFuture::new(async move {
            sent.map_err(|_| ConnectorError::io("DynamoDB has stopped".into()))?;
            let response = response.await.map_err(|error| ConnectorError::io(error.into()))?;
            HttpResponse::try_from(response.map(SdkBody::from))
                .map_err(|error| ConnectorError::other(error.into(), None))
        })
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::Client;
    use aws_sdk_dynamodb::error::SdkError;
    use shared::clock::Clock;
    use shared::store::Aws;

    use super::*;
    use crate::embedded::{Embedded, Listen, State};

    /// No host has this name.
    const URL: &str = "http://direct.invalid";

    fn client(direct: &Direct, url: &str) -> Client {
        let variable = |name: &str| match name {
            "AWS_ENDPOINT_URL_DYNAMODB" => Some(url.to_owned()),
            "AWS_REGION" | "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => Some("local".to_owned()),
            _ => None,
        };
        Aws::from_vars(&variable).unwrap().map_http(|others| direct.or(others)).dynamodb()
    }

    #[tokio::test]
    async fn only_requests_for_the_url_of_the_server_are_sent_without_a_connection() {
        let (direct, mut calls) = Direct::new(URL);
        tokio::spawn(async move {
            while let Some((request, responder)) = calls.recv().await {
                assert_eq!(request.headers()["x-amz-target"], "DynamoDB_20120810.ListTables");
                let tables = Bytes::from_static(br#"{"TableNames":["Direct"]}"#);
                responder.send(Response::new(tables)).unwrap();
            }
        });
        let listed = client(&direct, URL).list_tables().send().await.unwrap();
        assert_eq!(listed.table_names(), ["Direct"]);
        let other = Embedded::start(&State::InMemory, Listen::AnyPort, &Clock::default()).await.unwrap();
        let listed = client(&direct, &other.endpoints().dynamodb_url).list_tables().send().await.unwrap();
        assert!(listed.table_names().is_empty());
    }

    #[tokio::test]
    async fn a_request_to_a_stopped_server_fails_as_by_a_refused_connection() {
        let server = Embedded::start(&State::InMemory, Listen::AnyPort, &Clock::default()).await.unwrap();
        let client = client(server.direct(), &server.endpoints().dynamodb_url);
        client.list_tables().send().await.unwrap();
        server.stop().await;
        let error = client.list_tables().send().await.unwrap_err();
        assert!(matches!(&error, SdkError::DispatchFailure(failure) if failure.is_io()), "{error:?}");
    }
}
