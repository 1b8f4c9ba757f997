//! `--soak`: one proxy at half of its capacity beside misbehaving clients; nothing may leak.
//!
//! It prints a row at least every minute: the results of the steady load and the resources of the
//! process. After the misbehaving clients have left, the proxy must have no request in flight, no
//! socket open and every permit free. Memory may fluctuate, but its minimum in the last quarter
//! must not exceed its minimum in the second quarter by more than [`GROWTH`].

mod abusive_clients;
mod permit_check;
mod process_monitor;

use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use bench_proxies::clock;
use bench_proxies::table::latency;

use self::abusive_clients::AbusiveClients;
use self::process_monitor::{ProcessMonitor, ProcessSnapshot};
use crate::proxies::SoakedProxy;
use crate::traffic::{Generator, LoadStats, RequestRate};

/// Connections of the steady load.
const CONNECTIONS: usize = 64;
const ABUSIVE_CLIENTS: usize = 48;
/// The steady load, as a share of the measured capacity.
const LOAD: f64 = 0.5;
const FIRST_REQUESTS: Duration = Duration::from_millis(100);
const CAPACITY_MEASUREMENT: Duration = Duration::from_secs(3);
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);
/// Longest wait until everything is released. A connection may last as long as the proxy's header
/// timeout.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(30);
/// Allowed growth of memory, in bytes.
const GROWTH: u64 = 2 << 20;
/// Allowed additional open files: idle connections to the app, with a margin.
const FILES: usize = 8;

/// Soaks the proxy for this duration.
///
/// # Errors
/// When the proxy leaks, or a request of the steady load fails.
pub(crate) fn run(
    soaked: &SoakedProxy,
    backend: SocketAddr,
    directory: &Path,
    threads: usize,
    duration: Duration,
) -> Result<()> {
    let SoakedProxy { proxy, in_flight, queued } = soaked;
    let mut running = proxy.start(backend, directory)?;
    running.process.wait_for_listening(running.address)?;
    let (in_flight, queued) = (*in_flight, *queued);
    let monitor =
        ProcessMonitor { process: running.process.id(), metrics: running.metrics, in_flight, queued };
    // The activator exports metrics of a workload from its first request on.
    Generator::connect(running.address, 1, 1)?.run(RequestRate::Saturating, FIRST_REQUESTS)?;
    let idle = monitor.snapshot()?;

    let mut generator = Generator::connect(running.address, CONNECTIONS, threads)?;
    let capacity = generator.run(RequestRate::Saturating, CAPACITY_MEASUREMENT)?.rate();
    let rate = RequestRate::PerSecond(capacity * LOAD);
    println!(
        "{}: capacity {capacity:.0} requests per second; soaking at half of it for {duration:?}",
        proxy.name
    );
    println!("{HEADINGS}");

    let abusive_clients = AbusiveClients::start(running.address, ABUSIVE_CLIENTS)?;
    let (start, mut snapshots) = (clock::now(), Vec::new());
    let interval = (duration / 8).min(LONGEST_INTERVAL);
    while start.elapsed() < duration {
        let (stats, snapshot) = monitor.during(|| generator.run(rate, interval))?;
        print_row(start.elapsed(), &stats, &snapshot, &abusive_clients);
        ensure!(stats.failed == 0, "a request of the steady load failed: {}", stats.last_failure);
        snapshots.push(snapshot);
    }
    let scenario_counts = abusive_clients.stop()?;
    drop(generator);
    println!("{scenario_counts}");
    ensure_memory_is_flat(&snapshots)?;
    ensure_released(&monitor, &idle)?;
    permit_check::ensure_all_are_free(running.address)?;
    println!(
        "no leak: memory flat, {} files open, no request in flight, all permits free",
        monitor.snapshot()?.files
    );
    Ok(())
}

const HEADINGS: &str = "   time    rps      p50      p99  unanswered      RSS min to max  files  in flight  queued  abusive scenarios";

fn print_row(
    time: Duration,
    stats: &LoadStats,
    snapshot: &ProcessSnapshot,
    abusive_clients: &AbusiveClients,
) {
    let quantile = |share| latency(stats.quantile(share).as_secs_f64());
    println!(
        "{:>5} s  {:>5.0}  {:>7}  {:>7}  {:>10}  {:>5.1} to {:>4.1} MiB  {:>5}  {:>9}  {:>6}  {:>18}",
        time.as_secs(),
        stats.rate(),
        quantile(0.5),
        quantile(0.99),
        stats.unanswered,
        mebibytes(snapshot.memory.least),
        mebibytes(snapshot.memory.most),
        snapshot.files,
        snapshot.in_flight,
        snapshot.queued,
        abusive_clients.completed(),
    );
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn ensure_memory_is_flat(snapshots: &[ProcessSnapshot]) -> Result<()> {
    let quarter = snapshots.len() / 4;
    let least = |rows: Range<usize>| snapshots.get(rows)?.iter().map(|snapshot| snapshot.memory.least).min();
    let (second, last) = (least(quarter..2 * quarter), least(3 * quarter..snapshots.len()));
    let (Some(second), Some(last)) = (second, last) else {
        bail!("the soak was too short to check memory growth")
    };
    ensure!(
        last <= second + GROWTH,
        "memory grew: its minimum was {} KiB in the second quarter and {} KiB in the last",
        second / 1024,
        last / 1024
    );
    Ok(())
}

fn ensure_released(monitor: &ProcessMonitor, idle: &ProcessSnapshot) -> Result<()> {
    let end = clock::now() + RELEASE_TIMEOUT;
    loop {
        let snapshot = monitor.snapshot()?;
        if snapshot.in_flight == 0 && snapshot.queued == 0 && snapshot.files <= idle.files + FILES {
            return Ok(());
        }
        ensure!(
            clock::now() < end,
            "not released {RELEASE_TIMEOUT:?} after the last client left: {snapshot:?}; before the soak: {idle:?}"
        );
        thread::sleep(Duration::from_millis(200));
    }
}

#[cfg(test)]
mod tests {
    use super::process_monitor::MemoryRange;
    use super::*;

    fn flat(kibibytes: &[u64]) -> bool {
        let memory = |least: &u64| MemoryRange { least: least * 1024, most: 99_999 * 1024 };
        let snapshot = |least| ProcessSnapshot { memory: memory(least), files: 0, in_flight: 0, queued: 0 };
        ensure_memory_is_flat(&kibibytes.iter().map(snapshot).collect::<Vec<_>>()).is_ok()
    }

    #[test]
    fn rejects_growing_memory_but_not_fluctuating_memory() {
        assert!(flat(&[2000, 4000, 9000, 8000, 9500, 7000, 9000, 11_000]));
        assert!(!flat(&[4000, 5000, 6000, 7000, 8000, 9000, 10_000, 11_000]));
    }
}
