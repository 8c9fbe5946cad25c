use schemars::JsonSchema;
use serde::Serialize;

use domain::ids::EvidenceId;
use domain::time::Timestamp;

use crate::med::evidence::{Evidence, EvidenceFiles, MimeType, UPLOAD_SECONDS, Upload, UploadedBy};
use shared::object_store::ObjectStoreError;

/// The permission to upload one evidence file.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "EvidenceUpload")]
pub struct UploadView {
    /// The id that the evidence will have.
    id: EvidenceId,
    /// Always `med_case_evidence_upload`.
    #[schemars(extend("const" = "med_case_evidence_upload"))]
    object: &'static str,
    /// The signed URL that receives the file. It needs no API key.
    #[schemars(extend("format" = "uri"))]
    upload_url: String,
    /// The method of the upload.
    #[schemars(extend("const" = "PUT"))]
    upload_method: &'static str,
    /// The headers that the upload must have, exactly.
    upload_headers: UploadHeaders,
    /// The seconds until `upload_url` expires.
    expires_in: i64,
}

/// The headers of an upload. Both are part of the URL's signature.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "EvidenceUploadHeaders")]
struct UploadHeaders {
    /// The declared type of the file.
    #[serde(rename = "Content-Type")]
    content_type: MimeType,
    /// The declared size of the file in bytes.
    #[serde(rename = "Content-Length")]
    #[schemars(regex(pattern = "^[1-9][0-9]*$"))]
    content_length: String,
}

impl UploadView {
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

/// An evidence file of a case.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "Evidence")]
pub struct EvidenceView<'a> {
    /// The evidence's id.
    id: EvidenceId,
    /// Always `med_case_evidence`.
    #[schemars(extend("const" = "med_case_evidence"))]
    object: &'static str,
    /// The name of the file.
    file_name: &'a str,
    /// The size of the file in bytes.
    file_size: u32,
    /// The type of the file.
    mime_type: MimeType,
    /// The SHA-256 of the file's bytes in lower-case hex.
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    sha256: &'a str,
    /// Who added the file.
    uploaded_by: UploadedBy,
    /// When the upload was requested.
    created_at: Timestamp,
    /// When the upload was confirmed.
    uploaded_at: Timestamp,
    /// A signed URL of the file. It is valid for 5 minutes.
    #[schemars(extend("format" = "uri"))]
    view_url: String,
}

impl<'a> EvidenceView<'a> {
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
            sha256: &evidence.sha256,
            uploaded_by: evidence.uploaded_by,
            created_at: evidence.created_at,
            uploaded_at: evidence.uploaded_at,
            view_url: files.view_url(evidence, now).await?,
        })
    }
}

/// The confirmed evidence of a case, newest first.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "EvidenceList")]
pub struct EvidenceListView<'a> {
    /// Always `list`.
    #[schemars(extend("const" = "list"))]
    object: &'static str,
    /// The evidence.
    data: Vec<EvidenceView<'a>>,
}

impl<'a> EvidenceListView<'a> {
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
