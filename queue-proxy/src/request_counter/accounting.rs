//! Lives of requests that end at every point there is, and what is counted of them, to the nanosecond of a paused clock.
//!
//! That several threads count right is shown, for ten million lives, by the tests of `autoscaler`; here it is the guards that
//! are followed: through the queue, at the app, in a response's body, in a tunnel.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use autoscaler::breaker::{Breaker, Limit, QueueFull};
use bytes::Bytes;
use http_body::{Body, Frame};
use proxy::tracked_body::TrackedBody;
use tokio::time::{Instant, advance};

use super::*;

const LIVES: u64 = 200_000;
/// Requests here at a time, about: more than the app and the queue take.
const AT_A_TIME: usize = 200;
const SLOTS: usize = 50;
const QUEUE: usize = 100;

/// A request that is somewhere.
struct Life {
    arrived: Instant,
    proxied: bool,
    stage: Stage,
}

enum Stage {
    Waits(InFlight, Pin<Box<dyn Future<Output = Result<Permit, QueueFull>>>>),
    AtApp(InFlight),
    Answered(TrackedBody<Pieces, InFlight>),
    Tunnels(InFlight),
}

/// A body of so many pieces, which may break off after them.
struct Pieces {
    left: u64,
    breaks: bool,
}

struct Random(u64);

#[tokio::test(start_paused = true)]
async fn what_is_counted_is_the_time_that_requests_were_here_wherever_they_end() {
    let metrics = Metrics::register(&prometheus::Registry::new()).unwrap();
    let counter = Arc::new(RequestCounter::new(now(), Duration::ZERO, metrics));
    let breaker = Breaker::new(Limit::AtMost(SLOTS), QUEUE);
    let (mut random, mut lives) = (Random(1), Vec::new());
    let (mut begun, mut here, mut here_proxied, mut counted, mut counted_proxied) = (0, 0, 0, 0.0, 0.0);
    while begun < LIVES || !lives.is_empty() {
        advance(Duration::from_nanos(random.below(20_000))).await;
        if begun < LIVES && random.below(AT_A_TIME as u64 * 2) >= lives.len() as u64 {
            begun += 1;
            lives.push(Life::begin(&counter, &breaker, random.below(2) == 0));
        } else {
            let at = random.below(lives.len() as u64) as usize;
            let (arrived, proxied) = (lives[at].arrived, lives[at].proxied);
            let life = lives.swap_remove(at).step(&mut random);
            if life.is_none() {
                here += arrived.elapsed().as_nanos();
                here_proxied += if proxied { arrived.elapsed().as_nanos() } else { 0 };
            }
            lives.extend(life);
        }
        if random.below(1000) == 0 || (begun == LIVES && lives.is_empty()) {
            assert_eq!(counter.in_flight(), lives.len() as u64);
            let report = counter.report(now());
            counted += report.average_concurrency * report.period.as_nanos() as f64;
            counted_proxied += report.average_proxied_concurrency * report.period.as_nanos() as f64;
        }
    }
    for (counted, here) in [(counted, here), (counted_proxied, here_proxied)] {
        assert!((counted / here as f64 - 1.0).abs() <= 1e-6, "{counted} ns instead of {here}");
    }
    assert_eq!((breaker.in_flight(), breaker.queued()), (0, 0), "every permit came back");
}

// === impl Life ===

impl Life {
    fn begin(counter: &Arc<RequestCounter>, breaker: &Breaker, proxied: bool) -> Self {
        let (request, breaker) = (counter.enter(proxied), breaker.clone());
        let slot = Box::pin(async move { breaker.acquire().await });
        Self { arrived: Instant::now(), proxied, stage: Stage::Waits(request, slot) }
    }

    /// What becomes of it next; nothing, if it has ended.
    fn step(self, random: &mut Random) -> Option<Self> {
        if random.below(8) == 0 {
            // The caller has gone away.
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
            Self::Waits(mut request, mut slot) => match slot.as_mut().poll(&mut cx) {
                Poll::Pending => Some(Self::Waits(request, slot)),
                Poll::Ready(Ok(permit)) => {
                    request.admitted(permit);
                    Some(Self::AtApp(request))
                }
                Poll::Ready(Err(QueueFull { .. })) => {
                    request.answered(StatusCode::SERVICE_UNAVAILABLE);
                    None
                }
            },
            Self::AtApp(mut request) => match random.below(4) {
                0 => {
                    request.answered(StatusCode::BAD_GATEWAY);
                    None
                }
                1 => {
                    request.answered(StatusCode::SWITCHING_PROTOCOLS);
                    Some(Self::Tunnels(request))
                }
                _ => {
                    request.answered(StatusCode::OK);
                    let body = Pieces { left: random.below(5), breaks: random.below(4) == 0 };
                    let is_over = body.is_end_stream();
                    let body = TrackedBody::new(body, request);
                    (!is_over).then_some(Self::Answered(body))
                }
            },
            Self::Answered(mut body) => match Pin::new(&mut body).poll_frame(&mut cx) {
                Poll::Ready(Some(Ok(_))) if !body.is_end_stream() => Some(Self::Answered(body)),
                // Its last piece, its end, or its breaking off.
                _ => None,
            },
            Self::Tunnels(request) => Some(Self::Tunnels(request)),
        }
    }
}

// === impl Pieces ===

impl Body for Pieces {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if self.left == 0 {
            let broken = self.breaks.then(|| Err(std::io::ErrorKind::ConnectionReset.into()));
            self.breaks = false;
            return Poll::Ready(broken);
        }
        self.left -= 1;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"piece")))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0 && !self.breaks
    }
}

// === impl Random ===

impl Random {
    /// SplitMix64: the same lives in each run.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
