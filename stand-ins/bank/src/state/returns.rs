use serde_json::{Map, Value};

use super::timers::{SETTLEMENT_DELAY_MS, Timer};
use super::{Result, State};
use crate::cob::{field_or, text};
use crate::fault::FaultKind;
use crate::pix::{Devolucao, MedNature, Nature, PixOut, Progress, Transfer};
use crate::problem::{Problem, Violation};
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
        now_ms: i64,
        client: usize,
        (end_to_end_id, id): (&str, &str),
        body: &Map<String, Value>,
    ) -> Result<Value> {
        const KIND: &str = "PixDevolucaoInvalida";
        let pix = self.own_pix(now_ms, client, end_to_end_id)?;
        let mut violations = Vec::new();
        let mut refuse = |property, reason: &str| violations.push(Violation::new(property, reason));
        if !is_alphanumeric(id, 1..=35) {
            refuse("devolucao.id", "O campo devolucao.id não respeita o schema.");
        }
        if pix.returns.iter().any(|item| item.transfer.id == id) {
            refuse("devolucao.id", "O id já foi utilizado por outra requisição de devolução.");
        }
        if now_ms > pix.at_ms.saturating_add(RETURN_WINDOW_MS) {
            refuse("pix.horario", "O prazo de 90 dias para solicitar a devolução terminou.");
        }
        let amount = positive_amount(body);
        match amount {
            None => refuse("devolucao.valor", "O campo devolucao.valor não respeita o schema."),
            Some(amount) if amount.get() > pix.returnable() => {
                refuse("devolucao.valor", "A soma das devoluções excederia o valor do Pix.");
            }
            Some(_) => {}
        }
        // `RETIRADA` is for withdrawals, which this bank does not have.
        if body.get("natureza").is_some_and(|nature| nature != "ORIGINAL") {
            refuse("devolucao.natureza", "O campo devolucao.natureza não é permitido para este Pix.");
        }
        let description = description(body);
        if description.is_none() {
            refuse("devolucao.descricao", "O campo devolucao.descricao não respeita o schema.");
        }
        if violations.is_empty() && self.faults.take(FaultKind::DevolucaoRefused) {
            violations.push(Violation::new("devolucao", REFUSED));
        }
        match (amount, description) {
            (Some(amount), Some(description)) if violations.is_empty() => {
                let id = id.to_owned();
                Ok(self.add_devolucao(now_ms, end_to_end_id, id, amount, Nature::Original, description))
            }
            _ => Err(Problem::invalid(KIND, violations)),
        }
    }

    fn add_devolucao(
        &mut self,
        now_ms: i64,
        end_to_end_id: &str,
        id: String,
        amount: Cents,
        nature: Nature,
        description: Option<String>,
    ) -> Value {
        let (settles_ms, transfer) = self.new_transfer(now_ms, id.clone(), amount, description);
        let rtr_id = transaction_id('D', now_ms, self.next_serial());
        let devolucao = Devolucao { rtr_id, nature, transfer };
        let answer = devolucao.json();
        if let Some(pix) = self.pix.get_mut(end_to_end_id) {
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

    pub(crate) fn get_devolucao(
        &self,
        now_ms: i64,
        client: usize,
        end_to_end_id: &str,
        id: &str,
    ) -> Result<Value> {
        self.own_pix(now_ms, client, end_to_end_id)?
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
        let left = self.pix.get(end_to_end_id).ok_or(MedError::UnknownPix)?.returnable();
        let amount = amount.or_else(|| Cents::new(left)).ok_or(MedError::InvalidAmount)?;
        if amount.get() == 0 || amount.get() > left {
            return Err(MedError::InvalidAmount);
        }
        let id = format!("med{}", self.next_serial());
        self.add_devolucao(now_ms, end_to_end_id, id.clone(), amount, Nature::Med(nature), None);
        Ok(id)
    }

    // Pix out.

    pub(crate) fn put_pix_out(
        &mut self,
        now_ms: i64,
        client: usize,
        id: &str,
        body: &Map<String, Value>,
    ) -> Result<Value> {
        const KIND: &str = "PixOutInvalido";
        let mut violations = Vec::new();
        let mut refuse = |property, reason: &str| violations.push(Violation::new(property, reason));
        if !is_alphanumeric(id, 1..=35) {
            refuse("pixOut.id", "O campo pixOut.id não respeita o schema.");
        }
        let amount = positive_amount(body);
        if amount.is_none() {
            refuse("pixOut.valor", "O campo pixOut.valor não respeita o schema.");
        }
        let key = body.get("chave").and_then(|key| text(key, 77)).filter(|key| !key.is_empty());
        if key.is_none() {
            refuse("pixOut.chave", "O campo pixOut.chave não respeita o schema.");
        }
        let description = description(body);
        if description.is_none() {
            refuse("pixOut.descricao", "O campo pixOut.descricao não respeita o schema.");
        }
        let is_new = !self.pix_out.contains_key(&(client, id.to_owned()));
        if violations.is_empty() && is_new && self.faults.take(FaultKind::DevolucaoRefused) {
            violations.push(Violation::new("pixOut", REFUSED));
        }
        let (Some(amount), Some(key), Some(description), true) =
            (amount, key, description, violations.is_empty())
        else {
            return Err(Problem::invalid(KIND, violations));
        };
        if let Some(known) = self.pix_out.get(&(client, id.to_owned())) {
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
        self.pix_out.insert((client, id.to_owned()), pix_out);
        self.schedule(settles_ms, Timer::SettlePixOut { client, id: id.to_owned() });
        Ok(answer)
    }

    pub(crate) fn get_pix_out(&self, client: usize, id: &str) -> Result<Value> {
        self.pix_out
            .get(&(client, id.to_owned()))
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
