//! The files of logos in S3. No other module accesses them.

use aws_sdk_s3::error::ProvideErrorMetadata;
use domain::account::LogoHash;

use crate::config::{ConfigError, Vars, required};
use crate::object_store::ObjectStoreError;
use crate::store::Aws;

/// The largest file in bytes: 30 KiB.
pub const MAX_LOGO_BYTES: usize = 30 * 1024;

/// Clones share one client.
#[derive(Clone, Debug)]
pub struct Logos {
    client: aws_sdk_s3::Client,
    bucket: String,
}

impl Logos {
    /// Reads the variable `DOCUMENTS_BUCKET`.
    pub fn from_vars(aws: &Aws, var: Vars<'_>) -> Result<Self, ConfigError> {
        Ok(Self { client: aws.s3(), bucket: required(var, "DOCUMENTS_BUCKET")? })
    }

    pub async fn put(&self, hash: &LogoHash, file: Vec<u8>) -> Result<(), ObjectStoreError> {
        let put = self.client.put_object().bucket(&self.bucket).key(hash.file());
        put.content_type("image/png").body(file.into()).send().await?;
        Ok(())
    }

    pub async fn delete(&self, hash: &LogoHash) -> Result<(), ObjectStoreError> {
        self.client.delete_object().bucket(&self.bucket).key(hash.file()).send().await?;
        Ok(())
    }

    pub async fn get(&self, hash: &LogoHash) -> Result<Option<Vec<u8>>, ObjectStoreError> {
        let get = self.client.get_object().bucket(&self.bucket).key(hash.file());
        match get.send().await {
            Ok(answer) => Ok(Some(answer.body.collect().await?.to_vec())),
            // Without the permission to list the bucket, S3 reports a missing file as AccessDenied.
            Err(error) if matches!(error.code(), Some("NoSuchKey" | "AccessDenied")) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
