//! The files of evidence in S3; the only module that speaks to it about them.

use std::time::{Duration, UNIX_EPOCH};

use aws_sdk_s3::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::presigning::PresigningConfig;
use aws_sdk_s3::types::MetadataDirective;

use domain::time::Timestamp;

use crate::med::evidence::{Arrived, Evidence, LEADING_BYTES, UPLOAD_SECONDS, Upload, VIEW_SECONDS};
use crate::object_store::ObjectStoreError;

/// A bucket of evidence. Clones share one client.
#[derive(Clone, Debug)]
pub struct EvidenceFiles {
    client: aws_sdk_s3::Client,
    bucket: String,
}

impl EvidenceFiles {
    /// By the client that signs addresses: whoever gets one must be able to reach the client's endpoint.
    pub fn new(client: aws_sdk_s3::Client, bucket: impl Into<String>) -> Self {
        Self { client, bucket: bucket.into() }
    }

    /// Where an upload's file goes, by `PUT`. Type and size are signed: S3 refuses others.
    pub async fn upload_url(&self, upload: &Upload) -> Result<String, ObjectStoreError> {
        let put = self
            .client
            .put_object()
            .bucket(&self.bucket)
            .key(upload.object())
            .content_type(upload.file.mime_type.as_str())
            .content_length(i64::from(upload.file.size))
            .presigned(valid_for(UPLOAD_SECONDS, upload.created_at)?);
        Ok(put.await.map_err(unsigned)?.uri().to_owned())
    }

    /// Where a file can be looked at, by `GET`, for five minutes.
    pub async fn view_url(&self, evidence: &Evidence, now: Timestamp) -> Result<String, ObjectStoreError> {
        let get = self
            .client
            .get_object()
            .bucket(&self.bucket)
            .key(evidence.object())
            .presigned(valid_for(VIEW_SECONDS, now)?);
        Ok(get.await.map_err(unsigned)?.uri().to_owned())
    }

    /// Sends an upload's file as its address would have it.
    ///
    /// # Errors
    ///
    /// When S3 does not answer.
    pub async fn send(&self, upload: &Upload, bytes: Vec<u8>) -> Result<(), ObjectStoreError> {
        let put = self.client.put_object().bucket(&self.bucket).key(upload.object());
        let put = put.content_type(upload.file.mime_type.as_str()).body(bytes.into());
        put.send().await?;
        Ok(())
    }

    /// What was sent to an upload's address: its size and its first bytes, in one request, so that they are of one
    /// version.
    ///
    /// # Errors
    ///
    /// When S3 does not answer.
    pub async fn arrived(&self, upload: &Upload) -> Result<Option<Arrived>, ObjectStoreError> {
        let last = LEADING_BYTES.saturating_sub(1);
        let get = self.client.get_object().bucket(&self.bucket).key(upload.object());
        match get.range(format!("bytes=0-{last}")).send().await {
            Ok(answer) => read(answer).await.map(Some),
            Err(error) => match error.code() {
                Some("NoSuchKey") => Ok(None),
                // There are no bytes to give.
                Some("InvalidRange") => {
                    Ok(Some(Arrived { size: 0, e_tag: String::new(), version: None, leading: Vec::new() }))
                }
                _ => Err(error.into()),
            },
        }
    }

    /// Copies what was checked, and nothing that came after it, to where it is kept.
    ///
    /// # Errors
    ///
    /// When S3 does not answer, or something else was sent to the same place in between.
    pub async fn keep(
        &self,
        upload: &Upload,
        arrived: &Arrived,
        evidence: &Evidence,
    ) -> Result<(), ObjectStoreError> {
        let version = arrived.version.as_ref().map(|version| format!("?versionId={version}"));
        let source = format!("{}/{}{}", self.bucket, upload.object(), version.unwrap_or_default());
        self.client
            .copy_object()
            .bucket(&self.bucket)
            .key(evidence.object())
            .copy_source(source)
            // Holds too where the bucket keeps no versions.
            .copy_source_if_match(&arrived.e_tag)
            // The kept file's headers are ours alone.
            .metadata_directive(MetadataDirective::Replace)
            .content_type(evidence.file.mime_type.as_str())
            .content_disposition(evidence.file.name.attachment())
            .send()
            .await?;
        Ok(())
    }
}

async fn read(answer: GetObjectOutput) -> Result<Arrived, ObjectStoreError> {
    let odd = |what: &str| ObjectStoreError::Unavailable(format!("a file without {what}"));
    // `bytes 0-15/1234`
    let size = answer.content_range().and_then(|range| range.rsplit_once('/'));
    let size = size.and_then(|(_, size)| size.parse().ok()).ok_or_else(|| odd("its size"))?;
    let e_tag = answer.e_tag().ok_or_else(|| odd("an ETag"))?.to_owned();
    let version = answer.version_id().map(str::to_owned);
    let leading = answer.body.collect().await;
    let leading =
        leading.map_err(|error| ObjectStoreError::Unavailable(DisplayErrorContext(error).to_string()))?;
    Ok(Arrived { size, e_tag, version, leading: leading.to_vec() })
}

/// Signed by the service's clock, which is S3's.
fn valid_for(seconds: i64, from: Timestamp) -> Result<PresigningConfig, ObjectStoreError> {
    let since_epoch = Duration::from_millis(u64::try_from(from.millis()).unwrap_or_default());
    let start = UNIX_EPOCH.checked_add(since_epoch).unwrap_or(UNIX_EPOCH);
    let valid = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    let config = PresigningConfig::builder().start_time(start).expires_in(valid).build();
    config.map_err(|error| ObjectStoreError::Unsigned(DisplayErrorContext(error).to_string()))
}

/// Signing needs no answer from S3: a failure is ours.
fn unsigned<E, R>(error: SdkError<E, R>) -> ObjectStoreError
where
    E: std::error::Error + Send + Sync + 'static,
    R: std::fmt::Debug + Send + Sync + 'static,
{
    ObjectStoreError::Unsigned(DisplayErrorContext(error).to_string())
}
