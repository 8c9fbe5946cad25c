//! Evidence of a case (contract: MED evidence, Evidence upload), with no I/O. Files go from their owner to S3 and back by
//! signed addresses; [`files`] signs them, rows are read and written in [`repository`].
//!
//! An [`Upload`] is a permission to send one file to a pending place, and goes by itself. [`Evidence`] is made of it once the
//! file was checked and copied to where no signed address writes. A crash in between leaves a copy that the next
//! attempt writes over with the same bytes.

mod file;
mod files;
mod repository;
mod view;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use file::{EvidenceFile, FileName, MAX_BYTES, MimeType};
pub use files::EvidenceFiles;
pub use repository::{CaseEvidence, Found};
pub use view::{EvidenceListView, EvidenceView, UploadView};

use domain::base32;
use domain::ids::{EvidenceId, MedCaseId};
use domain::med::MedCase;
use domain::row::{Key, Row};
use domain::time::Timestamp;

use crate::med::EvidenceError;

/// How long a file may be sent to its address, in seconds (contract: Limits).
pub const UPLOAD_SECONDS: i64 = 900;

/// How long a file can be looked at by its address, in seconds (contract: Limits).
const VIEW_SECONDS: i64 = 300;

/// Days after which a file that was never confirmed is removed, by the bucket's lifecycle (template.yaml).
pub const PENDING_DAYS: u32 = 1;

/// Where files are sent to, and where they are kept. A function's policy and the bucket's lifecycle name them.
pub const PENDING_PREFIX: &str = "evidence-pending/";
/// See [`PENDING_PREFIX`].
pub const KEPT_PREFIX: &str = "evidence/";

/// How long an upload's row says that its file did not arrive, in seconds: a week.
const UPLOAD_KEPT_SECONDS: i64 = 7 * 24 * 60 * 60;

/// Leading bytes that tell a file's type.
const LEADING_BYTES: usize = 16;

/// Who added a file (contract: MED evidence, `uploaded_by`).
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UploadedBy {
    /// The merchant, through the API.
    Merchant,
    /// An operator.
    Platform,
}

/// A permission to send one file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Upload {
    /// The evidence's id, once it is there.
    pub id: EvidenceId,
    /// Its case.
    pub case: MedCaseId,
    /// What is to be sent.
    pub file: EvidenceFile,
    /// Who sends it.
    pub uploaded_by: UploadedBy,
    /// When it was asked for.
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
}

/// A file that arrived. Its row never changes.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Evidence {
    /// `mev_…`
    pub id: EvidenceId,
    /// Its case.
    pub case: MedCaseId,
    /// What was sent.
    pub file: EvidenceFile,
    /// Who sent it.
    pub uploaded_by: UploadedBy,
    /// When its upload was asked for.
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    /// When its arrival was confirmed.
    #[serde(with = "domain::time::millis")]
    pub uploaded_at: Timestamp,
    /// Names the very bytes that were checked.
    content: String,
}

/// What stands in the pending place.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Arrived {
    /// In bytes.
    size: u64,
    /// Names its content.
    e_tag: String,
    /// Names it among those sent to the same place, where the bucket keeps versions.
    version: Option<String>,
    /// Its first bytes.
    leading: Vec<u8>,
}

impl Upload {
    /// Where it lives: with its case's charge.
    pub fn key_of(case: MedCaseId, id: EvidenceId) -> Key {
        Key { sk: format!("upload#{}#{id}", case.key()), ..MedCase::key_of(case) }
    }

    /// Whether its address still takes the file.
    fn is_open(&self, now: Timestamp) -> bool {
        self.created_at.plus_seconds(UPLOAD_SECONDS).is_ok_and(|end| now <= end)
    }

    /// Where the file is sent.
    fn object(&self) -> String {
        format!("{PENDING_PREFIX}{}/{}", self.case, self.id)
    }

    /// The evidence that it becomes.
    ///
    /// # Errors
    ///
    /// When another size arrived, or a file of another type.
    pub fn confirmed(&self, arrived: &Arrived, now: Timestamp) -> Result<Evidence, EvidenceError> {
        if arrived.size != u64::from(self.file.size) {
            return Err(EvidenceError::SizeMismatch { declared: self.file.size, stored: arrived.size });
        }
        if !self.file.mime_type.begins(&arrived.leading) {
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
            content: arrived.name(),
        })
    }
}

impl Evidence {
    const SORT: &str = "evidence#";

    /// Where it lives: with its case's charge.
    pub fn key_of(case: MedCaseId, id: EvidenceId) -> Key {
        Key { sk: format!("{}{id}", Self::prefix(case)), ..MedCase::key_of(case) }
    }

    /// What the sort keys of a case's evidence begin with; after it they sort by time.
    fn prefix(case: MedCaseId) -> String {
        format!("{}{}#", Self::SORT, case.key())
    }

    /// Where the file is kept. Named by its content too, so that a confirmation that lost a race writes elsewhere.
    fn object(&self) -> String {
        format!("{KEPT_PREFIX}{}/{}/{}", self.case, self.id, self.content)
    }
}

impl Arrived {
    /// A short name for the content.
    fn name(&self) -> String {
        let version = self.version.as_deref().unwrap_or_default();
        let hash: [u8; 32] = Sha256::digest(format!("{}\n{version}", self.e_tag)).into();
        let (head, _) = hash.split_first_chunk::<16>().unwrap_or((&[0; 16], &[]));
        base32::encode(u128::from_be_bytes(*head)).as_str().to_owned()
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
    fn what_one_confirmation_keeps_another_does_not_write_over() {
        let upload = Upload {
            id: EvidenceId::new(at(0), [7; 10]),
            case: MedCaseId::derive(waiting().id, "1"),
            file: EvidenceFile::of("a.gif", b"GIF89a").unwrap(),
            uploaded_by: UploadedBy::Merchant,
            created_at: at(0),
        };
        let kept = |e_tag: &str, version: Option<&str>| {
            let (e_tag, version) = (e_tag.to_owned(), version.map(str::to_owned));
            let arrived = Arrived { size: 6, e_tag, version, leading: b"GIF89a".to_vec() };
            upload.confirmed(&arrived, at(1)).unwrap().object()
        };
        assert_eq!(kept("\"a\"", Some("1")), kept("\"a\"", Some("1")));
        let places = [
            kept("\"a\"", None),
            kept("\"a\"", Some("1")),
            kept("\"a\"", Some("2")),
            kept("\"b\"", Some("1")),
        ];
        for (number, place) in places.iter().enumerate() {
            assert!(place.starts_with(KEPT_PREFIX) && *place != upload.object());
            assert!(!places.iter().skip(number + 1).any(|other| other == place), "{places:?}");
        }
        assert!(upload.is_open(at(UPLOAD_SECONDS)) && !upload.is_open(at(UPLOAD_SECONDS + 1)));
    }
}
