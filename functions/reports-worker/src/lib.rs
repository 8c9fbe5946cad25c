//! Makes the files of reports. A message names a report. The worker claims it by a lease, reads the rows of its period
//! page by page, encodes each page and uploads the file in parts, so that its memory does not grow with the file.
//!
//! If the worker crashes, the scheduler sends another message when the lease ends, and the file is made again from its
//! beginning, under another name. The parts of the first are deleted by the bucket's lifecycle rule.
//!
//! A statement is ready only if its opening balance and its movements add up to its closing balance (`balance`).

mod balance;
mod encode;
mod line;
mod rows;
mod source;
mod upload;

use std::time::Duration;

use aws_lambda_events::sqs::SqsEvent;
use aws_lambda_events::streams::SqsEventResponse;
use domain::money::MoneyError;
use domain::report::{Report, ReportClaim, ReportFailure, ReportKind};
use money::report::{ReportFiles, ReportMessage, ReportQueue, Reports};
use money::wallet::Wallets;
use shared::account::Accounts;
use shared::clock::Clock;
use shared::config::{ConfigError, Vars, required};
use shared::store::{Aws, Store, StoreError};
use shared::{WorkError, WorkResult, queue};

use crate::balance::{Balances, Verdict};
use crate::encode::encoder;
use crate::line::{Line, LineKind};
use crate::source::Source;
use crate::upload::Upload;

/// When a report is made again whose balances do not agree yet, in seconds: after the time limit of a function, whose
/// postings have the time at which it began.
const AGAIN_SECONDS: i64 = 120;

/// When a report is made again after a failed request, in seconds.
const RETRY_SECONDS: i64 = 60;

/// In so many attempts the balances must disagree.
const MISMATCHES: u32 = 3;

#[derive(Clone, Debug)]
pub struct ReportsWorker {
    store: Store,
    reports: Reports,
    queue: ReportQueue,
    s3: aws_sdk_s3::Client,
    bucket: String,
    clock: Clock,
}

/// Why an attempt made no file.
enum Unmade {
    Failed(ReportFailure),
    /// Opening balance and movements do not add up to the closing balance, or postings kept arriving.
    Unbalanced {
        kept_moving: bool,
    },
    Error(WorkError),
}

impl<E: Into<WorkError>> From<E> for Unmade {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

impl ReportsWorker {
    /// Reads `TABLE_NAME`, `REPORT_QUEUE_URL` and `DOCUMENTS_BUCKET`.
    pub fn from_vars(aws: &Aws, clock: Clock, var: Vars<'_>) -> Result<Self, ConfigError> {
        let store = Store::new(aws.dynamodb(), required(var, "TABLE_NAME")?);
        Ok(Self {
            reports: Reports::new(store.clone()),
            store,
            queue: ReportQueue::new(aws.sqs(), required(var, "REPORT_QUEUE_URL")?),
            s3: aws.s3(),
            bucket: required(var, "DOCUMENTS_BUCKET")?,
            clock,
        })
    }

    pub async fn handle(&self, batch: SqsEvent) -> SqsEventResponse {
        let worker = self.clone();
        queue::process_batch(batch, move |message: ReportMessage, _receipt| {
            let worker = worker.clone();
            async move { Box::pin(worker.process(message)).await }
        })
        .await
    }

    async fn process(&self, message: ReportMessage) -> WorkResult<()> {
        let Some(report) = self.reports.find(&message.scope, Some(message.report)).await? else {
            return Ok(());
        };
        match report.claimed(self.clock.now()) {
            ReportClaim::Ended | ReportClaim::Leased => Ok(()),
            ReportClaim::Exhausted(failed) => {
                tracing::error!(report = %failed.id, scope = %failed.scope, "a report failed in all its attempts");
                self.reports.end(&failed).await?;
                Ok(())
            }
            ReportClaim::Claimed(claimed) => {
                if self.reports.claim(&claimed).await? {
                    self.make(&claimed).await?;
                }
                Ok(())
            }
        }
    }

    async fn make(&self, report: &Report) -> WorkResult<()> {
        let mut upload = Upload::new(self.s3.clone(), &self.bucket, report);
        let made = Box::pin(self.write(report, &mut upload)).await;
        let now = self.clock.now();
        let failure = match made {
            Ok(lines) => {
                tracing::info!(report = %report.id, scope = %report.scope, lines, "a report is ready");
                if !self.reports.end(&report.ready(lines, now)).await? {
                    // It was deleted meanwhile.
                    ReportFiles::new(self.s3.clone(), &self.bucket).delete(report).await?;
                }
                return Ok(());
            }
            Err(unmade) => {
                upload.abort().await;
                unmade
            }
        };
        match failure {
            Unmade::Failed(failure) => {
                tracing::info!(report = %report.id, scope = %report.scope, failure = failure.as_str(), "a report failed");
                self.reports.end(&report.failed(failure, now)).await?;
                Ok(())
            }
            Unmade::Unbalanced { kept_moving } if kept_moving || report.attempts < MISMATCHES => {
                tracing::warn!(report = %report.id, scope = %report.scope, kept_moving, "the balances of a statement do not agree yet; it is made again");
                let again = report.again(now.saturating_plus_seconds(AGAIN_SECONDS));
                if self.reports.claim(&again).await? {
                    let message = ReportMessage { scope: report.scope, report: report.id };
                    let delay = Duration::from_secs(AGAIN_SECONDS.unsigned_abs());
                    self.queue.send_later(&message, delay).await?;
                }
                Ok(())
            }
            Unmade::Unbalanced { .. } => {
                tracing::error!(report = %report.id, scope = %report.scope, "the opening balance and the movements of a statement do not add up to the closing balance; verify the ledger");
                self.reports.end(&report.failed(ReportFailure::BalanceMismatch, now)).await?;
                Ok(())
            }
            Unmade::Error(error) => {
                // If this fails too, the report is due when the lease ends.
                let again = report.again(now.saturating_plus_seconds(RETRY_SECONDS));
                if let Err(error) = self.reports.claim(&again).await {
                    tracing::warn!(report = %report.id, %error, "the lease of a report was not ended");
                }
                Err(error)
            }
        }
    }

    /// Makes the file. Returns its number of lines.
    async fn write(&self, report: &Report, upload: &mut Upload) -> Result<u64, Unmade> {
        let accounts = Accounts::new(self.store.clone());
        let account = accounts.find(&report.scope.account).await?;
        let account = account.ok_or(WorkError::Missing("the account of a report does not exist"))?;
        let scope = Wallets::new(self.store.clone()).sharded_scope(&report.scope).await?;
        let balances = Balances { store: &self.store, scope, currency: report.spec.currency };
        let mut balance = match report.spec.kind {
            ReportKind::Statement => Some(balances.opening(report.spec.from, self.clock.now()).await?),
            _ => None,
        };
        let mut out = Vec::new();
        let mut encoder = encoder(report, &account.settings.merchant_name, &mut out)?;
        if let Some(opening) = balance {
            let at = report.spec.from.starts_at();
            encoder.lines(&[Line::of_balance(LineKind::Opening, at, opening)], &mut out)?;
        }
        let mut source = Source::new(self.store.clone(), scope, report, self.clock.now());
        let mut lines: u64 = 0;
        while let Some(mut page) = source.next_page().await? {
            if let Some(balance) = &mut balance {
                for line in &mut page {
                    *balance = balance.checked_add(line.net.unwrap_or_default()).map_err(of_money)?;
                    line.balance = Some(*balance);
                }
            }
            lines = lines.saturating_add(u64::try_from(page.len()).unwrap_or(u64::MAX));
            if report.spec.format.max_lines().is_some_and(|most| lines > most) {
                return Err(Unmade::Failed(ReportFailure::TooManyLines));
            }
            encoder.lines(&page, &mut out)?;
            upload.push(&mut out).await?;
        }
        if let Some(closing) = balance {
            match balances.verify(closing, report.ends_at(), self.clock.now()).await? {
                Verdict::Agrees => {}
                Verdict::Differs => return Err(Unmade::Unbalanced { kept_moving: false }),
                Verdict::KeptMoving => return Err(Unmade::Unbalanced { kept_moving: true }),
            }
            encoder.lines(&[Line::of_balance(LineKind::Closing, report.ends_at(), closing)], &mut out)?;
        }
        let (mut out, file) = encode::end(encoder, out).await?;
        if let Some(file) = file {
            upload.push_file(file, &mut out).await?;
        }
        upload.finish(out).await?;
        Ok(lines)
    }
}

fn of_money(error: MoneyError) -> WorkError {
    StoreError::from(error).into()
}
