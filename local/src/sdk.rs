//! Creates AWS clients for the embedded services, with plain HTTP, fixed credentials and an explicit URL. The
//! functions create their own clients from their environment.

use aws_credential_types::Credentials;
use aws_sdk_s3::config::{
    BehaviorVersion, Region, SharedCredentialsProvider, SharedHttpClient, StalledStreamProtectionConfig,
};

use crate::embedded::{ACCESS_KEY, REGION, SECRET_KEY};

pub fn credentials() -> Credentials {
    Credentials::new(ACCESS_KEY, SECRET_KEY, None, None, "local")
}

fn http_client() -> SharedHttpClient {
    aws_smithy_http_client::Builder::new().build_http()
}

pub fn dynamodb(url: &str) -> aws_sdk_dynamodb::Client {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .endpoint_url(url)
        .region(Region::from_static(REGION))
        .credentials_provider(SharedCredentialsProvider::new(credentials()))
        .http_client(http_client())
        .build();
    aws_sdk_dynamodb::Client::from_conf(config)
}

pub fn sqs(url: &str) -> aws_sdk_sqs::Client {
    let config = aws_sdk_sqs::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .endpoint_url(url)
        .region(Region::from_static(REGION))
        .credentials_provider(SharedCredentialsProvider::new(credentials()))
        .http_client(http_client())
        // Otherwise, the client checks ten times a second whether a long poll has stalled.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .build();
    aws_sdk_sqs::Client::from_conf(config)
}

/// Returns an S3 client for the server at `url`. Buckets are in the path, because a loopback address has no
/// subdomains.
pub fn s3(url: &str) -> aws_sdk_s3::Client {
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .endpoint_url(url)
        .region(Region::from_static(REGION))
        .credentials_provider(SharedCredentialsProvider::new(credentials()))
        .http_client(http_client())
        .force_path_style(true)
        .build();
    aws_sdk_s3::Client::from_conf(config)
}
