//! The files of reports in S3. The worker writes them; here they are only linked and deleted.

use domain::report::Report;
use domain::time::Timestamp;

use shared::object_store::{ObjectStoreError, unsigned, valid_for};

/// How long the URL of a file is valid, in seconds.
const URL_SECONDS: i64 = 300;

/// Clones share one client.
#[derive(Clone, Debug)]
pub struct ReportFiles {
    client: aws_sdk_s3::Client,
    bucket: String,
}

impl ReportFiles {
    /// The client also signs the URLs, so merchants must be able to reach its endpoint.
    pub fn new(client: aws_sdk_s3::Client, bucket: impl Into<String>) -> Self {
        Self { client, bucket: bucket.into() }
    }

    /// Expires after 5 minutes, or earlier if the function's credentials do.
    pub async fn url(&self, report: &Report, now: Timestamp) -> Result<String, ObjectStoreError> {
        let get = self.client.get_object().bucket(&self.bucket).key(report.object());
        Ok(get.presigned(valid_for(URL_SECONDS, now)?).await.map_err(unsigned)?.uri().to_owned())
    }

    pub async fn delete(&self, report: &Report) -> Result<(), ObjectStoreError> {
        self.client.delete_object().bucket(&self.bucket).key(report.object()).send().await?;
        Ok(())
    }
}
