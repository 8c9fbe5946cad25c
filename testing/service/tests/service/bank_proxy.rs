//! A proxy between the service and its bank. It records the requests, edits the list of Pix, and can be slow or
//! unavailable.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use acquirer_core::Connections;
use acquirer_core::configuration::{AcquirerSettings, AcquirerUrl};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State as Shared};
use axum::http::header::{CONTENT_LENGTH, HOST};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use domain::url_policy::{AddressPolicy, LocalNames};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use url::form_urlencoded;

use crate::live_charges::Live;
use crate::support::{Answer, Client, Service, operator};

/// How long functions cache the settings of an account, in seconds, and a second more.
pub(crate) const CACHED_SECONDS: i64 = 61;

/// Changes the list of Pix. Its first argument is the number of earlier requests for the list.
type Edit = Box<dyn Fn(usize, &mut Vec<Value>) + Send + Sync>;

/// Changes the status and body of the bank's answer to a request.
type EditAnswer = Box<dyn Fn(&Method, &Uri, u16, Bytes) -> (u16, Bytes) + Send + Sync>;

/// A running proxy.
pub(crate) struct BankProxy {
    state: Arc<State>,
    _server: tokio::task::JoinHandle<()>,
}

struct State {
    /// The bank's URL without a path.
    origin: String,
    http: Client,
    requests: Mutex<Vec<(Method, Uri)>>,
    is_away: Mutex<bool>,
    cob_delay: Mutex<Duration>,
    list: Mutex<Option<EditedList>>,
    edit_answer: Mutex<Option<EditAnswer>>,
}

struct EditedList {
    page_size: usize,
    requests: usize,
    edit: Edit,
}

impl BankProxy {
    /// Starts a proxy and configures it as the first account's bank, as the operator's command does. `change`
    /// changes further settings. A function that has called the bank knows the proxy only a minute later.
    ///
    /// The direct connection to the bank is forgotten. Otherwise its sweep would find each Pix too.
    pub(crate) async fn start(service: &Service, change: impl FnOnce(&mut AcquirerSettings)) -> Self {
        let direct = service.bank().await.acquirer;
        let proxy = Self::start_beside_bank(service, change).await;
        let (acquirers, now) = (service.acquirers(), service.stack.clock.now());
        acquirers.forget(direct.account, direct.connection, &operator(), now).await.unwrap();
        proxy
    }

    /// Starts a service whose functions know only the proxy.
    pub(crate) async fn start_with_service() -> (Live, Self) {
        let live = Live::start().await;
        let proxy = Self::start(&live.service, |_settings| {}).await;
        live.service.advance_seconds(CACHED_SECONDS).await;
        (live, proxy)
    }

    /// Like [`Self::start`], but the direct connection to the bank remains as a retired one.
    pub(crate) async fn start_beside_bank(
        service: &Service,
        change: impl FnOnce(&mut AcquirerSettings),
    ) -> Self {
        let bank_url = url::Url::parse(&service.stack.bank_url).unwrap();
        let origin = bank_url.origin().ascii_serialization();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State {
            http: Client::of_other_server(&origin),
            origin,
            requests: Mutex::default(),
            is_away: Mutex::new(false),
            cob_delay: Mutex::default(),
            list: Mutex::default(),
            edit_answer: Mutex::default(),
        });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&state));
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });

        let (acquirers, account) = (service.acquirers(), service.scope().account);
        let mut choice = service.bank().await.choice();
        let policy = AddressPolicy::PublicOrLocal(LocalNames::default());
        let moved = |bank_url: &str| bank_url.replace(&state.origin, &url);
        choice.settings.base_url = AcquirerUrl::base(&moved(&service.stack.bank_url), &policy).unwrap();
        choice.credentials.pix_mut().unwrap().token_url =
            AcquirerUrl::token(&moved(&service.stack.bank_token_url), &policy).unwrap();
        choice.settings.name = "proxy".parse().unwrap();
        change(&mut choice.settings);
        let (now, operator) = (service.stack.clock.now(), operator());
        let set = acquirers.set(account, &choice, Some(&operator), now).await.unwrap();
        if let Some(url) = set.new_callback_url {
            let connections = Connections::new(acquirers, service.stack.clock.clone());
            let connection = connections.at(account, None).await.unwrap();
            connection.pix().unwrap().register_webhook(&url).await.unwrap();
        }
        let proxy = Self { state, _server: server };
        proxy.take_requests();
        proxy
    }

    /// Returns the requests since the last call.
    pub(crate) fn take_requests(&self) -> Vec<(Method, Uri)> {
        std::mem::take(&mut *self.state.requests.lock().unwrap())
    }

    /// Returns the parameters of the requests for the list of Pix since the last call.
    pub(crate) fn take_lists(&self) -> Vec<HashMap<String, String>> {
        let requests = self.take_requests();
        requests.iter().filter(|(method, uri)| is_list(method, uri)).map(|(_, uri)| parameters(uri)).collect()
    }

    /// Sets whether each request is answered 503 and does not reach the bank.
    pub(crate) fn set_away(&self, is_away: bool) {
        *self.state.is_away.lock().unwrap() = is_away;
    }

    /// Delays each new cob, as a slow bank does.
    pub(crate) fn delay_cobs(&self, delay: Duration) {
        *self.state.cob_delay.lock().unwrap() = delay;
    }

    /// Serves the list of Pix in pages of this size, after `edit` changed the bank's list.
    pub(crate) fn edit_list(
        &self,
        page_size: usize,
        edit: impl Fn(usize, &mut Vec<Value>) + Send + Sync + 'static,
    ) {
        let list = EditedList { page_size, requests: 0, edit: Box::new(edit) };
        *self.state.list.lock().unwrap() = Some(list);
    }

    /// Changes each answer of the bank.
    pub(crate) fn edit_answers(
        &self,
        edit: impl Fn(&Method, &Uri, u16, Bytes) -> (u16, Bytes) + Send + Sync + 'static,
    ) {
        *self.state.edit_answer.lock().unwrap() = Some(Box::new(edit));
    }
}

impl State {
    async fn forward(&self, method: Method, target: &str, request: Request) -> Answer {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let headers: Vec<(&str, &[u8])> = head
            .headers
            .iter()
            .filter(|(name, _)| **name != HOST && **name != CONTENT_LENGTH)
            .map(|(name, value)| (name.as_str(), value.as_bytes()))
            .collect();
        let url = format!("{}{target}", self.origin);
        self.http.send_with_byte_headers(method, &url, &headers, body).await
    }

    /// Returns the requested page of the edited list. `whole` is the bank's answer with the whole list.
    fn page(&self, requested: usize, mut whole: Value) -> Value {
        let mut list = self.list.lock().unwrap();
        let list = list.as_mut().unwrap();
        let mut items = whole["pix"].as_array().unwrap().clone();
        (list.edit)(list.requests, &mut items);
        list.requests += 1;
        whole["parametros"]["paginacao"] = json!({
            "paginaAtual": requested,
            "itensPorPagina": list.page_size,
            "quantidadeDePaginas": items.len().div_ceil(list.page_size).max(1),
            "quantidadeTotalDeItens": items.len(),
        });
        whole["pix"] = items
            .into_iter()
            .skip(requested * list.page_size)
            .take(list.page_size)
            .collect::<Vec<_>>()
            .into();
        whole
    }
}

async fn answer(Shared(state): Shared<Arc<State>>, request: Request) -> Response {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    state.requests.lock().unwrap().push((method.clone(), uri.clone()));
    if *state.is_away.lock().unwrap() {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    if method == Method::PUT && uri.path().contains("/cob/") {
        let delay = *state.cob_delay.lock().unwrap();
        tokio::time::sleep(delay).await;
    }
    let is_edited = is_list(&method, &uri) && state.list.lock().unwrap().is_some();
    if !is_edited {
        let answer = state.forward(method.clone(), &uri.to_string(), request).await;
        let mut headers = answer.headers;
        headers.remove(CONTENT_LENGTH);
        let (status, bytes) = match &*state.edit_answer.lock().unwrap() {
            Some(edit) => edit(&method, &uri, answer.status.as_u16(), answer.bytes),
            None => (answer.status.as_u16(), answer.bytes),
        };
        return (StatusCode::from_u16(status).unwrap(), headers, bytes).into_response();
    }
    let mut parameters = parameters(&uri);
    let page = parameters.insert("paginacao.paginaAtual".to_owned(), "0".to_owned()).unwrap();
    let whole: String = form_urlencoded::Serializer::new(String::new()).extend_pairs(&parameters).finish();
    let answer = state.forward(method, &format!("{}?{whole}", uri.path()), request).await;
    let body = answer.expect(200);
    assert_eq!(
        body["parametros"]["paginacao"]["quantidadeDePaginas"], 1,
        "the list has too many Pix to edit"
    );
    axum::Json(state.page(page.parse().unwrap(), body)).into_response()
}

fn is_list(method: &Method, uri: &Uri) -> bool {
    *method == Method::GET && uri.path().ends_with("/pix")
}

fn parameters(uri: &Uri) -> HashMap<String, String> {
    form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).into_owned().collect()
}
