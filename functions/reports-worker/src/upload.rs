//! Uploads a file in parts, so that only one part is in memory. A file smaller than a part is one request.

use std::fs::File;
use std::io::Read as _;
use std::mem;

use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use domain::report::Report;
use shared::object_store::ObjectStoreError;

use crate::encode::EncodeError;

/// The size of a part in bytes: 8 MiB. S3 accepts 10,000 parts of at least 5 MiB.
const PART_BYTES: usize = 8 * 1024 * 1024;

pub(crate) struct Upload {
    client: aws_sdk_s3::Client,
    bucket: String,
    key: String,
    media_type: &'static str,
    disposition: String,
    /// `None` until the first part is full.
    id: Option<String>,
    parts: Vec<CompletedPart>,
}

impl Upload {
    pub(crate) fn new(client: aws_sdk_s3::Client, bucket: &str, report: &Report) -> Self {
        Self {
            client,
            bucket: bucket.to_owned(),
            key: report.object(),
            media_type: report.spec.format.media_type(),
            disposition: format!("attachment; filename=\"{}\"", report.spec.file_name()),
            id: None,
            parts: Vec::new(),
        }
    }

    /// Uploads the bytes if they fill a part, and leaves `out` empty then.
    pub(crate) async fn push(&mut self, out: &mut Vec<u8>) -> Result<(), ObjectStoreError> {
        if out.len() < PART_BYTES {
            return Ok(());
        }
        let id = match &self.id {
            Some(id) => id.clone(),
            None => self.begin().await?,
        };
        self.upload_part(&id, mem::take(out)).await
    }

    async fn upload_part(&mut self, id: &str, bytes: Vec<u8>) -> Result<(), ObjectStoreError> {
        let number = i32::try_from(self.parts.len()).unwrap_or(i32::MAX).saturating_add(1);
        let part = self.client.upload_part().bucket(&self.bucket).key(&self.key).upload_id(id);
        let part = part.part_number(number).body(bytes.into()).send().await?;
        let e_tag = part.e_tag().map(str::to_owned);
        self.parts.push(CompletedPart::builder().part_number(number).set_e_tag(e_tag).build());
        Ok(())
    }

    async fn begin(&mut self) -> Result<String, ObjectStoreError> {
        let begun = self.client.create_multipart_upload().bucket(&self.bucket).key(&self.key);
        let begun = begun.content_type(self.media_type).content_disposition(&self.disposition).send().await?;
        let id = begun.upload_id().unwrap_or_default().to_owned();
        self.id = Some(id.clone());
        Ok(id)
    }

    /// Like [`Self::push`], for a file that was encoded on the disk. Its last part is left in `out`.
    pub(crate) async fn push_file(&mut self, mut file: File, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        loop {
            let left = PART_BYTES.saturating_sub(out.len());
            let read = (&mut file).take(u64::try_from(left).unwrap_or(u64::MAX)).read_to_end(out)?;
            if read == 0 {
                return Ok(());
            }
            self.push(out).await?;
        }
    }

    /// Uploads the last bytes, and makes the file visible.
    pub(crate) async fn finish(&mut self, out: Vec<u8>) -> Result<(), ObjectStoreError> {
        let Some(id) = self.id.clone() else {
            let put = self.client.put_object().bucket(&self.bucket).key(&self.key).body(out.into());
            put.content_type(self.media_type).content_disposition(&self.disposition).send().await?;
            return Ok(());
        };
        if !out.is_empty() {
            self.upload_part(&id, out).await?;
        }
        let parts = CompletedMultipartUpload::builder().set_parts(Some(mem::take(&mut self.parts))).build();
        let complete = self.client.complete_multipart_upload().bucket(&self.bucket).key(&self.key);
        complete.upload_id(id).multipart_upload(parts).send().await?;
        self.id = None;
        Ok(())
    }

    /// Deletes the parts of a file that is not made. If this fails, the bucket's lifecycle rule deletes them.
    pub(crate) async fn abort(&mut self) {
        let Some(id) = self.id.take() else { return };
        let abort = self.client.abort_multipart_upload().bucket(&self.bucket).key(&self.key).upload_id(id);
        if let Err(error) = abort.send().await.map_err(ObjectStoreError::from) {
            tracing::warn!(%error, "the parts of a report were not deleted");
        }
    }
}
