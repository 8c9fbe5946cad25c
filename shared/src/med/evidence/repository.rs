//! Reads and writes of evidence.

use domain::audit::{Audit, Operator};
use domain::ids::{EvidenceId, MedCaseId};
use domain::med::MedCase;
use domain::row::{Key, Row as _};
use domain::time::Timestamp;

use crate::med::evidence::{Evidence, EvidenceFile, EvidenceFiles, Upload, UploadedBy};
use crate::med::repository::{audit, replacing};
use crate::med::{EvidenceError, MedCases};
use crate::random;
use crate::store::{Inserted, Store, StoreError, Write, from_item, just_read_or, text};

/// The evidence of all cases. Clones share clients.
#[derive(Clone, Debug)]
pub struct CaseEvidence {
    store: Store,
    cases: MedCases,
    /// Its files.
    pub files: EvidenceFiles,
}

/// What an id names.
#[derive(Clone, Debug)]
pub enum Found {
    /// A file that is there.
    Confirmed(Evidence),
    /// One that was announced.
    Announced(Upload),
}

impl CaseEvidence {
    /// Evidence in a store, its files in a bucket.
    pub fn new(store: Store, files: EvidenceFiles) -> Self {
        Self { cases: MedCases::new(store.clone()), store, files }
    }

    /// Reads what an id names within a case; no id names nothing.
    pub async fn find(&self, ids: Option<(MedCaseId, EvidenceId)>) -> Result<Option<Found>, StoreError> {
        let Some((case, id)) = ids else { return Ok(None) };
        let evidence = Evidence::key_of(case, id);
        let items = self.store.batch_get(&[evidence.clone(), Upload::key_of(case, id)]).await?;
        let mut found = None;
        for item in items {
            if text(&item, "sk").as_deref() == Some(&evidence.sk) {
                return from_item(item).map(|evidence| Some(Found::Confirmed(evidence)));
            }
            found = Some(Found::Announced(from_item(item)?));
        }
        Ok(found)
    }

    /// Lets a file be sent for a case that was just read.
    ///
    /// # Errors
    ///
    /// [`EvidenceError::CaseOver`] and [`EvidenceError::Full`].
    pub async fn announce(
        &self,
        case: &MedCase,
        file: EvidenceFile,
        uploaded_by: UploadedBy,
        now: Timestamp,
    ) -> Result<Upload, EvidenceError> {
        case.takes_evidence()?;
        let id = EvidenceId::new(now, random::bytes()?);
        let upload = Upload { id, case: case.id, file, uploaded_by, created_at: now };
        match self.store.insert(&upload).await? {
            Inserted::New => Ok(upload),
            Inserted::Existing(_) => {
                Err(StoreError::Corrupt("a random id was there already".to_owned()).into())
            }
        }
    }

    /// Confirms that a file of a case arrived, both just read. One that was confirmed before stays as it is, whatever became
    /// of its case, its address or what was sent to it since.
    ///
    /// # Errors
    ///
    /// See [`EvidenceError`].
    pub async fn complete(
        &self,
        case: MedCase,
        found: Found,
        now: Timestamp,
    ) -> Result<Evidence, EvidenceError> {
        match found {
            Found::Confirmed(evidence) => Ok(evidence),
            Found::Announced(upload) => self.confirm(case, &upload, None, now).await,
        }
    }

    /// An operator adds a file to a case that was just read, as a merchant does: by the same place and the same checks.
    ///
    /// # Errors
    ///
    /// See [`EvidenceError`].
    pub async fn add(
        &self,
        case: MedCase,
        (name, bytes): (&str, Vec<u8>),
        operator: &Operator,
        now: Timestamp,
    ) -> Result<Evidence, EvidenceError> {
        let file = EvidenceFile::of(name, &bytes)?;
        let upload = self.announce(&case, file, UploadedBy::Platform, now).await?;
        self.files.send(&upload, bytes).await?;
        self.confirm(case, &upload, Some(operator), now).await
    }

    async fn confirm(
        &self,
        case: MedCase,
        upload: &Upload,
        by: Option<&Operator>,
        now: Timestamp,
    ) -> Result<Evidence, EvidenceError> {
        case.takes_evidence()?;
        if !upload.is_open(now) {
            return Err(EvidenceError::NotUploaded);
        }
        let arrived = self.files.arrived(upload).await?.ok_or(EvidenceError::NotUploaded)?;
        let evidence = upload.confirmed(&arrived, now)?;
        self.files.keep(upload, &arrived, &evidence).await?;
        let details = format!("{} {}", evidence.id, evidence.file.name.as_str());
        let audit = audit(by, &case, "med.add-evidence", Some(details), now)?;
        self.count(case, evidence, audit.as_ref(), now).await
    }

    /// Counts a stored file once, also when two callers confirm it at one moment.
    async fn count(
        &self,
        case: MedCase,
        evidence: Evidence,
        audit: Option<&Audit>,
        now: Timestamp,
    ) -> Result<Evidence, EvidenceError> {
        let (id, mut just_read) = (case.id, Some(case));
        let mut update = self.store.start_update("a MED case");
        loop {
            update.next_attempt().await?;
            if !update.failed().is_empty()
                && let Some(confirmed) = self.store.get(&evidence.key()).await?
            {
                return Ok(confirmed);
            }
            let case = just_read_or(&mut just_read, self.cases.get_existing(id)).await?;
            let next = case.with_evidence(now)?;
            let mut writes = replacing(&next, &case, audit)?;
            writes.push(Write::insert(&evidence)?);
            if update.commit(writes).await? {
                return Ok(evidence.clone());
            }
        }
    }

    /// A case's evidence, newest first.
    pub async fn of_case(&self, case: MedCaseId) -> Result<Vec<Evidence>, StoreError> {
        let Key { pk, .. } = MedCase::key_of(case);
        let mut files: Vec<Evidence> = self.store.rows_of_prefix(&pk, &Evidence::prefix(case)).await?;
        files.reverse();
        Ok(files)
    }
}
