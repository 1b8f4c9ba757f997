//! The rate limit of requests to the API server, and its two clients: one with the limit, one
//! without.
//!
//! ```text
//!  HPA-derived objects, events ── RateLimitedClient ──┐
//!  /scale, EndpointSlices, ports ── UrgentClient ─────┴──► API server
//! ```
//!
//! The limit is client-go's, with its names: `qps` on average, `burst` after a pause. Writes that
//! held requests depend on bypass it: sizes, endpoints, and the status from which activators open
//! ports.
//!
//! Most requests queue, and the queue is no longer than the number of concurrent reconciles. A
//! workload does not queue, because its next reconcile may have an urgent write. Its reconcile is
//! repeated later instead, and its reservation is kept.

use std::collections::HashMap;
use std::future::Future;
use std::num::NonZeroU32;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use autoscaler::Key;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use prometheus::Counter;
use tokio::time::{Instant, sleep_until};
use tower_service::Service;

/// Upper bound of the workloads with a reservation.
const MAX_RESERVATIONS: usize = 100_000;
/// Retry delay of workloads beyond that bound.
const UNRESERVED_DELAY: Duration = Duration::from_secs(1);

/// Upper bound of the requests to the API server.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Requests per second.
    pub qps: NonZeroU32,
    /// Requests at once after a pause.
    pub burst: NonZeroU32,
}

/// The rate limit of one process.
#[derive(Debug)]
pub struct RateLimit {
    bucket: Arc<TokenBucket>,
    reservations: Mutex<HashMap<Key, Instant>>,
    delayed_seconds: Counter,
}

/// A client whose requests are delayed by the rate limit. The default choice.
#[derive(Clone)]
pub struct RateLimitedClient(Client);

/// A client that bypasses the rate limit, for writes that held requests depend on and for reads.
#[derive(Clone)]
pub struct UrgentClient(Client);

/// Delays the requests of a client.
#[derive(Clone)]
struct DelayedRequests {
    client: Client,
    bucket: Arc<TokenBucket>,
    delayed_seconds: Counter,
}

/// A token bucket, stored as the time at which it will be full again.
#[derive(Debug)]
struct TokenBucket {
    /// Time in which one token returns.
    interval: Duration,
    /// Time in which an empty bucket fills.
    capacity: Duration,
    full_at: Mutex<Instant>,
}

// === impl RateLimit ===

impl RateLimit {
    /// A limit with a full bucket. `delayed_seconds` counts the delay of all requests.
    pub fn new(rate: Rate, delayed_seconds: Counter) -> Self {
        Self { bucket: Arc::new(TokenBucket::new(rate)), reservations: Mutex::default(), delayed_seconds }
    }

    /// Applies this limit to a client.
    pub fn client(&self, client: &UrgentClient) -> RateLimitedClient {
        let client = client.0.clone();
        let namespace = client.default_namespace().to_owned();
        let (bucket, delayed_seconds) = (self.bucket.clone(), self.delayed_seconds.clone());
        RateLimitedClient(Client::new(DelayedRequests { client, bucket, delayed_seconds }, namespace))
    }

    /// Takes the tokens for this many requests of a workload.
    ///
    /// # Errors
    /// The delay until they are available. They are reserved until the workload tries then or
    /// later.
    pub fn try_acquire(&self, key: &Key, requests: u32) -> Result<(), Duration> {
        if requests == 0 {
            return Ok(());
        }
        let now = Instant::now();
        let mut reservations = self.reservations.lock();
        let due = match reservations.get(key) {
            Some(reserved) => *reserved,
            None if reservations.len() >= MAX_RESERVATIONS => return Err(UNRESERVED_DELAY),
            None => self.bucket.reserve(requests, now),
        };
        if due <= now {
            reservations.remove(key);
            return Ok(());
        }
        if reservations.insert(key.clone(), due).is_none() {
            self.delayed_seconds.inc_by((due - now).as_secs_f64());
        }
        Err(due - now)
    }

    /// Drops the reservations of deleted workloads; called periodically.
    pub fn prune(&self, exists: impl Fn(&Key) -> bool) {
        self.reservations.lock().retain(|key, _| exists(key));
    }
}

// === impl RateLimitedClient ===

impl Deref for RateLimitedClient {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.0
    }
}

// === impl UrgentClient ===

impl UrgentClient {
    /// Marks a client as urgent.
    pub fn new(client: Client) -> Self {
        Self(client)
    }

    /// The client without a rate limit. The name makes each use visible: take a
    /// [`RateLimitedClient`] unless a held request depends on the write.
    pub fn without_rate_limit(&self) -> &Client {
        &self.0
    }
}

// === impl TokenBucket ===

impl TokenBucket {
    fn new(rate: Rate) -> Self {
        let interval = Duration::from_secs(1) / rate.qps.get();
        Self { interval, capacity: interval * rate.burst.get(), full_at: Mutex::new(Instant::now()) }
    }

    /// Takes the tokens for this many requests and returns when they are available.
    fn reserve(&self, requests: u32, now: Instant) -> Instant {
        let mut full_at = self.full_at.lock();
        // The first request needs a token and the others come with it: a burst may be smaller than
        // they are.
        let first = (*full_at).max(now) + self.interval;
        *full_at = first + self.interval * (requests - 1);
        first.checked_sub(self.capacity).map_or(now, |due| due.max(now))
    }
}

// === impl DelayedRequests ===

impl Service<Request<Body>> for DelayedRequests {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { client, bucket, delayed_seconds } = self.clone();
        Box::pin(async move {
            let now = Instant::now();
            let due = bucket.reserve(1, now);
            if due > now {
                delayed_seconds.inc_by((due - now).as_secs_f64());
                sleep_until(due).await;
            }
            client.send(request).await
        })
    }
}

#[cfg(test)]
mod tests {
    use fake_api::FakeApi;
    use futures::future::join_all;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;

    use super::*;

    const RATE: Rate = Rate { qps: NonZeroU32::new(50).unwrap(), burst: NonZeroU32::new(100).unwrap() };

    #[tokio::test(start_paused = true)]
    async fn sends_burst_at_once_and_the_rest_at_the_rate() {
        let delayed = Counter::new("delayed", "delayed").unwrap();
        let api = FakeApi::default();
        let limit = RateLimit::new(RATE, delayed.clone());
        let maps: Api<ConfigMap> =
            Api::namespaced((*limit.client(&UrgentClient::new(api.client()))).clone(), "shop");
        let get = || async {
            maps.get_opt("a").await.unwrap();
        };
        let elapsed = async |requests: usize| {
            let began = Instant::now();
            join_all((0..requests).map(|_| get())).await;
            began.elapsed().as_millis()
        };
        assert_eq!((elapsed(100).await, delayed.get()), (0, 0.0));
        // Timers have a resolution of one millisecond.
        assert!((1000..=1001).contains(&elapsed(50).await));
        assert!(delayed.get() > 25.0, "{}", delayed.get());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(elapsed(50).await, 0, "tokens of one second");
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(elapsed(100).await, 0);
        assert!((20..=21).contains(&elapsed(1).await), "never more than a burst");
    }

    #[tokio::test(start_paused = true)]
    async fn passes_api_errors_unchanged() {
        let delayed = Counter::new("delayed", "delayed").unwrap();
        let client = RateLimit::new(RATE, delayed).client(&UrgentClient::new(FakeApi::default().client()));
        let maps: Api<ConfigMap> = Api::namespaced((*client).clone(), "shop");
        let error = maps.get("a").await.unwrap_err();
        assert!(matches!(&error, kube::Error::Api(status) if status.code == 404), "{error:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn keeps_reservation_of_workload_until_it_is_due() {
        let limit = RateLimit::new(RATE, Counter::new("delayed", "delayed").unwrap());
        let (web, api) = (Key::new("shop", "web"), Key::new("shop", "api"));
        for _ in 0..50 {
            assert_eq!(limit.try_acquire(&web, 2), Ok(()));
        }
        assert_eq!(limit.try_acquire(&web, 0), Ok(()), "no request needs no token");
        let milliseconds = Duration::from_millis;
        assert_eq!(limit.try_acquire(&web, 1), Err(milliseconds(20)));
        assert_eq!(limit.try_acquire(&api, 1), Err(milliseconds(40)));
        tokio::time::advance(milliseconds(10)).await;
        assert_eq!(limit.try_acquire(&web, 1), Err(milliseconds(10)), "the same reservation");
        tokio::time::advance(milliseconds(30)).await;
        assert_eq!((limit.try_acquire(&api, 1), limit.try_acquire(&web, 1)), (Ok(()), Ok(())));
        assert_eq!(limit.try_acquire(&web, 1), Err(milliseconds(20)));
        limit.prune(|_| false);
        assert!(limit.reservations.lock().is_empty());
    }
}
