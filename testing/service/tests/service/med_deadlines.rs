//! Tests of the deadlines of MED cases: reminders, and the list of the nearest ones.

use domain::med::MedCase;
use domain::time::Timestamp;
use local::stack::Options;
use screen_reader::Role as Part;
use serde_json::{Value, json};
use shared::account::Role;
use shared::store::{Item, to_item};

use crate::api_keys::change_user;
use crate::dashboard::Browser;
use crate::emails::MailDirectory;
use crate::invocations::dispatch;
use crate::support::{Service, id, ids};

const HOUR: i64 = 3_600;

/// The reminders of a case before its deadline, in seconds.
const REMINDERS: [i64; 3] = [48 * HOUR, 24 * HOUR, 6 * HOUR];

/// A service whose stream, queues and schedules the test runs itself.
struct Steps {
    service: Service,
    mails: MailDirectory,
}

impl Steps {
    async fn start() -> Self {
        let mails = MailDirectory::new();
        let service = Service::start_with(Options { event_sources: false, ..mails.options() }).await;
        let member = service.stack.seed.member_email.clone();
        change_user(&service.store(), &member, |user| user.role = Role::Admin).await;
        Self { service, mails }
    }

    fn after(&self, seconds: i64) -> Timestamp {
        self.service.stack.clock.now().plus_seconds(seconds).unwrap()
    }

    async fn case(&self, deadline: Timestamp) -> Value {
        let body = json!({"amount": 123_456, "metadata": {"order": "1001"}});
        let charge = self.service.new_charge(&body).await;
        self.service.sandbox(&charge, "pay", &json!({})).await;
        self.service.open_case(&charge, json!({ "response_deadline": deadline })).await
    }

    /// Runs all schedules three times concurrently, as after a crash or a late run.
    async fn run_schedules(&self) {
        let run = || async {
            let scheduler = self.service.stack.functions.get("SchedulerFunction").unwrap().clone();
            scheduler(json!({})).await.unwrap();
        };
        tokio::join!(run(), run(), run());
    }

    /// Dispatches the stream and runs the mailer until nothing is left to do. Each message arrives twice.
    async fn process(&self) {
        dispatch(&self.service.stack).await;
        loop {
            let messages = self.service.take_queued_emails().await;
            for body in &messages {
                for _ in 0..2 {
                    assert!(self.service.run_mailer(body).await, "{body}");
                }
            }
            if messages.is_empty() {
                return;
            }
        }
    }

    async fn run_all(&self) {
        self.run_schedules().await;
        self.process().await;
        self.process().await;
    }

    async fn events(&self, case: &Value) -> Vec<Value> {
        let path = format!("/v1/events?type=med_case.deadline_approaching&object={}", id(case));
        self.service.get(&path).await.expect(200)["data"].as_array().unwrap().clone()
    }

    /// The recipients of the reminders.
    fn reminded(&self) -> Vec<String> {
        let reminders = self.mails.all().into_iter().filter(|mail| mail.subject.contains("sem resposta até"));
        reminders.map(|mail| mail.to).collect()
    }

    async fn row(&self, case: &Value) -> Item {
        let key = MedCase::key_of(id(case).parse().unwrap());
        self.service.store().get_item(&key).await.unwrap().unwrap()
    }

    fn advance_to(&self, at: Timestamp) {
        let clock = &self.service.stack.clock;
        clock.advance(at.millis_since(clock.now()));
    }
}

#[tokio::test]
async fn an_open_case_reminds_three_times_before_its_deadline_and_once_each_time() {
    let steps = Steps::start().await;
    let deadline = steps.after(72 * HOUR);
    let case = steps.case(deadline).await;
    steps.run_all().await;
    let seed = &steps.service.stack.seed;
    let (owner, admin) = (&seed.first.owner_email, &seed.member_email);
    for (number, before) in REMINDERS.into_iter().enumerate() {
        let at = deadline.plus_seconds(-before).unwrap();
        steps.advance_to(at.plus_seconds(-600).unwrap());
        steps.run_all().await;
        assert_eq!((steps.events(&case).await.len(), steps.reminded().len()), (number, 2 * number));
        steps.advance_to(at);
        steps.run_schedules().await;
        // The dispatcher dies before the mails are sent. The case is not due again.
        steps.run_all().await;
        assert_eq!(steps.events(&case).await.len(), number + 1, "{before}");
        // The contact is an owner too.
        let mut expected = [owner.as_str(), admin.as_str()].repeat(number + 1);
        expected.sort_unstable();
        let mut to = steps.reminded();
        to.sort();
        assert_eq!(to, expected);
    }
    assert!(!steps.row(&case).await.contains_key("due_pk"), "no reminder is left");
    let event = steps.events(&case).await.remove(0);
    assert_eq!(
        (&event["type"], &event["data"]["object"]["id"]),
        (&json!("med_case.deadline_approaching"), &case["id"])
    );
    assert_eq!(event["data"]["object"]["response_deadline"], json!(deadline));
    let mail = steps.mails.all().pop().unwrap();
    let link = format!("/dashboard/disputes/{}", id(&case));
    for said in ["Pedido: 1001", "R$ 1.234,56", "(horário de Brasília)", "nenhum arquivo", &link] {
        assert!(mail.text.contains(said), "{said}: {}", mail.text);
    }
    let notices = Browser::owner(&steps.service).await.page("/dashboard/notices").await;
    assert_eq!(notices.named(Part::Link, "Prazo de uma disputa").len(), 3, "{notices}");
    steps.advance_to(deadline.plus_seconds(HOUR).unwrap());
    steps.run_all().await;
    assert_eq!(steps.events(&case).await.len(), 3);
}

#[tokio::test]
async fn a_late_case_reminds_of_the_latest_alone_and_an_answered_or_overdue_one_of_none() {
    let steps = Steps::start().await;
    let service = &steps.service;
    let deadline = steps.after(23 * HOUR);
    let [late, answered, raced] =
        [steps.case(deadline).await, steps.case(steps.after(60 * HOUR)).await, steps.case(deadline).await];
    let overdue = steps.case(steps.after(-HOUR)).await;
    assert!(!steps.row(&overdue).await.contains_key("due_pk"));
    let appeal = json!({"reason": "Entregue em 3 de novembro"});
    service.answer_case(&answered, "appeal", appeal.clone()).await.expect(200);
    assert!(!steps.row(&answered).await.contains_key("due_pk"));
    steps.run_schedules().await;
    // The merchant answers before the mailer runs.
    service.answer_case(&raced, "accept", json!({})).await.expect(200);
    steps.run_all().await;
    assert_eq!((steps.events(&late).await.len(), steps.reminded().len()), (1, 2));
    steps.advance_to(deadline.plus_seconds(-6 * HOUR).unwrap());
    steps.run_all().await;
    assert_eq!((steps.events(&late).await.len(), steps.reminded().len()), (2, 4));
    // The schedules stand still until the deadline of another case has passed.
    let missed = steps.case(steps.after(7 * HOUR)).await;
    steps.advance_to(steps.after(8 * HOUR));
    steps.run_all().await;
    assert!(!steps.row(&missed).await.contains_key("due_pk"));
    steps.advance_to(steps.after(60 * HOUR));
    steps.run_all().await;
    for case in [&answered, &overdue, &missed] {
        assert!(steps.events(case).await.is_empty(), "{case}");
    }
    assert_eq!(steps.reminded().len(), 4);
}

#[tokio::test]
async fn a_list_by_deadline_has_the_open_cases_the_nearest_first() {
    let steps = Steps::start().await;
    let service = &steps.service;
    let [day, hour, week] = [
        steps.case(steps.after(24 * HOUR)).await,
        steps.case(steps.after(HOUR)).await,
        steps.case(steps.after(168 * HOUR)).await,
    ];
    let without = service.open_case(&service.pay(1_000).await, json!({})).await;
    let appealed = steps.case(steps.after(2 * HOUR)).await;
    service.answer_case(&appealed, "appeal", json!({"reason": "Entregue"})).await.expect(200);
    let list = async |query: &str| service.get(&format!("/v1/med/cases?{query}")).await.expect(200);
    let of = |cases: &[&Value]| cases.iter().map(|case| id(case).to_owned()).collect::<Vec<_>>();
    let all = list("sort=deadline").await;
    assert_eq!((ids(&all), &all["has_more"]), (of(&[&hour, &day, &week, &without]), &json!(false)));
    let within = steps.after(48 * HOUR).to_iso();
    let near =
        service.get(&format!("/v1/infractions?deadline_before={within}&status=open")).await.expect(200);
    assert_eq!(ids(&near), of(&[&hour, &day]));
    let first = list("sort=deadline&limit=2").await;
    assert_eq!((ids(&first), &first["next_cursor"]), (of(&[&hour, &day]), &day["id"]));
    let rest = list(&format!("sort=deadline&limit=2&starting_after={}", id(&day))).await;
    assert_eq!((ids(&rest), &rest["has_more"]), (of(&[&week, &without]), &json!(false)));
    let refused =
        service.get("/v1/med/cases?sort=deadline&status=appealed&type=med&charge_id=ch_fe5392dd-e865-8656-a544-24ef3d590c1b&created_after=2026-11-01").await;
    assert_eq!(
        (refused.status.as_u16(), refused.params()),
        (400, vec!["status", "type", "charge_id", "created_after"])
    );
    assert_eq!(service.get("/v1/med/cases?sort=newest").await.params(), ["sort"]);
    let other_mode =
        service.live_client().get(&format!("/v1/med/cases?sort=deadline&starting_after={}", id(&day))).await;
    assert_eq!(other_mode.status, 400, "a cursor of another scope");

    // Without a limit, the nearest 200.
    let stored: MedCase =
        service.store().get(&MedCase::key_of(id(&week).parse().unwrap())).await.unwrap().unwrap();
    let copy = |number: i64| -> Item {
        to_item(&MedCase {
            id: format!("med_{}{number:016}", stored.id.charge().txid()).parse().unwrap(),
            created_at: stored.created_at.plus_seconds(number).unwrap(),
            response_deadline: stored.response_deadline.map(|due| due.plus_seconds(-number).unwrap()),
            ..stored.clone()
        })
        .unwrap()
    };
    crate::seeding::write(&service.dynamodb(), &(1..=200).map(copy).collect::<Vec<_>>()).await;
    let (nearest, report) = service.cost(list("sort=deadline")).await;
    assert_eq!((ids(&nearest).len(), &nearest["has_more"]), (200, &json!(true)));
    assert_eq!(ids(&nearest)[..2], of(&[&hour, &day]));
    assert!(report.requests() <= 5 && report.sequential_requests <= 3, "{report:?}");
}
