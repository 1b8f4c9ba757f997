//! `--exchanges`: bodies of 1 MB, streams of events, a connection for each request, and idle
//! websockets, over HTTP/1.1.
//!
//! ```text
//!   clients (this process, a thread each) ─► proxy (one at a time) ─► backend (this process)
//! ```
//!
//! Ratios are to nginx in the same round, as in the comparison of small requests.

mod backend;
mod client;
mod websockets;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use bench_proxies::cpu_time::CpuTime;
use bench_proxies::table::{self, Table};
use bench_proxies::{clock, machine, memory};

use self::client::{Client, Exchange};
use super::comparison::{Summary, median, spread, two_digits};
use crate::args::MeasurementPlan;
use crate::proxies::{Proxy, REFERENCE};

/// Clients with one exchange at a time each.
const CLIENTS: usize = 16;
/// As many as the peers' configurations allow. The memory for each is that of any number.
const WEBSOCKETS: usize = 2000;
/// Longest time to a proxy's first response, and the pause between attempts.
const FIRST_RESPONSE: Duration = Duration::from_secs(10);
const FIRST_RESPONSE_PAUSE: Duration = Duration::from_millis(20);

/// One measurement.
#[derive(Clone, Copy)]
struct Sample {
    /// Exchanges a second.
    rate: f64,
    /// CPU time of the proxy for an exchange, in seconds.
    cpu: f64,
}

/// Figures of all proxies, one a round.
#[derive(Default)]
struct Results {
    samples: BTreeMap<(Exchange, &'static str), Vec<Sample>>,
    /// Resident bytes for each idle websocket.
    websockets: BTreeMap<&'static str, Vec<f64>>,
}

/// Measures all proxies and prints the figures.
///
/// # Errors
/// When a proxy does not start, or fails an exchange.
pub(crate) fn run(proxies: &[Proxy], directory: &Path, plan: &MeasurementPlan) -> Result<()> {
    println!("{}", machine::describe());
    let backend = backend::start()?;
    let mut results = Results::default();
    for round in 1..=plan.rounds {
        eprintln!("exchanges, round {round} of {}", plan.rounds);
        for proxy in proxies {
            let measured = measure(proxy, backend, directory, plan, &mut results);
            measured.with_context(|| proxy.name)?;
        }
    }
    print(proxies, &results);
    Ok(())
}

fn measure(
    proxy: &Proxy,
    backend: SocketAddr,
    directory: &Path,
    plan: &MeasurementPlan,
    results: &mut Results,
) -> Result<()> {
    let mut running = proxy.start(backend, directory)?;
    running.process.wait_for_listening(running.address)?;
    // Before its first response, a proxy may be without some of its processes.
    wait_for_response(running.address)?;
    let processes = running.process.family()?;
    let idle = websockets::bytes_for_each(running.address, WEBSOCKETS, || memory::resident(&processes))?;
    results.websockets.entry(proxy.name).or_default().push(idle);
    for exchange in Exchange::ALL {
        saturate(running.address, exchange, plan.warm_up)?;
        let before = CpuTime::of(&processes)?;
        let count = saturate(running.address, exchange, plan.duration)?;
        let used = CpuTime::of(&processes)?.since(&before);
        ensure!(count > 0, "no exchange of {exchange} ended");
        let sample = Sample {
            rate: count as f64 / plan.duration.as_secs_f64(),
            cpu: used.total.as_secs_f64() / count as f64,
        };
        results.samples.entry((exchange, proxy.name)).or_default().push(sample);
    }
    Ok(())
}

fn wait_for_response(address: SocketAddr) -> Result<()> {
    let end = clock::now() + FIRST_RESPONSE;
    while let Err(error) = Client::new(address, Exchange::Connection).exchange() {
        ensure!(clock::now() < end, "no response: {error}");
        thread::sleep(FIRST_RESPONSE_PAUSE);
    }
    Ok(())
}

/// Runs exchanges on all clients for this duration, and returns their number.
fn saturate(address: SocketAddr, exchange: Exchange, duration: Duration) -> Result<usize> {
    let end = clock::now() + duration;
    let run = || -> io::Result<usize> {
        let mut client = Client::new(address, exchange);
        let mut count = 0;
        while clock::now() < end {
            client.exchange()?;
            count += 1;
        }
        Ok(count)
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(run)).collect();
        clients.into_iter().try_fold(0, |sum, client| {
            let count = client.join().map_err(|_| anyhow!("a client panicked"))?;
            Ok(sum + count.with_context(|| format!("an exchange of {exchange} failed"))?)
        })
    })
}

fn print(proxies: &[Proxy], results: &Results) {
    let times = format!("× {REFERENCE}");
    for exchange in Exchange::ALL {
        let mut table = Table::new(&["", "a second", "±", &times, "CPU time for each", &times]);
        for proxy in proxies {
            let figure = |figure| results.figure(exchange, proxy.name, figure);
            let ratio = |figure| results.ratio(exchange, proxy.name, figure);
            let rate = figure(|sample| sample.rate);
            table.row(vec![
                proxy.name.to_owned(),
                median(rate, table::count),
                spread(rate),
                median(ratio(|sample| sample.rate), two_digits),
                median(figure(|sample| sample.cpu), table::latency),
                median(ratio(|sample| sample.cpu), two_digits),
            ]);
        }
        println!("\n{exchange}, {CLIENTS} clients");
        print!("{table}");
    }
    let mut table = Table::new(&["", "memory for each"]);
    for proxy in proxies {
        let bytes = Summary::of(results.websockets.get(proxy.name).into_iter().flatten().copied());
        table.row(vec![proxy.name.to_owned(), median(bytes, |bytes| format!("{:.1} KiB", bytes / 1024.0))]);
    }
    println!("\n{WEBSOCKETS} idle websockets");
    print!("{table}");
}

// === impl Results ===

impl Results {
    fn figure(&self, exchange: Exchange, proxy: &'static str, figure: fn(&Sample) -> f64) -> Option<Summary> {
        Summary::of(self.of(exchange, proxy).iter().map(figure))
    }

    /// The figure as a ratio to the reference's, round by round.
    fn ratio(&self, exchange: Exchange, proxy: &'static str, figure: fn(&Sample) -> f64) -> Option<Summary> {
        let ours = self.of(exchange, proxy).iter().map(figure);
        let theirs = self.of(exchange, REFERENCE).iter().map(figure);
        Summary::of(ours.zip(theirs).map(|(ours, theirs)| ours / theirs))
    }

    fn of(&self, exchange: Exchange, proxy: &'static str) -> &[Sample] {
        self.samples.get(&(exchange, proxy)).map(Vec::as_slice).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The backend without a proxy.
    #[test]
    fn every_exchange_and_websocket_works() {
        let backend = backend::start().unwrap();
        for exchange in Exchange::ALL {
            assert!(saturate(backend, exchange, Duration::from_millis(50)).unwrap() > 0, "{exchange}");
        }
        let mut readings = [5, 35].into_iter();
        assert_eq!(websockets::bytes_for_each(backend, 10, || Ok(readings.next().unwrap())).unwrap(), 3.0);
    }
}
