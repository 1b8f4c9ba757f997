//! Checks the counted concurrency for requests that end in every stage: in the queue, at the app,
//! in the response body and as a tunnel. The clock is paused, so the sums are exact.
//!
//! Counting by several threads is covered by the tests of `autoscaler`.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use autoscaler::routing::breaker::{Breaker, ConcurrencyLimit, QueueFull};
use bytes::Bytes;
use http_body::{Body, Frame};
use proxy::tracked_body::TrackedBody;
use tokio::time::{Instant, advance};

use super::*;

const REQUESTS: u64 = 200_000;
/// Approximate number of concurrent requests: more than the slots and the queue have room for.
const CONCURRENT: usize = 200;
const SLOTS: usize = 50;
const QUEUE: usize = 100;

/// A simulated request.
struct SimulatedRequest {
    arrived: Instant,
    proxied: bool,
    stage: Stage,
}

enum Stage {
    Queued(InFlightRequest, Pin<Box<dyn Future<Output = Result<BreakerPermit, QueueFull>>>>),
    AtApp(InFlightRequest),
    Responding(TrackedBody<FramedBody, InFlightRequest>),
    Tunnel(InFlightRequest),
}

/// A body of some frames that may end with an error.
struct FramedBody {
    left: u64,
    fails: bool,
}

struct Random(u64);

#[tokio::test(start_paused = true)]
async fn counts_the_exact_time_of_requests_that_end_in_any_stage() {
    let metrics = Metrics::register(&prometheus::Registry::new()).unwrap();
    let counter = Arc::new(RequestCounter::new(now(), Duration::ZERO, metrics));
    let breaker = Breaker::new(ConcurrencyLimit::AtMost(SLOTS), QUEUE);
    let (mut random, mut requests) = (Random(1), Vec::new());
    let (mut begun, mut spent, mut spent_proxied, mut counted, mut counted_proxied) = (0, 0, 0, 0.0, 0.0);
    while begun < REQUESTS || !requests.is_empty() {
        advance(Duration::from_nanos(random.below(20_000))).await;
        if begun < REQUESTS && random.below(CONCURRENT as u64 * 2) >= requests.len() as u64 {
            begun += 1;
            requests.push(SimulatedRequest::begin(&counter, &breaker, random.below(2) == 0));
        } else {
            let at = random.below(requests.len() as u64) as usize;
            let (arrived, proxied) = (requests[at].arrived, requests[at].proxied);
            let request = requests.swap_remove(at).step(&mut random);
            if request.is_none() {
                spent += arrived.elapsed().as_nanos();
                spent_proxied += if proxied { arrived.elapsed().as_nanos() } else { 0 };
            }
            requests.extend(request);
        }
        if random.below(1000) == 0 || (begun == REQUESTS && requests.is_empty()) {
            assert_eq!(counter.in_flight(), requests.len() as u64);
            let (report, _) = counter.report(now(), None);
            counted += report.average_concurrency * report.period.as_nanos() as f64;
            counted_proxied += report.average_proxied_concurrency * report.period.as_nanos() as f64;
        }
    }
    for (counted, spent) in [(counted, spent), (counted_proxied, spent_proxied)] {
        assert!((counted / spent as f64 - 1.0).abs() <= 1e-6, "{counted} ns instead of {spent}");
    }
    assert_eq!((breaker.in_flight(), breaker.queued()), (0, 0), "a permit was not released");
}

// === impl SimulatedRequest ===

impl SimulatedRequest {
    fn begin(counter: &Arc<RequestCounter>, breaker: &Breaker, proxied: bool) -> Self {
        let (request, breaker) = (counter.enter(proxied), breaker.clone());
        let slot = Box::pin(async move { breaker.acquire().await });
        Self { arrived: Instant::now(), proxied, stage: Stage::Queued(request, slot) }
    }

    /// Moves to the next stage; `None` after the end.
    fn step(self, random: &mut Random) -> Option<Self> {
        if random.below(8) == 0 {
            // The client closes the connection.
            return None;
        }
        let stage = self.stage.step(random)?;
        Some(Self { stage, ..self })
    }
}

// === impl Stage ===

impl Stage {
    fn step(self, random: &mut Random) -> Option<Self> {
        let mut cx = Context::from_waker(Waker::noop());
        match self {
            Self::Queued(mut request, mut slot) => match slot.as_mut().poll(&mut cx) {
                Poll::Pending => Some(Self::Queued(request, slot)),
                Poll::Ready(Ok(permit)) => {
                    request.hold(permit);
                    Some(Self::AtApp(request))
                }
                Poll::Ready(Err(QueueFull { .. })) => {
                    request.set_status(StatusCode::SERVICE_UNAVAILABLE);
                    None
                }
            },
            Self::AtApp(mut request) => match random.below(4) {
                0 => {
                    request.set_status(StatusCode::BAD_GATEWAY);
                    None
                }
                1 => {
                    request.set_status(StatusCode::SWITCHING_PROTOCOLS);
                    Some(Self::Tunnel(request))
                }
                _ => {
                    request.set_status(StatusCode::OK);
                    let body = FramedBody { left: random.below(5), fails: random.below(4) == 0 };
                    let is_over = body.is_end_stream();
                    let body = TrackedBody::new(body, request);
                    (!is_over).then_some(Self::Responding(body))
                }
            },
            Self::Responding(mut body) => match Pin::new(&mut body).poll_frame(&mut cx) {
                Poll::Ready(Some(Ok(_))) if !body.is_end_stream() => Some(Self::Responding(body)),
                // The last frame, the end, or an error.
                _ => None,
            },
            Self::Tunnel(request) => Some(Self::Tunnel(request)),
        }
    }
}

// === impl FramedBody ===

impl Body for FramedBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if self.left == 0 {
            let error = self.fails.then(|| Err(std::io::ErrorKind::ConnectionReset.into()));
            self.fails = false;
            return Poll::Ready(error);
        }
        self.left -= 1;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"frame")))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0 && !self.fails
    }
}

// === impl Random ===

impl Random {
    /// SplitMix64, so that each run has the same requests.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
