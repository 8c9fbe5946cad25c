//! The wire formats of evidence (contract: MED evidence, Evidence upload ticket).

use serde::Serialize;

use domain::ids::EvidenceId;
use domain::time::Timestamp;

use crate::med::evidence::{Evidence, EvidenceFiles, MimeType, UPLOAD_SECONDS, Upload, UploadedBy};
use crate::object_store::ObjectStoreError;

/// An upload ticket on the wire.
#[derive(Debug, Serialize)]
pub struct UploadView {
    id: EvidenceId,
    object: &'static str,
    upload_url: String,
    upload_method: &'static str,
    upload_headers: UploadHeaders,
    expires_in: i64,
}

/// The headers that the upload must carry. Both are part of the URL's signature.
#[derive(Debug, Serialize)]
struct UploadHeaders {
    #[serde(rename = "Content-Type")]
    content_type: MimeType,
    #[serde(rename = "Content-Length")]
    content_length: String,
}

impl UploadView {
    /// Serialises an upload with its signed URL.
    ///
    /// # Errors
    ///
    /// When the URL can't be signed.
    pub async fn signed(upload: &Upload, files: &EvidenceFiles) -> Result<Self, ObjectStoreError> {
        Ok(Self {
            id: upload.id,
            object: "med_case_evidence_upload",
            upload_url: files.upload_url(upload).await?,
            upload_method: "PUT",
            upload_headers: UploadHeaders {
                content_type: upload.file.mime_type,
                content_length: upload.file.size.to_string(),
            },
            expires_in: UPLOAD_SECONDS,
        })
    }
}

/// Evidence on the wire.
#[derive(Debug, Serialize)]
pub struct EvidenceView<'a> {
    id: EvidenceId,
    object: &'static str,
    file_name: &'a str,
    file_size: u32,
    mime_type: MimeType,
    uploaded_by: UploadedBy,
    created_at: Timestamp,
    uploaded_at: Timestamp,
    view_url: String,
}

impl<'a> EvidenceView<'a> {
    /// Serialises evidence with a signed view URL.
    ///
    /// # Errors
    ///
    /// When the URL can't be signed.
    pub async fn signed(
        evidence: &'a Evidence,
        files: &EvidenceFiles,
        now: Timestamp,
    ) -> Result<Self, ObjectStoreError> {
        Ok(Self {
            id: evidence.id,
            object: "med_case_evidence",
            file_name: evidence.file.name.as_str(),
            file_size: evidence.file.size,
            mime_type: evidence.file.mime_type,
            uploaded_by: evidence.uploaded_by,
            created_at: evidence.created_at,
            uploaded_at: evidence.uploaded_at,
            view_url: files.view_url(evidence, now).await?,
        })
    }
}

/// A case's evidence on the wire.
#[derive(Debug, Serialize)]
pub struct EvidenceListView<'a> {
    object: &'static str,
    data: Vec<EvidenceView<'a>>,
}

impl<'a> EvidenceListView<'a> {
    /// Serialises evidence, each item with a signed view URL.
    ///
    /// # Errors
    ///
    /// When a URL can't be signed.
    pub async fn signed(
        evidence: &'a [Evidence],
        files: &EvidenceFiles,
        now: Timestamp,
    ) -> Result<Self, ObjectStoreError> {
        let mut data = Vec::new();
        for evidence in evidence {
            data.push(EvidenceView::signed(evidence, files, now).await?);
        }
        Ok(Self { object: "list", data })
    }
}
