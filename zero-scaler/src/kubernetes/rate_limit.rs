//! How many requests a second the API server gets from us, where nobody waits for them.
//!
//! ```text
//!  objects that describe, events ──► paced ──┐
//!  /scale, EndpointSlices, leased ports ─────┴──► API server
//! ```
//!
//! The bound is client-go's, with its names: so many a second, and so many at once after a rest. What a caller's request may hang
//! on passes it by: sizes, the endpoints, the status by which activators open ports.
//!
//! There is one line. Most who ask stand in it, and it is no longer than there are looks at a time. A workload does not: its next
//! look may have a size to write. It is told when to come again, and its place is kept.

use std::collections::HashMap;
use std::future::Future;
use std::num::NonZeroU32;
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

/// Workloads whose place in the line is kept.
const MOST_PLACES: usize = 100_000;
/// When those should come again for whom no place can be kept.
const NO_PLACE: Duration = Duration::from_secs(1);

/// What the API server may be asked for.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Requests a second.
    pub qps: NonZeroU32,
    /// Requests at once after a rest.
    pub burst: NonZeroU32,
}

/// The line.
#[derive(Debug)]
pub struct RateLimit {
    turns: Arc<Turns>,
    places: Mutex<HashMap<Key, Instant>>,
    waited: Counter,
}

/// The requests of a client, each at its turn.
#[derive(Clone)]
struct Paced {
    client: Client,
    turns: Arc<Turns>,
    waited: Counter,
}

/// Whose turn it is: a bucket of tokens, written as the moment at which all that were taken will have come back.
#[derive(Debug)]
struct Turns {
    /// Time that one request stands for.
    each: Duration,
    /// How far the requests of one moment may be ahead of it.
    ahead: Duration,
    back_at: Mutex<Instant>,
}

// === impl Pace ===

impl RateLimit {
    /// Nobody has asked for anything yet. `waited` counts the seconds that requests wait in all.
    pub fn new(rate: Rate, waited: Counter) -> Self {
        Self { turns: Arc::new(Turns::new(rate)), places: Mutex::default(), waited }
    }

    /// A client whose requests stand in the line, made of one whose do not.
    pub fn client(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        Client::new(Paced { client, turns: self.turns.clone(), waited: self.waited.clone() }, namespace)
    }

    /// Whether a workload may make so many requests now.
    ///
    /// # Errors
    /// When it may not: how long it is until its turn. Its place is kept until it asks then or later.
    pub fn turn(&self, key: &Key, requests: u32) -> Result<(), Duration> {
        if requests == 0 {
            return Ok(());
        }
        let now = Instant::now();
        let mut places = self.places.lock();
        let turn = match places.get(key) {
            Some(place) => *place,
            None if places.len() >= MOST_PLACES => return Err(NO_PLACE),
            None => self.turns.next(requests, now),
        };
        if turn <= now {
            places.remove(key);
            return Ok(());
        }
        if places.insert(key.clone(), turn).is_none() {
            self.waited.inc_by((turn - now).as_secs_f64());
        }
        Err(turn - now)
    }

    /// Gives up the places of workloads that are gone; to be called now and then.
    pub fn prune(&self, exists: impl Fn(&Key) -> bool) {
        self.places.lock().retain(|key, _| exists(key));
    }
}

// === impl Turns ===

impl Turns {
    fn new(rate: Rate) -> Self {
        let each = Duration::from_secs(1) / rate.qps.get();
        Self { each, ahead: each * rate.burst.get(), back_at: Mutex::new(Instant::now()) }
    }

    /// Takes the next turn, for so many requests: when it is.
    fn next(&self, requests: u32, now: Instant) -> Instant {
        let mut back_at = self.back_at.lock();
        // The first of them needs a token, and the others come with it: a burst may be smaller than they are.
        let first = (*back_at).max(now) + self.each;
        *back_at = first + self.each * (requests - 1);
        first.checked_sub(self.ahead).map_or(now, |turn| turn.max(now))
    }
}

// === impl Paced ===

impl Service<Request<Body>> for Paced {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { client, turns, waited } = self.clone();
        Box::pin(async move {
            let now = Instant::now();
            let turn = turns.next(1, now);
            if turn > now {
                waited.inc_by((turn - now).as_secs_f64());
                sleep_until(turn).await;
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
    async fn a_burst_goes_at_once_and_the_rest_at_its_pace() {
        let waited = Counter::new("waited", "waited").unwrap();
        let api = FakeApi::default();
        let pace = RateLimit::new(RATE, waited.clone());
        let maps: Api<ConfigMap> = Api::namespaced(pace.client(api.client()), "shop");
        let ask = || async {
            maps.get_opt("a").await.unwrap();
        };
        let took = async |requests: usize| {
            let began = Instant::now();
            join_all((0..requests).map(|_| ask())).await;
            began.elapsed().as_millis()
        };
        assert_eq!((took(100).await, waited.get()), (0, 0.0));
        // Timers are as fine as a millisecond.
        assert!((1000..=1001).contains(&took(50).await));
        assert!(waited.get() > 25.0, "{}", waited.get());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(took(50).await, 0, "what came back in a second");
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(took(100).await, 0);
        assert!((20..=21).contains(&took(1).await), "and never more than a burst");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_comes_through_as_it_is() {
        let waited = Counter::new("waited", "waited").unwrap();
        let client = RateLimit::new(RATE, waited).client(FakeApi::default().client());
        let maps: Api<ConfigMap> = Api::namespaced(client, "shop");
        let error = maps.get("a").await.unwrap_err();
        assert!(matches!(&error, kube::Error::Api(status) if status.code == 404), "{error:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_workload_keeps_its_place_without_standing_in_the_line() {
        let pace = RateLimit::new(RATE, Counter::new("waited", "waited").unwrap());
        let (web, api) = (Key::new("shop", "web"), Key::new("shop", "api"));
        for _ in 0..50 {
            assert_eq!(pace.turn(&web, 2), Ok(()));
        }
        assert_eq!(pace.turn(&web, 0), Ok(()), "who asks for nothing may always");
        let milliseconds = Duration::from_millis;
        assert_eq!(pace.turn(&web, 1), Err(milliseconds(20)));
        assert_eq!(pace.turn(&api, 1), Err(milliseconds(40)));
        tokio::time::advance(milliseconds(10)).await;
        assert_eq!(pace.turn(&web, 1), Err(milliseconds(10)), "the same place");
        tokio::time::advance(milliseconds(30)).await;
        assert_eq!((pace.turn(&api, 1), pace.turn(&web, 1)), (Ok(()), Ok(())));
        assert_eq!(pace.turn(&web, 1), Err(milliseconds(20)));
        pace.prune(|_| false);
        assert!(pace.places.lock().is_empty());
    }
}
