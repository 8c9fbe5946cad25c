//! Signs the requests of the AWS JSON protocol with AWS Signature Version 4.
//!
//! The SDK's own signer derives the signing key anew for each request, signs every header, and hashes with
//! portable code. It needs more than half of the instructions of a call. This one keeps the key for a day,
//! signs the headers that AWS requires, and hashes with ring, which uses the processor's instructions for
//! SHA-256. In contrast to the SDK's signer it does not correct the time of a wrong clock, because Lambda
//! keeps the clock of a function.
//!
//! Source: <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>.

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_credential_types::Credentials;
use aws_runtime::auth::sigv4::SCHEME_ID;
use aws_sdk_dynamodb::config::{ConfigBag, RuntimeComponents};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::auth::{AuthScheme, AuthSchemeEndpointConfig, AuthSchemeId, Sign};
use aws_smithy_runtime_api::client::identity::{Identity, SharedIdentityResolver};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::runtime_components::GetIdentityResolver;
use ring::{digest, hmac};

use domain::hex;
use domain::time::Timestamp;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const TERMINATOR: &str = "aws4_request";
const DATE_HEADER: &str = "x-amz-date";
const TOKEN_HEADER: &str = "x-amz-security-token";

/// Replaces the SDK's authentication scheme `sigv4` of one client. The client must use the AWS JSON protocol,
/// whose requests all have the path `/`.
#[derive(Debug)]
pub(super) struct SigV4 {
    region: String,
    service: &'static str,
    key: Mutex<Option<DayKey>>,
}

/// A signing key. It is valid for one day, and only for one region and service.
#[derive(Debug)]
struct DayKey {
    date: String,
    access_key_id: String,
    key: hmac::Key,
}

impl SigV4 {
    pub(super) fn new(region: &str, service: &'static str) -> Self {
        Self { region: region.to_owned(), service, key: Mutex::new(None) }
    }

    fn sign(
        &self,
        request: &mut HttpRequest,
        credentials: &Credentials,
        at: Timestamp,
    ) -> Result<(), BoxError> {
        let time = basic_time(at);
        let date = time.get(..8).unwrap_or_default();
        let headers = request.headers_mut();
        headers.try_insert(DATE_HEADER, time.clone())?;
        if let Some(token) = credentials.session_token() {
            headers.try_insert(TOKEN_HEADER, token.to_owned())?;
        }
        let (canonical, signed_headers) = canonical_request(request)?;
        let scope = format!("{date}/{}/{}/{TERMINATOR}", self.region, self.service);
        let text = format!("{ALGORITHM}\n{time}\n{scope}\n{}", sha256_hex(canonical.as_bytes()));
        let signature = self.signature(credentials, date, &text);
        let id = credentials.access_key_id();
        request.headers_mut().try_insert(
            "authorization",
            format!(
                "{ALGORITHM} Credential={id}/{scope}, SignedHeaders={signed_headers}, Signature={signature}"
            ),
        )?;
        Ok(())
    }

    fn signature(&self, credentials: &Credentials, date: &str, text: &str) -> String {
        let mut cached = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        let is_current = |key: &DayKey| key.date == date && key.access_key_id == credentials.access_key_id();
        if !cached.as_ref().is_some_and(is_current) {
            *cached = None;
        }
        let day_key = cached.get_or_insert_with(|| DayKey {
            date: date.to_owned(),
            access_key_id: credentials.access_key_id().to_owned(),
            key: self.derive_key(credentials, date),
        });
        hex::encode(hmac::sign(&day_key.key, text.as_bytes()).as_ref())
    }

    fn derive_key(&self, credentials: &Credentials, date: &str) -> hmac::Key {
        let key = |secret: &[u8]| hmac::Key::new(hmac::HMAC_SHA256, secret);
        let secret = format!("AWS4{}", credentials.secret_access_key());
        [date, &self.region, self.service, TERMINATOR]
            .into_iter()
            .fold(key(secret.as_bytes()), |signing, part| key(hmac::sign(&signing, part.as_bytes()).as_ref()))
    }
}

/// Returns the canonical request, and the names of the signed headers. They are `content-type`, `host` and all
/// headers of AWS.
fn canonical_request(request: &HttpRequest) -> Result<(String, String), BoxError> {
    let body = request.body().bytes().ok_or("a streamed body can't be signed")?;
    let mut headers: Vec<(&str, &str)> = request
        .headers()
        .iter()
        .filter(|(name, _)| *name == "content-type" || name.starts_with("x-amz-"))
        .collect();
    headers.push(("host", host(request.uri())?));
    headers.sort_unstable();
    let mut canonical = String::with_capacity(1024);
    let mut names = String::with_capacity(128);
    write!(canonical, "{}\n/\n\n", request.method())?;
    for (name, value) in headers {
        writeln!(canonical, "{name}:{}", value.trim())?;
        if !names.is_empty() {
            names.push(';');
        }
        names.push_str(name);
    }
    write!(canonical, "\n{names}\n{}", sha256_hex(body))?;
    Ok((canonical, names))
}

/// Returns the value of the header `Host` that the HTTP client sends for a URI: without the scheme's own port.
fn host(uri: &str) -> Result<&str, BoxError> {
    let (scheme, rest) = uri.split_once("://").ok_or("the URI of a request must be absolute")?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if !path.is_empty() {
        return Err("only requests with the path / and without a query can be signed".into());
    }
    let port = if scheme == "https" { ":443" } else { ":80" };
    Ok(authority.strip_suffix(port).unwrap_or(authority))
}

/// Formats a time as `20261121T010203Z`.
fn basic_time(at: Timestamp) -> String {
    let iso = at.to_iso();
    let digits = iso.chars().take("2026-11-21T01:02:03".len()).filter(char::is_ascii_alphanumeric);
    digits.chain(std::iter::once('Z')).collect()
}

fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn timestamp(time: SystemTime) -> Result<Timestamp, BoxError> {
    let millis = time.duration_since(UNIX_EPOCH)?.as_millis();
    Ok(Timestamp::from_millis(i64::try_from(millis)?)?)
}

impl Sign for SigV4 {
    fn sign_http_request(
        &self,
        request: &mut HttpRequest,
        identity: &Identity,
        _: AuthSchemeEndpointConfig<'_>,
        components: &RuntimeComponents,
        _: &ConfigBag,
    ) -> Result<(), BoxError> {
        let credentials = identity.data::<Credentials>().ok_or("the identity is not an AWS access key")?;
        let now = components.time_source().unwrap_or_default().now();
        self.sign(request, credentials, timestamp(now)?)
    }
}

impl AuthScheme for SigV4 {
    fn scheme_id(&self) -> AuthSchemeId {
        SCHEME_ID
    }

    fn identity_resolver(
        &self,
        identity_resolvers: &dyn GetIdentityResolver,
    ) -> Option<SharedIdentityResolver> {
        identity_resolvers.identity_resolver(self.scheme_id())
    }

    fn signer(&self) -> &dyn Sign {
        self
    }
}

#[cfg(test)]
mod tests {
    use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
    use aws_sigv4::sign::v4;
    use aws_smithy_types::body::SdkBody;

    use super::*;

    const TARGET: (&str, &str) = ("x-amz-target", "DynamoDB_20120810.PutItem");
    const CONTENT_TYPE: (&str, &str) = ("content-type", "application/x-amz-json-1.0");
    const BODY: &str = r#"{"TableName":"StateTable","Item":{"pk":{"S":"ação"}}}"#;

    fn request(uri: &str) -> HttpRequest {
        let mut request = HttpRequest::new(SdkBody::from(BODY));
        request.set_method("POST").unwrap();
        request.set_uri(uri).unwrap();
        for (name, value) in [CONTENT_TYPE, TARGET, ("amz-sdk-request", "attempt=1; max=6")] {
            request.headers_mut().try_insert(name, value).unwrap();
        }
        request
    }

    fn credentials(id: &str, token: Option<&str>) -> Credentials {
        Credentials::new(id, format!("secret of {id}"), token.map(str::to_owned), None, "test")
    }

    /// Signs the same headers by the SDK's library.
    fn signed_by_sdk(uri: &str, credentials: &Credentials, at: Timestamp) -> String {
        let identity = credentials.clone().into();
        let parameters = v4::SigningParams::builder()
            .identity(&identity)
            .region("sa-east-1")
            .name("dynamodb")
            .time(UNIX_EPOCH + std::time::Duration::from_millis(at.millis().unsigned_abs()))
            .settings(SigningSettings::default())
            .build()
            .unwrap();
        let headers = [CONTENT_TYPE, TARGET].into_iter();
        let request =
            SignableRequest::new("POST", uri, headers, SignableBody::Bytes(BODY.as_bytes())).unwrap();
        let (instructions, _) = sign(request, &parameters.into()).unwrap().into_parts();
        let mut headers = instructions.headers();
        headers.find(|(name, _)| *name == "authorization").unwrap().1.to_owned()
    }

    #[test]
    fn signatures_equal_those_of_the_sdk() {
        let signer = SigV4::new("sa-east-1", "dynamodb");
        let times = ["2026-11-21T01:02:03.004Z", "2026-11-21T23:59:59.999Z", "2026-11-22T00:00:00.000Z"];
        let uris = [
            "https://dynamodb.sa-east-1.amazonaws.com",
            "https://dynamodb.sa-east-1.amazonaws.com/",
            "https://dynamodb.sa-east-1.amazonaws.com:443/",
            "http://127.0.0.1:8000/",
        ];
        for at in times.map(|time| time.parse().unwrap()) {
            for uri in uris {
                for credentials in [credentials("AKIA1", None), credentials("ASIA2", Some("a/token=="))] {
                    let mut request = request(uri);
                    signer.sign(&mut request, &credentials, at).unwrap();
                    let own = request.headers().get("authorization").unwrap();
                    assert_eq!(own, signed_by_sdk(uri, &credentials, at), "{uri}");
                    assert_eq!(request.headers().get(TOKEN_HEADER), credentials.session_token());
                }
            }
        }
    }

    #[test]
    fn a_request_that_the_protocol_does_not_have_is_refused() {
        let signer = SigV4::new("sa-east-1", "dynamodb");
        let at = "2026-11-21T01:02:03.004Z".parse().unwrap();
        for uri in ["https://host/path", "https://host/?query", "/"] {
            signer.sign(&mut request(uri), &credentials("AKIA1", None), at).unwrap_err();
        }
        let mut streamed = request("https://host/").map(|_| SdkBody::taken());
        signer.sign(&mut streamed, &credentials("AKIA1", None), at).unwrap_err();
    }
}
