//! Golden values of knative/networking's `pkg/http/stats/request_test.go`, and the law.

#![allow(clippy::disallowed_methods, reason = "any instant will do as an origin, and threads need real ones")]

use std::sync::Mutex;

use proptest::prelude::*;

use super::*;

const IN: (bool, bool) = (true, false);
const OUT: (bool, bool) = (false, false);
const PROXIED_IN: (bool, bool) = (true, true);
const PROXIED_OUT: (bool, bool) = (false, true);

fn event(stats: &mut RequestStats, at: Instant, (arrives, proxied): (bool, bool)) {
    if arrives { stats.request_in(at, proxied) } else { stats.request_out(at, proxied) }
}

/// Plays (milliseconds, (arrives, proxied)) events, then reports at each of `reports`, in order of
/// time.
fn play(events: &[(u64, (bool, bool))], reports: &[u64]) -> Vec<RequestStatsReport> {
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    let mut stats = RequestStats::new(start);
    let mut events = events.iter().peekable();
    let mut out = Vec::new();
    for &end in reports {
        while let Some(&(ms, kind)) = events.next_if(|(ms, _)| *ms <= end) {
            event(&mut stats, at(ms), kind);
        }
        out.push(stats.report(at(end)));
    }
    out
}

fn averages(reports: &[RequestStatsReport]) -> Vec<(f64, u64)> {
    reports.iter().map(|r| (r.average_concurrency, r.request_count)).collect()
}

#[test]
fn averages_match_knative() {
    for (row, events, reports, expected) in [
        ("R1", &[(0, IN), (1000, OUT)][..], &[1000][..], &[(1.0, 1)][..]),
        ("R2", &[(0, IN), (3000, OUT)], &[6000], &[(0.5, 1)]),
        ("R3", &[(0, IN), (1, OUT)], &[1000], &[(0.001, 1)]),
        ("R4", &[(0, IN), (100, IN), (600, OUT), (1000, OUT)], &[1000], &[(1.5, 2)]),
        ("R5", &[(0, IN), (1500, OUT)], &[1000, 2000], &[(1.0, 1), (0.5, 0)]),
        ("R6", &[(0, IN), (3500, OUT)], &[1000, 2000, 3000, 4000], &[(1.0, 1), (1.0, 0), (1.0, 0), (0.5, 0)]),
        // Knative ignores events that go back in time; here the second request is from 499 to 999.
        ("R8", &[(500, IN), (499, IN), (1000, OUT), (999, OUT)], &[1000], &[(1.0, 2)]),
    ] {
        assert_eq!(averages(&play(events, reports)), expected, "{row}");
    }
}

#[test]
fn proxied_requests_count_in_both_fields() {
    let reports = play(&[(0, PROXIED_IN), (0, IN), (500, PROXIED_OUT), (1000, OUT)], &[1000]); // R7
    assert_eq!(averages(&reports), [(1.5, 2)]);
    assert_eq!((reports[0].average_proxied_concurrency, reports[0].proxied_request_count), (0.5, 1));
}

#[test]
fn end_without_arrival_does_not_underflow() {
    assert_eq!(averages(&play(&[(900, OUT), (0, IN)], &[1000])), [(1.0, 1)]);
}

#[test]
fn event_before_the_period_counts_from_its_start() {
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    let mut stats = RequestStats::new(start);
    stats.report(at(1000));
    stats.request_in(at(999), false);
    assert_eq!(stats.report(at(2000)).average_concurrency, 1.0, "not more than its time in flight");
    stats.request_out(at(1999), false);
    assert_eq!(stats.report(at(3000)).average_concurrency, 0.0);
}

#[test]
fn event_after_the_report_moves_the_end_of_the_period() {
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    let mut stats = RequestStats::new(start);
    stats.request_in(at(0), false);
    stats.request_in(at(1250), false);
    let report = stats.report(at(1000));
    assert_eq!((report.average_concurrency, report.period), (1.0, Duration::from_millis(1250)));
    stats.request_out(at(1500), false);
    assert_eq!(stats.report(at(1750)).average_concurrency, 1.5);
}

#[test]
fn empty_period_has_average_zero() {
    let report = play(&[(0, IN)], &[0])[0];
    assert_eq!((report.average_concurrency, report.request_count, report.period), (0.0, 1, Duration::ZERO));
}

/// One request: microseconds of its start and length, whether it is proxied, and two keys for the
/// order of its events.
type Request = (u64, u64, bool, (u32, u32));

/// All events as (period, rank, instant, (arrives, proxied)), in each period in the order of their
/// keys, with a request's arrival before its end.
fn shuffled(requests: &[Request], reports: &[u64]) -> Vec<(usize, u32, u64, (bool, bool))> {
    let period = |at: u64| reports.iter().position(|&end| at <= end);
    let mut events = Vec::new();
    for &(start, length, proxied, (a, b)) in requests {
        for (rank, at, kind) in [
            (a.min(b), start, (true, proxied)),
            (a.max(b).saturating_add(1), start + length, (false, proxied)),
        ] {
            events.extend(period(at).map(|period| (period, rank, at, kind)));
        }
    }
    events.sort_by_key(|&(period, rank, ..)| (period, rank));
    events
}

/// Microseconds that requests were in flight between two instants.
fn time_in_flight(requests: &[Request], from: u64, until: u64, proxied_only: bool) -> u64 {
    let counted = requests.iter().filter(|(_, _, proxied, _)| *proxied || !proxied_only);
    counted.map(|&(start, length, ..)| (start + length).min(until).saturating_sub(start.max(from))).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn reports_have_all_time_in_flight_for_any_order_of_events(
        requests in prop::collection::vec(
            (0..5_000_000_u64, 0..3_000_000_u64, any::<bool>(), any::<(u32, u32)>()), 0..50),
        gaps in prop::collection::vec(1..2_000_000_u64, 1..8),
    ) {
        let reports: Vec<u64> =
            gaps.iter().scan(0, |end, gap| { *end += gap; Some(*end) }).collect();
        let start = Instant::now();
        let at = |micros| start + Duration::from_micros(micros);
        let mut stats = RequestStats::new(start);
        let mut events = shuffled(&requests, &reports).into_iter().peekable();
        let mut from = 0;
        let mut arrived = 0;
        for (period, &until) in reports.iter().enumerate() {
            while let Some((_, _, micros, kind)) = events.next_if(|&(of, ..)| of == period) {
                event(&mut stats, at(micros), kind);
                arrived += u64::from(kind.0);
            }
            let report = stats.report(at(until));
            let micros = |average: f64| average * report.period.as_micros() as f64;
            let (all, proxied) =
                (micros(report.average_concurrency), micros(report.average_proxied_concurrency));
            prop_assert_eq!(report.request_count, std::mem::take(&mut arrived));
            prop_assert!((all - time_in_flight(&requests, from, until, false) as f64).abs() < 1e-3, "{all}");
            prop_assert!((proxied - time_in_flight(&requests, from, until, true) as f64).abs() < 1e-3, "{proxied}");
            from = until;
        }
    }

    #[test]
    fn average_stays_plausible_for_any_order_of_events(
        events in prop::collection::vec((0..3_000_u64, any::<bool>(), any::<bool>(), any::<bool>()), 0..100),
    ) {
        let start = Instant::now();
        let mut stats = RequestStats::new(start);
        for (ms, arrives, proxied, report) in events {
            let at = start + Duration::from_millis(ms);
            event(&mut stats, at, (arrives, proxied));
            if report {
                let average = stats.report(at).average_concurrency;
                prop_assert!((0.0..=100.0).contains(&average), "{average}");
            }
        }
    }
}

const THREADS: u32 = 8;
const REQUESTS: u32 = 2000;

/// Takes instants before the lock, as the proxies do.
fn hammer(stats: &Mutex<RequestStats>) -> Duration {
    let mut time_in_flight = Duration::ZERO;
    for request in 0..REQUESTS {
        let proxied = request % 3 == 0;
        let arrived = Instant::now();
        stats.lock().unwrap().request_in(arrived, proxied);
        std::thread::yield_now();
        let ended = Instant::now();
        stats.lock().unwrap().request_out(ended, proxied);
        time_in_flight += ended - arrived;
    }
    time_in_flight
}

#[test]
fn threads_lose_no_time() {
    let stats = Mutex::new(RequestStats::new(Instant::now()));
    let time_in_flight: Duration = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| hammer(&stats))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let report = stats.lock().unwrap().report(Instant::now());
    let counted = report.average_concurrency * report.period.as_secs_f64();
    assert!(
        (counted - time_in_flight.as_secs_f64()).abs() < 1e-6,
        "{counted} s instead of {time_in_flight:?}"
    );
    assert_eq!(stats.lock().unwrap().in_flight(), 0);
}

#[test]
fn threads_lose_no_request_between_reports() {
    let stats = Mutex::new(RequestStats::new(Instant::now()));
    let (mut all, mut proxied) = (0, 0);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| hammer(&stats))).collect();
        while !threads.iter().all(|thread| thread.is_finished()) {
            let now = Instant::now();
            let report = stats.lock().unwrap().report(now);
            assert!((0.0..=f64::from(THREADS)).contains(&report.average_concurrency), "{report:?}");
            all += report.request_count;
            proxied += report.proxied_request_count;
            std::thread::yield_now();
        }
    });
    let last = stats.lock().unwrap().report(Instant::now());
    assert_eq!(all + last.request_count, u64::from(THREADS * REQUESTS));
    assert_eq!(proxied + last.proxied_request_count, u64::from(THREADS * REQUESTS.div_ceil(3)));
    assert_eq!(stats.lock().unwrap().in_flight(), 0);
}
