//! Disputes: inquiries, whose status starts with `warning_`, and formal disputes. Files for evidence.

use serde_json::{Value, json};

use super::{DAY_S, Result, State};
use crate::error::ApiError;
use crate::form::Params;
use crate::values::{at, int, merge, merge_metadata, object, sha256, text};

const RESPONSE_S: i64 = 7 * DAY_S;
/// The most characters of all evidence together.
const EVIDENCE_MAX: usize = 150_000;
const FILE_MAX_BYTES: usize = 5 * 1024 * 1024;
/// The types of files that evidence may have, with the bytes that they start with.
const FILE_TYPES: [(&str, &[u8]); 3] =
    [("pdf", b"%PDF-"), ("png", b"\x89PNG\r\n\x1a\n"), ("jpg", b"\xff\xd8\xff")];
/// The fields of evidence that contain the id of a file.
const FILES: &str = "cancellation_policy customer_communication customer_signature duplicate_charge_documentation receipt refund_policy service_documentation shipping_documentation uncategorized_file";

impl State {
    /// Finds the charge that a control request names: by its id, or the latest one of a session.
    pub(super) fn disputed_charge(&self, params: &Params) -> Result<Value> {
        if let Some(charge) = params.text("/charge") {
            return self.existing("ch_|py_", "charge", "charge", charge);
        }
        if let Some(intent) = self.direct(params) {
            return Ok(self.object(text(&intent, "latest_charge")));
        }
        let session = self.target(params)?;
        Ok(self.object(text(&self.object(text(&session, "_payment_intent")), "latest_charge")))
    }

    /// The payer's bank opens a dispute about a payment.
    pub(crate) fn open_dispute(&mut self, params: &Params) -> Result<Value> {
        let charge = self.disputed_charge(params)?;
        if text(&charge, "status") != "succeeded" {
            return Err(ApiError::refused("", "Only a payment that succeeded can be disputed."));
        }
        let method = at(&charge, "/payment_method_details/type");
        if method == "boleto" || method == "multibanco" {
            return Err(ApiError::refused("", "A payment by this method can't be disputed."));
        }
        let is_inquiry = params.text("/kind") == Some("inquiry");
        let (status, case_type) =
            if is_inquiry { ("warning_needs_response", "inquiry") } else { ("needs_response", "chargeback") };
        let due_by = params.int("/due_by").unwrap_or(self.now.saturating_add(RESPONSE_S));
        let has_due_by = params.flag("/no_due_by") != Some(true);
        let id = self.new_id(if self.behaviour.dispute_ids_are_du { "du_" } else { "dp_" }, 14);
        let card = json!({"brand": "visa", "case_type": case_type, "network_reason_code": "10.4"});
        let mut dispute = json!({
            "id": id, "amount": params.int("/amount").unwrap_or(int(&charge, "amount")),
            "charge": charge.get("id"), "created": self.now,
            "currency": params.text("/currency").unwrap_or(text(&charge, "currency")),
            "evidence_details": {
                "due_by": has_due_by.then_some(due_by),
                "enhanced_eligibility": {},
                "has_evidence": false, "past_due": false, "submission_count": 0,
            },
            "is_charge_refundable": is_inquiry, "payment_intent": charge.get("payment_intent"),
            "reason": params.text("/reason").unwrap_or("fraudulent"), "status": status, "_withdrawn": 0,
        });
        // Stripe's document has no details of MB WAY.
        if method == "card" {
            merge(&mut dispute, json!({"payment_method_details": {"type": "card", "card": card}}));
        }
        self.put(object("dispute", dispute));
        self.patch(text(&charge, "id"), json!({"disputed": true}));
        self.emit("charge.dispute.created", &id);
        self.move_disputed(&id);
        Ok(self.view(&id))
    }

    /// Sets the status of a dispute, as Stripe or the banks decide. Any status can follow any other.
    pub(crate) fn decide_dispute(&mut self, id: &str, params: &Params) -> Result<Value> {
        let dispute = self.existing("d", "dispute", "dispute", id)?;
        let amount = params.int("/amount").unwrap_or(int(&dispute, "amount"));
        self.patch(id, json!({"amount": amount}));
        self.set_status(id, params.text("/status").unwrap_or(text(&dispute, "status")));
        Ok(self.view(id))
    }

    fn set_status(&mut self, id: &str, status: &str) {
        let is_formal = !status.starts_with("warning_");
        let mut details = at(&self.object(id), "/payment_method_details");
        if let Some(card) = details.get_mut("card") {
            merge(card, json!({"case_type": if is_formal { "chargeback" } else { "inquiry" }}));
            self.patch(id, json!({"payment_method_details": details}));
        }
        self.patch(id, json!({"status": status, "is_charge_refundable": !is_formal}));
        let is_closed = ["won", "lost", "warning_closed", "prevented"].contains(&status);
        self.emit(if is_closed { "charge.dispute.closed" } else { "charge.dispute.updated" }, id);
        self.move_disputed(id);
    }

    /// Withdraws or reinstates money until the balance agrees with the dispute's status and amount.
    fn move_disputed(&mut self, id: &str) {
        let dispute = self.object(id);
        let (withdrawn, fee) = (int(&dispute, "_withdrawn"), self.behaviour.dispute_fee);
        let is_withheld = ["needs_response", "under_review", "lost"].contains(&text(&dispute, "status"));
        let wanted = if is_withheld { int(&dispute, "amount") } else { 0 };
        self.patch(text(&dispute, "charge"), json!({"_charged_back": is_withheld}));
        let mut listed = at(&dispute, "/balance_transactions").as_array().cloned().unwrap_or_default();
        let (category, fee, event) = match wanted.saturating_sub(withdrawn) {
            0 => return,
            1.. if listed.is_empty() => ("dispute", fee, "charge.dispute.funds_withdrawn"),
            1.. => ("dispute", 0, "charge.dispute.funds_withdrawn"),
            _ if self.behaviour.won_dispute_returns_fee => {
                ("dispute_reversal", fee.saturating_neg(), "charge.dispute.funds_reinstated")
            }
            _ => ("dispute_reversal", 0, "charge.dispute.funds_reinstated"),
        };
        let moved = self.move_balance("adjustment", category, id, withdrawn.saturating_sub(wanted), fee);
        // Stripe's document: a dispute lists at most two.
        if listed.len() < 2 {
            listed.push(self.view(&moved));
        }
        self.patch(id, json!({"balance_transactions": listed, "_withdrawn": wanted}));
        self.emit(event, id);
    }

    /// Stages or submits evidence.
    pub(crate) fn update_dispute(&mut self, id: &str, params: &Params) -> Result<Value> {
        let dispute = self.existing("d", "dispute", "dispute", id)?;
        for name in FILES.split(' ') {
            if let Some(file) = params.text(&format!("/evidence/{name}")) {
                self.existing("file_", &format!("evidence[{name}]"), "file", file)?;
            }
        }
        let (mut evidence, mut details) = (at(&dispute, "/evidence"), at(&dispute, "/evidence_details"));
        merge(&mut evidence, params.value("/evidence"));
        let texts = evidence.as_object().into_iter().flatten().filter_map(|(_, value)| value.as_str());
        let length = texts.fold(0_usize, |sum, text| sum.saturating_add(text.chars().count()));
        if length > EVIDENCE_MAX {
            let message = format!("All evidence together can have {EVIDENCE_MAX} characters, not {length}.");
            return Err(ApiError::invalid("evidence", "", message));
        }
        let has_changes = !params.value("/evidence").is_null() || params.flag("/submit").is_some();
        if has_changes {
            check_open(&dispute)?;
        }
        let metadata = merge_metadata(&at(&dispute, "/metadata"), params.value("/metadata"));
        let is_submitted = has_changes && params.flag("/submit") != Some(false);
        merge(&mut details, json!({"has_evidence": length > 0}));
        if is_submitted {
            let (due_by, count) = (int(&details, "due_by"), int(&details, "submission_count"));
            let is_late = due_by > 0 && self.now > due_by;
            merge(&mut details, json!({"past_due": is_late, "submission_count": count.saturating_add(1)}));
        }
        self.patch(id, json!({"metadata": metadata, "evidence": evidence, "evidence_details": details}));
        match text(&dispute, "status") {
            "warning_needs_response" if is_submitted => self.set_status(id, "warning_under_review"),
            "needs_response" if is_submitted => self.set_status(id, "under_review"),
            _ => self.emit("charge.dispute.updated", id),
        }
        Ok(self.view(id))
    }

    /// Accepts a dispute as lost, for ever.
    pub(crate) fn close_dispute(&mut self, id: &str) -> Result<Value> {
        check_open(&self.existing("d", "dispute", "dispute", id)?)?;
        self.set_status(id, "lost");
        Ok(self.view(id))
    }

    pub(crate) fn create_file(&mut self, filename: &str, content: &[u8]) -> Result<Value> {
        let kind = FILE_TYPES.iter().find(|(_, start)| content.starts_with(start));
        let Some((kind, _)) = kind.filter(|_| content.len() <= FILE_MAX_BYTES) else {
            let message =
                format!("Evidence must be a PDF, PNG or JPEG file of at most {FILE_MAX_BYTES} bytes.");
            return Err(ApiError::invalid("file", "", message));
        };
        let id = self.new_id("file_", 14);
        let file =
            json!({"id": id, "created": self.now, "filename": filename, "size": content.len(), "type": kind});
        self.put(object("file", file));
        self.patch(&id, json!({"_sha256": sha256(content)}));
        Ok(self.view(&id))
    }
}

/// Refuses if no response is possible any more.
fn check_open(dispute: &Value) -> Result<()> {
    let status = text(dispute, "status");
    if ["needs_response", "warning_needs_response"].contains(&status) {
        return Ok(());
    }
    Err(ApiError::refused("", format!("This dispute is {status}: no further response is possible.")))
}
