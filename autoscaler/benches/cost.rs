//! Cost of the operations that run for every report, decision and request.
//!
//! Run by `make bench`: criterion measures, and a table at the end compares medians with bounds.
//! Time is virtual, except in cases that name the clock.

#![allow(clippy::unwrap_used, reason = "a panic fails the benchmark, as intended")]
#![allow(
    clippy::disallowed_methods,
    reason = "virtual time needs an origin, and one case measures the clock as well"
)]

use std::collections::BTreeSet;
use std::hint::black_box;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use autoscaler::contract::metric_name::MetricName;
use autoscaler::routing::breaker::{Breaker, ConcurrencyLimit};
use autoscaler::routing::endpoint_subset::endpoint_subset;
use autoscaler::scaling::decider::{Decider, DeciderSpec};
use autoscaler::settings::AutoscalerConfig;
use autoscaler::settings::{Aggregation, Settings};
use autoscaler::stats::collection::{Collection, WindowSpec};
use autoscaler::stats::{EndedRequests, RequestEnd, RequestStats, Stat};
use criterion::Bencher;

use cases::Case;

mod cases;
mod table;

const T0: Duration = Duration::from_secs(1_600_000_000);

const CASES: &[Case] = &[
    Case { name: "record one stat a second", bound: Some(100.0), run: |b| record(b, Aggregation::Linear, 1) },
    Case {
        name: "record one of ten stats a second",
        bound: Some(100.0),
        run: |b| record(b, Aggregation::Linear, 10),
    },
    Case {
        name: "record one stat a second, weighted",
        bound: Some(100.0),
        run: |b| record(b, Aggregation::WeightedExponential, 1),
    },
    Case {
        name: "averages and decision",
        bound: Some(1000.0),
        run: |b| decide(b, Aggregation::Linear, 0, 0),
    },
    Case {
        name: "averages and decision, 3 s after the last stat",
        bound: Some(1000.0),
        run: |b| decide(b, Aggregation::Linear, 3, 0),
    },
    Case {
        name: "averages and decision, with a scale-down delay",
        bound: Some(1000.0),
        run: |b| decide(b, Aggregation::Linear, 0, 300),
    },
    Case {
        name: "averages and decision, weighted",
        bound: Some(1000.0),
        run: |b| decide(b, Aggregation::WeightedExponential, 0, 0),
    },
    Case {
        name: "averages and decision, weighted, 3 s after the last stat",
        bound: Some(1000.0),
        run: |b| decide(b, Aggregation::WeightedExponential, 3, 0),
    },
    Case { name: "a request in and out", bound: Some(100.0), run: request },
    Case {
        name: "a request in and out, with a lock and the clock",
        bound: Some(100.0),
        run: request_under_lock,
    },
    Case {
        name: "a request in and out, with a lock and its time in the app",
        bound: Some(100.0),
        run: request_in_app_under_lock,
    },
    Case { name: "breaker, try_acquire and release", bound: None, run: breaker_try },
    Case { name: "breaker, acquire and release", bound: None, run: breaker_acquire },
    Case { name: "breaker, hand a slot to a waiting request", bound: None, run: breaker_hand_over },
    Case { name: "endpoint subset, 3 of 20 activators", bound: None, run: subset },
];

fn main() -> ExitCode {
    cases::run(CASES)
}

fn at(second: u64) -> Duration {
    T0 + Duration::from_secs(second)
}

fn stat() -> Stat {
    Stat {
        average_concurrent_requests: 70.5,
        average_proxied_concurrent_requests: 0.5,
        request_count: 700.25,
        proxied_request_count: 5.0,
        ..Stat::default()
    }
}

/// A collection with default windows, all buckets filled.
fn full_collection(aggregation: Aggregation) -> Collection {
    let (mut settings, _) = Settings::resolve(&AutoscalerConfig::default(), &Default::default());
    settings.window.aggregation = aggregation;
    let mut collection = Collection::new(WindowSpec::from(&settings));
    (0..=120).for_each(|second| collection.record(at(second), &stat()));
    collection
}

fn record(bencher: &mut Bencher<'_>, aggregation: Aggregation, per_second: u64) {
    let mut collection = full_collection(aggregation);
    let stat = stat();
    let mut recorded = 120 * per_second;
    bencher.iter(|| {
        recorded += 1;
        collection.record(at(recorded / per_second), black_box(&stat));
    });
}

fn decide(bencher: &mut Bencher<'_>, aggregation: Aggregation, silence: u64, delay: u64) {
    let collection = full_collection(aggregation);
    let spec = DeciderSpec { scale_down_delay: Duration::from_secs(delay), ..DeciderSpec::default() };
    let mut decider = Decider::new(&spec, 1, T0);
    let now = at(120 + silence);
    bencher.iter(|| {
        let averages = black_box(&collection).averages(MetricName::Concurrency, black_box(now));
        decider.decide(black_box(&spec), averages, 1, now)
    });
}

/// Requests of 7 ms, one each millisecond.
fn request(bencher: &mut Bencher<'_>) {
    let mut now = Instant::now();
    let mut stats = RequestStats::new(now);
    for _ in 0..7 {
        stats.request_in(now, false);
    }
    bencher.iter(|| {
        now += Duration::from_millis(1);
        stats.request_in(black_box(now), false);
        stats.request_out(black_box(now), false);
    });
}

/// The call sequence of the activator.
fn request_under_lock(bencher: &mut Bencher<'_>) {
    let stats = Mutex::new(RequestStats::new(Instant::now()));
    bencher.iter(|| {
        let now = Instant::now();
        stats.lock().unwrap().request_in(now, black_box(false));
        let now = Instant::now();
        stats.lock().unwrap().request_out(now, black_box(false));
    });
}

/// The call sequence of queue-proxy.
fn request_in_app_under_lock(bencher: &mut Bencher<'_>) {
    let now = Instant::now();
    let mut ended = EndedRequests::default();
    ended.report(Duration::from_secs(1), Some(Duration::from_millis(200)));
    let counts = Mutex::new((RequestStats::new(now), ended));
    bencher.iter(|| {
        let arrived = Instant::now();
        counts.lock().unwrap().0.request_in(arrived, black_box(false));
        let now = Instant::now();
        let mut counts = counts.lock().unwrap();
        counts.0.request_out(now, black_box(false));
        counts.1.record(RequestEnd::Timed(now.saturating_duration_since(arrived)));
    });
}

fn breaker_try(bencher: &mut Bencher<'_>) {
    let breaker = Breaker::new(ConcurrencyLimit::AtMost(100), 1000);
    bencher.iter(|| drop(breaker.try_acquire()));
}

fn breaker_acquire(bencher: &mut Bencher<'_>) {
    let breaker = Breaker::new(ConcurrencyLimit::AtMost(100), 1000);
    let mut context = Context::from_waker(Waker::noop());
    bencher.iter(|| match pin!(breaker.acquire()).poll(&mut context) {
        Poll::Ready(permit) => drop(permit),
        Poll::Pending => unreachable!("the limit is not reached"),
    });
}

fn breaker_hand_over(bencher: &mut Bencher<'_>) {
    let breaker = Breaker::new(ConcurrencyLimit::AtMost(1), 1000);
    let mut context = Context::from_waker(Waker::noop());
    bencher.iter(|| {
        let running = breaker.try_acquire();
        let mut waiting = pin!(breaker.acquire());
        let was_pending = waiting.as_mut().poll(&mut context).is_pending();
        drop(running);
        (was_pending, waiting.poll(&mut context).is_ready())
    });
}

fn subset(bencher: &mut Bencher<'_>) {
    let addresses: Vec<_> = (0..20).map(|i| format!("10.1.0.{i}")).collect();
    let candidates: BTreeSet<_> = addresses.iter().map(String::as_str).collect();
    bencher.iter(|| endpoint_subset(black_box(&candidates), black_box("shop/web"), 3));
}
