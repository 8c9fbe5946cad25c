//! A trial of hot partitions: one account pays several times as many charges as its partitions of DynamoDB
//! accept, and the latency of another account is compared with that without the load.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::http::{Answer, Api, Call, Lost};
use crate::listener::Listener;
use crate::service::Service;
use crate::{Error, Result};

/// How long the trial waits for the last webhooks, after the load has ended.
const PATIENCE: Duration = Duration::from_mins(4);

/// The pause between two looks at the webhooks that arrived.
const LOOK: Duration = Duration::from_millis(200);

/// The parameters of a trial.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program of the service.
    pub service: PathBuf,
    /// The directory of its state and its log.
    pub directory: PathBuf,
    /// The write units that a partition key accepts in a second.
    pub ceiling: u16,
    /// How many charges the busy account creates and pays in a second.
    pub busy_rate: u32,
    /// How many charges the other account creates and pays in a second.
    pub quiet_rate: u32,
    /// How long each of the two phases takes.
    pub phase: Duration,
}

/// The results of a trial.
#[derive(Debug)]
pub struct Report {
    /// The other account without the load of the busy one.
    pub quiet_alone: Sample,
    /// The other account beside the busy one.
    pub quiet_beside: Sample,
    /// The busy account.
    pub busy: Sample,
    /// How long after the end of the load the last webhook of an answered payment arrived. `None`: some did not
    /// arrive.
    pub drained: Option<Duration>,
    /// The charges of the busy account whose payment was answered with 200, but whose webhook did not arrive.
    pub missing: usize,
}

/// What an account saw in a phase.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The durations of the requests with a response, shortest first.
    pub requests: Vec<Duration>,
    /// The times from the response to a payment to its webhook, shortest first. Without those that arrived
    /// after the phase.
    pub webhooks: Vec<Duration>,
    /// The numbers of responses by status; 0: no response.
    pub statuses: BTreeMap<u16, u64>,
    /// The charges that were paid, and when the response arrived.
    paid: Vec<(String, Instant)>,
}

impl Sample {
    /// Returns the number of charges whose payment was answered with 200.
    pub fn paid(&self) -> usize {
        self.paid.len()
    }

    fn add_webhooks(&mut self, listener: &Listener) {
        let delay = |(id, paid): &(String, Instant)| {
            let arrived = listener.first_arrival("charge.paid", id)?;
            Some(arrived.saturating_duration_since(*paid))
        };
        self.webhooks = self.paid.iter().filter_map(delay).collect();
        self.webhooks.sort();
    }
}

/// Returns the duration that `percent` of the sorted durations do not exceed.
pub fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let last = sorted.len().saturating_sub(1);
    let index = last.saturating_mul(percent).div_ceil(100);
    sorted.get(index).copied().unwrap_or_default()
}

/// Carries out the trial.
///
/// # Errors
///
/// When the service does not start.
pub async fn run(options: &Options) -> Result<Report> {
    let throttle = vec!["--throttle".to_owned(), options.ceiling.to_string()];
    let service = Service::new(options.service.clone(), options.directory.clone(), throttle)?;
    let ready = service.start().await?;
    let listener = Listener::start().await?;
    let account = async |key: &str| -> Result<Arc<Api>> {
        let key = ready.pointer(key).and_then(Value::as_str).ok_or_else(|| Error::new("no API key"))?;
        let api = Api::new(service.base_url());
        api.set_key(key);
        listener.subscribe(&api, &["charge.paid"]).await?;
        Ok(Arc::new(api))
    };
    let busy = account("/test_api_key").await?;
    let quiet = account("/other_account/test_api_key").await?;

    let mut quiet_alone = load(&quiet, options.quiet_rate, options.phase).await;
    tokio::time::sleep(LOOK.saturating_mul(5)).await;
    quiet_alone.add_webhooks(&listener);
    let (mut quiet_beside, mut busy) = tokio::join!(
        load(&quiet, options.quiet_rate, options.phase),
        load(&busy, options.busy_rate, options.phase)
    );
    let ended = Instant::now();
    let missing = |sample: &Sample| {
        sample.paid.iter().filter(|(id, _)| listener.first_arrival("charge.paid", id).is_none()).count()
    };
    while missing(&busy).saturating_add(missing(&quiet_beside)) > 0 && ended.elapsed() < PATIENCE {
        tokio::time::sleep(LOOK).await;
    }
    quiet_beside.add_webhooks(&listener);
    busy.add_webhooks(&listener);
    let missing = missing(&busy).saturating_add(missing(&quiet_beside));
    service.kill().await?;
    let drained = (missing == 0).then(|| ended.elapsed());
    Ok(Report { quiet_alone, quiet_beside, busy, drained, missing })
}

/// Creates and pays charges at a constant rate, also while earlier ones have no response yet.
async fn load(api: &Arc<Api>, rate: u32, phase: Duration) -> Sample {
    let sample = Arc::new(Mutex::new(Sample::default()));
    let began = Instant::now();
    let Some(pause) = Duration::from_secs(1).checked_div(rate) else { return Sample::default() };
    let mut ticks = tokio::time::interval(pause);
    let mut charges = JoinSet::new();
    let mut number: u64 = 0;
    while began.elapsed() < phase {
        ticks.tick().await;
        number = number.saturating_add(1);
        let key = format!("trial-{began:?}-{number}");
        charges.spawn(create_and_pay(Arc::clone(api), key, Arc::clone(&sample)));
    }
    while charges.join_next().await.is_some() {}
    let mut sample = sample.lock().unwrap_or_else(PoisonError::into_inner).clone();
    sample.requests.sort();
    sample
}

/// Sends each request once. A payment that was not answered with 200 is not repeated.
async fn create_and_pay(api: Arc<Api>, key: String, sample: Arc<Mutex<Sample>>) {
    let send = async |call: Call| {
        let sent = Instant::now();
        let answer = api.send(&call).await;
        let mut sample = sample.lock().unwrap_or_else(PoisonError::into_inner);
        let status = answer.as_ref().map_or(0, |answer| answer.status);
        let count = sample.statuses.entry(status).or_default();
        *count = count.saturating_add(1);
        if status > 0 {
            sample.requests.push(sent.elapsed());
        }
        answer
    };
    let create = Call::post("/v1/pix/charges", json!({"amount": 1990})).with_key(key);
    let Ok(Answer { status: 201, body }) = send(create).await else { return };
    let Some(id) = body.get("id").and_then(Value::as_str).map(str::to_owned) else { return };
    let pay = Call::post(format!("/v1/sandbox/charges/{id}/pay"), json!({}));
    let paid: std::result::Result<Answer, Lost> = send(pay).await;
    if matches!(paid, Ok(Answer { status: 200, .. })) {
        sample.lock().unwrap_or_else(PoisonError::into_inner).paid.push((id, Instant::now()));
    }
}
