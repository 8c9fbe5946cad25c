//! Tests of the velocity guard. They call the store directly.

use domain::account::VelocityLimits;
use domain::charge::transition::Command;
use domain::charge::{Charge, FailureReason, StoredCharge, TransactionStatus};
use domain::ids::{ChargeId, Mode, Scope};
use domain::tax_id::Document;
use domain::time::Timestamp;
use faults::proxy::Fault;
use money::charge::{ChargeError, Charges};
use serde_json::json;
use shared::http::Problem;
use shared::store::Inserted;

use crate::support::{Service, id};

const MARIA: &str = "29537995593";
const JOAO: &str = "25524893033";

/// Ten charges per customer, as in a new account. The account's limit is too high to be reached.
const LIMITS: VelocityLimits = VelocityLimits { per_customer: 10, per_account: 1_000, per_link: 60 };

/// Inserts live charges of one account, with the velocity guard.
struct VelocityFixture {
    service: Service,
    charges: Charges,
    now: Timestamp,
    template: Charge,
}

impl VelocityFixture {
    async fn start() -> Self {
        let service = Service::start().await;
        let charges = Charges::new(service.store());
        let created = service.charge().await;
        let charge = charges.find(id(&created).parse::<ChargeId>().ok()).await.unwrap().unwrap();
        // The middle of a minute, so that the test's charges count in one minute.
        let now = service.stack.clock.now();
        let now = now.plus_seconds(30 - now.seconds() % 60).unwrap();
        let charge = charge.read_at(now);
        let scope = Scope { mode: Mode::Live, ..charge.scope };
        Self { charges, now, template: Charge { scope, created_at: now, ..charge }, service }
    }

    /// Returns the live charge of an idempotency key.
    fn charge(&self, key: &str, document: Option<&str>) -> Charge {
        let mut charge = self.template.clone();
        charge.id = ChargeId::derive(b"salt", Mode::Live, "charges", key);
        charge.customer.document = document.and_then(Document::parse);
        charge
    }

    async fn insert(
        &self,
        charge: &Charge,
        limits: VelocityLimits,
        at: Timestamp,
    ) -> Result<bool, &'static str> {
        is_new_or_code(self.charges.insert_guarded(charge, limits, at).await)
    }

    /// Inserts charges concurrently. Returns the number that succeeded, replays included, and the error codes
    /// of the others.
    async fn insert_concurrently(
        &self,
        charges: Vec<Charge>,
        limits: VelocityLimits,
    ) -> (usize, Vec<&'static str>) {
        let mut inserts = tokio::task::JoinSet::new();
        for charge in charges {
            let (charges, now) = (self.charges.clone(), self.now);
            inserts.spawn(async move { is_new_or_code(charges.insert_guarded(&charge, limits, now).await) });
        }
        let outcomes = inserts.join_all().await;
        let refused: Vec<&str> = outcomes.iter().filter_map(|outcome| outcome.err()).collect();
        (outcomes.len() - refused.len(), refused)
    }
}

/// Returns whether the charge is new, or the code of its refusal.
fn is_new_or_code(answer: Result<Inserted<StoredCharge>, ChargeError>) -> Result<bool, &'static str> {
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
async fn of_a_hundred_concurrent_charges_of_a_customer_ten_are_accepted() {
    let fixture = VelocityFixture::start().await;
    let charges: Vec<Charge> =
        (0..100).map(|order| fixture.charge(&format!("order-{order}"), Some(MARIA))).collect();
    let (accepted, refused) = fixture.insert_concurrently(charges.clone(), LIMITS).await;
    assert_eq!((accepted, refused.len()), (10, 90));
    assert!(refused.iter().all(|code| *code == CUSTOMER));
    // Replays are recognised: with all charges sent again, the same ten succeed.
    let (accepted, refused) = fixture.insert_concurrently(charges.clone(), LIMITS).await;
    assert_eq!((accepted, refused.len()), (10, 90));
    let mut stored = 0;
    for charge in &charges {
        stored += usize::from(fixture.charges.find(Some(charge.id)).await.unwrap().is_some());
    }
    assert_eq!(stored, 10);
    // The limit does not affect another customer, a charge without a document, or test data.
    for (key, document) in [("other-1", Some(JOAO)), ("other-2", None)] {
        assert_eq!(fixture.insert(&fixture.charge(key, document), LIMITS, fixture.now).await, Ok(true));
    }
    let customer = json!({"amount": 1000, "customer": {"document": MARIA}});
    for _ in 0..12 {
        fixture.service.new_charge(&customer).await;
    }
}

#[tokio::test]
async fn of_a_hundred_concurrent_charges_of_an_account_ten_are_accepted() {
    let fixture = VelocityFixture::start().await;
    let limits = VelocityLimits { per_account: 10, ..LIMITS };
    let charges: Vec<Charge> =
        (0..100).map(|order| fixture.charge(&format!("order-{order}"), None)).collect();
    let (accepted, refused) = fixture.insert_concurrently(charges.clone(), limits).await;
    assert_eq!((accepted, refused.len()), (10, 90));
    assert!(refused.iter().all(|code| *code == ACCOUNT));
    // A replay is never refused, and it does not count in the next minute.
    let (accepted, _) = fixture.insert_concurrently(charges.clone(), limits).await;
    assert_eq!(accepted, 10);
    let minute_after = fixture.now.plus_seconds(60).unwrap();
    let mut replayed = None;
    for charge in &charges {
        replayed = replayed.or(fixture.charges.find(Some(charge.id)).await.unwrap());
    }
    // A replay of an accepted charge in the next minute.
    let replayed = Charge { created_at: minute_after, ..replayed.unwrap().read_at(minute_after) };
    for _ in 0..20 {
        assert_eq!(fixture.insert(&replayed, limits, minute_after).await, Ok(false));
    }
    for order in 0..10 {
        let new = fixture.charge(&format!("later-{order}"), None);
        assert_eq!(fixture.insert(&new, limits, minute_after).await, Ok(true), "{order}");
    }
}

#[tokio::test]
async fn a_charge_that_may_have_been_inserted_keeps_its_place() {
    let fixture = VelocityFixture::start().await;
    let limits = VelocityLimits { per_account: 1, ..LIMITS };
    let proxy = fixture.service.proxy();
    let charges = Charges::new(fixture.service.store_behind_proxy());
    proxy.inject_where(&fixture.charge("first", None).id.to_string(), Fault::ServerError);
    let failed = charges.insert_guarded(&fixture.charge("first", Some(MARIA)), limits, fixture.now).await;
    assert!(matches!(failed, Err(ChargeError::Store(_))), "{failed:?}");
    proxy.reset();
    let next = fixture.insert(&fixture.charge("second", Some(JOAO)), limits, fixture.now).await;
    assert_eq!(next, Err(ACCOUNT));
}

#[tokio::test]
async fn an_expired_or_cancelled_charge_no_longer_counts() {
    let fixture = VelocityFixture::start().await;
    let limits = VelocityLimits { per_customer: 2, per_account: 2, ..LIMITS };
    let insert =
        async |key: &str| fixture.insert(&fixture.charge(key, Some(MARIA)), limits, fixture.now).await;
    assert_eq!((insert("first").await, insert("second").await), (Ok(true), Ok(true)));
    assert_eq!(insert("third").await, Err(ACCOUNT));
    let apply = async |key: &str, command: Command| {
        let charge = fixture.charges.find(Some(fixture.charge(key, None).id)).await.unwrap().unwrap();
        fixture.charges.apply(charge, &command, fixture.now).await.unwrap().status
    };
    assert_eq!(apply("first", Command::Cancel).await, TransactionStatus::Cancelled);
    assert_eq!(insert("third").await, Ok(true));
    assert_eq!(insert("fourth").await, Err(ACCOUNT));
    assert_eq!(apply("second", Command::Expire { at: fixture.now }).await, TransactionStatus::Expired);
    // A repeated expiry frees nothing more.
    assert_eq!(apply("second", Command::Expire { at: fixture.now }).await, TransactionStatus::Expired);
    assert_eq!((insert("fourth").await, insert("fifth").await), (Ok(true), Err(ACCOUNT)));
    let decline = Command::Decline(FailureReason::CardDeclined);
    assert_eq!(apply("third", decline).await, TransactionStatus::Refused);
    assert_eq!(insert("fifth").await, Err(ACCOUNT), "a declined charge still counts");
    // In the next minute the account's limit is free again, and the customer's limit of ten minutes still
    // applies.
    let later = fixture.now.plus_seconds(60).unwrap();
    let fifth = fixture.charge("fifth", Some(MARIA));
    assert_eq!(fixture.insert(&fifth, limits, later).await, Err(CUSTOMER));
    assert_eq!(fixture.insert(&fixture.charge("sixth", Some(JOAO)), limits, later).await, Ok(true));
    assert_eq!(fixture.insert(&fixture.charge("seventh", Some(JOAO)), limits, later).await, Ok(true));
    let ten_minutes_on = fixture.now.plus_seconds(600).unwrap();
    assert_eq!(fixture.insert(&fifth, limits, ten_minutes_on).await, Ok(true));
}
