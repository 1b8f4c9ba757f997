//! The parts of a held request's way, for its caller and for a histogram.
//!
//! ```text
//! received ──► poke sent ──► pod's address seen ──► pod proven ──► forwarded ──► response's head
//! ├─ poke ──┤                │                     │              │             │
//! ├─ pod ────────────────────┤                     │              │             │
//! │                          ├─ probe ─────────────┤              │             │
//! ├─ hold ────────────────────────────────────────────────────────┤             │
//! │                                                               ├─ forward ───┤
//! ```
//!
//! What had happened before the request came took it no time.

use std::time::Duration;

use http::{HeaderName, HeaderValue};
use tokio::time::Instant;

use crate::concurrency_reporter::PokeSent;
use crate::metrics::ColdStartMetrics;
use crate::pod_tracker::PodTracker;

/// Header in which the parts are told, as durations in milliseconds.
pub const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// The moments of one held request.
#[derive(Debug)]
pub struct ColdStart {
    /// The request's head was read.
    pub received: Instant,
    /// Its workload's poke left.
    pub poked: Option<Instant>,
    /// The pod's address became known.
    pub seen: Instant,
    /// The pod was known to take requests.
    pub proven: Instant,
    /// It was given the request.
    pub forwarded: Instant,
    /// Its response began.
    pub answered: Instant,
}

// === impl ColdStart ===

impl ColdStart {
    /// The moments of a request that `pod` has just answered.
    pub fn of(received: Instant, poke: Option<PokeSent>, pod: &PodTracker, forwarded: Instant) -> Self {
        Self {
            received,
            poked: poke.and_then(|sent| sent.get().copied()),
            seen: pod.seen,
            proven: pod.proven().unwrap_or(pod.seen),
            forwarded,
            answered: Instant::now(),
        }
    }

    /// The header's value.
    pub fn server_timing(&self) -> Option<HeaderValue> {
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        let poke = self.poke().map(|poke| format!("rouse-poke;dur={:.1}, ", ms(poke))).unwrap_or_default();
        let text = format!(
            "rouse-hold;dur={:.1}, {poke}rouse-pod;dur={:.1}, rouse-probe;dur={:.1}, rouse-forward;dur={:.1}",
            ms(self.hold()),
            ms(self.pod()),
            ms(self.probe()),
            ms(self.forward()),
        );
        HeaderValue::try_from(text).ok()
    }

    /// Notes the parts.
    pub fn observe(&self, metrics: &ColdStartMetrics) {
        metrics.hold.observe(self.hold().as_secs_f64());
        if let Some(poke) = self.poke() {
            metrics.poke.observe(poke.as_secs_f64());
        }
        metrics.pod.observe(self.pod().as_secs_f64());
        metrics.probe.observe(self.probe().as_secs_f64());
        metrics.forward.observe(self.forward().as_secs_f64());
    }

    fn hold(&self) -> Duration {
        self.forwarded.saturating_duration_since(self.received)
    }

    fn poke(&self) -> Option<Duration> {
        Some(self.poked?.saturating_duration_since(self.received))
    }

    fn pod(&self) -> Duration {
        self.seen.saturating_duration_since(self.received)
    }

    fn probe(&self) -> Duration {
        self.proven.saturating_duration_since(self.seen.max(self.received))
    }

    fn forward(&self) -> Duration {
        self.answered.saturating_duration_since(self.forwarded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_in_milliseconds() {
        let start = Instant::now() + Duration::from_secs(1);
        let at = |ms| start + Duration::from_millis(ms);
        let way = ColdStart {
            received: at(0),
            poked: Some(at(1)),
            seen: at(400),
            proven: at(600),
            forwarded: at(601),
            answered: at(605),
        };
        let told = way.server_timing().unwrap();
        assert_eq!(
            told,
            "rouse-hold;dur=601.0, rouse-poke;dur=1.0, rouse-pod;dur=400.0, rouse-probe;dur=200.0, rouse-forward;dur=4.0"
        );
        let late = ColdStart { received: at(500), poked: None, ..way };
        assert_eq!((late.pod(), late.probe()), (Duration::ZERO, Duration::from_millis(100)));
    }
}
