//! The files of evidence in S3. No other module accesses them.

use std::time::{Duration, UNIX_EPOCH};

use aws_sdk_s3::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::presigning::PresigningConfig;
use aws_sdk_s3::types::MetadataDirective;

use domain::time::Timestamp;

use crate::med::evidence::{
    Evidence, LEADING_BYTES, PENDING_PREFIX, UPLOAD_SECONDS, Upload, UploadedFile, VIEW_SECONDS,
};
use shared::object_store::ObjectStoreError;

/// Clones share one client.
#[derive(Clone, Debug)]
pub struct EvidenceFiles {
    client: aws_sdk_s3::Client,
    bucket: String,
}

impl EvidenceFiles {
    /// The client also signs the URLs, so merchants must be able to reach its endpoint.
    pub fn new(client: aws_sdk_s3::Client, bucket: impl Into<String>) -> Self {
        Self { client, bucket: bucket.into() }
    }

    /// Signs the URL for the upload by `PUT`. Type and size are part of the signature, so S3 refuses a file of
    /// another type or size. It expires 900 seconds after the upload was requested, or earlier if the
    /// function's credentials do.
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

    /// Expires after 5 minutes, or earlier if the function's credentials do.
    pub async fn view_url(&self, evidence: &Evidence, now: Timestamp) -> Result<String, ObjectStoreError> {
        let get = self
            .client
            .get_object()
            .bucket(&self.bucket)
            .key(evidence.object())
            .presigned(valid_for(VIEW_SECONDS, now)?);
        Ok(get.await.map_err(unsigned)?.uri().to_owned())
    }

    /// The origin of the upload URLs, which the policy of a page that uploads must name.
    pub async fn origin(&self, now: Timestamp) -> Result<String, ObjectStoreError> {
        let put = self.client.put_object().bucket(&self.bucket).key(PENDING_PREFIX);
        let put = put.presigned(valid_for(UPLOAD_SECONDS, now)?).await.map_err(unsigned)?;
        let url = url::Url::parse(put.uri());
        let url = url.map_err(|error| ObjectStoreError::PresigningFailed(error.to_string()))?;
        Ok(url.origin().ascii_serialization())
    }

    pub(crate) async fn put_upload(&self, upload: &Upload, bytes: Vec<u8>) -> Result<(), ObjectStoreError> {
        let put = self.client.put_object().bucket(&self.bucket).key(upload.object());
        let put = put.content_type(upload.file.mime_type.as_str()).body(bytes.into());
        put.send().await?;
        Ok(())
    }

    pub async fn read(&self, evidence: &Evidence) -> Result<Vec<u8>, ObjectStoreError> {
        let get = self.client.get_object().bucket(&self.bucket).key(evidence.object());
        Ok(get.send().await?.body.collect().await?.to_vec())
    }

    /// One request reads both, so that size and bytes belong to the same version of the file. `None` when no
    /// file was uploaded.
    pub async fn read_upload(&self, upload: &Upload) -> Result<Option<UploadedFile>, ObjectStoreError> {
        let last = LEADING_BYTES.saturating_sub(1);
        let get = self.client.get_object().bucket(&self.bucket).key(upload.object());
        match get.range(format!("bytes=0-{last}")).send().await {
            Ok(answer) => read(answer).await.map(Some),
            Err(error) => match error.code() {
                Some("NoSuchKey") => Ok(None),
                // The file is empty.
                Some("InvalidRange") => Ok(Some(UploadedFile {
                    size: 0,
                    e_tag: String::new(),
                    version: None,
                    leading: Vec::new(),
                })),
                _ => Err(error.into()),
            },
        }
    }

    /// The copy is conditional on the version and the `ETag` that were checked, so a file uploaded later to the
    /// same URL is never copied. In a bucket without versions, it then fails.
    pub async fn copy_confirmed(
        &self,
        upload: &Upload,
        arrived: &UploadedFile,
        evidence: &Evidence,
    ) -> Result<(), ObjectStoreError> {
        let version = arrived.version.as_ref().map(|version| format!("?versionId={version}"));
        let source = format!("{}/{}{}", self.bucket, upload.object(), version.unwrap_or_default());
        self.client
            .copy_object()
            .bucket(&self.bucket)
            .key(evidence.object())
            .copy_source(source)
            // This condition is needed in a bucket without versions.
            .copy_source_if_match(&arrived.e_tag)
            // The copy has only the headers set here. The headers of the upload are dropped.
            .metadata_directive(MetadataDirective::Replace)
            .content_type(evidence.file.mime_type.as_str())
            .content_disposition(evidence.file.name.content_disposition())
            .send()
            .await?;
        Ok(())
    }
}

async fn read(answer: GetObjectOutput) -> Result<UploadedFile, ObjectStoreError> {
    let missing = |name: &str| ObjectStoreError::Unavailable(format!("S3 returned a file without {name}"));
    // The header reads `bytes 0-15/1234`; the size is after the slash.
    let size = answer.content_range().and_then(|range| range.rsplit_once('/'));
    let size = size.and_then(|(_, size)| size.parse().ok()).ok_or_else(|| missing("its size"))?;
    let e_tag = answer.e_tag().ok_or_else(|| missing("an ETag"))?.to_owned();
    let version = answer.version_id().map(str::to_owned);
    let leading = answer.body.collect().await?.to_vec();
    Ok(UploadedFile { size, e_tag, version, leading })
}

/// S3 checks the time by its own clock, which must agree with the service's clock.
fn valid_for(seconds: i64, from: Timestamp) -> Result<PresigningConfig, ObjectStoreError> {
    let since_epoch = Duration::from_millis(u64::try_from(from.millis()).unwrap_or_default());
    let start = UNIX_EPOCH.checked_add(since_epoch).unwrap_or(UNIX_EPOCH);
    let valid = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    let config = PresigningConfig::builder().start_time(start).expires_in(valid).build();
    config.map_err(|error| ObjectStoreError::PresigningFailed(DisplayErrorContext(error).to_string()))
}

/// Signing sends no request to S3, so its failure is a defect of the service.
fn unsigned<E, R>(error: SdkError<E, R>) -> ObjectStoreError
where
    E: std::error::Error + Send + Sync + 'static,
    R: std::fmt::Debug + Send + Sync + 'static,
{
    ObjectStoreError::PresigningFailed(DisplayErrorContext(error).to_string())
}
