use aws_sdk_dynamodb::types::AttributeValue;
use domain::audit::{Action, AddedEvidence, Audit, Operator};
use domain::ids::{EvidenceId, MedCaseId};
use domain::med::{EvidenceRefused, MAX_UPLOADS, MedCase};
use domain::row::{Key, Row as _};
use domain::time::Timestamp;

use crate::med::evidence::{Evidence, EvidenceFile, EvidenceFiles, LastUpload, Upload, UploadedBy};
use crate::med::repository::{audit_row, replacement_writes};
use crate::med::{EvidenceError, MedCases};
use shared::auth::Caller;
use shared::random;
use shared::store::{Result, RowUpdate, Store, StoreError, Write, from_item, reuse_or_read, text};

#[derive(Clone, Debug)]
pub struct CaseEvidence {
    store: Store,
    cases: MedCases,
    pub files: EvidenceFiles,
}

#[derive(Clone, Debug)]
pub enum EvidenceRow {
    Confirmed(Evidence),
    Pending(Upload),
}

impl CaseEvidence {
    pub fn new(store: Store, files: EvidenceFiles) -> Self {
        Self { cases: MedCases::new(store.clone()), store, files }
    }

    /// Without ids nothing is read.
    pub async fn find(&self, ids: Option<(MedCaseId, EvidenceId)>) -> Result<Option<EvidenceRow>> {
        let Some((case, id)) = ids else { return Ok(None) };
        let evidence = Evidence::key_of(case, id);
        let items = self.store.batch_get(&[evidence.clone(), Upload::key_of(case, id)]).await?;
        let mut found = None;
        for item in items {
            if text(&item, "sk").as_deref() == Some(&evidence.sk) {
                let confirmed: Evidence = from_item(item)?;
                return Ok((!confirmed.is_removed).then_some(EvidenceRow::Confirmed(confirmed)));
            }
            found = Some(EvidenceRow::Pending(from_item(item)?));
        }
        Ok(found)
    }

    pub async fn request_upload(
        &self,
        case: &MedCase,
        file: EvidenceFile,
        uploaded_by: UploadedBy,
        now: Timestamp,
    ) -> Result<Upload, EvidenceError> {
        case.check_evidence_allowed()?;
        let Key { pk, .. } = MedCase::key_of(case.id);
        let id = EvidenceId::new(now, random::bytes().map_err(StoreError::from)?);
        let upload = Upload { id, case: case.id, file, uploaded_by, created_at: now };
        let mut update = self.store.start_update("the uploads of a MED case");
        loop {
            // Before the others are counted.
            let last: Option<LastUpload> = self.store.get(&LastUpload::key_of(case.id)).await?;
            if self.store.partition_prefix(&pk, &Upload::prefix(case.id)).await?.len() >= MAX_UPLOADS {
                return Err(EvidenceRefused::TooManyUploads.into());
            }
            let replaced = last.map(|last| last.version);
            let version = replaced.unwrap_or(0).saturating_add(1);
            let last = LastUpload { case: case.id, at: now, version };
            if update.commit(vec![Write::insert(&upload)?, Write::put(&last, replaced)?]).await? {
                return Ok(upload);
            }
        }
    }

    /// The caller has just read both. Evidence that is confirmed already is returned unchanged, even if the
    /// case has ended, the URL has expired or another file was uploaded since. The audit names a member of the
    /// dashboard, but no API key.
    pub async fn complete(
        &self,
        case: MedCase,
        found: EvidenceRow,
        member: Option<&Caller>,
        now: Timestamp,
    ) -> Result<Evidence, EvidenceError> {
        match found {
            EvidenceRow::Confirmed(evidence) => Ok(evidence),
            EvidenceRow::Pending(upload) => self.confirm(case, &upload, (None, member), now).await,
        }
    }

    /// Like a merchant's file, it is stored as a pending object, checked and copied.
    pub async fn add(
        &self,
        case: MedCase,
        (name, bytes): (&str, Vec<u8>),
        operator: &Operator,
        now: Timestamp,
    ) -> Result<Evidence, EvidenceError> {
        let file = EvidenceFile::from_content(name, &bytes)?;
        let upload = self.request_upload(&case, file, UploadedBy::Platform, now).await?;
        self.files.put_upload(&upload, bytes).await?;
        self.confirm(case, &upload, (Some(operator), None), now).await
    }

    /// After the upload URL has expired, it fails even if the file arrived in time: `POST
    /// /v1/med/cases/{id}/evidence/{id}/complete` then answers 409.
    async fn confirm(
        &self,
        case: MedCase,
        upload: &Upload,
        (operator, member): (Option<&Operator>, Option<&Caller>),
        now: Timestamp,
    ) -> Result<Evidence, EvidenceError> {
        case.check_evidence_allowed()?;
        if !upload.is_open(now) {
            return Err(EvidenceError::NotUploaded);
        }
        let arrived = self.files.read_upload(upload).await?.ok_or(EvidenceError::NotUploaded)?;
        let evidence = upload.confirmed(&arrived, now)?;
        self.files.copy_confirmed(upload, &arrived, &evidence).await?;
        let file = AddedEvidence::File(evidence.id, evidence.file.name.as_str().to_owned());
        let audit = audit_row(operator, &case, Action::AddEvidence(file), now)?;
        self.insert(case, evidence, (audit.as_ref(), member), now).await
    }

    /// Increments the case's count in the same transaction. Concurrent confirmations count a file once.
    async fn insert(
        &self,
        case: MedCase,
        evidence: Evidence,
        (audit, member): (Option<&Audit>, Option<&Caller>),
        now: Timestamp,
    ) -> Result<Evidence, EvidenceError> {
        let (id, mut just_read) = (case.id, Some(case));
        let mut update = self.store.start_update("a MED case");
        loop {
            if !update.failed().is_empty()
                && let Some(confirmed) = self.store.get(&evidence.key()).await?
            {
                return Ok(confirmed);
            }
            let case = reuse_or_read(&mut just_read, self.cases.get_existing(id)).await?;
            let next = case.with_evidence(now)?;
            let actor = member.map(|member| member.actor(next.version)).or(next.actor);
            let next = MedCase { actor, ..next };
            let mut writes = replacement_writes(&next, &case, audit)?;
            writes.push(Write::insert(&evidence)?);
            if update.commit(writes).await? {
                return Ok(evidence.clone());
            }
        }
    }

    /// Removes a file of an open case. Its row is marked and the case counts it no more, in one transaction. Nothing
    /// happens if it was removed before.
    pub async fn remove(
        &self,
        case: MedCaseId,
        id: EvidenceId,
        member: &Caller,
        now: Timestamp,
    ) -> Result<(), EvidenceError> {
        let mut update = self.store.start_update("a MED case");
        let evidence = loop {
            let stored: Option<Evidence> = self.store.get(&Evidence::key_of(case, id)).await?;
            let Some(evidence) = stored.filter(|evidence| !evidence.is_removed) else { return Ok(()) };
            let case = self.cases.get_existing(case).await?;
            let next = case.without_evidence(now)?;
            let next = MedCase { actor: Some(member.actor(next.version)), ..next };
            let mut writes = replacement_writes(&next, &case, None)?;
            let removed = RowUpdate::of(evidence.key()).set("removed", AttributeValue::Bool(true));
            writes.push(Write::update(removed.when_exists().when_absent("removed")));
            if update.commit(writes).await? {
                break evidence;
            }
        };
        // Nothing leads to the file any more.
        if let Err(error) = self.files.delete(&evidence).await {
            tracing::error!(file = evidence.object(), %error, "the file of removed evidence was not deleted");
        }
        Ok(())
    }

    /// Newest first.
    pub async fn for_case(&self, case: MedCaseId) -> Result<Vec<Evidence>> {
        let Key { pk, .. } = MedCase::key_of(case);
        let mut files: Vec<Evidence> = self.store.rows_of_prefix(&pk, &Evidence::prefix(case)).await?;
        files.retain(|evidence| !evidence.is_removed);
        files.reverse();
        Ok(files)
    }
}
