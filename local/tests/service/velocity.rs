//! The velocity guard (contract: Errors, fraud guard), at the store: live keys have no acquirer yet.

use domain::account::VelocityLimits;
use domain::charge::transition::Command;
use domain::charge::{Charge, StoredCharge, TransactionStatus};
use domain::ids::{ChargeId, Mode, Scope};
use domain::tax_id::Document;
use domain::time::Timestamp;
use serde_json::json;
use shared::charge::{ChargeError, Charges};
use shared::http::Problem;
use shared::store::Inserted;

use crate::support::{Service, id};

const MARIA: &str = "29537995593";
const JOAO: &str = "25524893033";

/// Ten of a customer, as in a new account; of the account as many as there are tests for.
const LIMITS: VelocityLimits = VelocityLimits { per_customer: 10, per_account: 1_000 };

/// A merchant with a live key.
struct Merchant {
    service: Service,
    charges: Charges,
    now: Timestamp,
    pattern: Charge,
}

impl Merchant {
    async fn start() -> Self {
        let service = Service::start().await;
        let charges = Charges::new(service.store());
        let made = service.charge().await;
        let charge = charges.find(id(&made).parse::<ChargeId>().ok()).await.unwrap().unwrap();
        // In the middle of a minute.
        let now = service.stack.clock.now();
        let now = now.plus_seconds(30 - now.seconds() % 60).unwrap();
        let charge = charge.at(now);
        let scope = Scope { mode: Mode::Live, ..charge.scope };
        Self { charges, now, pattern: Charge { scope, created_at: now, ..charge }, service }
    }

    /// The live charge that an idempotency key stands for.
    fn charge(&self, key: &str, document: Option<&str>) -> Charge {
        let mut charge = self.pattern.clone();
        charge.id = ChargeId::derive(b"salt", Mode::Live, "charges", key);
        charge.customer.document = document.and_then(Document::parse);
        charge
    }

    async fn ask(
        &self,
        charge: &Charge,
        limits: VelocityLimits,
        at: Timestamp,
    ) -> Result<bool, &'static str> {
        asked(self.charges.insert_guarded(charge, limits, at).await)
    }

    async fn ask_for(&self, key: &str, document: &str) -> Result<bool, &'static str> {
        self.ask(&self.charge(key, Some(document)), LIMITS, self.now).await
    }

    /// Many at once; how many were made, and the codes of the others.
    async fn at_once(&self, charges: Vec<Charge>, limits: VelocityLimits) -> (usize, Vec<&'static str>) {
        let tasks: Vec<_> = charges
            .into_iter()
            .map(|charge| {
                let (charges, now) = (self.charges.clone(), self.now);
                tokio::spawn(async move { asked(charges.insert_guarded(&charge, limits, now).await) })
            })
            .collect();
        let (mut made, mut refused) = (0, Vec::new());
        for task in tasks {
            match task.await.unwrap() {
                Ok(_) => made += 1,
                Err(code) => refused.push(code),
            }
        }
        (made, refused)
    }
}

/// Whether it is new, or the code of its refusal.
fn asked(answer: Result<Inserted<StoredCharge>, ChargeError>) -> Result<bool, &'static str> {
    match answer {
        Ok(Inserted::New) => Ok(true),
        Ok(Inserted::Existing(_)) => Ok(false),
        Err(error) => {
            let problem = Problem::from(error);
            assert_eq!((problem.status().as_u16(), problem.kind()), (403, "permission_error"), "{problem:?}");
            Err(problem.code())
        }
    }
}

const CUSTOMER: &str = "fraud.customer_velocity_exceeded";
const ACCOUNT: &str = "fraud.account_velocity_exceeded";

#[tokio::test]
async fn of_a_hundred_charges_of_a_customer_at_once_ten_pass() {
    let merchant = Merchant::start().await;
    let charges: Vec<Charge> =
        (0..100).map(|order| merchant.charge(&format!("order-{order}"), Some(MARIA))).collect();
    let (made, refused) = merchant.at_once(charges.clone(), LIMITS).await;
    assert_eq!((made, refused.len()), (10, 90));
    assert!(refused.iter().all(|code| *code == CUSTOMER));
    // Replays are told from new ones: all again, and still the same ten.
    let (made, refused) = merchant.at_once(charges.clone(), LIMITS).await;
    assert_eq!((made, refused.len()), (10, 90));
    let mut there = 0;
    for charge in &charges {
        there += usize::from(merchant.charges.find(Some(charge.id)).await.unwrap().is_some());
    }
    assert_eq!(there, 10);
    // Others are asked as before: another customer, nobody by name, test data.
    assert_eq!(merchant.ask_for("other-1", JOAO).await, Ok(true));
    let unnamed = merchant.charge("other-2", None);
    assert_eq!(merchant.ask(&unnamed, LIMITS, merchant.now).await, Ok(true));
    let customer = json!({"amount": 1000, "customer": {"document": MARIA}});
    for _ in 0..12 {
        merchant.service.charge_of(&customer).await;
    }
}

#[tokio::test]
async fn of_a_hundred_charges_of_an_account_at_once_as_many_pass_as_may() {
    let merchant = Merchant::start().await;
    let limits = VelocityLimits { per_account: 10, ..LIMITS };
    let charges: Vec<Charge> =
        (0..100).map(|order| merchant.charge(&format!("order-{order}"), None)).collect();
    let (made, refused) = merchant.at_once(charges.clone(), limits).await;
    assert_eq!((made, refused.len()), (10, 90));
    assert!(refused.iter().all(|code| *code == ACCOUNT));
    // A replay is never refused, and takes no place in the minute after.
    let (made, _) = merchant.at_once(charges.clone(), limits).await;
    assert_eq!(made, 10);
    let minute_after = merchant.now.plus_seconds(60).unwrap();
    let mut replayed = None;
    for charge in &charges {
        replayed = replayed.or(merchant.charges.find(Some(charge.id)).await.unwrap());
    }
    // As the merchant asks again: the same request, at another time.
    let replayed = Charge { created_at: minute_after, ..replayed.unwrap().at(minute_after) };
    for _ in 0..20 {
        assert_eq!(merchant.ask(&replayed, limits, minute_after).await, Ok(false));
    }
    for order in 0..10 {
        let new = merchant.charge(&format!("later-{order}"), None);
        assert_eq!(merchant.ask(&new, limits, minute_after).await, Ok(true), "{order}");
    }
}

#[tokio::test]
async fn a_charge_that_expires_or_is_cancelled_gives_its_place_back() {
    let merchant = Merchant::start().await;
    let limits = VelocityLimits { per_customer: 2, per_account: 2 };
    let ask = async |key: &str| merchant.ask(&merchant.charge(key, Some(MARIA)), limits, merchant.now).await;
    assert_eq!((ask("first").await, ask("second").await), (Ok(true), Ok(true)));
    assert_eq!(ask("third").await, Err(ACCOUNT));
    let end = async |key: &str, command: Command| {
        let charge = merchant.charges.find(Some(merchant.charge(key, None).id)).await.unwrap().unwrap();
        merchant.charges.apply(charge, &command, merchant.now).await.unwrap().status
    };
    assert_eq!(end("first", Command::Cancel).await, TransactionStatus::Cancelled);
    assert_eq!(ask("third").await, Ok(true));
    assert_eq!(ask("fourth").await, Err(ACCOUNT));
    assert_eq!(end("second", Command::Expire { at: merchant.now }).await, TransactionStatus::Expired);
    // Told again, it gives nothing back again.
    assert_eq!(end("second", Command::Expire { at: merchant.now }).await, TransactionStatus::Expired);
    assert_eq!((ask("fourth").await, ask("fifth").await), (Ok(true), Err(ACCOUNT)));
    let decline = Command::Decline { reason: "no".to_owned(), code: "refused".to_owned() };
    assert_eq!(end("third", decline).await, TransactionStatus::Refused);
    assert_eq!(ask("fifth").await, Err(ACCOUNT), "a declined charge was an attempt");
    // The minute after it is the customer's turn.
    let later = merchant.now.plus_seconds(60).unwrap();
    let fifth = merchant.charge("fifth", Some(MARIA));
    assert_eq!(merchant.ask(&fifth, limits, later).await, Err(CUSTOMER));
    assert_eq!(merchant.ask(&merchant.charge("sixth", Some(JOAO)), limits, later).await, Ok(true));
    assert_eq!(merchant.ask(&merchant.charge("seventh", Some(JOAO)), limits, later).await, Ok(true));
    let ten_minutes_on = merchant.now.plus_seconds(600).unwrap();
    assert_eq!(merchant.ask(&fifth, limits, ten_minutes_on).await, Ok(true));
}
