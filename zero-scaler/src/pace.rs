//! How many requests a second the API server gets from us, where nobody waits for them.
//!
//! ```text
//!  objects that describe, events ──► paced ──┐
//!  /scale, EndpointSlices, leased ports ─────┴──► API server
//! ```
//!
//! The bound is client-go's, with its names: so many a second, and so many at once after a rest. What a caller's request may hang
//! on passes it by: sizes, the endpoints, the status by which activators open ports. Who waits keeps its place in the line, so
//! that nobody is overtaken for ever; the line is as long as there are looks at a time.

use std::future::Future;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use prometheus::Counter;
use tokio::time::{Instant, sleep_until};
use tower_service::Service;

/// What the API server may be asked for.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Requests a second.
    pub qps: NonZeroU32,
    /// Requests at once after a rest.
    pub burst: NonZeroU32,
}

/// A client that keeps to a rate, made of one that does not. `waited` counts the seconds that requests wait in all.
pub fn paced(client: Client, rate: Rate, waited: Counter) -> Client {
    let namespace = client.default_namespace().to_owned();
    Client::new(Paced { client, turns: Arc::new(Turns::new(rate)), waited }, namespace)
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

// === impl Turns ===

impl Turns {
    fn new(rate: Rate) -> Self {
        let each = Duration::from_secs(1) / rate.qps.get();
        Self { each, ahead: each * rate.burst.get(), back_at: Mutex::new(Instant::now()) }
    }

    /// Takes the next turn: when it is.
    fn next(&self, now: Instant) -> Instant {
        let mut back_at = self.back_at.lock().unwrap_or_else(PoisonError::into_inner);
        *back_at = (*back_at).max(now) + self.each;
        back_at.checked_sub(self.ahead).map_or(now, |turn| turn.max(now))
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
            let turn = turns.next(now);
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
        let maps: Api<ConfigMap> = Api::namespaced(paced(api.client(), RATE, waited.clone()), "shop");
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
        let maps: Api<ConfigMap> = Api::namespaced(paced(FakeApi::default().client(), RATE, waited), "shop");
        let error = maps.get("a").await.unwrap_err();
        assert!(matches!(&error, kube::Error::Api(status) if status.code == 404), "{error:?}");
    }
}
