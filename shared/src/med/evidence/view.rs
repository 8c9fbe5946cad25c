//! Evidence as clients see it (contract: MED evidence, Evidence upload ticket).

use serde::Serialize;

use domain::ids::EvidenceId;
use domain::time::Timestamp;

use crate::med::evidence::{Evidence, EvidenceFiles, MimeType, UPLOAD_SECONDS, Upload, UploadedBy};
use crate::object_store::ObjectStoreError;

/// A permission to send one file, on the wire.
#[derive(Debug, Serialize)]
pub struct UploadView {
    id: EvidenceId,
    object: &'static str,
    upload_url: String,
    upload_method: &'static str,
    upload_headers: UploadHeaders,
    expires_in: i64,
}

/// What must be sent with the file; both are signed.
#[derive(Debug, Serialize)]
struct UploadHeaders {
    #[serde(rename = "Content-Type")]
    content_type: MimeType,
    #[serde(rename = "Content-Length")]
    content_length: String,
}

impl UploadView {
    /// With the address that the file goes to.
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
    /// With an address to look at it.
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
    /// Each with an address to look at it.
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
