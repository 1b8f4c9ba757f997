//! What a held request waited for: for its client, a histogram, its spans, the reports of wakes and
//! of slow wakes.
//!
//! ```text
//! received ─► poke sent ─► pod seen ─► scheduled ─► address seen ─► verified ─► forwarded ─► head
//! ├─ poke ──┤              │           │            │               │           │            │
//! ├─ create ───────────────┼─ schedule ┼─ start ────┼─ probe ───────┤           │            │
//! ├─ pod ───────────────────────────────────────────┤                           │            │
//! ├─ hold ──────────────────────────────────────────────────────────────────────┼─ forward ──┤
//! ```
//!
//! `create` covers the decision, the write of `/scale` and the controllers of Kubernetes together:
//! this process sees what other processes do only by its result. A phase that had ended before the
//! request arrived has no duration.

use std::time::Duration;

use autoscaler::Key;
use autoscaler::history::Wake;
use autoscaler::stats::SlowWake;
use http::{HeaderName, HeaderValue};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::pods::pod_starts::PodStart;
use crate::pods::pod_tracker::PodTracker;
use crate::reports::poke::PokeSent;

/// Header of the response that lists the phases, in milliseconds.
pub const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// The timestamps of one held request.
#[derive(Debug)]
pub struct ColdStartTrace {
    /// The request's head was read.
    pub received: Instant,
    /// The poke of its workload was sent.
    pub poked: Option<Instant>,
    /// The pod's object was seen, if that was before its address.
    pub appeared: Option<Instant>,
    /// The pod had a node.
    pub scheduled: Option<Instant>,
    /// The pod's address was seen.
    pub seen: Instant,
    /// The pod was verified to take requests.
    pub verified: Instant,
    /// The request was sent to the pod.
    pub forwarded: Instant,
    /// The response began.
    pub answered: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColdStartPhase {
    /// From receipt to forwarding.
    Hold,
    /// From receipt to the poke.
    Poke,
    /// From receipt to the pod's object.
    Create,
    /// From the pod's object to its node.
    Schedule,
    /// From the pod's node to its address.
    Start,
    /// From receipt to the pod's address.
    Pod,
    /// From the pod's address to the answered probe.
    Probe,
    /// From forwarding to the response head.
    Forward,
}

/// Reports each slow wake of one workload once.
#[derive(Debug, Default)]
pub struct SlowWakeReporter {
    last: Mutex<Option<Instant>>,
}

/// Recognizes the first answered request of each wake of one workload.
#[derive(Debug, Default)]
pub struct WakeReporter {
    /// The poke of the last reported wake.
    reported: Mutex<Option<Instant>>,
}

// === impl ColdStartTrace ===

impl ColdStartTrace {
    /// The timestamps of a request that `pod` has just answered.
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
            verified: pod.verified().unwrap_or(pod.seen),
            forwarded,
            answered: Instant::now(),
        }
    }

    /// The value of the `Server-Timing` header.
    pub fn server_timing(&self) -> Option<HeaderValue> {
        let entry = |(phase, duration): (ColdStartPhase, Duration)| {
            format!("rouse-{};dur={:.1}", phase.as_str(), duration.as_secs_f64() * 1e3)
        };
        HeaderValue::try_from(self.phases().map(entry).collect::<Vec<_>>().join(", ")).ok()
    }

    /// The phases that have a duration.
    pub fn phases(&self) -> impl Iterator<Item = (ColdStartPhase, Duration)> + use<'_> {
        ColdStartPhase::ALL.into_iter().filter_map(|phase| Some((phase, self.duration(phase)?)))
    }

    /// How long a phase took; `None` if its beginning or end was not seen.
    pub fn duration(&self, phase: ColdStartPhase) -> Option<Duration> {
        self.interval(phase).map(|(from, to)| to.saturating_duration_since(from))
    }

    /// When a phase began and ended while the request was there; `None` if either was not seen.
    pub fn interval(&self, phase: ColdStartPhase) -> Option<(Instant, Instant)> {
        let (from, to) = match phase {
            ColdStartPhase::Hold => (self.received, self.forwarded),
            ColdStartPhase::Poke => (self.received, self.poked?),
            ColdStartPhase::Create => (self.received, self.appeared?),
            ColdStartPhase::Schedule => (self.appeared?, self.scheduled?),
            ColdStartPhase::Start => (self.scheduled?, self.seen),
            ColdStartPhase::Pod => (self.received, self.seen),
            ColdStartPhase::Probe => (self.seen, self.verified),
            ColdStartPhase::Forward => (self.forwarded, self.answered),
        };
        Some((from.max(self.received), to.max(self.received)))
    }

    /// The trace as a report; `now` is the wall clock in Unix milliseconds at `answered`.
    pub fn wake(&self, now: i64) -> Wake {
        let ms = |moment| u32::try_from(self.since_received(moment).as_millis()).unwrap_or(u32::MAX);
        let answered = ms(self.answered);
        Wake {
            received: now.saturating_sub(answered.into()),
            reported: self.poked.map(ms),
            created: self.appeared.map(ms),
            scheduled: self.scheduled.map(ms),
            started: ms(self.seen),
            verified: ms(self.verified),
            forwarded: ms(self.forwarded),
            answered,
        }
    }

    fn since_received(&self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.received)
    }
}

// === impl ColdStartPhase ===

impl ColdStartPhase {
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

    /// The name in the header and in the label `part`.
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

// === impl SlowWakeReporter ===

impl SlowWakeReporter {
    /// Logs and returns a wake that held its request for `slow` or longer, once for all requests of
    /// that wake.
    pub fn check(&self, trace: &ColdStartTrace, slow: Duration, workload: &Key) -> Option<SlowWake> {
        if slow.is_zero() || trace.duration(ColdStartPhase::Hold).is_none_or(|hold| hold < slow) {
            return None;
        }
        let mut last = self.last.lock();
        if last.is_some_and(|last| trace.answered.saturating_duration_since(last) < slow) {
            return None;
        }
        *last = Some(trace.answered);
        let parts: Vec<_> =
            trace.phases().map(|(phase, took)| format!("{} {took:.1?}", phase.as_str())).collect();
        let parts = parts.join(", ");
        tracing::warn!(%workload, phases = parts, "slow wake");
        Some(SlowWake { key: workload.clone(), parts })
    }
}

// === impl WakeReporter ===

impl WakeReporter {
    /// Whether this is the first answered request of a wake: its workload had no pod when it was
    /// received, which `had_no_pod` finds out, and none of its poke was answered before.
    pub fn is_first(&self, trace: &ColdStartTrace, had_no_pod: impl FnOnce() -> bool) -> bool {
        let Some(poked) = trace.poked else { return false };
        let mut reported = self.reported.lock();
        if *reported == Some(poked) || !had_no_pod() {
            return false;
        }
        *reported = Some(poked);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wake_is_reported_once_and_only_from_zero() {
        let start = Instant::now() + Duration::from_secs(60);
        let at = |ms| start + Duration::from_millis(ms);
        let trace = |poked| ColdStartTrace {
            received: at(0),
            poked,
            appeared: Some(at(20)),
            scheduled: None,
            seen: at(400),
            verified: at(600),
            forwarded: at(601),
            answered: at(605),
        };
        let reporter = WakeReporter::default();
        assert!(!reporter.is_first(&trace(None), || true), "no poke");
        assert!(!reporter.is_first(&trace(Some(at(1))), || false), "a pod was too busy");
        assert!(reporter.is_first(&trace(Some(at(1))), || true));
        assert!(!reporter.is_first(&trace(Some(at(1))), || true), "another request of the same wake");
        assert!(reporter.is_first(&trace(Some(at(9_000))), || true), "the next wake");
        let wake = trace(Some(at(1))).wake(1_000_605);
        let expected = Wake {
            received: 1_000_000,
            reported: Some(1),
            created: Some(20),
            scheduled: None,
            started: 400,
            verified: 600,
            forwarded: 601,
            answered: 605,
        };
        assert_eq!(wake, expected);
        assert!(wake.is_plausible(1_000_700));
    }

    #[test]
    fn reports_slow_wake_once_for_all_its_requests() {
        let start = Instant::now() + Duration::from_secs(60);
        let at = |seconds| start + Duration::from_secs(seconds);
        let trace = |received, forwarded| ColdStartTrace {
            received: at(received),
            poked: None,
            appeared: None,
            scheduled: None,
            seen: at(forwarded),
            verified: at(forwarded),
            forwarded: at(forwarded),
            answered: at(forwarded),
        };
        let (reporter, key) = (SlowWakeReporter::default(), Key::new("shop", "web"));
        let check = |trace: ColdStartTrace| {
            reporter.check(&trace, Duration::from_secs(10), &key).map(|wake| wake.parts)
        };
        assert_eq!(check(trace(0, 9)), None, "not slow");
        assert_eq!(check(trace(0, 12)).unwrap(), "hold 12.0s, pod 12.0s, probe 0.0ns, forward 0.0ns");
        assert_eq!(check(trace(1, 12)), None, "another request of the same wake");
        assert!(check(trace(100, 111)).is_some());
    }

    #[test]
    fn server_timing_lists_phases_in_milliseconds() {
        let start = Instant::now() + Duration::from_secs(1);
        let at = |ms| start + Duration::from_millis(ms);
        let trace = ColdStartTrace {
            received: at(0),
            poked: Some(at(1)),
            appeared: Some(at(20)),
            scheduled: Some(at(50)),
            seen: at(400),
            verified: at(600),
            forwarded: at(601),
            answered: at(605),
        };
        assert_eq!(
            trace.server_timing().unwrap(),
            "rouse-hold;dur=601.0, rouse-poke;dur=1.0, rouse-create;dur=20.0, rouse-schedule;dur=30.0, \
             rouse-start;dur=350.0, rouse-pod;dur=400.0, rouse-probe;dur=200.0, rouse-forward;dur=4.0"
        );
        let late =
            ColdStartTrace { received: at(500), poked: None, appeared: None, scheduled: None, ..trace };
        let phases: Vec<_> = late.phases().map(|(phase, took)| (phase.as_str(), took.as_millis())).collect();
        assert_eq!(phases, [("hold", 101), ("pod", 0), ("probe", 100), ("forward", 4)]);
    }
}
