//! ConcurrencyReporter: how many requests each workload has here, told once a second; and the poke.
//!
//! A request counts from its arrival to the end of its response body, so what is held counts as concurrency: fifty waiting
//! callers ask for as many pods as fifty running ones. The first request of a workload that is not carried is told at once,
//! as `{1, 1}`, and those that have come a moment later are told once more, so that a crowd gets its pods from the start and not one
//! pod for a second. While its panic may still grow, half of each second is told when it is over, so that pods do not wait for the other
//! half. The periodic report that follows leaves out what was told. A workload is carried until a period in which it
//! had nothing: that period is still told, as zeros, and the next request pokes again.
//!
//! Every report goes to the [`StatReporter`], which never blocks.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use autoscaler::Key;
use autoscaler::stats::{Push, RequestStats, SlowWake, Stat, StatMessage};
use parking_lot::Mutex;
use runtime::clock;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::stat_reporter::StatReporter;

/// Set when the poke of a wake has left by the first connection.
pub type PokeSent = Arc<OnceLock<Instant>>;

const HALF: Duration = Duration::from_millis(500);

/// Shortest wait for the next whole second. A timer that fired early must not report a period of no length.
const SHORTEST_PERIOD_MS: u64 = 100;

/// Time after a poke in which a crowd has come. Those who open a thousand connections at once take nearly as long.
const CROWD: Duration = Duration::from_millis(100);

/// Reports after a poke until which half seconds are told: as many as the default panic window has seconds, for so long its average
/// grows. One half more, and what it holds of the first second, which counts as a whole one, and of the last would be above the load.
const GROWTH: u32 = 6;

/// Slow wakes that wait for the next report; the log has what is beyond that.
const MOST_SLOW_WAKES: usize = 64;

/// All workloads carried, and where reports go.
#[derive(Debug)]
pub struct ConcurrencyReporter {
    activator: String,
    carried: Mutex<HashMap<Key, Arc<Counter>>>,
    slow_wakes: Mutex<Vec<SlowWake>>,
    crowds: Crowds,
    outlet: StatReporter,
}

/// The requests of one workload. Lives as long as the workload, carried or not.
#[derive(Debug)]
pub struct Counter {
    key: Key,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// `None` while the workload is not carried.
    stats: Option<RequestStats>,
    announced: Announced,
    /// Of the current or last time the workload was carried.
    poke: Option<PokeSent>,
    /// Reports since then.
    periods: u32,
}

/// What was told ahead of the periodic report, which leaves it out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Announced {
    concurrency: f64,
    /// Requests that arrived in this period.
    arrived: u64,
    /// Whether it counts for all of the period, as a crowd does, and not only for what was over of it.
    crowd: bool,
}

/// Workloads that poked, and when to look at them again. One entry for each at most, for the next poke comes after an idle second.
#[derive(Debug, Default)]
struct Crowds {
    waiting: Mutex<VecDeque<(Instant, Arc<Counter>)>>,
    more: Notify,
}

/// One request; it ends when this is dropped.
#[derive(Debug)]
pub struct Counted {
    counter: Arc<Counter>,
}

// === impl ConcurrencyReporter ===

impl ConcurrencyReporter {
    /// Reports go to `outlet` in the name of the pod `activator`.
    pub fn new(activator: String, outlet: StatReporter) -> Self {
        let (carried, slow_wakes, crowds) = (Mutex::default(), Mutex::default(), Crowds::default());
        Self { activator, carried, slow_wakes, crowds, outlet }
    }

    /// Counts a request in; the first of a workload that is not carried pokes.
    pub fn request_in(&self, counter: &Arc<Counter>) -> Counted {
        let now = Instant::now();
        if let Some(sent) = counter.enter(now) {
            self.carried.lock().insert(counter.key.clone(), counter.clone());
            self.outlet.poke(&self.announcement(counter, Announced::POKE), sent);
            self.crowds.expect(counter, now);
        }
        Counted { counter: counter.clone() }
    }

    /// Tells of a wake that took long with the next report.
    pub fn slow_wake(&self, slow: SlowWake) {
        let mut waiting = self.slow_wakes.lock();
        if waiting.len() < MOST_SLOW_WAKES {
            waiting.push(slow);
        }
    }

    /// Reports at every whole second of wall time, and tells of crowds, until dropped.
    pub async fn run(&self) {
        tokio::join!(self.report_periods(), self.announce_crowds(), self.announce_growth());
    }

    async fn announce_crowds(&self) {
        loop {
            let counter = self.crowds.next().await;
            if let Some(more) = counter.announce() {
                self.outlet.report(&self.announcement(&counter, more));
            }
        }
    }

    async fn announce_growth(&self) {
        loop {
            tokio::time::sleep(until_next_second(clock::since_epoch() + HALF)).await;
            self.send(&self.growth(Instant::now()));
        }
    }

    async fn report_periods(&self) {
        loop {
            tokio::time::sleep(until_next_second(clock::since_epoch())).await;
            self.send(&self.report(Instant::now()));
        }
    }

    fn send(&self, push: &Push) {
        if !push.messages.is_empty() || !push.slow_wakes.is_empty() {
            self.outlet.report(push);
        }
    }

    /// What was over of the period for all whose panic may grow.
    fn growth(&self, now: Instant) -> Push {
        let grown = self
            .carried
            .lock()
            .values()
            .filter_map(|counter| Some(self.message(&counter.key, counter.grown(now)?)))
            .collect();
        self.push(grown, Vec::new())
    }

    /// Ends a period for all that is carried, and stops to carry what had nothing in it.
    fn report(&self, now: Instant) -> Push {
        let mut messages = Vec::new();
        self.carried.lock().retain(|key, counter| {
            let Some(report) = counter.report(now) else { return false };
            let stat = self.stat(report.concurrency, report.requests_per_second);
            messages.push(StatMessage { key: key.clone(), stat });
            !report.was_idle
        });
        self.push(messages, std::mem::take(&mut self.slow_wakes.lock()))
    }

    fn announcement(&self, counter: &Counter, told: Announced) -> Push {
        self.push(vec![self.message(&counter.key, told)], Vec::new())
    }

    fn message(&self, key: &Key, told: Announced) -> StatMessage {
        StatMessage { key: key.clone(), stat: self.stat(told.concurrency, told.arrived as f64) }
    }

    fn stat(&self, concurrency: f64, requests_per_second: f64) -> Stat {
        Stat {
            pod: self.activator.clone(),
            average_concurrent_requests: concurrency,
            request_count: requests_per_second,
            timestamp: clock::unix_seconds(),
            ..Stat::default()
        }
    }

    fn push(&self, messages: Vec<StatMessage>, slow_wakes: Vec<SlowWake>) -> Push {
        Push { activator: self.activator.clone(), messages, slow_wakes }
    }
}

/// What one period of one workload was.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Period {
    concurrency: f64,
    requests_per_second: f64,
    was_idle: bool,
}

// === impl Announced ===

impl Announced {
    /// The first request.
    const POKE: Self = Self { concurrency: 1.0, arrived: 1, crowd: true };
}

// === impl Crowds ===

impl Crowds {
    fn expect(&self, counter: &Arc<Counter>, now: Instant) {
        self.waiting.lock().push_back((now + CROWD, counter.clone()));
        self.more.notify_one();
    }

    /// The workload whose crowd should have come by now. To be waited for by one task.
    async fn next(&self) -> Arc<Counter> {
        loop {
            let first = self.waiting.lock().pop_front();
            match first {
                Some((at, counter)) => {
                    sleep_until(at).await;
                    return counter;
                }
                None => self.more.notified().await,
            }
        }
    }
}

// === impl Counter ===

impl Counter {
    /// Nothing has arrived yet.
    pub fn new(key: Key) -> Arc<Self> {
        Arc::new(Self { key, state: Mutex::default() })
    }

    /// Requests that have arrived and not ended.
    pub fn in_flight(&self) -> u64 {
        self.state.lock().stats.as_ref().map_or(0, RequestStats::in_flight)
    }

    /// The poke of the current or last time the workload was carried.
    pub fn poke(&self) -> Option<PokeSent> {
        self.state.lock().poke.clone()
    }

    /// Counts one in; whether that has to be told at once, and where to note that it was.
    fn enter(&self, now: Instant) -> Option<PokeSent> {
        let mut state = self.state.lock();
        if let Some(stats) = &mut state.stats {
            stats.request_in(now.into_std(), false);
            return None;
        }
        let mut stats = RequestStats::new(now.into_std());
        stats.request_in(now.into_std(), false);
        let sent = PokeSent::default();
        *state =
            State { stats: Some(stats), announced: Announced::POKE, poke: Some(sent.clone()), periods: 0 };
        Some(sent)
    }

    fn leave(&self, now: Instant) {
        if let Some(stats) = &mut self.state.lock().stats {
            stats.request_out(now.into_std(), false);
        }
    }

    /// What is here and was not told in this period; notes that it is told now.
    fn announce(&self) -> Option<Announced> {
        let mut state = self.state.lock();
        let in_flight = state.stats.as_ref()?.in_flight() as f64;
        let told = state.announced;
        let more = (in_flight - told.concurrency).max(0.0);
        // After a report those who are here have been told as arrivals.
        let arrived = if told.crowd { more as u64 } else { 0 };
        state.announced =
            Announced { concurrency: told.concurrency + more, arrived: told.arrived + arrived, crowd: true };
        (more > 0.0).then_some(Announced { concurrency: more, arrived, crowd: true })
    }

    /// What was over of this period, if the workload may grow and nothing of the period was told; notes that it is told now.
    fn grown(&self, now: Instant) -> Option<Announced> {
        let mut state = self.state.lock();
        if state.periods >= GROWTH || state.announced != Announced::default() {
            return None;
        }
        let over = state.stats.clone()?.report(now.into_std());
        // Who looks late has no more to tell than the whole second.
        let share = over.period.as_secs_f64().min(1.0);
        state.announced = Announced {
            concurrency: over.average_concurrency * share,
            arrived: over.request_count,
            crowd: false,
        };
        (over.average_concurrency > 0.0).then_some(state.announced)
    }

    fn report(&self, now: Instant) -> Option<Period> {
        let mut state = self.state.lock();
        let announced = std::mem::take(&mut state.announced);
        state.periods = state.periods.saturating_add(1);
        let stats = state.stats.as_mut()?;
        let report = stats.report(now.into_std());
        let in_flight = stats.in_flight();
        let was_idle = report.average_concurrency == 0.0 && in_flight == 0;
        if was_idle {
            state.stats = None;
        }
        // Of a crowd that was told ahead, the rest counts like it: for all of the period, whenever in it they came.
        let came_together = if announced.crowd { in_flight as f64 } else { 0.0 };
        let concurrency = report.average_concurrency.max(came_together);
        let seconds = report.period.as_secs_f64();
        let arrived = report.request_count.saturating_sub(announced.arrived) as f64;
        Some(Period {
            concurrency: (concurrency - announced.concurrency).max(0.0),
            requests_per_second: if seconds > 0.0 { arrived / seconds } else { 0.0 },
            was_idle,
        })
    }
}

// === impl Counted ===

impl Drop for Counted {
    fn drop(&mut self) {
        self.counter.leave(Instant::now());
    }
}

fn until_next_second(since_epoch: Duration) -> Duration {
    let rest = 1000 - u64::from(since_epoch.subsec_millis());
    Duration::from_millis(if rest < SHORTEST_PERIOD_MS { rest + 1000 } else { rest })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds and whether a request arrives (`true`) or ends.
    type Events = [(u64, bool)];

    /// Plays the events with a report at each of `ticks`; every (concurrency, count) told, the pokes as `(1, 1)`.
    fn told(events: &Events, ticks: &[u64]) -> Vec<(f64, f64)> {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let counter = Counter::new(Key::new("shop", "web"));
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
                let period = ticks.next().and_then(|tick| counter.report(at(*tick)));
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

    /// The cases of Knative's concurrency_reporter_test.go whose periods are one second long.
    #[test]
    fn agrees_with_knatives_vectors() {
        assert_eq!(told(&[(0, IN)], &[]), [(1.0, 1.0)]); // A1
        assert_eq!(told(&[(0, IN), (0, IN)], &[1, 2]), [(1.0, 1.0), (1.0, 1.0), (2.0, 0.0)]); // A2
        assert_eq!(
            told(&[(0, IN), (1, OUT), (3, IN)], &[1, 2]),
            [(1.0, 1.0), (0.0, 0.0), (0.0, 0.0), (1.0, 1.0)],
            "A4"
        );
    }

    /// The cases with a period of two seconds; Knative leaves the count of 1 whole, for its periods are all one second long.
    #[test]
    fn a_count_is_divided_by_the_length_of_its_period() {
        let events = [(0, IN), (1, OUT), (1, IN), (2, OUT)];
        assert_eq!(told(&events, &[2]), [(1.0, 1.0), (0.0, 0.5)]); // A3
        assert_eq!(told(&[(0, IN), (0, IN), (1, OUT), (2, OUT)], &[2]), [(1.0, 1.0), (0.5, 0.5)]); // A5
    }

    #[test]
    fn the_rest_of_a_crowd_counts_as_if_it_had_come_with_the_first() {
        let (counter, start) = (Counter::new(Key::new("shop", "web")), Instant::now());
        counter.enter(start);
        counter.enter(start + Duration::from_millis(750));
        let second = |n: u64| start + Duration::from_secs(n);
        assert_eq!(counter.report(second(1)).unwrap().concurrency, 1.0);
        counter.enter(second(1) + Duration::from_millis(500));
        assert_eq!(counter.report(second(2)).unwrap().concurrency, 2.5, "an average, as ever after");
    }

    #[test]
    fn in_flight_follows_what_arrives_and_ends() {
        let counter = Counter::new(Key::new("shop", "web"));
        assert_eq!(counter.in_flight(), 0);
        counter.enter(Instant::now());
        let counted = Counted { counter: counter.clone() };
        assert_eq!(counter.in_flight(), 1);
        drop(counted);
        assert_eq!(counter.in_flight(), 0);
    }

    #[test]
    fn a_crowd_is_told_before_its_second_is_over_and_only_once() {
        let (counter, start) = (Counter::new(Key::new("shop", "web")), Instant::now());
        let enter = |count: u64| (0..count).for_each(|_| drop(counter.enter(start)));
        enter(100);
        let crowd = |concurrency, arrived| Some(Announced { concurrency, arrived, crowd: true });
        assert_eq!(counter.announce(), crowd(99.0, 99));
        assert_eq!(counter.announce(), None);
        enter(20);
        let period = counter.report(start + Duration::from_secs(1)).unwrap();
        assert_eq!((period.concurrency, period.requests_per_second), (20.0, 20.0));
        // Its second ended between the poke and the look: all were told as arrivals, and are still here.
        assert_eq!(counter.announce(), crowd(120.0, 0));
        let period = counter.report(start + Duration::from_secs(2)).unwrap();
        assert_eq!((period.concurrency, period.requests_per_second), (0.0, 0.0));
    }

    #[test]
    fn half_of_each_second_is_told_when_it_is_over_while_a_panic_may_grow() {
        let (counter, start) = (Counter::new(Key::new("shop", "web")), Instant::now());
        let at = |halves: u32| start + HALF * halves;
        (0..4).for_each(|_| drop(counter.enter(start)));
        assert!(counter.announce().is_some());
        assert_eq!(counter.grown(at(1)), None, "all of it was told");
        counter.report(at(2)).unwrap();
        counter.enter(at(3));
        counter.leave(at(3));
        assert_eq!(counter.grown(at(3)), Some(Announced { concurrency: 2.0, arrived: 1, crowd: false }));
        assert_eq!(counter.grown(at(3)), None, "once");
        counter.enter(at(3));
        let rest = counter.report(at(4)).unwrap();
        assert_eq!((rest.concurrency, rest.requests_per_second), (2.5, 1.0), "of 4.5 and 2");
        let late = counter.grown(at(7)).unwrap();
        assert_eq!(
            (late.concurrency, counter.report(at(7)).unwrap().concurrency),
            (5.0, 0.0),
            "a stall is no load"
        );
        for second in 4..=6 {
            counter.report(at(2 * second)).unwrap();
        }
        assert_eq!(counter.grown(at(13)), None, "its panic is as large as it gets");
    }

    /// What is told is kept by the second in which it came, and six of them are averaged.
    #[test]
    fn no_panic_window_holds_more_than_the_load_whenever_in_a_second_it_came() {
        const LOAD: u64 = 200;
        for poked_ms in (5..1000).step_by(10) {
            let (counter, start) = (Counter::new(Key::new("shop", "web")), Instant::now());
            let at = |ms: u64| start + Duration::from_millis(ms);
            let mut told = [0.0; 20];
            let looks = (1..40).map(|half| half * 500).chain([poked_ms, poked_ms + 100]);
            for ms in looks.collect::<std::collections::BTreeSet<_>>() {
                let second = (ms / 1000) as usize;
                if ms == poked_ms {
                    (0..LOAD).for_each(|_| drop(counter.enter(at(ms))));
                    told[second] += 1.0;
                } else if ms == poked_ms + 100 {
                    told[second] += counter.announce().map_or(0.0, |told| told.concurrency);
                } else if ms.is_multiple_of(1000) {
                    told[second] += counter.report(at(ms)).map_or(0.0, |told| told.concurrency);
                } else {
                    told[second] += counter.grown(at(ms)).map_or(0.0, |told| told.concurrency);
                }
                let window: f64 = told[second.saturating_sub(5)..=second].iter().sum();
                assert!(window / 6.0 <= LOAD as f64 + 1e-6, "{poked_ms}: {told:?}");
            }
        }
    }

    #[test]
    fn the_second_half_of_a_second_that_had_requests_is_not_idle_for_that() {
        let (counter, start) = (Counter::new(Key::new("shop", "web")), Instant::now());
        counter.enter(start);
        counter.report(start + 2 * HALF).unwrap();
        counter.leave(start + 3 * HALF);
        assert!(counter.grown(start + 3 * HALF).is_some());
        let rest = counter.report(start + 4 * HALF).unwrap();
        assert_eq!((rest.concurrency, rest.was_idle), (0.0, false), "the next request is no first one");
    }

    #[test]
    fn reports_come_at_whole_seconds() {
        assert_eq!(until_next_second(Duration::from_millis(5_300)), Duration::from_millis(700));
        assert_eq!(until_next_second(Duration::from_secs(5)), Duration::from_secs(1));
        assert_eq!(until_next_second(Duration::from_millis(5_999)), Duration::from_millis(1001));
    }
}
