//! The embedded S3: the crate s3s with its objects in a directory.
//!
//! The server verifies signatures, so it rejects a presigned URL that AWS rejects. `Guard` adds the checks
//! that s3s lacks, and pages of this machine may upload from a browser. There are no object versions and no lifecycle rules. Without a state directory, the
//! objects are in a temporary directory.

use std::sync::Arc;

use async_trait::async_trait;
use domain::time::Timestamp;
use hyper::body::Incoming;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, AUTHORIZATION,
    HeaderValue, ORIGIN, VARY,
};
use hyper::{Method, Request, StatusCode};
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::SimpleAuth;
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{HttpError, HttpResponse, S3Result, s3_error};
use s3s_fs::FileSystem;
use shared::clock::Clock;
use tempfile::TempDir;
use tokio::net::TcpListener;
use url::form_urlencoded;

use super::{ACCESS_KEY, SECRET_KEY, State};
use crate::error::{Context, Error, Result};
use crate::files::create_private;
use crate::guard::is_of_this_machine;
use crate::http::{Hosts, Server, refused_host};

#[derive(Debug)]
pub struct S3 {
    server: Server,
    _temporary: Option<TempDir>,
}

/// The checks that AWS makes and s3s lacks. A request must be signed. A presigned URL must not have expired,
/// and its signature must cover all `x-amz-` headers of the request.
struct Guard {
    clock: Clock,
}

#[async_trait]
impl S3Access for Guard {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        if context.credentials().is_none() {
            return Err(s3_error!(AccessDenied, "Signature is required"));
        }
        let query = context.uri().query().unwrap_or_default();
        let parameter = |name: &str| {
            let mut pairs = form_urlencoded::parse(query.as_bytes());
            pairs.find(|(given, _)| given == name).map(|(_, value)| value.into_owned())
        };
        if parameter("X-Amz-Signature").is_none() {
            return Ok(());
        }
        if context.headers().contains_key(AUTHORIZATION) {
            return Err(s3_error!(InvalidArgument, "Only one auth mechanism allowed"));
        }
        // Uses the service's clock, so that a presigned URL expires when the clock is advanced.
        let [date, expires] = ["X-Amz-Date", "X-Amz-Expires"].map(|name| parameter(name).unwrap_or_default());
        if expiry(&date, &expires).is_none_or(|expiry| self.clock.now() > expiry) {
            return Err(s3_error!(AccessDenied, "Request has expired"));
        }
        let signed = parameter("X-Amz-SignedHeaders").unwrap_or_default();
        let is_signed = |name: &str| signed.split(';').any(|signed| signed == name);
        if context
            .headers()
            .keys()
            .any(|name| name.as_str().starts_with("x-amz-") && !is_signed(name.as_str()))
        {
            return Err(s3_error!(
                AccessDenied,
                "There were headers present in the request which were not signed"
            ));
        }
        Ok(())
    }
}

/// Returns the expiry of a presigned URL from its date (`20261121T100000Z`) and its lifetime in seconds.
/// `None`: a value is malformed.
fn expiry(date: &str, expires: &str) -> Option<Timestamp> {
    let signed = chrono::NaiveDateTime::parse_from_str(date, "%Y%m%dT%H%M%SZ").ok()?;
    let signed = Timestamp::from_millis(signed.and_utc().timestamp_millis()).ok()?;
    signed.plus_seconds(expires.parse().ok()?).ok()
}

/// Answers a page of this machine as the bucket's CORS rule in `template.yaml` answers the API's origin: the page
/// may upload, and read nothing. A page of another site may not, because everyone knows the access key.
async fn answer_browser(
    s3: S3Service,
    hosts: Hosts,
    request: Request<Incoming>,
) -> std::result::Result<HttpResponse, HttpError> {
    if let Some(refused) = refused_host(&hosts, &request) {
        return Ok(refused.map(|_text| s3s::Body::empty()));
    }
    let is_preflight = request.method() == Method::OPTIONS;
    let is_upload = is_preflight || request.method() == Method::PUT;
    let origin = request.headers().get(ORIGIN).filter(|origin| is_upload && is_of_this_machine(origin));
    let origin = origin.cloned();
    let mut response = if is_preflight {
        HttpResponse::new(s3s::Body::empty())
    } else {
        s3.call(request.map(s3s::Body::from)).await?
    };
    if let Some(origin) = origin {
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("PUT"));
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*"));
        headers.insert(VARY, HeaderValue::from_static("Origin"));
    } else if is_preflight {
        *response.status_mut() = StatusCode::FORBIDDEN;
    }
    Ok(response)
}

impl S3 {
    pub(crate) fn start(state: &State, listener: TcpListener, hosts: &Hosts, clock: &Clock) -> Result<Self> {
        let doing = "starting S3";
        let (root, temporary) = match state {
            State::Directory(directory) => (directory.join("s3"), None),
            State::InMemory => {
                let temporary = tempfile::Builder::new().prefix("s3-").tempdir().context(doing)?;
                (temporary.path().join("s3"), Some(temporary))
            }
        };
        create_private(&root).context(doing)?;
        let files = FileSystem::new(root).map_err(|e| Error::new(format!("{doing}: {e:?}")))?;
        let mut builder = S3ServiceBuilder::new(files);
        builder.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        builder.set_access(Guard { clock: clock.clone() });
        // s3s compares a URL's date with the machine's clock. The service's clock may be years ahead of the
        // machine's, so any difference is allowed.
        let mut config = S3Config::default();
        config.presigned_url_max_skew_time_secs = u32::MAX;
        builder.set_config(Arc::new(StaticConfigProvider::new(Arc::new(config))));
        let (service, hosts) = (builder.build(), hosts.clone());
        let answer = move |request, _| answer_browser(service.clone(), hosts.clone(), request);
        let server = Server::start(listener, answer).context(doing)?;
        Ok(Self { server, _temporary: temporary })
    }

    pub fn url(&self) -> String {
        self.server.url()
    }

    pub async fn stop(self) {
        self.server.stop().await;
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[tokio::test]
    async fn only_the_owner_may_read_evidence_in_the_temporary_directory() {
        let listener = crate::http::bind_loopback(0).await.unwrap();
        let s3 = S3::start(&State::InMemory, listener, &None, &Clock::default()).unwrap();
        let S3 { _temporary: Some(root), .. } = &s3 else { panic!("no directory") };
        assert_eq!(root.path().join("s3").metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }
}
