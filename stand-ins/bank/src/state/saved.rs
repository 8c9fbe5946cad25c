//! The part of the state that survives a restart: all tables and the serial number, but no token and no
//! fault.

use serde::{Deserialize, Serialize};

use super::State;
use super::table::Row;
use super::timers::{Callback, Timer};
use super::webhooks::Webhook;
use crate::cob::Cob;
use crate::pix::{Pix, PixOut};

/// What one operation changed, as the books store it. Tables without a change are left out.
#[derive(Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Changes {
    #[serde(skip_serializing_if = "Option::is_none")]
    serial: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cobs: Vec<Row<(usize, String), Cob>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pix: Vec<Row<String, Pix>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pix_out: Vec<Row<(usize, String), PixOut>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    webhooks: Vec<Row<String, Webhook>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    timers: Vec<Row<(i64, u64), Timer>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outbox: Vec<Row<u64, Callback>>,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl State {
    /// Returns what changed since the last call.
    pub(crate) fn take_changes(&mut self) -> Changes {
        // Every field is named, so that a new one can't be forgotten.
        let Self {
            serial,
            saved_serial,
            cobs,
            pix,
            pix_out,
            webhooks,
            timers,
            outbox,
            // Not saved. `unsent` follows from the outbox.
            seed: _,
            behaviour: _,
            clients: _,
            faults: _,
            tokens: _,
            unsent: _,
        } = self;
        let is_new = serial != saved_serial;
        *saved_serial = *serial;
        Changes {
            serial: is_new.then_some(*serial),
            cobs: cobs.take_changes(),
            pix: pix.take_changes(),
            pix_out: pix_out.take_changes(),
            webhooks: webhooks.take_changes(),
            timers: timers.take_changes(),
            outbox: outbox.take_changes(),
        }
    }

    /// Restores changes that were saved. Changes must be restored in the order in which they were saved.
    pub(crate) fn restore(&mut self, saved: Changes) {
        if let Some(serial) = saved.serial {
            (self.serial, self.saved_serial) = (serial, serial);
        }
        self.cobs.restore(saved.cobs);
        self.pix.restore(saved.pix);
        self.pix_out.restore(saved.pix_out);
        self.webhooks.restore(saved.webhooks);
        self.timers.restore(saved.timers);
        self.outbox.restore(saved.outbox);
        // A callback that was being sent is sent again: its answer is unknown.
        self.unsent = self.outbox.keys().copied().collect();
    }

    /// Returns changes that lead from an empty state to this one. Each has one row, so that none is large.
    pub(crate) fn all_rows(&self) -> impl Iterator<Item = Changes> {
        fn saved<K: Clone, V: Clone>((key, row): (&K, &V)) -> Vec<Row<K, V>> {
            vec![(key.clone(), Some(row.clone()))]
        }
        let serial = Changes { serial: Some(self.serial), ..Changes::default() };
        std::iter::once(serial)
            .chain(self.cobs.iter().map(|row| Changes { cobs: saved(row), ..Changes::default() }))
            .chain(self.pix.iter().map(|row| Changes { pix: saved(row), ..Changes::default() }))
            .chain(self.pix_out.iter().map(|row| Changes { pix_out: saved(row), ..Changes::default() }))
            .chain(self.webhooks.iter().map(|row| Changes { webhooks: saved(row), ..Changes::default() }))
            .chain(self.timers.iter().map(|row| Changes { timers: saved(row), ..Changes::default() }))
            .chain(self.outbox.iter().map(|row| Changes { outbox: saved(row), ..Changes::default() }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Client;
    use crate::fault::FaultKind;
    use crate::profile::Profile;
    use crate::state::{PayRequest, ReportedTxid};
    use crate::values::{Cents, mix};

    const KEYS: [&str; 2] = ["loja", "+5511999990000"];
    const STEPS: u64 = 400;

    fn empty(seed: u64, profile: Profile) -> State {
        let client = |number: usize, keys: &[&str]| Client {
            client_id: format!("client-{number}"),
            client_secret: "secret".to_owned(),
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            name: "Loja de Testes".to_owned(),
            city: "Sao Paulo".to_owned(),
            cnpj: "12ABC34501DE35".to_owned(),
        };
        State::new(seed, profile.behaviour(), vec![client(0, &KEYS), client(1, &["outra"])])
    }

    /// Saves changes as the books do, and reads them again.
    fn saved(changes: &Changes) -> Changes {
        serde_json::from_slice(&serde_json::to_vec(changes).unwrap()).unwrap()
    }

    fn assert_same(left: &State, right: &State, seed: u64, step: u64) {
        let is_same = left.serial == right.serial
            && left.cobs.iter().eq(right.cobs.iter())
            && left.pix.iter().eq(right.pix.iter())
            && left.pix_out.iter().eq(right.pix_out.iter())
            && left.webhooks.iter().eq(right.webhooks.iter())
            && left.timers.iter().eq(right.timers.iter())
            && left.outbox.iter().eq(right.outbox.iter());
        assert!(is_same, "the states differ; seed {seed}, step {step}");
    }

    /// A generator of pseudo-random numbers.
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: usize) -> usize {
            self.0 = mix(self.0);
            usize::try_from(self.0).unwrap().checked_rem(limit).unwrap()
        }

        fn is_rare(&mut self) -> bool {
            self.below(8) == 0
        }
    }

    /// A bank's state that operations at random change.
    struct Run {
        state: State,
        random: Random,
        now_ms: i64,
        sending: Vec<u64>,
    }

    impl Run {
        /// Executes an operation. Its refusal is an outcome too.
        fn step(&mut self) {
            let pause_ms = i64::try_from(self.random.below(1_200)).unwrap();
            self.now_ms = self.now_ms.saturating_add(pause_ms);
            let now_ms = self.now_ms;
            self.state.run_timers(now_ms);
            if self.random.is_rare() {
                let kind = FaultKind::ALL[self.random.below(FaultKind::ALL.len())];
                self.state.faults.inject(kind, 1);
            }
            let client = self.random.below(2);
            let number = self.random.below(40);
            let txid = format!("charge{number:026}");
            let value = json!(format!("{}.{:02}", self.random.below(30), self.random.below(100)));
            let body = |body: Value| body.as_object().unwrap().clone();
            match self.random.below(12) {
                0 | 1 => {
                    let key = if client == 0 { KEYS[self.random.below(2)] } else { "outra" };
                    let mut cob = body(json!({
                        "calendario": {"expiracao": 60}, "valor": {"original": value}, "chave": key,
                        "devedor": {"cnpj": "12ABC34501DE35", "nome": "Loja \"A\"\n"},
                        "infoAdicionais": [{"nome": "Pedido", "valor": "1"}],
                    }));
                    if self.random.is_rare() {
                        cob.remove("devedor");
                    }
                    let _ = self.state.put_cob(now_ms, client, &txid, &cob);
                }
                2 => {
                    let patch = if self.random.is_rare() {
                        json!({"status": "REMOVIDA_PELO_USUARIO_RECEBEDOR"})
                    } else {
                        json!({"valor": {"original": value}})
                    };
                    let _ = self.state.patch_cob(client, &txid, &body(patch));
                }
                3 | 4 => {
                    let reported_txid = match self.random.below(4) {
                        0 => ReportedTxid::Missing,
                        1 => ReportedTxid::Other("foreign".to_owned()),
                        _ => ReportedTxid::OfTheCob,
                    };
                    let visible_after_ms = if self.random.is_rare() { 2_000 } else { 0 };
                    let again = self.random.is_rare();
                    let request =
                        PayRequest { txid, reported_txid, again, visible_after_ms, ..PayRequest::default() };
                    let _ = self.state.pay(now_ms, &request);
                }
                5 | 6 => {
                    if let Some(id) = self.any_pix() {
                        let owner = self.state.pix.get(&id).unwrap().client;
                        let request = body(json!({"valor": value, "descricao": "Devolução"}));
                        let name = format!("return{number}");
                        let _ = self.state.put_devolucao(now_ms, owner, (&id, &name), &request);
                    }
                }
                7 => {
                    if let Some(id) = self.any_pix() {
                        let nature = crate::MedNature::Operational;
                        let _ = self.state.return_by_med(now_ms, &id, Cents::new(1), nature);
                    }
                }
                8 => {
                    let request = body(json!({"valor": value, "chave": "maria@example.com"}));
                    let _ = self.state.put_pix_out(now_ms, client, &format!("out{number}"), &request);
                }
                9 => {
                    let key = KEYS[self.random.below(2)];
                    if self.random.is_rare() {
                        let _ = self.state.delete_webhook(0, key);
                    } else {
                        let url = json!({"webhookUrl": format!("http://loja.example/{number}")});
                        self.state.put_webhook(now_ms, key, &body(url));
                    }
                }
                10 => {
                    let credentials = ("client-0", "secret");
                    self.state.issue_token(now_ms, credentials, None, None).unwrap();
                }
                _ => {
                    self.sending.extend(self.state.next_callback().map(|(number, _)| number));
                    if !self.sending.is_empty() {
                        let index = self.random.below(self.sending.len());
                        let number = self.sending.swap_remove(index);
                        self.state.end_callback(now_ms, number, self.random.is_rare());
                    }
                }
            }
        }

        fn any_pix(&mut self) -> Option<String> {
            let known: Vec<String> = self.state.pix.keys().cloned().collect();
            (!known.is_empty()).then(|| known[self.random.below(known.len())].clone())
        }
    }

    #[test]
    fn saved_changes_restore_the_state_after_every_operation() {
        for (seed, profile) in (1..).zip(Profile::ALL) {
            let mut run = Run {
                state: empty(seed, *profile),
                random: Random(seed),
                now_ms: 1_795_348_800_000,
                sending: Vec::new(),
            };
            let mut restored = empty(seed, *profile);
            let mut filled = [false; 6];
            for step in 0..STEPS {
                run.step();
                let changes = run.state.take_changes();
                let Changes { serial: _, cobs, pix, pix_out, webhooks, timers, outbox } = &changes;
                let counts =
                    [cobs.len(), pix.len(), pix_out.len(), webhooks.len(), timers.len(), outbox.len()];
                for (is_filled, count) in filled.iter_mut().zip(counts) {
                    *is_filled |= count > 0;
                }
                restored.restore(saved(&changes));
                assert_same(&restored, &run.state, seed, step);
                assert!(run.state.take_changes().is_empty());
                if run.random.is_rare() {
                    // The bank restarts: the file is rewritten. What was being sent is sent again.
                    let mut rewritten = empty(seed, *profile);
                    for changes in restored.all_rows() {
                        rewritten.restore(saved(&changes));
                    }
                    assert_same(&rewritten, &restored, seed, step);
                    assert_eq!(rewritten.unsent.len(), rewritten.outbox.keys().count());
                    assert!(rewritten.take_changes().is_empty());
                    run.state = rewritten;
                    run.sending.clear();
                }
            }
            assert_eq!(filled, [true; 6], "a table stayed empty; seed {seed}");
        }
    }
}
