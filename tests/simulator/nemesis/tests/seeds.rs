//! Seeds of the nemesis, by `make test` and `make nemesis`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this is test code")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use nemesis::{Failure, Options, Summary};

/// Seeds of `make test`.
const SEEDS: u64 = 16;
/// Longest time of one run, which takes seconds.
const LONGEST: Duration = Duration::from_secs(600);
/// Failures that are printed in full.
const PRINTED: usize = 2;

/// Runs one seed on a clock of its own. A paused clock stands still while a task is never idle, so
/// a run with an endless loop has no end.
fn run(options: Options) -> Result<Summary, Failure> {
    let (sender, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let _ = sender.send(runtime.unwrap().block_on(nemesis::run(options)));
    });
    ended.recv_timeout(LONGEST).unwrap_or_else(|_| panic!("seed {} did not end", options.seed))
}

/// Runs seeds on all cores.
fn run_all(seeds: std::ops::Range<u64>, options: Options) -> (Summary, Vec<Failure>) {
    let (next, results) = (AtomicU64::new(seeds.start), Mutex::new((Summary::default(), Vec::new())));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let result = run(Options { seed, ..options });
                    let mut results = results.lock().unwrap();
                    match result {
                        Ok(summary) => results.0 += summary,
                        Err(failure) => results.1.push(failure),
                    }
                }
            });
        }
    });
    let (summary, mut failures) = results.into_inner().unwrap();
    failures.sort_by_key(|failure| failure.seed);
    (summary, failures)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}")))
}

/// All seeds up to `SEEDS`, or the one in `SEED`.
#[test]
fn no_seed_loses_a_request() {
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or(SEEDS),
    };
    let (summary, failures) = run_all(seeds.clone(), Options::default());
    println!("{} seeds: {summary:?}", seeds.end - seeds.start);
    for failure in failures.iter().take(PRINTED) {
        println!("\n{}", failure.journal.join("\n"));
    }
    for failure in &failures {
        println!("seed {}: {}", failure.seed, failure.what);
        println!("  SEED={} cargo test -p nemesis --test seeds no_seed -- --nocapture", failure.seed);
    }
    assert!(failures.is_empty(), "{} of {} seeds failed", failures.len(), seeds.end - seeds.start);
}

/// The checks find a receiver that takes silence for zero.
#[test]
fn silence_that_counts_as_zero_loses_requests() {
    let failure = |seed| run(Options { seed, silence_is_zero: true }).err();
    let mut failures = (0..40).filter_map(failure);
    assert!(failures.any(|failure| failure.what.contains("removed by a 0")));
}
