//! A soak: one proxy at half of what it takes, for long, among callers that behave badly, and nothing may leak.
//!
//! Printed a few times, at most once a minute: what the steady load got, and what the process holds. Afterwards the bad callers
//! leave, and it must let go of everything: no request counted, no socket open, every permit free. Memory may move, but in the
//! last quarter of the time it must come down to where it came down to in the second.

mod misbehaviour;
mod permits;
mod watch;

use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use self::misbehaviour::Misbehaviour;
use self::watch::{Held, Watched};
use crate::clock;
use crate::load::{Generator, Pace, Tally};
use crate::proxy::Soaked;
use crate::table::latency;

const CONNECTIONS: usize = 64;
/// Callers that misbehave at a time.
const BAD_CALLERS: usize = 48;
/// Share of the measured capacity.
const LOAD: f64 = 0.5;
const FIRST: Duration = Duration::from_millis(100);
const MEASURED: Duration = Duration::from_secs(3);
const MOST_BETWEEN_ROWS: Duration = Duration::from_secs(60);
/// The longest thing that a bad caller's connection may wait for at the proxy is its header timeout.
const AFTERMATH: Duration = Duration::from_secs(30);
/// Memory that may come on top of the second quarter's.
const GROWTH: u64 = 2 << 20;
/// Idle connections to the app that may still be there, and a rounding.
const FILES: usize = 8;

/// Soaks the proxy for so long.
///
/// # Errors
/// When something leaked, or the steady load suffered.
pub(crate) fn run(
    soaked: &Soaked,
    backend: SocketAddr,
    directory: &Path,
    threads: usize,
    duration: Duration,
) -> Result<()> {
    let Soaked { proxy, in_flight, queued } = soaked;
    let mut running = proxy.start(backend, directory)?;
    running.process.wait_for_listening(running.address)?;
    let (in_flight, queued) = (*in_flight, *queued);
    let watched = Watched { process: running.process.id(), stats: running.stats, in_flight, queued };
    // Metrics of a workload may begin with its first request.
    Generator::connect(running.address, 1, 1)?.run(Pace::Saturating, FIRST)?;
    let at_rest = watched.look()?;

    let mut generator = Generator::connect(running.address, CONNECTIONS, threads)?;
    let capacity = generator.run(Pace::Saturating, MEASURED)?.rate();
    let pace = Pace::PerSecond(capacity * LOAD);
    println!("{}: {capacity:.0} requests a second at most; half of it for {duration:?}", proxy.name);
    println!("{HEADS}");

    let misbehaviour = Misbehaviour::start(running.address, BAD_CALLERS)?;
    let (start, mut seen) = (clock::now(), Vec::new());
    let between = (duration / 8).min(MOST_BETWEEN_ROWS);
    while start.elapsed() < duration {
        let (tally, held) = watched.during(|| generator.run(pace, between))?;
        print_row(start.elapsed(), &tally, &held, &misbehaviour);
        ensure!(tally.failed == 0, "the steady load failed: {}", tally.last_failure);
        seen.push(held);
    }
    let misbehaved = misbehaviour.stop()?;
    drop(generator);
    println!("{misbehaved}");
    ensure_memory_is_flat(&seen)?;
    ensure_it_lets_go(&watched, &at_rest)?;
    permits::ensure_all_are_free(running.address)?;
    println!(
        "no leak: memory flat, {} files open, nothing in flight, all permits free",
        watched.look()?.files
    );
    Ok(())
}

const HEADS: &str = "   time    rps      p50      p99  unanswered   RSS least, most  files  in flight  queued  bad callers' turns";

fn print_row(time: Duration, tally: &Tally, held: &Held, misbehaviour: &Misbehaviour) {
    let quantile = |share| latency(tally.quantile(share).as_secs_f64());
    println!(
        "{:>5} s  {:>5.0}  {:>7}  {:>7}  {:>10}  {:>5.1} to {:>4.1} MiB  {:>5}  {:>9}  {:>6}  {:>18}",
        time.as_secs(),
        tally.rate(),
        quantile(0.5),
        quantile(0.99),
        tally.unanswered,
        mebibytes(held.memory.least),
        mebibytes(held.memory.most),
        held.files,
        held.in_flight,
        held.queued,
        misbehaviour.turns(),
    );
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn ensure_memory_is_flat(seen: &[Held]) -> Result<()> {
    let quarter = seen.len() / 4;
    let least = |rows: Range<usize>| seen.get(rows)?.iter().map(|held| held.memory.least).min();
    let (second, last) = (least(quarter..2 * quarter), least(3 * quarter..seen.len()));
    let (Some(second), Some(last)) = (second, last) else { bail!("too short to see whether memory grows") };
    ensure!(
        last <= second + GROWTH,
        "memory grew: at least {} KiB in the second quarter, {} KiB in the last",
        second / 1024,
        last / 1024
    );
    Ok(())
}

fn ensure_it_lets_go(watched: &Watched, at_rest: &Held) -> Result<()> {
    let end = clock::now() + AFTERMATH;
    loop {
        let held = watched.look()?;
        if held.in_flight == 0 && held.queued == 0 && held.files <= at_rest.files + FILES {
            return Ok(());
        }
        ensure!(clock::now() < end, "{AFTERMATH:?} after everybody left: {held:?}; at first {at_rest:?}");
        thread::sleep(Duration::from_millis(200));
    }
}

#[cfg(test)]
mod tests {
    use super::watch::Memory;
    use super::*;

    fn flat(kibibytes: &[u64]) -> bool {
        let memory = |least: &u64| Memory { least: least * 1024, most: 99_999 * 1024 };
        let held = |least| Held { memory: memory(least), files: 0, in_flight: 0, queued: 0 };
        ensure_memory_is_flat(&kibibytes.iter().map(held).collect::<Vec<_>>()).is_ok()
    }

    #[test]
    fn memory_may_move_but_not_grow() {
        assert!(flat(&[2000, 4000, 9000, 8000, 9500, 7000, 9000, 11_000]));
        assert!(!flat(&[4000, 5000, 6000, 7000, 8000, 9000, 10_000, 11_000]));
    }
}
