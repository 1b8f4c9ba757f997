//! The requests of one workload in this process, and what of them was reported early.
//!
//! A request counts from its arrival to the end of its response body, so a held request is
//! concurrency as well: fifty waiting clients need as many pods as fifty running requests. The
//! [`ConcurrencyReporter`](crate::reports::concurrency_reporter::ConcurrencyReporter) reads the
//! counts.
//!
//! A workload is *reported* from its first request until a period in which it had none. That period
//! is still reported, as zeros; the next request pokes again. Whatever was reported ahead of the
//! end of a period is left out of the periodic report, so that the sum over the period is right.

use std::sync::Arc;

use autoscaler::Key;
use autoscaler::stats::RequestStats;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::reports::pod_observer::PodObserver;
use crate::reports::poke::PokeSent;

/// Reports after a poke until which half seconds are reported. The default panic window has six
/// seconds, and its average grows for as long. A seventh half, with what it holds of the first
/// second (which counts as a whole one) and of the last, would put the window above the load.
const GROWTH_PERIODS: u32 = 6;

/// The requests of one workload. Lives as long as the workload does.
#[derive(Debug)]
pub struct RequestCounter {
    key: Key,
    state: Mutex<CounterState>,
    pods: PodObserver,
}

#[derive(Debug, Default)]
struct CounterState {
    /// `None` while the workload is not reported.
    stats: Option<RequestStats>,
    early: EarlyReport,
    /// The latest poke.
    poke: Option<PokeSent>,
    /// Periodic reports since the poke.
    periods: u32,
}

/// What was reported ahead of the periodic report.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct EarlyReport {
    pub(super) concurrency: f64,
    /// Requests that arrived in this period.
    pub(super) arrived: u64,
    /// Whether it counts for the whole period, as a burst does, and not only for the part that had
    /// passed.
    is_burst: bool,
}

/// One period of one workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ReportPeriod {
    pub(super) concurrency: f64,
    pub(super) requests_per_second: f64,
    pub(super) was_idle: bool,
}

/// One request in flight; dropping it ends the request.
#[derive(Debug)]
pub struct CountedRequest {
    counter: Arc<RequestCounter>,
}

// === impl EarlyReport ===

impl EarlyReport {
    /// The first request of a workload.
    pub(super) const POKE: Self = Self { concurrency: 1.0, arrived: 1, is_burst: true };
}

// === impl RequestCounter ===

impl RequestCounter {
    /// A counter without requests.
    pub fn new(key: Key) -> Arc<Self> {
        Arc::new(Self { key, state: Mutex::default(), pods: PodObserver::default() })
    }

    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    /// The observer of its pods.
    pub fn pods(&self) -> &PodObserver {
        &self.pods
    }

    /// Requests that have arrived and not ended.
    pub fn in_flight(&self) -> u64 {
        self.lock().stats.as_ref().map_or(0, RequestStats::in_flight)
    }

    /// The latest poke, if the workload ever poked.
    pub fn poke(&self) -> Option<PokeSent> {
        self.lock().poke.clone()
    }

    /// Counts an arrival. Returns where to note the poke if the request is the first and has to be
    /// reported at once.
    pub(super) fn enter(&self, now: Instant) -> Option<PokeSent> {
        let mut state = self.lock();
        if let Some(stats) = &mut state.stats {
            stats.request_in(now.into_std(), false);
            return None;
        }
        let mut stats = RequestStats::new(now.into_std());
        stats.request_in(now.into_std(), false);
        let sent = PokeSent::default();
        *state = CounterState {
            stats: Some(stats),
            early: EarlyReport::POKE,
            poke: Some(sent.clone()),
            periods: 0,
        };
        Some(sent)
    }

    pub(super) fn leave(&self, now: Instant) {
        if let Some(stats) = &mut self.lock().stats {
            stats.request_out(now.into_std(), false);
        }
    }

    /// The requests of a burst that were not reported in this period; marks them as reported.
    pub(super) fn take_burst(&self) -> Option<EarlyReport> {
        let mut state = self.lock();
        let in_flight = state.stats.as_ref()?.in_flight() as f64;
        let before = state.early;
        let more = (in_flight - before.concurrency).max(0.0);
        // After a periodic report, requests in flight have been reported as arrivals.
        let arrived = if before.is_burst { more as u64 } else { 0 };
        state.early = EarlyReport {
            concurrency: before.concurrency + more,
            arrived: before.arrived + arrived,
            is_burst: true,
        };
        (more > 0.0).then_some(EarlyReport { concurrency: more, arrived, is_burst: true })
    }

    /// What has passed of this period, if the workload may still grow and nothing of the period was
    /// reported; marks it as reported.
    pub(super) fn take_half_period(&self, now: Instant) -> Option<EarlyReport> {
        let mut state = self.lock();
        if state.periods >= GROWTH_PERIODS || state.early != EarlyReport::default() {
            return None;
        }
        let passed = state.stats.clone()?.report(now.into_std());
        // After a stall, more than a second may have passed; the share is still that of one second.
        let share = passed.period.as_secs_f64().min(1.0);
        state.early = EarlyReport {
            concurrency: passed.average_concurrency * share,
            arrived: passed.request_count,
            is_burst: false,
        };
        (passed.average_concurrency > 0.0).then_some(state.early)
    }

    /// Ends a period; `None` if the workload is not reported.
    pub(super) fn end_period(&self, now: Instant) -> Option<ReportPeriod> {
        let mut state = self.lock();
        let early = std::mem::take(&mut state.early);
        state.periods = state.periods.saturating_add(1);
        let stats = state.stats.as_mut()?;
        let report = stats.report(now.into_std());
        let in_flight = stats.in_flight();
        let was_idle = report.average_concurrency == 0.0 && in_flight == 0;
        if was_idle {
            state.stats = None;
        }
        // The rest of a burst counts for the whole period as well, whenever in the period it
        // arrived.
        let burst = if early.is_burst { in_flight as f64 } else { 0.0 };
        let concurrency = report.average_concurrency.max(burst);
        let seconds = report.period.as_secs_f64();
        let arrived = report.request_count.saturating_sub(early.arrived) as f64;
        Some(ReportPeriod {
            concurrency: (concurrency - early.concurrency).max(0.0),
            requests_per_second: if seconds > 0.0 { arrived / seconds } else { 0.0 },
            was_idle,
        })
    }

    fn lock(&self) -> MutexGuard<'_, CounterState> {
        // Every critical section leaves whole counts behind.
        self.state.lock()
    }
}

// === impl CountedRequest ===

impl CountedRequest {
    /// Ends with its drop; the arrival was counted by `counter`.
    pub(super) fn new(counter: Arc<RequestCounter>) -> Self {
        Self { counter }
    }
}

impl Drop for CountedRequest {
    fn drop(&mut self) {
        self.counter.leave(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HALF: Duration = Duration::from_millis(500);

    /// Seconds and whether a request arrives (`true`) or ends.
    type Events = [(u64, bool)];

    fn counter() -> (Arc<RequestCounter>, Instant) {
        (RequestCounter::new(Key::new("shop", "web")), Instant::now())
    }

    /// Plays the events with a report at each of `ticks`; returns every reported (concurrency,
    /// count), pokes as `(1, 1)`.
    fn reports(events: &Events, ticks: &[u64]) -> Vec<(f64, f64)> {
        let (counter, start) = counter();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut out = Vec::new();
        let mut events = events.iter().peekable();
        let mut ticks = ticks.iter().peekable();
        loop {
            let tick_is_next = match (events.peek(), ticks.peek()) {
                (Some((event, _)), Some(tick)) => *tick < event,
                (None, Some(_)) => true,
                (Some(_), None) => false,
                (None, None) => return out,
            };
            if tick_is_next {
                let period = ticks.next().and_then(|tick| counter.end_period(at(*tick)));
                out.extend(period.map(|p| (p.concurrency, p.requests_per_second)));
            } else if let Some((second, arrives)) = events.next() {
                if !arrives {
                    counter.leave(at(*second));
                } else if counter.enter(at(*second)).is_some() {
                    out.push((1.0, 1.0));
                }
            }
        }
    }

    const IN: bool = true;
    const OUT: bool = false;

    /// The cases of Knative's concurrency_reporter_test.go with periods of one second.
    #[test]
    fn agrees_with_knatives_vectors() {
        assert_eq!(reports(&[(0, IN)], &[]), [(1.0, 1.0)]); // A1
        assert_eq!(reports(&[(0, IN), (0, IN)], &[1, 2]), [(1.0, 1.0), (1.0, 1.0), (2.0, 0.0)]); // A2
        assert_eq!(
            reports(&[(0, IN), (1, OUT), (3, IN)], &[1, 2]),
            [(1.0, 1.0), (0.0, 0.0), (0.0, 0.0), (1.0, 1.0)],
            "A4"
        );
    }

    /// The cases with a period of two seconds; Knative leaves the count of 1 whole, for its periods
    /// last one second.
    #[test]
    fn divides_count_by_length_of_its_period() {
        let events = [(0, IN), (1, OUT), (1, IN), (2, OUT)];
        assert_eq!(reports(&events, &[2]), [(1.0, 1.0), (0.0, 0.5)]); // A3
        assert_eq!(reports(&[(0, IN), (0, IN), (1, OUT), (2, OUT)], &[2]), [(1.0, 1.0), (0.5, 0.5)]); // A5
    }

    #[test]
    fn counts_rest_of_burst_for_whole_period() {
        let (counter, start) = counter();
        counter.enter(start);
        counter.enter(start + Duration::from_millis(750));
        let second = |n: u64| start + Duration::from_secs(n);
        assert_eq!(counter.end_period(second(1)).unwrap().concurrency, 1.0);
        counter.enter(second(1) + Duration::from_millis(500));
        assert_eq!(counter.end_period(second(2)).unwrap().concurrency, 2.5, "an average again");
    }

    #[test]
    fn in_flight_follows_arrivals_and_ends() {
        let (counter, now) = counter();
        assert_eq!(counter.in_flight(), 0);
        counter.enter(now);
        let counted = CountedRequest::new(counter.clone());
        assert_eq!(counter.in_flight(), 1);
        drop(counted);
        assert_eq!(counter.in_flight(), 0);
    }

    #[test]
    fn reports_burst_before_its_second_ends_and_once() {
        let (counter, start) = counter();
        let enter = |count: u64| (0..count).for_each(|_| drop(counter.enter(start)));
        enter(100);
        let burst = |concurrency, arrived| Some(EarlyReport { concurrency, arrived, is_burst: true });
        assert_eq!(counter.take_burst(), burst(99.0, 99));
        assert_eq!(counter.take_burst(), None);
        enter(20);
        let period = counter.end_period(start + Duration::from_secs(1)).unwrap();
        assert_eq!((period.concurrency, period.requests_per_second), (20.0, 20.0));
        // The second ended between poke and burst report: all were reported as arrivals, and are
        // still in flight.
        assert_eq!(counter.take_burst(), burst(120.0, 0));
        let period = counter.end_period(start + Duration::from_secs(2)).unwrap();
        assert_eq!((period.concurrency, period.requests_per_second), (0.0, 0.0));
    }

    #[test]
    fn reports_half_seconds_while_panic_window_grows() {
        let (counter, start) = counter();
        let at = |halves: u32| start + HALF * halves;
        (0..4).for_each(|_| drop(counter.enter(start)));
        assert!(counter.take_burst().is_some());
        assert_eq!(counter.take_half_period(at(1)), None, "all of it was reported");
        counter.end_period(at(2)).unwrap();
        counter.enter(at(3));
        counter.leave(at(3));
        let half = EarlyReport { concurrency: 2.0, arrived: 1, is_burst: false };
        assert_eq!(counter.take_half_period(at(3)), Some(half));
        assert_eq!(counter.take_half_period(at(3)), None, "once");
        counter.enter(at(3));
        let rest = counter.end_period(at(4)).unwrap();
        assert_eq!((rest.concurrency, rest.requests_per_second), (2.5, 1.0), "of 4.5 and 2");
        let late = counter.take_half_period(at(7)).unwrap();
        let rest = counter.end_period(at(7)).unwrap();
        assert_eq!((late.concurrency, rest.concurrency), (5.0, 0.0), "a stall adds no load");
        for second in 4..=6 {
            counter.end_period(at(2 * second)).unwrap();
        }
        assert_eq!(counter.take_half_period(at(13)), None, "its window no longer grows");
    }

    /// A report counts for the second in which it arrives, and six of them are averaged.
    #[test]
    fn panic_window_never_exceeds_load_at_any_arrival_time() {
        const LOAD: u64 = 200;
        for poked_ms in (5..1000).step_by(10) {
            let (counter, start) = counter();
            let at = |ms: u64| start + Duration::from_millis(ms);
            let mut reported = [0.0; 20];
            let ticks = (1..40).map(|half| half * 500).chain([poked_ms, poked_ms + 100]);
            for ms in ticks.collect::<std::collections::BTreeSet<_>>() {
                let second = (ms / 1000) as usize;
                if ms == poked_ms {
                    (0..LOAD).for_each(|_| drop(counter.enter(at(ms))));
                    reported[second] += 1.0;
                } else if ms == poked_ms + 100 {
                    reported[second] += counter.take_burst().map_or(0.0, |early| early.concurrency);
                } else if ms.is_multiple_of(1000) {
                    reported[second] += counter.end_period(at(ms)).map_or(0.0, |period| period.concurrency);
                } else {
                    reported[second] += counter.take_half_period(at(ms)).map_or(0.0, |half| half.concurrency);
                }
                let window: f64 = reported[second.saturating_sub(5)..=second].iter().sum();
                assert!(window / 6.0 <= LOAD as f64 + 1e-6, "{poked_ms}: {reported:?}");
            }
        }
    }

    #[test]
    fn second_half_without_requests_is_not_idle() {
        let (counter, start) = counter();
        counter.enter(start);
        counter.end_period(start + 2 * HALF).unwrap();
        counter.leave(start + 3 * HALF);
        assert!(counter.take_half_period(start + 3 * HALF).is_some());
        let rest = counter.end_period(start + 4 * HALF).unwrap();
        assert_eq!((rest.concurrency, rest.was_idle), (0.0, false), "the next request must not poke");
    }
}
