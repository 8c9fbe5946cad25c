//! The client of HTTP for requests without an SDK.

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::error::{Context, Result};

pub type HttpClient = Client<HttpConnector, Full<Bytes>>;

pub fn http_client() -> HttpClient {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new()).build(connector)
}

/// Sends a request and reads the whole response. `doing`: what an error says has failed.
pub(crate) async fn send(
    client: &HttpClient,
    request: Request<Full<Bytes>>,
    doing: &str,
) -> Result<Response<Bytes>> {
    let response = client.request(request).await.context(doing)?;
    let (head, body) = response.into_parts();
    let body = body.collect().await.context(doing)?;
    Ok(Response::from_parts(head, body.to_bytes()))
}
