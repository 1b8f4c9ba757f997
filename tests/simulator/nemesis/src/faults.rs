//! The faults of a run, as a seed draws them.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::activator::RECEIVERS;
use crate::cluster::{LATEST_PROXY, NODES};

/// Zero-scalers.
pub const ZERO_SCALERS: usize = 2;
/// The longest time that an event of a watch is late.
pub const LONGEST_WATCH_DELAY: Duration = Duration::from_secs(8);
/// Resources with delayed watches.
const WATCHED: [&str; 8] = [
    "horizontalpodautoscalers",
    "podautoscalers",
    "serverlessservices",
    "services",
    "endpointslices",
    "deployments",
    "leases",
    "metrics",
];

/// One fault.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The wall clock of a zero-scaler, or of the adapter, jumps by milliseconds, and back.
    ClockStep {
        process: usize,
        by: i64,
    },
    /// Events of one resource reach a process late, behind newer ones of others.
    WatchDelay {
        process: usize,
        resource: &'static str,
    },
    /// All watches end, and begin with a list if they are too old.
    WatchesEnd {
        expire: bool,
    },
    /// The API server sheds a part of a process's requests.
    Refuse {
        process: usize,
        status: u16,
        part: f64,
    },
    /// Writes take effect, and their responses are lost.
    LostResponses {
        process: usize,
        part: f64,
    },
    SlowWrites {
        process: usize,
    },
    /// The reports of an activator do not arrive. The activator serves. Shorter than the time for
    /// which it is due: the simulated ones publish nothing in a Lease.
    CutReports {
        activator: usize,
        receivers: [bool; RECEIVERS],
    },
    /// A zero-scaler gets no decisions.
    CutDecisions {
        zero_scaler: usize,
    },
    ActivatorKilled {
        activator: usize,
    },
    ZeroScalerKilled {
        zero_scaler: usize,
    },
    AdapterKilled,
    /// Another process may lead at once, and the leader has not been told.
    LeaseDeleted,
    SlowProxy {
        node: usize,
    },
    /// No sidecar can be read.
    NoScrapes,
}

/// A fault and its time.
#[derive(Clone, Debug)]
pub struct TimedFault {
    pub begins: Duration,
    pub ends: Duration,
    pub fault: Fault,
}

/// Draws faults that begin and end between two times.
pub fn draw(rng: &mut StdRng, activators: usize, from: Duration, to: Duration) -> Vec<TimedFault> {
    let number = rng.random_range(4..30);
    let mut faults: Vec<TimedFault> = (0..number).map(|_| draw_one(rng, activators, from, to)).collect();
    faults.sort_by_key(|fault| fault.begins);
    faults
}

fn draw_one(rng: &mut StdRng, activators: usize, from: Duration, to: Duration) -> TimedFault {
    let process = rng.random_range(0..=ZERO_SCALERS);
    let zero_scaler = rng.random_range(0..ZERO_SCALERS);
    let activator = rng.random_range(0..activators);
    let (fault, longest) = match rng.random_range(0..18) {
        0 => (Fault::ClockStep { process, by: rng.random_range(-7_200_000..7_200_000) }, 90),
        1 => (Fault::ClockStep { process, by: rng.random_range(-5000..5000) }, 200),
        2..4 => (Fault::WatchDelay { process, resource: WATCHED[rng.random_range(0..WATCHED.len())] }, 8),
        4 => (Fault::WatchesEnd { expire: rng.random_bool(0.5) }, 1),
        5..7 => {
            let status = [429, 503, 504][rng.random_range(0..3)];
            (Fault::Refuse { process, status, part: if rng.random_bool(0.5) { 1.0 } else { 0.4 } }, 90)
        }
        7..9 => (Fault::LostResponses { process, part: rng.random_range(0.1..0.9) }, 60),
        9 => (Fault::SlowWrites { process }, 60),
        10..13 => {
            let mut receivers = [false; RECEIVERS].map(|_| rng.random_bool(0.5));
            receivers[rng.random_range(0..RECEIVERS)] = true;
            (Fault::CutReports { activator, receivers }, 230)
        }
        13 => (Fault::ActivatorKilled { activator }, 60),
        14 => (Fault::ZeroScalerKilled { zero_scaler }, 40),
        15 => match rng.random_range(0..3) {
            0 => (Fault::AdapterKilled, 30),
            1 => (Fault::CutDecisions { zero_scaler }, 90),
            _ => (Fault::NoScrapes, 30),
        },
        16 => (Fault::LeaseDeleted, 1),
        _ => (Fault::SlowProxy { node: rng.random_range(0..NODES) }, 60),
    };
    let begins = rng.random_range(from.as_millis() as u64..to.as_millis() as u64);
    let lasts = rng.random_range(500..=longest * 1000);
    let ends = Duration::from_millis(begins + lasts).min(to);
    TimedFault { begins: Duration::from_millis(begins), ends, fault }
}

/// The delay of a slow kube-proxy.
pub fn proxy_delay(rng: &mut StdRng) -> Duration {
    Duration::from_millis(rng.random_range(800..LATEST_PROXY.as_millis() as u64))
}
