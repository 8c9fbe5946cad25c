//! Servers between the functions and the services that they call. They record the calls and make one of them
//! fail. One of them is before the merchants' webhook server.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::CONTENT_LENGTH;
use hyper::http::request::Parts;
use hyper::{Request, Response};
use local::fronts::{Fronts, Upstream};
use local::http::{Server, start_loopback};
use local::lambda::Functions;
use local::wire::{HttpClient, http_client};
use tokio::sync::oneshot;

use crate::call::{BANK_CLIENT, Call, Service, describe};
use crate::fault::{Answer, Fault, HalfBatch, refusal};
use crate::{Error, Result};

/// The header by which the SDK marks all requests of one call.
const INVOCATION: &str = "amz-sdk-invocation-id";

/// The servers. Dropping this stops them.
pub struct Front {
    shared: Arc<Shared>,
    servers: Vec<Server>,
}

struct Shared {
    client: HttpClient,
    functions: OnceLock<Functions>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The URL of each service behind its front.
    behind: HashMap<Service, String>,
    /// Whether calls are recorded and can fail.
    records: bool,
    calls: Vec<Call>,
    counts: BTreeMap<(String, String), u32>,
    /// Decides which calls fail.
    decide: Option<Decide>,
    /// How many calls have failed.
    faults: usize,
    /// The mark of the requests that fail like an earlier one, because the SDK repeats that call.
    failing: Option<(String, Fault)>,
    /// Decides which calls wait.
    hold: Option<Hold>,
    /// The marks of the calls that were recorded.
    marks: HashSet<String>,
    last_call: Option<Instant>,
}

/// Decides how a call fails. `None`: it succeeds.
type Decide = Box<dyn Fn(&Call) -> Option<Fault> + Send>;

/// Decides whether a call of a function with this description waits, and until when. `None`: it does not.
type Hold = Box<dyn Fn(&str, &str) -> Option<oneshot::Receiver<()>> + Send>;

const UPSTREAMS: [Upstream; 5] =
    [Upstream::DynamoDb, Upstream::Sqs, Upstream::S3, Upstream::Bank, Upstream::Cards];

impl Front {
    /// `receiver` is the URL of the merchants' webhook server.
    pub async fn start(receiver: &str) -> Result<Self> {
        let behind = HashMap::from([(Service::Receiver, receiver.to_owned())]);
        let state = Mutex::new(State { behind, ..State::default() });
        let shared = Arc::new(Shared { client: http_client(), functions: OnceLock::new(), state });
        let mut servers = Vec::new();
        for service in UPSTREAMS.map(Service::Upstream).into_iter().chain([Service::Receiver]) {
            let shared = Arc::clone(&shared);
            let server = start_loopback(0, move |request| {
                let shared = Arc::clone(&shared);
                async move { shared.handle(service, request).await }
            });
            servers.push(server.await.map_err(Error::of("starting a front"))?);
        }
        Ok(Self { shared, servers })
    }

    pub fn fronts(&self) -> Fronts {
        let urls: HashMap<Upstream, String> =
            UPSTREAMS.into_iter().zip(self.servers.iter().map(Server::url)).collect();
        let shared = Arc::clone(&self.shared);
        Fronts::new(move |upstream, own| {
            shared.lock().behind.insert(Service::Upstream(upstream), own.to_owned());
            urls.get(&upstream).cloned().unwrap_or_default()
        })
    }

    pub fn dynamodb_url(&self) -> String {
        self.servers.first().map(Server::url).unwrap_or_default()
    }

    pub(crate) fn receiver_url(&self) -> String {
        self.servers.last().map(Server::url).unwrap_or_default()
    }

    /// Names the functions, so that a fault can kill them.
    pub(crate) fn set_functions(&self, functions: &Functions) {
        let _ = self.shared.functions.set(functions.clone());
    }

    /// Lets recorded calls fail as `decide` says.
    pub fn set_faults(&self, decide: impl Fn(&Call) -> Option<Fault> + Send + 'static) {
        self.shared.lock().decide = Some(Box::new(decide));
    }

    /// From now on, records calls and lets them fail.
    pub fn record(&self) {
        self.shared.lock().records = true;
    }

    /// From now on, forwards all calls.
    pub fn stop_recording(&self) {
        self.shared.lock().records = false;
    }

    /// Lets calls wait as `hold` says.
    pub fn set_hold(&self, hold: impl Fn(&str, &str) -> Option<oneshot::Receiver<()>> + Send + 'static) {
        self.shared.lock().hold = Some(Box::new(hold));
    }

    pub fn calls(&self) -> Vec<Call> {
        self.shared.lock().calls.clone()
    }

    pub fn faults(&self) -> usize {
        self.shared.lock().faults
    }

    pub(crate) fn last_call(&self) -> Option<Instant> {
        self.shared.lock().last_call
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: there is no response.
    async fn handle(&self, service: Service, request: Request<Incoming>) -> Option<Answer> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.ok()?.to_bytes();
        let (function, what) = describe(service, &head, &body);
        let hold = self.lock().hold.as_ref().and_then(|hold| hold(&function, &what));
        if let Some(released) = hold {
            let _ = released.await;
        }
        let mark = head.headers.get(INVOCATION).and_then(|mark| mark.to_str().ok()).map(str::to_owned);
        match self.fault_of(&function, &what, mark) {
            None => self.execute(service, head, body).await,
            Some(Fault::DiedBefore) => {
                self.kill(&function);
                None
            }
            Some(Fault::DiedAfter) => {
                self.execute(service, head, body).await;
                self.kill(&function);
                None
            }
            Some(Fault::AnswerLost) => {
                self.execute(service, head, body).await;
                None
            }
            Some(Fault::PartialBatch) => self.execute_half(service, head, &body).await,
            Some(fault @ (Fault::Throttled | Fault::Conflict | Fault::ServerError)) => {
                Some(refusal(service, fault, &body))
            }
        }
    }

    /// Records a call. Returns how it fails, if it does.
    fn fault_of(&self, function: &str, what: &str, mark: Option<String>) -> Option<Fault> {
        let mut state = self.lock();
        state.last_call = Some(Instant::now());
        if let (Some(mark), Some((failing, fault))) = (&mark, &state.failing)
            && mark == failing
        {
            return Some(*fault);
        }
        if !state.records {
            return None;
        }
        if let Some(mark) = &mark
            && !state.marks.insert(mark.clone())
        {
            return None;
        }
        let count = state.counts.entry((function.to_owned(), what.to_owned())).or_default();
        *count = count.saturating_add(1);
        let call = Call { function: function.to_owned(), what: what.to_owned(), number: *count };
        let fault = state.decide.as_ref().and_then(|decide| decide(&call));
        state.calls.push(call);
        let fault = fault?;
        state.faults = state.faults.saturating_add(1);
        if fault.includes_repetitions() {
            state.failing = mark.map(|mark| (mark, fault));
        }
        Some(fault)
    }

    /// Kills a function. A call to an acquirer does not name its function, so all functions are killed that run.
    fn kill(&self, function: &str) {
        let Some(functions) = self.functions.get() else { return };
        if function == BANK_CLIENT {
            functions.kill_running();
        } else if let Some(environment) = functions.environment(function) {
            environment.kill();
        }
    }

    async fn execute(&self, service: Service, head: Parts, body: Bytes) -> Option<Answer> {
        let base = self.lock().behind.get(&service).cloned()?;
        Some(forward(&self.client, &base, head, body).await?.map(Full::new))
    }

    /// Executes the first half of a batch.
    async fn execute_half(&self, service: Service, head: Parts, body: &Bytes) -> Option<Answer> {
        let half = HalfBatch::of(body)?;
        let response = self.execute(service, head, Bytes::from(half.request.to_string())).await?;
        let (mut head, body) = response.into_parts();
        let body = half.add_to(&body.collect().await.ok()?.to_bytes())?;
        head.headers.remove(CONTENT_LENGTH);
        head.headers.remove("x-amz-crc32");
        Some(Response::from_parts(head, Full::new(body)))
    }
}

/// Forwards a request to the service at a URL. `None`: the service does not respond.
pub(crate) async fn forward(
    client: &HttpClient,
    base: &str,
    mut head: Parts,
    body: Bytes,
) -> Option<Response<Bytes>> {
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    head.uri = format!("{base}{path}").parse().ok()?;
    head.headers.remove(CONTENT_LENGTH);
    let response = client.request(Request::from_parts(head, Full::new(body))).await.ok()?;
    let (head, body) = response.into_parts();
    Some(Response::from_parts(head, body.collect().await.ok()?.to_bytes()))
}
