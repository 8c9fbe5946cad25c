//! Creates AWS clients for the embedded services, with plain HTTP, fixed credentials and an explicit URL. The
//! functions create their own clients from their environment.

use aws_credential_types::Credentials;
use aws_sdk_s3::config::{BehaviorVersion, Region, SharedCredentialsProvider, StalledStreamProtectionConfig};

use crate::embedded::{ACCESS_KEY, REGION, SECRET_KEY};

pub fn credentials() -> Credentials {
    Credentials::new(ACCESS_KEY, SECRET_KEY, None, None, "local")
}

/// Begins the configuration of a client of the service at a URL. Each SDK has builders of its own types.
macro_rules! config {
    ($sdk:ident, $url:expr) => {
        $sdk::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .endpoint_url($url)
            .region(Region::from_static(REGION))
            .credentials_provider(SharedCredentialsProvider::new(credentials()))
            .http_client(aws_smithy_http_client::Builder::new().build_http())
    };
}

pub fn dynamodb(url: &str) -> aws_sdk_dynamodb::Client {
    aws_sdk_dynamodb::Client::from_conf(config!(aws_sdk_dynamodb, url).build())
}

pub fn sqs(url: &str) -> aws_sdk_sqs::Client {
    // Otherwise, the client checks ten times a second whether a long poll has stalled.
    let unchecked = StalledStreamProtectionConfig::disabled();
    aws_sdk_sqs::Client::from_conf(config!(aws_sdk_sqs, url).stalled_stream_protection(unchecked).build())
}

/// Returns an S3 client for the server at `url`. Buckets are in the path, because a loopback address has no
/// subdomains.
pub fn s3(url: &str) -> aws_sdk_s3::Client {
    aws_sdk_s3::Client::from_conf(config!(aws_sdk_s3, url).force_path_style(true).build())
}
