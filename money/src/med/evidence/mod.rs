//! Evidence of a MED case: its rows and rules. `files` accesses S3, `repository` reads and writes the rows.
//!
//! Merchants exchange files directly with S3, by signed URLs. An [`Upload`] permits a merchant to send one file
//! to a pending object, until the upload URL expires. The confirmation checks the file, copies it to a
//! permanent object that no signed URL can write, and inserts the [`Evidence`]. After a crash between copy and
//! insert, the next confirmation overwrites the copy with the same bytes.

mod file;
mod files;
mod repository;
mod view;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use file::{EVIDENCE_BODY, EvidenceFile, FileName, MAX_BYTES, MimeType};
pub use files::EvidenceFiles;
pub use repository::{CaseEvidence, EvidenceRow};
pub use view::{EvidenceListView, EvidenceView, UploadView};

use domain::base32;
use domain::ids::{EvidenceId, MedCaseId};
use domain::med::MedCase;
use domain::row::{Key, Row};
use domain::time::Timestamp;

use crate::med::EvidenceError;

pub(crate) const UPLOAD_SECONDS: i64 = 900;
const VIEW_SECONDS: i64 = 300;

/// The bucket's lifecycle rule (template.yaml) deletes an uploaded file after so many days.
pub const PENDING_DAYS: u32 = 1;

/// The functions' policies and the bucket's lifecycle rule contain this prefix.
pub const PENDING_PREFIX: &str = "evidence-pending/";
/// The functions' policies contain this prefix.
pub const CONFIRMED_PREFIX: &str = "evidence/";

/// One week. While the row exists, the confirmation of an expired upload is answered 409; afterwards 404.
const UPLOAD_KEPT_SECONDS: i64 = 7 * 24 * 60 * 60;

/// The bytes that determine a file's type. A PDF, for example, must begin with `%PDF-` at its first byte.
const LEADING_BYTES: usize = 16;

#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "EvidenceSource", description = "Who added an evidence file.")]
pub enum UploadedBy {
    /// The merchant, through the API.
    Merchant,
    /// An operator.
    Platform,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Upload {
    pub id: EvidenceId,
    pub case: MedCaseId,
    pub file: EvidenceFile,
    pub uploaded_by: UploadedBy,
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
}

/// The last upload of a case. Each upload replaces it, on condition of its version, so that none is counted with others
/// that are not stored yet.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct LastUpload {
    case: MedCaseId,
    #[serde(with = "domain::time::millis")]
    at: Timestamp,
    version: u64,
}

/// It never changes.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Evidence {
    pub id: EvidenceId,
    pub case: MedCaseId,
    pub file: EvidenceFile,
    pub uploaded_by: UploadedBy,
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    #[serde(with = "domain::time::millis")]
    pub uploaded_at: Timestamp,
    /// A hash of the checked content. The key of the permanent object ends with it.
    content: String,
    /// The SHA-256 of the file in hex.
    pub sha256: String,
    /// A member has removed it: the row remains, but not the file.
    #[serde(default, rename = "removed", skip_serializing_if = "std::ops::Not::not")]
    pub is_removed: bool,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UploadedFile {
    size: u64,
    e_tag: String,
    /// `None` in a bucket without versions.
    version: Option<String>,
    leading: Vec<u8>,
    /// The SHA-256 of the file in hex; of no file if the size is not the declared one.
    sha256: String,
}

impl Upload {
    /// In the partition of the case's charge.
    pub fn key_of(case: MedCaseId, id: EvidenceId) -> Key {
        Key { sk: format!("{}{id}", Self::prefix(case)), ..MedCase::key_of(case) }
    }

    fn prefix(case: MedCaseId) -> String {
        format!("upload#{}#", case.key())
    }

    fn is_open(&self, now: Timestamp) -> bool {
        self.created_at.plus_seconds(UPLOAD_SECONDS).is_ok_and(|end| now <= end)
    }

    fn object(&self) -> String {
        format!("{PENDING_PREFIX}{}/{}", self.case, self.id)
    }

    /// Checks the uploaded file's size and type against the declared ones.
    pub fn confirmed(&self, arrived: &UploadedFile, now: Timestamp) -> Result<Evidence, EvidenceError> {
        if arrived.size != u64::from(self.file.size) {
            return Err(EvidenceError::SizeMismatch { declared: self.file.size, stored: arrived.size });
        }
        if !self.file.mime_type.matches_leading_bytes(&arrived.leading) {
            let mime_type = self.file.mime_type.as_str();
            let message = format!("the file that arrived is not {mime_type}");
            return Err(EvidenceError::InvalidFile { param: "mime_type", message });
        }
        Ok(Evidence {
            id: self.id,
            case: self.case,
            file: self.file.clone(),
            uploaded_by: self.uploaded_by,
            created_at: self.created_at,
            uploaded_at: now,
            content: arrived.content_hash(),
            sha256: arrived.sha256.clone(),
            is_removed: false,
        })
    }
}

impl Evidence {
    const SORT: &str = "evidence#";

    pub fn key_of(case: MedCaseId, id: EvidenceId) -> Key {
        Key { sk: format!("{}{id}", Self::prefix(case)), ..MedCase::key_of(case) }
    }

    /// Keys with this prefix sort by time.
    fn prefix(case: MedCaseId) -> String {
        format!("{}{}#", Self::SORT, case.key())
    }

    /// It includes the content's hash, so that a concurrent confirmation of other content writes to another
    /// key.
    fn object(&self) -> String {
        format!("{CONFIRMED_PREFIX}{}/{}/{}", self.case, self.id, self.content)
    }
}

impl UploadedFile {
    /// 128 bits in base 32.
    fn content_hash(&self) -> String {
        let version = self.version.as_deref().unwrap_or_default();
        let hash: [u8; 32] = Sha256::digest(format!("{}\n{version}", self.e_tag)).into();
        let (head, _) = hash.split_first_chunk::<16>().unwrap_or((&[0; 16], &[]));
        base32::encode(u128::from_be_bytes(*head))
    }
}

impl Row for Upload {
    fn key(&self) -> Key {
        Self::key_of(self.case, self.id)
    }

    fn removable_at(&self) -> Option<Timestamp> {
        self.created_at.plus_seconds(UPLOAD_KEPT_SECONDS).ok()
    }
}

impl LastUpload {
    fn key_of(case: MedCaseId) -> Key {
        Key { sk: format!("last-upload#{}", case.key()), ..MedCase::key_of(case) }
    }
}

impl Row for LastUpload {
    fn key(&self) -> Key {
        Self::key_of(self.case)
    }

    fn removable_at(&self) -> Option<Timestamp> {
        self.at.plus_seconds(UPLOAD_KEPT_SECONDS).ok()
    }
}

impl Row for Evidence {
    fn key(&self) -> Key {
        Self::key_of(self.case, self.id)
    }
}

#[cfg(test)]
mod tests {
    use crate::charge::testing::{at, waiting};
    use crate::med::evidence::*;

    #[test]
    fn confirmations_of_different_contents_write_different_objects() {
        let upload = Upload {
            id: EvidenceId::new(at(0), [7; 10]),
            case: MedCaseId::derive(waiting().id, "1"),
            file: EvidenceFile::from_content("a.gif", b"GIF89a").unwrap(),
            uploaded_by: UploadedBy::Merchant,
            created_at: at(0),
        };
        let object_key = |e_tag: &str, version: Option<&str>| {
            let (e_tag, version) = (e_tag.to_owned(), version.map(str::to_owned));
            let arrived =
                UploadedFile { size: 6, e_tag, version, leading: b"GIF89a".to_vec(), sha256: String::new() };
            upload.confirmed(&arrived, at(1)).unwrap().object()
        };
        assert_eq!(object_key("\"a\"", Some("1")), object_key("\"a\"", Some("1")));
        let keys = [
            object_key("\"a\"", None),
            object_key("\"a\"", Some("1")),
            object_key("\"a\"", Some("2")),
            object_key("\"b\"", Some("1")),
        ];
        for (number, key) in keys.iter().enumerate() {
            assert!(key.starts_with(CONFIRMED_PREFIX) && *key != upload.object());
            assert!(!keys.iter().skip(number + 1).any(|other| other == key), "{keys:?}");
        }
        assert!(upload.is_open(at(UPLOAD_SECONDS)) && !upload.is_open(at(UPLOAD_SECONDS + 1)));
    }
}
