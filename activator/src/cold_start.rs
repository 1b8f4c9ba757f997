//! The parts of a held request's way, for its caller and for a histogram.
//!
//! ```text
//! received ─► poke sent ─► pod seen ─► it has a node ─► its address seen ─► it is proven ─► forwarded ─► response's head
//! ├─ poke ──┤              │           │                │                   │              │            │
//! ├─ create ───────────────┼─ schedule ┼─ start ────────┼─ probe ───────────┤              │            │
//! ├─ pod ───────────────────────────────────────────────┤                                  │            │
//! ├─ hold ─────────────────────────────────────────────────────────────────────────────────┼─ forward ──┤
//! ```
//!
//! `create` is the decision, the write of `/scale` and Kubernetes' controllers together: what happens in other processes is
//! seen here by what comes of it.
//! What had happened before the request came took it no time.

use std::time::Duration;

use autoscaler::Key;
use autoscaler::stats::SlowWake;
use http::{HeaderName, HeaderValue};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::concurrency_reporter::PokeSent;
use crate::pod_starts::PodStart;
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
    /// The pod's object was seen, if that was before its address.
    pub appeared: Option<Instant>,
    /// It had a node.
    pub scheduled: Option<Instant>,
    /// The pod's address became known.
    pub seen: Instant,
    /// The pod was known to take requests.
    pub proven: Instant,
    /// It was given the request.
    pub forwarded: Instant,
    /// Its response began.
    pub answered: Instant,
}

/// One part of the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// From receipt to forwarding.
    Hold,
    /// From receipt to the poke's departure.
    Poke,
    /// From receipt to the pod's object.
    Create,
    /// From the pod's object to its node.
    Schedule,
    /// From the pod's node to its address.
    Start,
    /// From receipt to the pod's address.
    Pod,
    /// From the pod's address to its answer.
    Probe,
    /// From forwarding to the response's head.
    Forward,
}

/// The slow wakes of one workload.
#[derive(Debug, Default)]
pub struct SlowWakes {
    last: Mutex<Option<Instant>>,
}

// === impl ColdStart ===

impl ColdStart {
    /// The moments of a request that `pod` has just answered.
    pub fn of(
        received: Instant,
        poke: Option<PokeSent>,
        start: Option<PodStart>,
        pod: &PodTracker,
        forwarded: Instant,
    ) -> Self {
        Self {
            appeared: start.map(|start| start.appeared),
            scheduled: start.and_then(|start| start.scheduled),
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
        let entry = |(part, duration): (Part, Duration)| {
            format!("rouse-{};dur={:.1}", part.as_str(), duration.as_secs_f64() * 1e3)
        };
        HeaderValue::try_from(self.parts().map(entry).collect::<Vec<_>>().join(", ")).ok()
    }

    /// The parts that are known.
    pub fn parts(&self) -> impl Iterator<Item = (Part, Duration)> + use<'_> {
        Part::ALL.into_iter().filter_map(|part| Some((part, self.part(part)?)))
    }

    /// How long a part took.
    pub fn part(&self, part: Part) -> Option<Duration> {
        Some(match part {
            Part::Hold => self.forwarded.saturating_duration_since(self.received),
            Part::Poke => self.since_received(self.poked?),
            Part::Create => self.since_received(self.appeared?),
            Part::Schedule => self.between(self.appeared?, self.scheduled?),
            Part::Start => self.between(self.scheduled?, self.seen),
            Part::Pod => self.since_received(self.seen),
            Part::Probe => self.between(self.seen, self.proven),
            Part::Forward => self.answered.saturating_duration_since(self.forwarded),
        })
    }

    fn since_received(&self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.received)
    }

    fn between(&self, from: Instant, to: Instant) -> Duration {
        to.saturating_duration_since(from.max(self.received))
    }
}

// === impl Part ===

impl Part {
    /// In the order of the header.
    pub const ALL: [Self; 8] = [
        Self::Hold,
        Self::Poke,
        Self::Create,
        Self::Schedule,
        Self::Start,
        Self::Pod,
        Self::Probe,
        Self::Forward,
    ];

    /// In the header and as a label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Poke => "poke",
            Self::Create => "create",
            Self::Schedule => "schedule",
            Self::Start => "start",
            Self::Pod => "pod",
            Self::Probe => "probe",
            Self::Forward => "forward",
        }
    }
}

// === impl SlowWakes ===

impl SlowWakes {
    /// What is to be told of a way that held its request for `slow` or longer; once for all requests of one wake.
    pub fn tell(&self, way: &ColdStart, slow: Duration, workload: &Key) -> Option<SlowWake> {
        if slow.is_zero() || way.part(Part::Hold).is_none_or(|hold| hold < slow) {
            return None;
        }
        let mut last = self.last.lock();
        if last.is_some_and(|last| way.answered.saturating_duration_since(last) < slow) {
            return None;
        }
        *last = Some(way.answered);
        let parts: Vec<_> = way.parts().map(|(part, took)| format!("{} {took:.1?}", part.as_str())).collect();
        let parts = parts.join(", ");
        tracing::warn!(%workload, parts, "slow wake");
        Some(SlowWake { key: workload.clone(), parts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_wake_is_told_once() {
        let start = Instant::now() + Duration::from_secs(60);
        let at = |seconds| start + Duration::from_secs(seconds);
        let way = |received, forwarded| ColdStart {
            received: at(received),
            poked: None,
            appeared: None,
            scheduled: None,
            seen: at(forwarded),
            proven: at(forwarded),
            forwarded: at(forwarded),
            answered: at(forwarded),
        };
        let (wakes, key) = (SlowWakes::default(), Key::new("shop", "web"));
        let tell = |way: ColdStart| wakes.tell(&way, Duration::from_secs(10), &key).map(|told| told.parts);
        assert_eq!(tell(way(0, 9)), None, "it was not slow");
        let told = tell(way(0, 12)).unwrap();
        assert_eq!(told, "hold 12.0s, pod 12.0s, probe 0.0ns, forward 0.0ns");
        assert_eq!(tell(way(1, 12)), None, "another request of the same wake");
        assert!(tell(way(100, 111)).is_some());
    }

    #[test]
    fn parts_are_told_in_milliseconds() {
        let start = Instant::now() + Duration::from_secs(1);
        let at = |ms| start + Duration::from_millis(ms);
        let way = ColdStart {
            received: at(0),
            poked: Some(at(1)),
            appeared: Some(at(20)),
            scheduled: Some(at(50)),
            seen: at(400),
            proven: at(600),
            forwarded: at(601),
            answered: at(605),
        };
        let told = way.server_timing().unwrap();
        assert_eq!(
            told,
            "rouse-hold;dur=601.0, rouse-poke;dur=1.0, rouse-create;dur=20.0, rouse-schedule;dur=30.0, \
             rouse-start;dur=350.0, rouse-pod;dur=400.0, rouse-probe;dur=200.0, rouse-forward;dur=4.0"
        );
        let late = ColdStart { received: at(500), poked: None, appeared: None, scheduled: None, ..way };
        let known: Vec<_> = late.parts().map(|(part, took)| (part.as_str(), took.as_millis())).collect();
        assert_eq!(known, [("hold", 101), ("pod", 0), ("probe", 100), ("forward", 4)]);
    }
}
