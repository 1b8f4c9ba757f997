//! Ten million lives of requests, from several threads that overtake each other: what the reports say adds up to the time
//! that the requests were here.
//!
//! Every event takes its instant first and the lock later, as a proxy's threads do, and is sometimes put aside in between. A
//! report has the last word on its period, so only that waits for events under way; nothing else is in order.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "these are tests, and any instant will do as an origin"
)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use autoscaler::stats::{RequestStats, RequestStatsReport};

const LIVES: u64 = 10_000_000;
const THREADS: u64 = 4;
/// Requests that a thread has at a time, at most.
const AT_A_TIME: usize = 500;
/// Greatest step of the clock between two events, in nanoseconds.
const STEP: u64 = 100_000;

struct Life {
    arrived: u64,
    proxied: bool,
}

/// What threads know of their own lives, or of those that were proxied.
#[derive(Clone, Copy, Default)]
struct Exact {
    nanos: u128,
    lives: u64,
}

struct Shared {
    origin: Instant,
    clock: AtomicU64,
    /// Held for reading from an event's instant until it is counted.
    reports: RwLock<()>,
    stats: Mutex<RequestStats>,
}

/// SplitMix64: the same lives in each run.
struct Random(u64);

#[test]
fn the_reports_of_ten_million_lives_add_up_to_the_time_they_took() {
    let origin = Instant::now();
    let shared = Shared {
        origin,
        clock: AtomicU64::new(0),
        reports: RwLock::new(()),
        stats: Mutex::new(RequestStats::new(origin)),
    };
    let (shared, over) = (&shared, AtomicBool::new(false));
    let ((all, proxied), reports) = thread::scope(|scope| {
        let reporter = scope.spawn(|| report_until(shared, &over));
        let threads: Vec<_> =
            (0..THREADS).map(|seed| scope.spawn(move || live(shared, Random(seed)))).collect();
        let lives = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .reduce(|one, other| (one.0.plus(other.0), one.1.plus(other.1)))
            .unwrap();
        over.store(true, Ordering::Release);
        (lives, reporter.join().unwrap())
    });
    assert_eq!(shared.stats.lock().unwrap().in_flight(), 0);
    assert!(reports.len() > 10, "only {} reports", reports.len());
    let time = |average: fn(&RequestStatsReport) -> f64| -> f64 {
        reports.iter().map(|report| average(report) * report.period.as_nanos() as f64).sum()
    };
    let count = |count: fn(&RequestStatsReport) -> u64| -> u64 { reports.iter().map(count).sum() };
    assert_eq!((count(|report| report.request_count), all.lives), (LIVES, LIVES));
    assert_eq!(count(|report| report.proxied_request_count), proxied.lives);
    assert_close(time(|report| report.average_concurrency), all.nanos);
    assert_close(time(|report| report.average_proxied_concurrency), proxied.nanos);
}

fn assert_close(reported: f64, exact: u128) {
    let off = (reported / exact as f64 - 1.0).abs();
    assert!(off <= 1e-6, "{reported} ns instead of {exact}: off by {off}");
}

fn report_until(shared: &Shared, over: &AtomicBool) -> Vec<RequestStatsReport> {
    let mut reports = Vec::new();
    loop {
        let last = over.load(Ordering::Acquire);
        {
            let _none_under_way = shared.reports.write().unwrap();
            let now = shared.at(shared.clock.load(Ordering::Relaxed));
            reports.push(shared.stats.lock().unwrap().report(now));
        }
        if last {
            return reports;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// What is known of all lives, and of the proxied ones.
fn live(shared: &Shared, mut random: Random) -> (Exact, Exact) {
    let (mut all, mut of_proxied) = (Exact::default(), Exact::default());
    let mut end = |random: &mut Random, life: &Life| {
        let now = shared.event(random, |stats, now| stats.request_out(now, life.proxied));
        all.ended(life, now);
        if life.proxied {
            of_proxied.ended(life, now);
        }
    };
    let mut lives = Vec::with_capacity(AT_A_TIME);
    for _ in 0..LIVES / THREADS {
        let proxied = random.below(2) == 0;
        let arrived = shared.event(&mut random, |stats, now| stats.request_in(now, proxied));
        let life = Life { arrived, proxied };
        if random.below(4) == 0 {
            // Refused, or cancelled before anything else has happened.
            end(&mut random, &life);
            continue;
        }
        lives.push(life);
        if lives.len() == AT_A_TIME {
            // Any of them, so that some are there for long, as upgraded ones are.
            let ended = lives.swap_remove(random.below(AT_A_TIME as u64) as usize);
            end(&mut random, &ended);
        }
    }
    for life in lives {
        end(&mut random, &life);
    }
    (all, of_proxied)
}

// === impl Shared ===

impl Shared {
    fn at(&self, nanos: u64) -> Instant {
        self.origin + Duration::from_nanos(nanos)
    }

    /// Counts what happens now, which is returned.
    fn event(&self, random: &mut Random, count: impl FnOnce(&mut RequestStats, Instant)) -> u64 {
        let _under_way = self.reports.read().unwrap();
        let now = self.clock.fetch_add(random.below(STEP), Ordering::Relaxed);
        if random.below(1000) == 0 {
            // Others overtake.
            thread::yield_now();
        }
        count(&mut self.stats.lock().unwrap(), self.at(now));
        now
    }
}

// === impl Exact ===

impl Exact {
    fn ended(&mut self, life: &Life, now: u64) {
        self.nanos += u128::from(now - life.arrived);
        self.lives += 1;
    }

    fn plus(self, other: Self) -> Self {
        Self { nanos: self.nanos + other.nanos, lives: self.lives + other.lives }
    }
}

// === impl Random ===

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
