//! Replaces the Lambda runtime: a function receives a JSON event and returns a JSON response.
//!
//! As in the deployed functions, HTTP functions use the conversions of `lambda_http`, and event functions use
//! the types of `aws_lambda_events`. A function runs in an [`Environment`]. As in Lambda, an invocation then
//! continues when its caller no longer waits, and a panic fails only its own invocation. Concurrency limits
//! and cold starts are not simulated.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use lambda_http::request::LambdaRequest;
use lambda_http::{Adapter, Context, LambdaEvent};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::task::AbortHandle;
use tower::ServiceExt;

use crate::error::Result as StartResult;

pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pub type Invoke = Arc<dyn Fn(Value) -> BoxFuture<'static, Result<Value, String>> + Send + Sync>;

/// The timeout that a function reads from its context. This module does not enforce it.
const TIMEOUT: Duration = Duration::from_mins(1);

#[derive(Clone, Default)]
pub struct Functions {
    invokes: HashMap<String, Invoke>,
    environments: HashMap<String, Arc<Environment>>,
}

domain::text::hidden_debug!(Functions, Environment);

impl Functions {
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn with(mut self, logical_id: &str, invoke: Invoke) -> Self {
        self.environments.remove(logical_id);
        self.invokes.insert(logical_id.to_owned(), invoke);
        self
    }

    #[must_use]
    pub(crate) fn with_environment(mut self, logical_id: &str, environment: Environment) -> Self {
        let environment = Arc::new(environment);
        let invoked = Arc::clone(&environment);
        self.invokes.insert(logical_id.to_owned(), Arc::new(move |event| invoked.invoke(event)));
        self.environments.insert(logical_id.to_owned(), environment);
        self
    }

    pub fn get(&self, logical_id: &str) -> Option<&Invoke> {
        self.invokes.get(logical_id)
    }

    pub fn environment(&self, logical_id: &str) -> Option<&Environment> {
        self.environments.get(logical_id).map(Arc::as_ref)
    }

    pub fn kill_running(&self) {
        for environment in self.environments.values() {
            if environment.running_invocations() > 0 {
                environment.kill();
            }
        }
    }

    /// Kills all functions, so that they also forget what they had in memory.
    pub(crate) fn kill_all(&self) {
        self.environments.values().for_each(|environment| environment.kill());
    }

    pub fn running_invocations(&self) -> usize {
        self.environments.values().map(|environment| environment.running_invocations()).sum()
    }
}

type Create = Box<dyn Fn() -> StartResult<Invoke> + Send + Sync>;

/// Unlike in Lambda, all its invocations share one memory.
pub struct Environment {
    create: Create,
    state: Mutex<State>,
}

struct State {
    /// `None`: it was killed.
    function: Option<Invoke>,
    running: Vec<AbortHandle>,
}

impl Environment {
    pub fn start(create: impl Fn() -> StartResult<Invoke> + Send + Sync + 'static) -> StartResult<Self> {
        let state = Mutex::new(State { function: Some(create()?), running: Vec::new() });
        Ok(Self { create: Box::new(create), state })
    }

    /// Ends all running invocations at once. The next invocation creates the function anew, without what it
    /// had in memory. So it ends as when its process is killed.
    pub fn kill(&self) {
        let mut state = self.lock();
        state.running.drain(..).for_each(|invocation| invocation.abort());
        state.function = None;
    }

    pub fn running_invocations(&self) -> usize {
        self.lock().running.iter().filter(|invocation| !invocation.is_finished()).count()
    }

    fn invoke(&self, event: Value) -> BoxFuture<'static, Result<Value, String>> {
        let task = {
            let mut state = self.lock();
            let function = match &state.function {
                Some(function) => Arc::clone(function),
                None => match (self.create)() {
                    Ok(function) => Arc::clone(state.function.insert(function)),
                    Err(error) => return Box::pin(std::future::ready(Err(error.to_string()))),
                },
            };
            let task = tokio::spawn(function(event));
            state.running.retain(|invocation| !invocation.is_finished());
            state.running.push(task.abort_handle());
            task
        };
        Box::pin(async move {
            match task.await {
                Ok(result) => result,
                Err(error) if error.is_panic() => {
                    let text = match error.into_panic().downcast::<String>() {
                        Ok(text) => *text,
                        Err(other) => {
                            other.downcast::<&str>().map_or_else(|_| String::new(), |text| text.to_string())
                        }
                    };
                    Err(format!("the function panicked: {text}"))
                }
                Err(_) => Err("the function was killed".to_owned()),
            }
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Creates a function that handles HTTP API events (payload format 2.0) with a router.
pub(crate) fn http_function(router: Router) -> Invoke {
    // Builds the router once, so that cloning it for each request is cheap.
    let router = router.with_state(());
    Arc::new(move |event| {
        let router = router.clone();
        Box::pin(async move {
            let request: LambdaRequest =
                serde_json::from_value(event).map_err(|e| format!("not an HTTP API event: {e}"))?;
            // The adapter is `Send` only if the service's response is `Send`. A router's response is not, so
            // the service converts it.
            let service = lambda_http::service_fn(move |request: lambda_http::Request| {
                let router = router.clone();
                async move {
                    let Ok(response) = router.oneshot(request).await;
                    Ok::<_, Infallible>(lambda_http::IntoResponse::into_response(response).await)
                }
            });
            let Ok(response) = Adapter::from(service).oneshot(LambdaEvent::new(request, context())).await;
            serde_json::to_value(&response).map_err(|e| format!("the response is not JSON: {e}"))
        })
    })
}

pub(crate) fn event_function<E, R, F, Fut, Failure>(handler: F) -> Invoke
where
    E: DeserializeOwned + Send + 'static,
    R: Serialize,
    F: Fn(E) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, Failure>> + Send + 'static,
    Failure: Display,
{
    let handler = Arc::new(handler);
    Arc::new(move |event| {
        let handler = Arc::clone(&handler);
        Box::pin(async move {
            let event = serde_json::from_value(event).map_err(|e| format!("not the expected event: {e}"))?;
            let response = handler(event).await.map_err(|e| e.to_string())?;
            serde_json::to_value(response).map_err(|e| format!("the response is not JSON: {e}"))
        })
    })
}

fn context() -> Context {
    let mut context = Context::default();
    context.request_id = uuid::Uuid::new_v4().to_string();
    let deadline = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_add(TIMEOUT);
    context.deadline = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
    context
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_panic_fails_one_invocation_only() {
        let create = || {
            Ok(event_function(|is_bad: bool| async move {
                assert!(!is_bad);
                Ok::<_, String>("fine")
            }))
        };
        let environment = Environment::start(create).unwrap();
        assert!(environment.invoke(json!(true)).await.unwrap_err().contains("panicked"));
        assert_eq!(environment.invoke(json!(false)).await, Ok(json!("fine")));
    }

    #[tokio::test]
    async fn a_killed_function_does_nothing_more_and_starts_with_empty_memory() {
        let ended = Arc::new(Mutex::new(Vec::new()));
        let gate = Arc::new(tokio::sync::Notify::new());
        let (of_function, closed) = (Arc::clone(&ended), Arc::clone(&gate));
        let create = move || {
            let memory = Arc::new(Mutex::new(0));
            let (ended, gate) = (Arc::clone(&of_function), Arc::clone(&closed));
            Ok(event_function(move |waits: bool| {
                let (memory, ended, gate) = (Arc::clone(&memory), Arc::clone(&ended), Arc::clone(&gate));
                async move {
                    let number = {
                        let mut memory = memory.lock().unwrap();
                        *memory += 1;
                        *memory
                    };
                    if waits {
                        gate.notified().await;
                    }
                    ended.lock().unwrap().push(number);
                    Ok::<_, String>(number)
                }
            }))
        };
        let environment = Environment::start(create).unwrap();
        assert_eq!(environment.invoke(json!(false)).await, Ok(json!(1)));
        let waiting = environment.invoke(json!(true));
        assert_eq!(environment.running_invocations(), 1);
        environment.kill();
        gate.notify_one();
        assert_eq!(waiting.await, Err("the function was killed".to_owned()));
        assert_eq!(environment.running_invocations(), 0);
        assert_eq!(environment.invoke(json!(false)).await, Ok(json!(1)));
        assert_eq!(*ended.lock().unwrap(), [1, 1]);
    }
}
