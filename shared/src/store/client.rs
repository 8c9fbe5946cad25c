//! Builds the AWS clients. All of them share one HTTP client, which a function builds once at start-up.
//!
//! TLS is rustls with ring. It trusts only Amazon's own root certificates, because loading the default root
//! store makes a cold start seven times as expensive. Credentials come from the environment variables that
//! Lambda sets. Profile files and the metadata service are never used.

use std::time::Duration;

use aws_credential_types::Credentials;
use aws_sdk_dynamodb::config::retry::{RetryConfig, RetryPartition, TokenBucket};
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Region, SharedCredentialsProvider, SharedHttpClient};
use aws_sdk_s3::config::{RequestChecksumCalculation, ResponseChecksumValidation};
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use aws_types::SdkConfig;

use crate::config::Vars;

/// Amazon Root CA 1-4 and Starfield Services Root CA - G2, from <https://www.amazontrust.com/repository/>.
const AMAZON_ROOTS: &[u8] = include_bytes!("amazon-roots.pem");

const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);

/// The timeout of a call with all its retries.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(6);

/// The most attempts of a DynamoDB call that is throttled or fails for a temporary cause. With the pauses below,
/// their pauses take 1.25 s on average, and at most 2.5 s. So a request with three such calls has a response
/// within 10 s.
const MAX_ATTEMPTS: u32 = 6;

/// The upper limit of the first random pause after a throttled attempt. It doubles with each attempt, up to
/// [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The most attempts of a function of the stream. The pauses between them take at most 300 ms.
pub(super) const STREAM_ATTEMPTS: u32 = 3;

/// The longest pause. DynamoDB limits the units of a partition in each second.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The configuration of the AWS clients, read from the environment.
#[derive(Clone, Debug)]
pub struct Aws {
    /// What all clients share. A function that alone needs a further AWS service builds its client from it. Then no
    /// other function contains that service's SDK crate.
    pub sdk: SdkConfig,
    dynamodb_endpoint: Option<String>,
    sqs_endpoint: Option<String>,
    s3_endpoint: Option<String>,
}

/// A required environment variable is missing, or the TLS roots can't be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AwsError(String);

impl Aws {
    /// Reads the required variables `AWS_REGION`, `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`. Also reads
    /// the optional variable `AWS_SESSION_TOKEN` and the variables of [`endpoint_url`].
    /// Errors: When a required variable is not set, when `WEBHOOK_ADDRESSES` is set without an endpoint, or
    /// when the TLS roots can't be read. `WEBHOOK_ADDRESSES` is for a developer's machine. There, a missing
    /// endpoint would lead to the real account of the credentials in the shell.
    pub fn from_vars(var: Vars<'_>) -> Result<Self, AwsError> {
        let required = |name: &str| var(name).ok_or_else(|| AwsError(format!("{name} is not set")));
        let credentials = Credentials::new(
            required("AWS_ACCESS_KEY_ID")?,
            required("AWS_SECRET_ACCESS_KEY")?,
            var("AWS_SESSION_TOKEN").filter(|token| !token.is_empty()),
            None,
            "environment",
        );
        let is_local = var("WEBHOOK_ADDRESSES").is_some_and(|addresses| !addresses.is_empty());
        let endpoint = |service: &str| match endpoint_url(var, service) {
            None if is_local => Err(AwsError(format!(
                "AWS_ENDPOINT_URL or AWS_ENDPOINT_URL_{service} must be set, because WEBHOOK_ADDRESSES is set"
            ))),
            url => Ok(url),
        };
        let dynamodb_endpoint = endpoint("DYNAMODB")?;
        let sdk = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(required("AWS_REGION")?))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .timeout_config(timeouts());
        Ok(Self {
            dynamodb_endpoint,
            sqs_endpoint: endpoint("SQS")?,
            s3_endpoint: endpoint("S3")?,
            sdk: sdk.http_client(http_client()?).build(),
        })
    }

    pub fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        self.dynamodb_with(MAX_ATTEMPTS)
    }

    /// Builds a DynamoDB client with few retries, for functions that process records of several accounts.
    pub(super) fn dynamodb_for_stream(&self) -> aws_sdk_dynamodb::Client {
        self.dynamodb_with(STREAM_ATTEMPTS)
    }

    fn dynamodb_with(&self, max_attempts: u32) -> aws_sdk_dynamodb::Client {
        let mut config = aws_sdk_dynamodb::config::Builder::from(&self.sdk)
            .retry_config(throttled_retries(max_attempts))
            .retry_partition(unshared_retries());
        config.set_endpoint_url(self.dynamodb_endpoint.clone());
        aws_sdk_dynamodb::Client::from_conf(config.build())
    }

    pub fn sqs(&self) -> aws_sdk_sqs::Client {
        let mut config = aws_sdk_sqs::config::Builder::from(&self.sdk);
        config.set_endpoint_url(self.sqs_endpoint.clone());
        aws_sdk_sqs::Client::from_conf(config.build())
    }

    /// Builds an S3 client. With a custom endpoint, the bucket's name is in the path instead of the host
    /// name, because the host may have no subdomains. Checksums are sent and validated only where S3 requires
    /// them. Otherwise the user of a presigned URL would have to send a checksum too.
    pub fn s3(&self) -> aws_sdk_s3::Client {
        let mut config = aws_sdk_s3::config::Builder::from(&self.sdk)
            .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
            .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
            .force_path_style(self.s3_endpoint.is_some());
        config.set_endpoint_url(self.s3_endpoint.clone());
        aws_sdk_s3::Client::from_conf(config.build())
    }
}

/// Builds the HTTP client, which trusts only Amazon's own root certificates. It also sends requests by plain
/// HTTP, which only endpoints on a developer's machine use.
fn http_client() -> Result<SharedHttpClient, AwsError> {
    let roots = TrustStore::empty().with_pem_certificate(AMAZON_ROOTS);
    let tls = TlsContext::builder().with_trust_store(roots).build();
    let tls = tls.map_err(|error| AwsError(format!("the HTTP client can't be built: {error}")))?;
    Ok(Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).tls_context(tls).build_https())
}

/// Reads the endpoint of an AWS service: `AWS_ENDPOINT_URL_<service>`, else `AWS_ENDPOINT_URL`. `None`: the
/// regional endpoint. These are the standard variables of the AWS SDKs. SAM passes unset ones as empty texts.
pub fn endpoint_url(var: Vars<'_>, service: &str) -> Option<String> {
    let set = |name: &str| var(name).filter(|url| !url.is_empty());
    set(&format!("AWS_ENDPOINT_URL_{service}")).or_else(|| set("AWS_ENDPOINT_URL"))
}

/// The timeouts of the AWS clients: 3 s for one attempt, 6 s for a call with its retries. A connection can
/// die while Lambda freezes the function. Without these timeouts, a call on the dead connection would wait
/// until Lambda stops the function. The client's response would then lack our error body.
fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .operation_timeout(OPERATION_TIMEOUT)
        .build()
}

/// The retries of the DynamoDB client, with full jitter. They do not include cancelled transactions, which
/// [`super::Store`] retries.
fn throttled_retries(max_attempts: u32) -> RetryConfig {
    RetryConfig::standard()
        .with_max_attempts(max_attempts)
        .with_initial_backoff(FIRST_PAUSE)
        .with_max_backoff(LONGEST_PAUSE)
}

/// Retries without a common quota. With the SDK's quota, the throttled calls of one account would use up the
/// retries of the other accounts in the same process. Attempts and time bound the retries of each call.
fn unshared_retries() -> RetryPartition {
    RetryPartition::custom("dynamodb").token_bucket(TokenBucket::unlimited()).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aws(variables: &[(&str, &str)]) -> Result<Aws, String> {
        let credentials =
            [("AWS_REGION", "sa-east-1"), ("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "s")];
        let variables = [&credentials, variables].concat();
        let var = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Aws::from_vars(&var).map_err(|error| error.to_string())
    }

    #[test]
    fn the_endpoint_of_a_service_comes_before_the_common_one() {
        let aws = aws(&[
            ("AWS_ENDPOINT_URL", "http://127.0.0.1:1"),
            ("AWS_ENDPOINT_URL_SQS", "http://127.0.0.1:2"),
            ("AWS_ENDPOINT_URL_S3", ""),
        ]);
        let aws = aws.unwrap();
        let endpoints = [aws.dynamodb_endpoint, aws.sqs_endpoint, aws.s3_endpoint];
        let expected = ["http://127.0.0.1:1", "http://127.0.0.1:2", "http://127.0.0.1:1"];
        assert_eq!(endpoints, expected.map(|url| Some(url.to_owned())));
    }

    #[test]
    fn the_root_certificates_are_valid() {
        // The HTTP client parses them when an AWS client is built, and panics if one is not valid.
        aws(&[]).unwrap().dynamodb();
        assert_eq!(String::from_utf8_lossy(AMAZON_ROOTS).matches("BEGIN CERTIFICATE").count(), 5);
    }

    #[test]
    fn local_addresses_without_endpoints_are_refused() {
        let local = ("WEBHOOK_ADDRESSES", "loopback");
        let dynamodb = ("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:1");
        for (variables, service) in [(&[local][..], "DYNAMODB"), (&[local, dynamodb], "SQS")] {
            let refused = aws(variables).unwrap_err();
            assert!(refused.contains(&format!("AWS_ENDPOINT_URL_{service} must be set")), "{refused}");
        }
        aws(&[local, ("AWS_ENDPOINT_URL", "http://127.0.0.1:1")]).unwrap();
        // SAM passes variables that are not set as empty texts.
        aws(&[("WEBHOOK_ADDRESSES", ""), ("AWS_ENDPOINT_URL", "")]).unwrap();
    }
}
