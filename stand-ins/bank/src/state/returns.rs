use serde_json::{Map, Value};

use super::timers::{SETTLEMENT_DELAY_MS, Timer};
use super::{Call, Result, State};
use crate::cob::{field_or, text};
use crate::fault::FaultKind;
use crate::pix::{Devolucao, MedNature, Nature, PixOut, Progress, Transfer};
use crate::problem::{Problem, Violations};
use crate::values::{Cents, is_alphanumeric, transaction_id};

const STUCK_MS: i64 = 6 * 3_600_000;
/// A Pix can be returned until this time after its settlement.
const RETURN_WINDOW_MS: i64 = 90 * 86_400_000;

/// The reason of the fault `devolucao_refused`. A bank may write a document into such a text.
const REFUSED: &str = "A conta do CPF 295.379.955-93 não permite esta operação.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MedError {
    #[error("no Pix has this end-to-end id")]
    UnknownPix,
    #[error("the amount must be at least 0.01 and at most the remaining amount of the Pix")]
    InvalidAmount,
    #[error("the bank can't write its books")]
    NotStored,
}

impl State {
    pub(crate) fn put_devolucao(
        &mut self,
        call: Call,
        (end_to_end_id, id): (&str, &str),
        body: &Map<String, Value>,
    ) -> Result<Value> {
        let pix = self.own_pix(call, end_to_end_id)?;
        let mut violations = Violations::default();
        violations.require_valid(is_alphanumeric(id, 1..=35).then_some(()), "devolucao.id");
        if pix.returns.iter().any(|item| item.transfer.id == id) {
            violations.add("devolucao.id", "O id já foi utilizado por outra requisição de devolução.");
        }
        if call.now_ms > pix.at_ms.saturating_add(RETURN_WINDOW_MS) {
            violations.add("pix.horario", "O prazo de 90 dias para solicitar a devolução terminou.");
        }
        let amount = violations.require_valid(positive_amount(body), "devolucao.valor");
        if amount.is_some_and(|amount| amount.get() > pix.returnable()) {
            violations.add("devolucao.valor", "A soma das devoluções excederia o valor do Pix.");
        }
        // `RETIRADA` is for withdrawals, which this bank does not have.
        if body.get("natureza").is_some_and(|nature| nature != "ORIGINAL") {
            violations.add("devolucao.natureza", "O campo devolucao.natureza não é permitido para este Pix.");
        }
        let description = violations.require_valid(description(body), "devolucao.descricao");
        if violations.is_empty() && self.faults.take(FaultKind::DevolucaoRefused) {
            violations.add("devolucao", REFUSED);
        }
        let (amount, description) = violations.none_in(amount.zip(description), "PixDevolucaoInvalida")?;
        let transfer = self.new_transfer(call.now_ms, id.to_owned(), amount, description);
        Ok(self.add_devolucao(end_to_end_id, Nature::Original, transfer))
    }

    fn add_devolucao(
        &mut self,
        end_to_end_id: &str,
        nature: Nature,
        (settles_ms, transfer): (i64, Transfer),
    ) -> Value {
        let id = transfer.id.clone();
        let rtr_id = transaction_id('D', transfer.requested_ms, self.next_serial());
        let devolucao = Devolucao { rtr_id, nature, transfer };
        let answer = devolucao.json();
        if let Some(pix) = self.tables.pix.get_mut(end_to_end_id) {
            pix.returns.push(devolucao);
        }
        self.schedule(settles_ms, Timer::SettleDevolucao { end_to_end_id: end_to_end_id.to_owned(), id });
        answer
    }

    /// Returns a transfer that was just requested, and when it becomes final.
    fn new_transfer(
        &mut self,
        now_ms: i64,
        id: String,
        amount: Cents,
        description: Option<String>,
    ) -> (i64, Transfer) {
        let is_stuck = self.faults.take(FaultKind::DevolucaoStuck);
        let delay_ms = if is_stuck { STUCK_MS } else { SETTLEMENT_DELAY_MS };
        let is_to_be_executed = !self.faults.take(FaultKind::DevolucaoUnrealized);
        let progress = Progress::Pending;
        let transfer =
            Transfer { id, amount, description, requested_ms: now_ms, progress, is_to_be_executed };
        (now_ms.saturating_add(delay_ms), transfer)
    }

    pub(crate) fn get_devolucao(&self, call: Call, end_to_end_id: &str, id: &str) -> Result<Value> {
        self.own_pix(call, end_to_end_id)?
            .returns
            .iter()
            .find(|item| item.transfer.id == id)
            .map(Devolucao::json)
            .ok_or_else(|| Problem::not_found("PixDevolucaoNaoEncontrada"))
    }

    /// Returns a Pix, or a part of it, to its payer by MED. Returns the id of the devolução.
    pub(crate) fn return_by_med(
        &mut self,
        now_ms: i64,
        end_to_end_id: &str,
        amount: Option<Cents>,
        nature: MedNature,
    ) -> std::result::Result<String, MedError> {
        let left = self.tables.pix.get(end_to_end_id).ok_or(MedError::UnknownPix)?.returnable();
        let amount = amount.or_else(|| Cents::new(left)).ok_or(MedError::InvalidAmount)?;
        if amount.get() == 0 || amount.get() > left {
            return Err(MedError::InvalidAmount);
        }
        let id = format!("med{}", self.next_serial());
        let transfer = self.new_transfer(now_ms, id.clone(), amount, None);
        self.add_devolucao(end_to_end_id, Nature::Med(nature), transfer);
        Ok(id)
    }

    // Pix out.

    pub(crate) fn put_pix_out(&mut self, call: Call, id: &str, body: &Map<String, Value>) -> Result<Value> {
        const KIND: &str = "PixOutInvalido";
        let Call { now_ms, client } = call;
        let mut violations = Violations::default();
        violations.require_valid(is_alphanumeric(id, 1..=35).then_some(()), "pixOut.id");
        let amount = violations.require_valid(positive_amount(body), "pixOut.valor");
        let key = body.get("chave").and_then(|key| text(key, 77)).filter(|key| !key.is_empty());
        let key = violations.require_valid(key, "pixOut.chave");
        let description = violations.require_valid(description(body), "pixOut.descricao");
        let is_new = !self.tables.pix_out.contains_key(&(client, id.to_owned()));
        if violations.is_empty() && is_new && self.faults.take(FaultKind::DevolucaoRefused) {
            violations.add("pixOut", REFUSED);
        }
        let read = amount.zip(key).zip(description);
        let ((amount, key), description) = violations.none_in(read, KIND)?;
        if let Some(known) = self.tables.pix_out.get(&(client, id.to_owned())) {
            // The same request again is the same Pix.
            let transfer = &known.transfer;
            return if transfer.amount == amount && known.key == key && transfer.description == description {
                Ok(known.json())
            } else {
                let reason = "O id já foi utilizado por outra requisição.";
                Err(Problem::violation(KIND, "pixOut.id", reason))
            };
        }
        let (settles_ms, transfer) = self.new_transfer(now_ms, id.to_owned(), amount, description);
        let end_to_end_id = transaction_id('E', now_ms, self.next_serial());
        let pix_out = PixOut { end_to_end_id, key, transfer };
        let answer = pix_out.json();
        self.tables.pix_out.insert((client, id.to_owned()), pix_out);
        self.schedule(settles_ms, Timer::SettlePixOut { client, id: id.to_owned() });
        Ok(answer)
    }

    pub(crate) fn get_pix_out(&self, call: Call, id: &str) -> Result<Value> {
        self.tables
            .pix_out
            .get(&(call.client, id.to_owned()))
            .map(PixOut::json)
            .ok_or_else(|| Problem::not_found("PixOutNaoEncontrado"))
    }
}

/// Reads the `valor` of a transfer. `None` if it is missing, not an amount, or zero.
fn positive_amount(body: &Map<String, Value>) -> Option<Cents> {
    body.get("valor").and_then(Value::as_str).and_then(Cents::parse).filter(|amount| amount.get() > 0)
}

/// Reads the optional `descricao` of a transfer. `None` if it is invalid.
#[expect(
    clippy::option_option,
    reason = "the outer one says if the field is valid, the inner one if it is there"
)]
fn description(body: &Map<String, Value>) -> Option<Option<String>> {
    field_or(body, "descricao", Some(None), |value| text(value, 140).map(Some))
}
