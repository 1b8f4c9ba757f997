//! A simulated activator: its process, its place in the slices, and the reports that it sends.

use std::net::IpAddr;

use autoscaler::Key;
use autoscaler::stats::{ActivatorReport, Stat, StatMessage};

/// Receivers of reports: two zero-scalers and the metrics-adapter.
pub const RECEIVERS: usize = 3;

#[derive(Debug)]
pub struct Activator {
    /// The name of its pod.
    pub name: String,
    pub ip: IpAddr,
    /// Whether its process runs.
    pub is_alive: bool,
    /// Whether its pod is ready in the slices, which follows later.
    pub is_listed_ready: bool,
    /// The receivers that its packets do not reach.
    pub cut: [bool; RECEIVERS],
    sequence: u64,
    pokes: u64,
    /// Whether the workload had a request here in this second.
    is_busy: bool,
}

/// The requests of one activator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Held and forwarded requests now.
    pub requests: usize,
    /// Requests that arrived since the last beat.
    pub arrived: usize,
}

// === impl Activator ===

impl Activator {
    pub fn new(number: usize) -> Self {
        Self {
            name: format!("activator-{number}"),
            ip: IpAddr::from([10, 0, 9, u8::try_from(number).unwrap()]),
            is_alive: true,
            is_listed_ready: true,
            cut: [false; RECEIVERS],
            sequence: 0,
            pokes: 0,
            is_busy: false,
        }
    }

    /// Starts its process anew.
    pub fn restart(&mut self) {
        let cut = self.cut;
        let number = self.ip.to_string().rsplit('.').next().unwrap().parse().unwrap();
        *self = Self { cut, is_listed_ready: false, ..Self::new(number) };
    }

    /// The first request of an idle workload, at once.
    pub fn poke(&mut self, load: Load, at: i64) -> Option<ActivatorReport> {
        if load.requests == 0 || std::mem::replace(&mut self.is_busy, true) {
            return None;
        }
        self.pokes += 1;
        let messages = vec![message(Load { requests: 1, arrived: 1 }, at)];
        Some(ActivatorReport { sequence: self.pokes, is_poke: true, messages, ..self.report() })
    }

    /// The report of a second, also of one without requests.
    pub fn beat(&mut self, load: Load, at: i64) -> ActivatorReport {
        self.sequence += 1;
        self.is_busy = load.requests > 0;
        let messages = if load == Load::default() { Vec::new() } else { vec![message(load, at)] };
        ActivatorReport { sequence: self.sequence, is_beat: true, messages, ..self.report() }
    }

    fn report(&self) -> ActivatorReport {
        ActivatorReport { activator: self.name.clone(), ..ActivatorReport::default() }
    }
}

fn message(load: Load, at: i64) -> StatMessage {
    let stat = Stat {
        average_concurrent_requests: (load.requests as f64).max(0.1),
        request_count: load.arrived as f64,
        timestamp: at / 1000,
        ..Stat::default()
    };
    StatMessage { key: Key::new("shop", "web"), stat }
}
