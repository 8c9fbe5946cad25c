//! `admin med forward`: sends the evidence of a dispute to the payer's bank through the acquirer.

use acquirer_core::{DisputeEvidence, EvidenceToSend, KitError};
use domain::audit::{Action, Operator};
use domain::ids::EvidenceId;
use domain::med::MedCase;
use domain::snapshot::RemoteDispute;
use money::med::evidence::Evidence;
use shared::audit;

use crate::output::record;
use crate::target::Stack;
use crate::{Result, print_json};

/// `by`: who submits. Nothing is sent without.
pub(super) async fn run(
    stack: &Stack,
    case: MedCase,
    fields: &[(EvidenceId, String)],
    by: Option<Operator>,
) -> Result<()> {
    let charge = stack.charges.get_existing(case.id.charge()).await?;
    let charge = charge.as_stored();
    let connections = stack.connections()?;
    let paid_at = charge.paid_with().and_then(|method| charge.connection_of(method));
    let id = paid_at.ok_or("the acquirer of this case takes no evidence")?;
    let connection = connections.at(charge.scope.account, Some(id)).await?;
    let connector = connection.connector();
    let snapshot = connector.read(charge, true).await?.ok_or("the acquirer does not know the charge")?;
    let is_its = |remote: &&RemoteDispute| remote.case_of(charge.id) == case.id;
    let dispute = snapshot.disputes.iter().find(is_its).ok_or("the acquirer has no dispute of this case")?;
    if dispute.decision.is_some() {
        return Err("the dispute is decided, so the bank accepts no evidence".into());
    }
    let allowed = connector.evidence_fields();
    if let Some((_, unknown)) = fields.iter().find(|(_, field)| !allowed.contains(&&**field)) {
        return Err(format!("{unknown} must be one of {}", allowed.join(", ")).into());
    }
    let evidence = stack.evidence()?;
    let files = evidence.for_case(case.id).await?;
    let refused =
        |file: &Evidence| connector.refuses_evidence(file.file.mime_type.as_str(), u64::from(file.file.size));
    let sendable: Vec<&Evidence> = files.iter().filter(|file| refused(file).is_none()).collect();
    let mut chosen: Vec<(&Evidence, &str)> = Vec::new();
    for file in &files {
        let named = fields.iter().find(|(id, _)| *id == file.id).map(|(_, field)| &**field);
        let field = match (fields, &sendable[..]) {
            ([], [only]) if only.id == file.id => allowed.first().copied(),
            _ => named,
        };
        let why = match (refused(file), field) {
            (Some(why), _) => Some(why),
            (None, None) => Some("each field takes one file: name its field with --file"),
            (None, Some(field)) if chosen.iter().any(|(_, taken)| *taken == field) => {
                Some("another file has this field")
            }
            (None, Some(field)) => {
                chosen.push((file, field));
                None
            }
        };
        print_json(&record! {
            file: file.id,
            name: file.file.name.as_str(),
            field: field.filter(|_| why.is_none()),
            not_sent: why,
        })?;
    }
    let text = case.appeal_reason.clone();
    let (has_text, count) = (text.is_some(), chosen.len());
    if !has_text && count == 0 {
        return Err("there is nothing to send: the merchant has not appealed, and no file can be sent".into());
    }
    if by.is_some() && chosen.len() < fields.len() {
        return Err("nothing was sent: a file that --file names can't be sent, or is not of this case".into());
    }
    let Some(by) = by.filter(|_| !stack.is_dry_run) else {
        return print_json(&record! { case: case.id, text: has_text, files: count, submitted: false });
    };
    let mut to_send = Vec::new();
    for (file, field) in chosen {
        let mime_type = file.file.mime_type.as_str();
        let extension = mime_type.rsplit('/').next().unwrap_or_default();
        let (field, name) = (field.to_owned(), format!("{}.{extension}", file.id));
        to_send.push(EvidenceToSend { field, name, mime_type, content: evidence.files.read(file).await? });
    }
    // Before the request: a submission without its audit row must not exist.
    let (account, now) = (charge.scope.account, stack.clock.now());
    let names = to_send.iter().map(|file| file.name.clone()).collect();
    let action = Action::ForwardEvidence { text: has_text, files: names };
    let audit = audit::by_operator(&by, account, action, case.id, now)?;
    audit::append(&stack.store, &audit).await?;
    let evidence = DisputeEvidence { text, files: to_send, spent_submissions: case.spent_submissions };
    let mut submitted = connector.submit_evidence(&dispute.id, evidence.clone()).await;
    if let Err(KitError::Spent(_)) = submitted {
        let spent_submissions = stack.cases.spend_submission(&case).await?;
        let again = DisputeEvidence { spent_submissions, ..evidence };
        submitted = connector.submit_evidence(&dispute.id, again).await;
    }
    let status = submitted.map_err(|error| match error {
        KitError::Invalid(why) => why,
        unknown => format!("{unknown}. Run the command again: it submits once"),
    })?;
    print_json(&record! { case: case.id, text: has_text, files: count, submitted: true, status: status })
}
