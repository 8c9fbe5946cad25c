//! The AWS clients: one HTTP client for all of them, made once at start-up.
//!
//! TLS is rustls over ring with Amazon's own roots and nothing else: an unpinned default store makes a cold
//! start seven times dearer. Credentials come from the environment that Lambda sets; no profile files, no
//! metadata service.

use std::time::Duration;

use aws_credential_types::Credentials;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Region, SharedHttpClient};
use aws_sdk_s3::config::{RequestChecksumCalculation, ResponseChecksumValidation};
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};

/// Amazon Root CA 1-4 and Starfield Services Root CA - G2, from <https://www.amazontrust.com/repository/>.
const AMAZON_ROOTS: &str = include_str!("amazon-roots.pem");

/// How long one try of a call may take, and how long all of them.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);
const OPERATION_TIMEOUT: Duration = Duration::from_secs(6);

/// What the AWS clients are made from.
#[derive(Clone, Debug)]
pub struct Aws {
    region: Region,
    credentials: Credentials,
    dynamodb_endpoint: Option<String>,
    sqs_endpoint: Option<String>,
    s3_endpoint: Option<String>,
    http: SharedHttpClient,
}

/// An environment that the clients can't be made from.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AwsError(String);

impl Aws {
    /// Reads `AWS_REGION`, `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN` and, where set,
    /// `AWS_ENDPOINT_URL_DYNAMODB`, `AWS_ENDPOINT_URL_SQS` and `AWS_ENDPOINT_URL_S3`.
    pub fn from_vars(var: &dyn Fn(&str) -> Option<String>) -> Result<Self, AwsError> {
        let required = |name: &str| var(name).ok_or_else(|| AwsError(format!("{name} is not set")));
        let credentials = Credentials::new(
            required("AWS_ACCESS_KEY_ID")?,
            required("AWS_SECRET_ACCESS_KEY")?,
            var("AWS_SESSION_TOKEN").filter(|token| !token.is_empty()),
            None,
            "environment",
        );
        let endpoint = |name: &str| var(name).filter(|url| !url.is_empty());
        let dynamodb_endpoint = endpoint("AWS_ENDPOINT_URL_DYNAMODB");
        let plain = dynamodb_endpoint.as_deref().is_some_and(|url| url.starts_with("http://"));
        Ok(Self {
            region: Region::new(required("AWS_REGION")?),
            credentials,
            dynamodb_endpoint,
            sqs_endpoint: endpoint("AWS_ENDPOINT_URL_SQS"),
            s3_endpoint: endpoint("AWS_ENDPOINT_URL_S3"),
            http: if plain { Builder::new().build_http() } else { https()? },
        })
    }

    /// The region that all clients go to.
    pub fn region(&self) -> Region {
        self.region.clone()
    }

    /// Whose requests they are.
    pub fn credentials(&self) -> Credentials {
        self.credentials.clone()
    }

    /// What carries their requests. A function that alone needs another of AWS's services makes its client of these, so
    /// that its library is in no other function.
    pub fn http(&self) -> SharedHttpClient {
        self.http.clone()
    }

    /// A DynamoDB client.
    pub fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        let mut config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(self.region.clone())
            .credentials_provider(self.credentials.clone())
            .http_client(self.http.clone())
            .timeout_config(timeouts());
        config.set_endpoint_url(self.dynamodb_endpoint.clone());
        aws_sdk_dynamodb::Client::from_conf(config.build())
    }

    /// An SQS client.
    pub fn sqs(&self) -> aws_sdk_sqs::Client {
        let mut config = aws_sdk_sqs::Config::builder()
            .behavior_version(aws_sdk_sqs::config::BehaviorVersion::latest())
            .region(self.region.clone())
            .credentials_provider(self.credentials.clone())
            .http_client(self.http.clone())
            .timeout_config(timeouts());
        config.set_endpoint_url(self.sqs_endpoint.clone());
        aws_sdk_sqs::Client::from_conf(config.build())
    }

    /// An S3 client. At an address of its own, buckets go in the path, for it may have no subdomains. Checksums are left
    /// to where S3 asks for them: in a signed address they would bind its client to send and read them.
    pub fn s3(&self) -> aws_sdk_s3::Client {
        let mut config = aws_sdk_s3::Config::builder()
            .behavior_version(aws_sdk_s3::config::BehaviorVersion::latest())
            .region(self.region.clone())
            .credentials_provider(self.credentials.clone())
            .http_client(self.http.clone())
            .timeout_config(timeouts())
            .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
            .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
            .force_path_style(self.s3_endpoint.is_some());
        config.set_endpoint_url(self.s3_endpoint.clone());
        aws_sdk_s3::Client::from_conf(config.build())
    }
}

/// A connection that died while the function was frozen must not hold a request until the gateway gives up.
pub fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .operation_timeout(OPERATION_TIMEOUT)
        .build()
}

fn https() -> Result<SharedHttpClient, AwsError> {
    let roots = TrustStore::empty().with_pem_certificate(AMAZON_ROOTS);
    let context = TlsContext::builder().with_trust_store(roots).build();
    let context = context.map_err(|error| AwsError(format!("the TLS roots can't be read: {error}")))?;
    let provider = Provider::Rustls(CryptoMode::Ring);
    Ok(Builder::new().tls_provider(provider).tls_context(context).build_https())
}
