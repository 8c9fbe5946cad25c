//! Compares the bank's books with what merchant and operator see. It has its own logic and shares none with
//! the reconciliation of the service.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::world::{Charge, Pix, Refund, Transfer, World};

/// Where the money of a Pix is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Outcome {
    /// It was credited to a charge.
    Credited,
    /// It is back with its payer.
    Returned,
    /// It is held for review.
    Held,
    /// It is listed as unapplied.
    Unapplied,
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Credited => "credited",
            Self::Returned => "returned",
            Self::Held => "held for review",
            Self::Unapplied => "listed as unapplied",
        })
    }
}

/// Counts for the final table, by a name.
pub type Counts = BTreeMap<String, u64>;

/// The result of the comparison.
#[derive(Debug, Default)]
pub struct Findings {
    /// What must not be.
    pub violations: Vec<String>,
    /// The outcome of each Pix, by end-to-end id.
    pub outcomes: BTreeMap<String, Outcome>,
    /// Charges by status.
    pub charges: Counts,
    /// Pix by outcome.
    pub pix: Counts,
    /// Devoluções by nature and status.
    pub returns: Counts,
    /// Pix that were sent, by status.
    pub sent: Counts,
    /// Refunds by strategy and status.
    pub refunds: Counts,
}

fn count(counts: &mut Counts, name: impl fmt::Display) {
    let count = counts.entry(name.to_string()).or_default();
    *count = count.saturating_add(1);
}

fn sum(amounts: impl Iterator<Item = i64>) -> i64 {
    amounts.fold(0, i64::saturating_add)
}

/// Compares everything.
pub fn verify(world: &World) -> Findings {
    let mut findings = Findings::default();
    charges(world, &mut findings);
    let recorded = Recorded::of(world);
    for pix in &world.books.pix {
        classify(&recorded, pix, &mut findings);
    }
    listed_payments(world, &mut findings);
    settlements(world, &mut findings);
    refunds(world, &mut findings);
    sent(world, &mut findings);
    money(world, &mut findings);
    payer_lock(world, &mut findings);
    events(world, &mut findings);
    findings
}

/// One charge for each idempotency key, and one cob for each charge.
fn charges(world: &World, findings: &mut Findings) {
    let violations = &mut findings.violations;
    let mut listed: BTreeMap<&str, &Charge> = BTreeMap::new();
    for charge in &world.charges {
        count(&mut findings.charges, &charge.status);
        if listed.insert(&charge.id, charge).is_some() {
            violations.push(format!("charge {} is listed twice", charge.id));
        }
        if charge.status == "pending" {
            violations.push(format!("charge {} is still pending", charge.id));
        }
    }
    let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
    for (key, ids) in &world.created {
        if ids.len() != 1 {
            violations.push(format!("the idempotency key {key} created {} charges", ids.len()));
        }
        for id in ids {
            if let Some(other) = owners.insert(id, key) {
                violations.push(format!("the keys {key} and {other} created the same charge {id}"));
            }
            if !listed.contains_key(id.as_str()) {
                violations.push(format!("charge {id} of {key} is not listed"));
            }
        }
    }
    for id in listed.keys().filter(|id| !owners.contains_key(**id)) {
        violations.push(format!("charge {id} is listed, and no request created it"));
    }
    let mut cobs: BTreeMap<&str, u64> = BTreeMap::new();
    let by_txid: BTreeMap<&str, &Charge> =
        world.charges.iter().filter_map(|charge| Some((charge.txid.as_deref()?, charge))).collect();
    for cob in &world.books.cobs {
        let copies = cobs.entry(&cob.txid).or_default();
        *copies = copies.saturating_add(1);
        match by_txid.get(cob.txid.as_str()) {
            Some(charge) if charge.amount == cob.amount => {}
            Some(charge) => {
                violations.push(format!("the cob {} has another amount than {}", cob.txid, charge.id));
            }
            // `admin accounts check-acquirer` tries the Pix key by a cob of one centavo, and removes it.
            None if (cob.amount, cob.status.as_str()) == (1, "REMOVIDA_PELO_USUARIO_RECEBEDOR") => {}
            None => violations.push(format!("the cob {} belongs to no charge", cob.txid)),
        }
        if cob.status == "ATIVA" {
            violations.push(format!("the cob {} can still be paid", cob.txid));
        }
    }
    for (txid, copies) in cobs.iter().filter(|(_, copies)| **copies > 1) {
        violations.push(format!("the bank has {copies} cobs {txid}"));
    }
}

/// What the service shows of each Pix: outcomes with amounts, by end-to-end id.
struct Recorded<'a>(BTreeMap<&'a str, Vec<(Outcome, i64)>>);

impl<'a> Recorded<'a> {
    fn of(world: &'a World) -> Self {
        let credited = world
            .charges
            .iter()
            .filter_map(|charge| Some((charge.credited.as_deref()?, Outcome::Credited, charge.amount)));
        let held = world.held.iter().map(|held| (held.id.as_str(), Outcome::Held, held.amount));
        let listed =
            world.unapplied.iter().map(|listed| (listed.id.as_str(), Outcome::Unapplied, listed.amount));
        let mut found: BTreeMap<&str, Vec<(Outcome, i64)>> = BTreeMap::new();
        for (id, outcome, amount) in credited.chain(held).chain(listed) {
            found.entry(id).or_default().push((outcome, amount));
        }
        Self(found)
    }
}

/// Each Pix has exactly one outcome.
fn classify(recorded: &Recorded<'_>, pix: &Pix, findings: &mut Findings) {
    let id = pix.id.as_str();
    let mut found = recorded.0.get(id).cloned().unwrap_or_default();
    let is_credited = found.iter().any(|(outcome, _)| *outcome == Outcome::Credited);
    let returned = sum(pix.returns.iter().filter(|item| item.is_executed()).map(|item| item.amount));
    if !is_credited && returned > 0 {
        found.push((Outcome::Returned, returned));
    }
    for item in &pix.returns {
        count(&mut findings.returns, format!("{} {}", item.nature, item.status));
        if item.is_open() {
            findings.violations.push(format!("the devolução {} of Pix {id} is not final", item.id));
        }
    }
    match found.as_slice() {
        [(outcome, amount)] => {
            if *amount != pix.amount {
                let text = format!("Pix {id} of {} is {outcome} with {amount}", pix.amount);
                findings.violations.push(text);
            }
            count(&mut findings.pix, outcome);
            findings.outcomes.insert(pix.id.clone(), *outcome);
        }
        [] => findings.violations.push(format!("Pix {id} of {} is nowhere", pix.amount)),
        several => {
            let names: Vec<String> = several.iter().map(|(outcome, _)| outcome.to_string()).collect();
            let natures: BTreeSet<&str> = pix.returns.iter().map(|item| item.nature.as_str()).collect();
            let text =
                format!("Pix {id} of {} is {}; devoluções: {natures:?}", pix.amount, names.join(" and "));
            findings.violations.push(text);
        }
    }
}

/// Nothing is credited, held or listed that the bank did not receive.
fn listed_payments(world: &World, findings: &mut Findings) {
    let known: BTreeSet<&str> = world.books.pix.iter().map(|pix| pix.id.as_str()).collect();
    let credited = world.charges.iter().filter_map(|charge| charge.credited.as_ref());
    let listed = world.held.iter().chain(&world.unapplied).map(|waiting| &waiting.id);
    for id in credited.chain(listed).filter(|id| !known.contains(id.as_str())) {
        findings.violations.push(format!("Pix {id} is recorded, and the bank did not receive it"));
    }
}

/// Each credited charge has one settlement in the statement, and no other charge has one.
fn settlements(world: &World, findings: &mut Findings) {
    let mut by_charge: BTreeMap<&str, Vec<(i64, i64, i64)>> = BTreeMap::new();
    for movement in world.movements.iter().filter(|movement| movement.kind == "settlement") {
        let charge = movement.charge.as_deref().unwrap_or_default();
        by_charge.entry(charge).or_default().push((movement.amount, movement.fee, movement.net));
    }
    for charge in world.charges.iter().filter(|charge| charge.credited.is_some()) {
        let expected = (charge.amount, world.payment_fee, charge.amount.saturating_sub(world.payment_fee));
        let found = by_charge.remove(charge.id.as_str()).unwrap_or_default();
        if found != [expected] {
            let text = format!("charge {} has the settlements {found:?}, not {expected:?}", charge.id);
            findings.violations.push(text);
        }
    }
    for (charge, found) in by_charge {
        findings.violations.push(format!("charge {charge} is not paid and has the settlements {found:?}"));
    }
    let ids: BTreeSet<&str> = world.movements.iter().map(|movement| movement.id.as_str()).collect();
    if ids.len() != world.movements.len() {
        findings.violations.push("the statement lists a movement twice".to_owned());
    }
}

fn executed_amounts<'a>(transfers: impl Iterator<Item = &'a Transfer>) -> Vec<i64> {
    let mut amounts: Vec<i64> = transfers.filter(|item| item.is_executed()).map(|item| item.amount).collect();
    amounts.sort_unstable();
    amounts
}

/// The devoluções of a charge's Pix are its refunds by devolução and its losses by MED, and the statement has
/// what is left of the charge.
fn refunds(world: &World, findings: &mut Findings) {
    let mut by_charge: BTreeMap<&str, Vec<&Refund>> = BTreeMap::new();
    for refund in &world.refunds {
        let strategy = if refund.is_devolution { "devolution" } else { "cashout" };
        count(&mut findings.refunds, format!("{strategy} {}", refund.status));
        if refund.is_open() {
            findings.violations.push(format!("refund {} of {} is not final", refund.id, refund.charge));
        }
        by_charge.entry(&refund.charge).or_default().push(refund);
    }
    let mut nets: BTreeMap<&str, i64> = BTreeMap::new();
    for movement in &world.movements {
        let net = nets.entry(movement.charge.as_deref().unwrap_or_default()).or_default();
        *net = net.saturating_add(movement.net);
    }
    let pix: BTreeMap<&str, &Pix> = world.books.pix.iter().map(|pix| (pix.id.as_str(), pix)).collect();
    for charge in &world.charges {
        let returns = charge.credited.as_deref().and_then(|id| pix.get(id)).map(|pix| pix.returns.as_slice());
        let returns = returns.unwrap_or_default();
        let at_bank = executed_amounts(returns.iter().filter(|item| !item.is_med()));
        let refunds = by_charge.get(charge.id.as_str()).map(Vec::as_slice).unwrap_or_default();
        let completed = refunds.iter().filter(|refund| refund.is_devolution && refund.status == "REFUNDED");
        let mut completed: Vec<i64> = completed.map(|refund| refund.amount).collect();
        completed.sort_unstable();
        if at_bank != completed {
            let text = format!(
                "charge {}: the bank returned {at_bank:?}, refunds completed {completed:?}",
                charge.id
            );
            findings.violations.push(text);
        }
        // The rest are losses by MED, which the statement shows in several kinds of movements.
        let executed = sum(executed_amounts(returns.iter()).into_iter());
        let cash_outs = refunds.iter().filter(|refund| !refund.is_devolution && refund.status == "REFUNDED");
        let sent = sum(cash_outs.map(|refund| refund.amount.saturating_add(fee_of(world, refund))));
        let credited = if charge.credited.is_some() { charge.amount } else { 0 };
        let fee = if charge.credited.is_some() { world.payment_fee } else { 0 };
        let expected = credited.saturating_sub(fee).saturating_sub(executed).saturating_sub(sent);
        let net = nets.remove(charge.id.as_str()).unwrap_or_default();
        if net != expected {
            let text = format!(
                "charge {}: {credited} credited, {executed} returned by the bank, {sent} sent; the statement has {net}, not {expected}",
                charge.id
            );
            findings.violations.push(text);
        }
    }
    for (charge, net) in nets.into_iter().filter(|(_, net)| *net != 0) {
        findings.violations.push(format!("the statement has {net} of the unknown charge {charge:?}"));
    }
}

/// The fee of a refund that the merchant bears.
fn fee_of(world: &World, refund: &Refund) -> i64 {
    let passes_fee = world.requested.get(&refund.id).is_some_and(|request| request.passes_fee);
    if passes_fee { world.pix_out_fee } else { 0 }
}

/// Each Pix that was sent is a completed cash-out, to the key that the request named.
fn sent(world: &World, findings: &mut Findings) {
    let mut at_bank: BTreeMap<(String, i64), i64> = BTreeMap::new();
    for transfer in &world.books.sent {
        count(&mut findings.sent, &transfer.status);
        if transfer.is_open() {
            findings.violations.push(format!("the Pix out {} is not final", transfer.id));
        }
        if transfer.is_executed() {
            let copies = at_bank.entry((transfer.key.clone(), transfer.amount)).or_default();
            *copies = copies.saturating_add(1);
        }
    }
    let payers: BTreeMap<&str, Option<&String>> =
        world.books.pix.iter().map(|pix| (pix.id.as_str(), pix.payer.as_ref())).collect();
    let charges: BTreeMap<&str, &Charge> =
        world.charges.iter().map(|charge| (charge.id.as_str(), charge)).collect();
    // A payment by another payer than the expected one is credited only if the bank confirmed the expected one.
    let payer_of = |charge: &str| {
        let charge = charges.get(charge)?;
        let reported = || payers.get(charge.credited.as_deref()?).copied().flatten().cloned();
        charge.expected_payer.clone().or_else(reported)
    };
    for refund in world.refunds.iter().filter(|refund| !refund.is_devolution && refund.status == "REFUNDED") {
        let named = world.requested.get(&refund.id).and_then(|request| request.destination.clone());
        let Some(key) = named.or_else(|| payer_of(&refund.charge)) else {
            findings.violations.push(format!("cash-out {} was completed without a key", refund.id));
            continue;
        };
        let copies = at_bank.entry((key, refund.amount)).or_default();
        *copies = copies.saturating_sub(1);
    }
    for ((key, amount), copies) in at_bank.into_iter().filter(|(_, copies)| *copies != 0) {
        let text = format!(
            "to the key {key}: the bank sent {copies} more Pix of {amount} than there are completed cash-outs"
        );
        findings.violations.push(text);
    }
}

/// The balance is what the bank received for charges, less what left the account and the fees.
fn money(world: &World, findings: &mut Findings) {
    let statement = sum(world.movements.iter().map(|movement| movement.net));
    if statement != world.balance {
        let text = format!("the statement adds up to {statement}, the balance is {}", world.balance);
        findings.violations.push(text);
    }
    let is_credited = |pix: &&Pix| findings.outcomes.get(&pix.id) == Some(&Outcome::Credited);
    let credited: Vec<&Pix> = world.books.pix.iter().filter(is_credited).collect();
    let received = sum(credited.iter().map(|pix| pix.amount.saturating_sub(world.payment_fee)));
    let returned = sum(executed_amounts(credited.iter().flat_map(|pix| &pix.returns)).into_iter());
    let sent = sum(executed_amounts(world.books.sent.iter()).into_iter());
    let completed = world.refunds.iter().filter(|refund| refund.status == "REFUNDED");
    let fees = sum(completed.map(|refund| fee_of(world, refund)));
    let expected = received.saturating_sub(returned).saturating_sub(sent).saturating_sub(fees);
    if expected != world.balance {
        let text = format!(
            "the balance is {}, and the bank's books lead to {expected}: {received} received less fees, {returned} returned, {sent} sent, {fees} fees of cash-outs",
            world.balance
        );
        findings.violations.push(text);
    }
}

/// A payment by another payer than the expected one is credited only by an operator, or if the bank ignored
/// the filter by payer.
fn payer_lock(world: &World, findings: &mut Findings) {
    let pix: BTreeMap<&str, &Pix> = world.books.pix.iter().map(|pix| (pix.id.as_str(), pix)).collect();
    let wrong = world.charges.iter().filter(|charge| {
        let payer = charge.credited.as_deref().and_then(|id| pix.get(id)).and_then(|pix| pix.payer.as_ref());
        charge.expected_payer.is_some()
            && charge.credited.is_some()
            && charge.expected_payer.as_ref() != payer
            && !world.accepted.contains(&charge.id)
    });
    let wrong: Vec<&str> = wrong.map(|charge| charge.id.as_str()).collect();
    if u64::try_from(wrong.len()).unwrap_or(u64::MAX) > world.ignored_filters {
        findings
            .violations
            .push(format!("charges that another payer paid were credited: {}", wrong.join(", ")));
    }
}

/// The merchant received an event for each credited charge, and for no other charge.
fn events(world: &World, findings: &mut Findings) {
    for charge in &world.charges {
        match (charge.credited.is_some(), world.events.contains_key(&charge.id)) {
            (true, false) => {
                findings.violations.push(format!("no charge.paid was received for {}", charge.id));
            }
            (false, true) => {
                findings
                    .violations
                    .push(format!("charge.paid was received for {}, which is not paid", charge.id));
            }
            (true, true) | (false, false) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{Books, Cob, Movement, RequestedRefund, Waiting};

    fn transfer(amount: i64, status: &str, nature: &str, key: &str) -> Transfer {
        let text = str::to_owned;
        let id = format!("{nature}{amount}");
        Transfer { id, amount, status: text(status), nature: text(nature), key: text(key), settled_at: None }
    }

    fn pix(id: &str, amount: i64, returns: Vec<Transfer>) -> Pix {
        let payer = Some("payer".to_owned());
        Pix { id: id.to_owned(), cob: None, amount, payer, at: String::new(), returns }
    }

    fn waiting(id: &str, amount: i64) -> Waiting {
        Waiting { id: id.to_owned(), amount, state: String::new(), charge: None }
    }

    fn movement(kind: &str, amount: i64, fee: i64, net: i64) -> Movement {
        let (id, charge) = (format!("{kind}{amount}"), Some("ch_1".to_owned()));
        Movement { id, kind: kind.to_owned(), amount, fee, net, charge }
    }

    fn refund(id: &str, amount: i64, is_devolution: bool) -> Refund {
        Refund {
            id: id.to_owned(),
            charge: "ch_1".to_owned(),
            amount,
            status: "REFUNDED".to_owned(),
            is_devolution,
        }
    }

    /// A charge that was credited, refunded both ways and lost a part by MED. Three other Pix are returned,
    /// held and unapplied.
    fn good() -> World {
        let charge = Charge {
            id: "ch_1".to_owned(),
            status: "paid".to_owned(),
            amount: 1000,
            txid: Some("t1".to_owned()),
            credited: Some("E1".to_owned()),
            expected_payer: Some("payer".to_owned()),
        };
        let returns = vec![
            transfer(100, "DEVOLVIDO", "ORIGINAL", ""),
            transfer(50, "DEVOLVIDO", "MED_FRAUDE", ""),
            transfer(30, "NAO_REALIZADO", "ORIGINAL", ""),
        ];
        World {
            books: Books {
                cobs: vec![Cob { txid: "t1".to_owned(), amount: 1000, status: "CONCLUIDA".to_owned() }],
                pix: vec![
                    pix("E1", 1000, returns),
                    pix("E2", 7, vec![transfer(7, "DEVOLVIDO", "ORIGINAL", "")]),
                    pix("E3", 8, Vec::new()),
                    pix("E4", 9, Vec::new()),
                ],
                sent: vec![transfer(200, "REALIZADO", "", "payer")],
            },
            charges: vec![charge],
            created: BTreeMap::from([("key".to_owned(), BTreeSet::from(["ch_1".to_owned()]))]),
            refunds: vec![refund("re_1", 100, true), refund("re_2", 200, false)],
            requested: BTreeMap::from([(
                "re_2".to_owned(),
                RequestedRefund { destination: None, passes_fee: true },
            )]),
            movements: vec![
                movement("settlement", 1000, 10, 990),
                movement("refund", 100, 0, -100),
                movement("refund", 200, 3, -203),
                movement("case_lost", 50, 0, -50),
            ],
            balance: 637,
            unapplied: vec![waiting("E4", 9)],
            held: vec![waiting("E3", 8)],
            events: BTreeMap::from([("ch_1".to_owned(), 2)]),
            payment_fee: 10,
            pix_out_fee: 3,
            ignored_filters: 0,
            accepted: BTreeSet::new(),
        }
    }

    #[test]
    fn a_consistent_world_has_no_violations() {
        let findings = verify(&good());
        assert_eq!(findings.violations, Vec::<String>::new());
        assert_eq!(
            findings.outcomes.into_values().collect::<Vec<_>>(),
            [Outcome::Credited, Outcome::Returned, Outcome::Held, Outcome::Unapplied]
        );
    }

    #[test]
    fn each_kind_of_damage_is_a_violation() {
        type Damage = (&'static str, fn(&mut World));
        let damages: [Damage; 22] = [
            ("E4 of 9 is nowhere", |world| world.unapplied.clear()),
            ("E3 of 8 is nowhere", |world| world.held.clear()),
            ("E3 of 8 is held for review and listed as unapplied", |world| {
                world.unapplied.push(waiting("E3", 8));
            }),
            ("E4 of 9 is listed as unapplied with 10", |world| world.unapplied[0].amount = 10),
            ("E9 is recorded", |world| world.unapplied.push(waiting("E9", 8))),
            ("E2 of 7 is returned with 6", |world| world.books.pix[1].returns[0].amount = 6),
            ("is not final", |world| world.books.pix[1].returns[0].status = "EM_PROCESSAMENTO".to_owned()),
            ("the bank returned [100], refunds completed []", |world| {
                world.refunds[0].status = "FAILED".to_owned();
            }),
            ("the bank returned [100], refunds completed [100, 100]", |world| {
                world.refunds.push(refund("re_3", 100, true));
            }),
            ("refund re_1 of ch_1 is not final", |world| world.refunds[0].status = "PENDING".to_owned()),
            ("the statement has 647, not 637", |world| world.movements[3].net = -40),
            ("1 more Pix of 200", |world| world.books.sent.push(transfer(200, "REALIZADO", "", "payer"))),
            ("-1 more Pix of 200", |world| world.books.sent.clear()),
            ("the statement adds up to 637", |world| world.balance = 638),
            ("the bank's books lead to 637", |world| {
                world.balance = 636;
                world.movements[0].net = 989;
            }),
            ("has the settlements []", |world| world.movements[0].charge = None),
            ("created 2 charges", |world| {
                world.created.entry("key".to_owned()).or_default().insert("ch_2".to_owned());
            }),
            ("no request created it", |world| world.created.clear()),
            ("belongs to no charge", |world| world.charges[0].txid = None),
            ("has 2 cobs t1", |world| {
                let cob = world.books.cobs[0].clone();
                world.books.cobs.push(cob);
            }),
            ("another payer paid", |world| world.charges[0].expected_payer = Some("other".to_owned())),
            ("no charge.paid was received", |world| world.events.clear()),
        ];
        for (expected, damage) in damages {
            let mut world = good();
            damage(&mut world);
            let violations = verify(&world).violations;
            assert!(violations.iter().any(|text| text.contains(expected)), "{expected}: {violations:?}");
        }
    }
}
