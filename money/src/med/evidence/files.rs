//! The files of evidence in S3. No other module accesses them.

use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::types::MetadataDirective;
use sha2::{Digest, Sha256};

use domain::hex;
use domain::time::Timestamp;

use crate::med::evidence::{
    Evidence, LEADING_BYTES, PENDING_PREFIX, UPLOAD_SECONDS, Upload, UploadedFile, VIEW_SECONDS,
};
use shared::object_store::{ObjectStoreError, unsigned, valid_for};

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

    /// One request reads all, so that size, leading bytes and hash belong to the same version of the file. The bytes are
    /// hashed as they arrive, and not stored. `None` when no file was uploaded.
    pub async fn read_upload(&self, upload: &Upload) -> Result<Option<UploadedFile>, ObjectStoreError> {
        let get = self.client.get_object().bucket(&self.bucket).key(upload.object());
        match get.send().await {
            Ok(answer) => read(answer, upload.file.size.into()).await.map(Some),
            Err(error) if error.code() == Some("NoSuchKey") => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn delete(&self, evidence: &Evidence) -> Result<(), ObjectStoreError> {
        self.client.delete_object().bucket(&self.bucket).key(evidence.object()).send().await?;
        Ok(())
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

async fn read(mut answer: GetObjectOutput, declared: u64) -> Result<UploadedFile, ObjectStoreError> {
    let missing = |name: &str| ObjectStoreError::Unavailable(format!("S3 returned a file without {name}"));
    let size = answer.content_length().and_then(|size| u64::try_from(size).ok());
    let size = size.ok_or_else(|| missing("its size"))?;
    let e_tag = answer.e_tag().ok_or_else(|| missing("an ETag"))?.to_owned();
    let version = answer.version_id().map(str::to_owned);
    let (mut leading, mut hash) = (Vec::new(), Sha256::new());
    // A file of another size is refused.
    while size == declared
        && let Some(bytes) = answer.body.try_next().await?
    {
        leading.extend(bytes.iter().take(LEADING_BYTES.saturating_sub(leading.len())));
        hash.update(&bytes);
    }
    Ok(UploadedFile { size, e_tag, version, leading, sha256: hex::encode(hash.finalize()) })
}
