//! Ten million requests from several threads that overtake each other: the reports add up to the
//! total time in flight.
//!
//! Every event takes its instant first and the lock later, as a proxy's threads do, and sometimes
//! yields in between. A report is final for its period, so it alone waits for events in progress.
//! All other events may be out of order.

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

const REQUESTS: u64 = 10_000_000;
const THREADS: u64 = 4;
/// Most concurrent requests of a thread.
const AT_A_TIME: usize = 500;
/// Largest step of the clock between two events, in nanoseconds.
const STEP: u64 = 100_000;

struct Request {
    arrived: u64,
    proxied: bool,
}

/// Exact totals of a thread, of all requests or of the proxied ones.
#[derive(Clone, Copy, Default)]
struct Exact {
    nanos: u128,
    requests: u64,
}

struct Shared {
    origin: Instant,
    clock: AtomicU64,
    /// Held for reading from an event's instant until it is counted.
    reports: RwLock<()>,
    stats: Mutex<RequestStats>,
}

/// SplitMix64: the same requests in each run.
struct Random(u64);

#[test]
fn reports_of_ten_million_requests_add_up_to_their_time_in_flight() {
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
            (0..THREADS).map(|seed| scope.spawn(move || send_requests(shared, Random(seed)))).collect();
        let requests = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .reduce(|one, other| (one.0.plus(other.0), one.1.plus(other.1)))
            .unwrap();
        over.store(true, Ordering::Release);
        (requests, reporter.join().unwrap())
    });
    assert_eq!(shared.stats.lock().unwrap().in_flight(), 0);
    assert!(reports.len() > 10, "only {} reports", reports.len());
    let time = |average: fn(&RequestStatsReport) -> f64| -> f64 {
        reports.iter().map(|report| average(report) * report.period.as_nanos() as f64).sum()
    };
    let count = |count: fn(&RequestStatsReport) -> u64| -> u64 { reports.iter().map(count).sum() };
    assert_eq!((count(|report| report.request_count), all.requests), (REQUESTS, REQUESTS));
    assert_eq!(count(|report| report.proxied_request_count), proxied.requests);
    assert_close(time(|report| report.average_concurrency), all.nanos);
    assert_close(time(|report| report.average_proxied_concurrency), proxied.nanos);
}

fn assert_close(reported: f64, exact: u128) {
    let error = (reported / exact as f64 - 1.0).abs();
    assert!(error <= 1e-6, "{reported} ns instead of {exact}: relative error {error}");
}

fn report_until(shared: &Shared, over: &AtomicBool) -> Vec<RequestStatsReport> {
    let mut reports = Vec::new();
    loop {
        let last = over.load(Ordering::Acquire);
        {
            let _none_in_progress = shared.reports.write().unwrap();
            let now = shared.at(shared.clock.load(Ordering::Relaxed));
            reports.push(shared.stats.lock().unwrap().report(now));
        }
        if last {
            return reports;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Sends this thread's requests. Returns the exact totals of all requests and of the proxied ones.
fn send_requests(shared: &Shared, mut random: Random) -> (Exact, Exact) {
    let (mut all, mut of_proxied) = (Exact::default(), Exact::default());
    let mut end = |random: &mut Random, request: &Request| {
        let now = shared.event(random, |stats, now| stats.request_out(now, request.proxied));
        all.ended(request, now);
        if request.proxied {
            of_proxied.ended(request, now);
        }
    };
    let mut requests = Vec::with_capacity(AT_A_TIME);
    for _ in 0..REQUESTS / THREADS {
        let proxied = random.below(2) == 0;
        let arrived = shared.event(&mut random, |stats, now| stats.request_in(now, proxied));
        let request = Request { arrived, proxied };
        if random.below(4) == 0 {
            // Rejected or cancelled at once.
            end(&mut random, &request);
            continue;
        }
        requests.push(request);
        if requests.len() == AT_A_TIME {
            // A random one, so that some requests last long, as upgraded connections do.
            let ended = requests.swap_remove(random.below(AT_A_TIME as u64) as usize);
            end(&mut random, &ended);
        }
    }
    for request in requests {
        end(&mut random, &request);
    }
    (all, of_proxied)
}

// === impl Shared ===

impl Shared {
    fn at(&self, nanos: u64) -> Instant {
        self.origin + Duration::from_nanos(nanos)
    }

    /// Counts an event at the present time, and returns that time.
    fn event(&self, random: &mut Random, count: impl FnOnce(&mut RequestStats, Instant)) -> u64 {
        let _in_progress = self.reports.read().unwrap();
        let now = self.clock.fetch_add(random.below(STEP), Ordering::Relaxed);
        if random.below(1000) == 0 {
            // Other threads overtake.
            thread::yield_now();
        }
        count(&mut self.stats.lock().unwrap(), self.at(now));
        now
    }
}

// === impl Exact ===

impl Exact {
    fn ended(&mut self, request: &Request, now: u64) {
        self.nanos += u128::from(now - request.arrived);
        self.requests += 1;
    }

    fn plus(self, other: Self) -> Self {
        Self { nanos: self.nanos + other.nanos, requests: self.requests + other.requests }
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
