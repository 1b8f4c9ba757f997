//! The objects of the API, its faults, and its log of requests, as tests set and read them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;
use tokio::sync::watch as latest;

use crate::path::Path;
use crate::store::Store;

/// The API. Clones share it.
#[derive(Clone, Debug)]
pub struct FakeApi {
    state: Arc<Mutex<State>>,
    /// The number of changes, for the watches.
    pub(crate) changes: latest::Sender<usize>,
}

/// A failure of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// Every request gets a 500.
    Failing,
    /// Every request gets this status: 429 (with `Retry-After`), 503 or 504.
    Shedding(u16),
    /// No request gets a response.
    Hanging,
}

/// Computes the response to the creation of an object that is not stored.
type CreationResponse = Arc<dyn Fn(Value) -> Value + Send + Sync>;

#[derive(Default)]
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) outage: Option<Outage>,
    /// Responses to reads, by path.
    pub(crate) read_responses: HashMap<String, (StatusCode, Bytes)>,
    pub(crate) creation_responses: Vec<(String, CreationResponse)>,
    /// Beginnings of paths to which no write is accepted, with the status and the reason.
    pub(crate) refused_writes: Vec<(String, StatusCode, String)>,
    /// Paths of groups and versions, with the resources that discovery returns there.
    pub(crate) discovery: Vec<(String, Value)>,
    pub(crate) requests: Vec<String>,
    /// Number of writes until the simulated crash of the writing process.
    pub(crate) writes_left: Option<usize>,
    /// Delay of the response to each write.
    pub(crate) write_latency: Duration,
    /// The resource with paused watches.
    pub(crate) paused_watch: Option<String>,
    /// How often the watches were ended; a watch ends when this differs from its start.
    pub(crate) watch_generation: usize,
    /// Watches from older versions get an error.
    pub(crate) oldest_version: usize,
}

// === impl FakeApi ===

impl Default for FakeApi {
    fn default() -> Self {
        Self { state: Arc::default(), changes: latest::Sender::new(0) }
    }
}

impl FakeApi {
    /// A client of this API. Needs a runtime.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    /// Stores an object at its path (`/api/v1/namespaces/shop/secrets/a`), whatever is there.
    pub fn put(&self, path: &str, object: Value) {
        self.change(|store| store.put(&Path::of(path), object));
    }

    /// Deletes an object.
    pub fn remove(&self, path: &str) {
        self.change(|store| drop(store.remove(&Path::of(path), &Value::Null)));
    }

    /// The object at a path.
    pub fn get(&self, path: &str) -> Option<Value> {
        self.lock().store.get(&Path::of(path)).ok()
    }

    /// From now on, `respond` computes the response to each creation in the collection at `path`,
    /// and nothing is stored: for reviews.
    pub fn respond_to_creations(&self, path: &str, respond: impl Fn(Value) -> Value + Send + Sync + 'static) {
        self.lock().creation_responses.push((path.to_owned(), Arc::new(respond)));
    }

    /// From now on, each write to a path that begins with `path` gets 403 with this message, until
    /// it is allowed again by `None`. `{request}` in the message is the number of the request, for
    /// answers of which no two are equal.
    pub fn refuse_writes(&self, path: &str, message: Option<&str>) {
        let mut state = self.lock();
        state.refused_writes.retain(|(at, ..)| at != path);
        let refusal = |message: &str| (path.to_owned(), StatusCode::FORBIDDEN, message.to_owned());
        state.refused_writes.extend(message.map(refusal));
    }

    /// The same with another status.
    pub fn fail_writes(&self, path: &str, status: StatusCode, message: &str) {
        self.refuse_writes(path, None);
        self.lock().refused_writes.push((path.to_owned(), status, message.to_owned()));
    }

    /// From now on, each GET of `path` gets this response, whatever is stored: for aggregated APIs.
    pub fn respond_to_reads(&self, path: &str, status: StatusCode, body: impl Into<Bytes>) {
        self.lock().read_responses.insert(path.to_owned(), (status, body.into()));
    }

    /// Sets the resources that discovery returns at the path of a group and version
    /// (`/apis/example.com/v1`). Discovery of all others fails, even if objects exist there.
    pub fn set_discovery(&self, path: &str, resources: Value) {
        let mut state = self.lock();
        state.discovery.retain(|(at, _)| at != path);
        state.discovery.push((path.to_owned(), resources));
    }

    /// Begins or ends an outage. Watches send nothing during one.
    pub fn set_outage(&self, outage: Option<Outage>) {
        self.lock().outage = outage;
        self.changes.send_modify(|_| {});
    }

    /// All requests since the start, as `METHOD path`.
    pub fn requests(&self) -> Vec<String> {
        self.lock().requests.clone()
    }

    /// The same without the first `first`.
    pub fn requests_since(&self, first: usize) -> Vec<String> {
        self.lock().requests.get(first..).unwrap_or_default().to_vec()
    }

    /// The requests since the start other than GET, as `METHOD path`.
    pub fn writes(&self) -> Vec<String> {
        self.requests().into_iter().filter(|request| !request.starts_with("GET ")).collect()
    }

    /// The number of changes since the start.
    pub fn version(&self) -> usize {
        self.lock().store.log().len()
    }

    /// All objects, with their paths.
    pub fn objects(&self) -> Vec<(String, Value)> {
        self.lock().store.all().map(|(id, object)| (id.to_string(), object.as_ref().clone())).collect()
    }

    /// Executes this many more writes and then sends no response to any request, not even to the
    /// last of the writes: as if the writing process had crashed right after it. `set_outage(None)`
    /// ends it.
    pub fn crash_after(&self, writes: usize) {
        self.lock().writes_left = Some(writes);
    }

    /// Delays the response to each write.
    pub fn set_write_latency(&self, latency: Duration) {
        self.lock().write_latency = latency;
    }

    /// Whether requests get no response.
    pub fn is_hanging(&self) -> bool {
        self.lock().outage == Some(Outage::Hanging)
    }

    /// Pauses the watches of this resource (`/apis/apps/v1/deployments`); `None` resumes them.
    pub fn pause_watches(&self, resource: Option<&str>) {
        self.lock().paused_watch = resource.map(str::to_owned);
        self.changes.send_modify(|_| {});
    }

    /// Ends all watches. With `expire`, a new watch gets an error because its version is too old,
    /// and its client has to list.
    pub fn break_watches(&self, expire: bool) {
        let mut state = self.lock();
        state.watch_generation += 1;
        if expire {
            state.oldest_version = state.store.log().len();
        }
        drop(state);
        self.changes.send_modify(|_| {});
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Store) -> T) -> T {
        let mut state = self.lock();
        let changed = change(&mut state.store);
        self.changes.send_replace(state.store.log().len());
        changed
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
