//! A Kubernetes API in memory: objects by their paths, resource versions, conflicts, server-side apply, the subresources
//! `status` and `scale`, watches and outages.
//!
//! For tests of code that talks to the API through a [`kube::Client`], on a paused clock if they like: there is no socket,
//! unless a test has another process use it ([`FakeApi::serve`]). It keeps what it is given and knows nothing of kinds; reviews
//! are answered by a function of the test. What a real API server does beyond that (validation, admission, garbage
//! collection) it does not: such tests belong on a cluster.

mod merge;
mod path;
mod serve;
mod store;
mod watch;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch as latest;
use tower_service::Service;

pub use serve::kubeconfig;

use path::{Path, Query};
use store::{Refusal, Store};

/// The content type of server-side apply.
const APPLY: &str = "application/apply-patch+yaml";

/// The API. Clones share it.
#[derive(Clone, Debug)]
pub struct FakeApi {
    state: Arc<Mutex<State>>,
    /// How many changes there have been, for the watches.
    changes: latest::Sender<usize>,
}

/// How it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// Every request is answered by 500.
    Failing,
    /// No request is answered.
    Hanging,
}

/// An answer of a test to something that is created and not kept.
type Answering = Arc<dyn Fn(Value) -> Value + Send + Sync>;

#[derive(Default)]
struct State {
    store: Store,
    outage: Option<Outage>,
    answering: Vec<(String, Answering)>,
    /// Paths of groups and versions, with the resources that discovery finds there.
    kinds: Vec<(String, Value)>,
    requests: Vec<String>,
    /// Writes until the process that writes is lost, if it is to be.
    writes_left: Option<usize>,
    /// A resource whose watches say nothing.
    silenced: Option<String>,
    /// How often the watches were ended.
    watches_broken: usize,
    /// The version before which nothing can be watched any more.
    forgotten: usize,
}

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

// === impl FakeApi ===

impl Default for FakeApi {
    fn default() -> Self {
        Self { state: Arc::default(), changes: latest::Sender::new(0) }
    }
}

impl FakeApi {
    /// A client of it. Needs a runtime.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    /// Puts an object at its path (`/api/v1/namespaces/shop/secrets/a`), whatever was there.
    pub fn put(&self, path: &str, object: Value) {
        self.change(|store| store.put(&Path::of(path), object));
    }

    /// Takes an object away.
    pub fn remove(&self, path: &str) {
        self.change(|store| drop(store.remove(&Path::of(path), &Value::Null)));
    }

    /// The object at a path.
    pub fn get(&self, path: &str) -> Option<Value> {
        self.lock().store.get(&Path::of(path)).ok()
    }

    /// From now on what is created in the collection at `path` is answered by `answer` and not kept: reviews.
    pub fn answer_creations(&self, path: &str, answer: impl Fn(Value) -> Value + Send + Sync + 'static) {
        self.lock().answering.push((path.to_owned(), Arc::new(answer)));
    }

    /// From now on discovery finds these resources at the path of a group and version (`/apis/example.com/v1`). All others are
    /// not known, though objects may be there.
    pub fn discover(&self, path: &str, resources: Value) {
        self.lock().kinds.push((path.to_owned(), resources));
    }

    /// Begins or ends an outage. Watches go silent in one.
    pub fn set_outage(&self, outage: Option<Outage>) {
        self.lock().outage = outage;
        self.changes.send_modify(|_| {});
    }

    /// All requests since the start, as `METHOD path`.
    pub fn requests(&self) -> Vec<String> {
        self.lock().requests.clone()
    }

    /// The same, without so many of the first.
    pub fn requests_since(&self, first: usize) -> Vec<String> {
        self.lock().requests.get(first..).unwrap_or_default().to_vec()
    }

    /// The requests since the start that were to change something, as `METHOD path`.
    pub fn writes(&self) -> Vec<String> {
        self.requests().into_iter().filter(|request| !request.starts_with("GET ")).collect()
    }

    /// How many changes there have been.
    pub fn version(&self) -> usize {
        self.lock().store.log().len()
    }

    /// All objects, with their paths.
    pub fn objects(&self) -> Vec<(String, Value)> {
        self.lock().store.all().map(|(id, object)| (id.to_string(), object.as_ref().clone())).collect()
    }

    /// Carries out so many more writes, and then answers nobody, not even who sent the last of them: as if that process had
    /// crashed right after it. Ends with `set_outage(None)`.
    pub fn crash_after(&self, writes: usize) {
        self.lock().writes_left = Some(writes);
    }

    /// Whether nobody is answered now.
    pub fn is_hanging(&self) -> bool {
        self.lock().outage == Some(Outage::Hanging)
    }

    /// From now on watches of this resource (`/apis/apps/v1/deployments`) say nothing, until that is taken back.
    pub fn silence(&self, resource: Option<&str>) {
        self.lock().silenced = resource.map(str::to_owned);
        self.changes.send_modify(|_| {});
    }

    /// Ends all watches. With `forgetting` those that begin anew hear that their version is too old, and have to list.
    pub fn break_watches(&self, forgetting: bool) {
        let mut state = self.lock();
        state.watches_broken += 1;
        if forgetting {
            state.forgotten = state.store.log().len();
        }
        drop(state);
        self.changes.send_modify(|_| {});
    }

    fn change<T>(&self, change: impl FnOnce(&mut Store) -> T) -> T {
        let mut state = self.lock();
        let changed = change(&mut state.store);
        self.changes.send_replace(state.store.log().len());
        changed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(self, request: Request<Body>) -> Answer {
        let (parts, body) = request.into_parts();
        let outage = {
            let mut state = self.lock();
            state.requests.push(format!("{} {}", parts.method, parts.uri.path()));
            state.outage
        };
        match outage {
            Some(Outage::Hanging) => return std::future::pending().await,
            Some(Outage::Failing) => return refused(Refusal::Broken),
            None => {}
        }
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        if query.watch {
            return self.watch(&Path::of(parts.uri.path()), &query);
        }
        let body = body.collect_bytes().await.unwrap_or_default();
        let object = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let applied = parts.headers.get(CONTENT_TYPE).is_some_and(|kind| kind == APPLY);
        let outcome = self.carry_out(&parts.method, parts.uri.path(), &query, object, applied);
        if parts.method != Method::GET && self.is_last_write() {
            return std::future::pending().await;
        }
        match outcome {
            Ok((status, value)) => json_answer(status, &value),
            Err(refusal) => refused(refusal),
        }
    }

    /// Counts a write; whether it was the last before a crash.
    fn is_last_write(&self) -> bool {
        let mut state = self.lock();
        let Some(left) = state.writes_left.as_mut() else { return false };
        *left = left.saturating_sub(1);
        let last = *left == 0;
        if last {
            state.writes_left = None;
            state.outage = Some(Outage::Hanging);
        }
        last
    }

    fn carry_out(
        &self,
        method: &Method,
        path: &str,
        query: &Query,
        object: Value,
        applied: bool,
    ) -> Result<(StatusCode, Value), Refusal> {
        let answering =
            self.lock().answering.iter().find(|(at, _)| at == path).map(|(_, answer)| answer.clone());
        let path = Path::of(path);
        let ok = |value| (StatusCode::OK, value);
        match (method, answering) {
            (&Method::POST, Some(answer)) => Ok((StatusCode::CREATED, answer(object))),
            (&Method::POST, None) => {
                self.change(|store| store.create(&path, object)).map(|value| (StatusCode::CREATED, value))
            }
            (&Method::PUT, _) => {
                self.change(|store| store.replace(&path, object, &query.field_manager)).map(ok)
            }
            (&Method::PATCH, _) if applied => {
                self.change(|store| store.apply(&path, object, &query.field_manager)).map(ok)
            }
            (&Method::PATCH, _) => {
                self.change(|store| store.merge(&path, &object, &query.field_manager)).map(ok)
            }
            (&Method::DELETE, _) => {
                let preconditions = object.get("preconditions").unwrap_or(&Value::Null);
                self.change(|store| store.remove(&path, preconditions)).map(ok)
            }
            _ if path.is_group_version() => self.kinds(&path).map(ok),
            _ if path.is_collection() => Ok(ok(self.lock().store.list(&path, query))),
            _ => self.lock().store.get(&path).map(ok),
        }
    }

    fn kinds(&self, path: &Path) -> Result<Value, Refusal> {
        let state = self.lock();
        let (_, resources) =
            state.kinds.iter().find(|(at, _)| *at == path.resource).ok_or(Refusal::NotFound)?;
        let group_version = path.resource.trim_start_matches("/apis/");
        Ok(json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": resources}))
    }

    fn watch(&self, path: &Path, query: &Query) -> Answer {
        let events = watch::events(self.clone(), path.clone(), query.clone());
        Response::new(UnsyncBoxBody::new(http_body_util::StreamBody::new(events)))
    }
}

impl Service<Request<Body>> for FakeApi {
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let api = self.clone();
        let answer: BoxFuture<'static, _> = Box::pin(async move { Ok(api.answer(request).await) });
        answer
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("store", &self.store)
            .field("outage", &self.outage)
            .finish_non_exhaustive()
    }
}

fn refused(refusal: Refusal) -> Answer {
    let (status, reason) = refusal.code_and_reason();
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": reason, "reason": reason, "code": status.as_u16(),
    });
    json_answer(status, &body)
}

fn json_answer(status: StatusCode, value: &Value) -> Answer {
    let mut answer = Response::new(UnsyncBoxBody::new(Full::new(Bytes::from(value.to_string()))));
    *answer.status_mut() = status;
    answer
}
