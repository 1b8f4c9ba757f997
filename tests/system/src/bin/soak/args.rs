//! The scenarios and their lengths.

use anyhow::{Result, ensure};
use clap::{ArgAction, Parser, ValueEnum};
use system_tests::workloads::workload::{Sidecar, Workload};

/// The argument that makes this program delay packets, in milliseconds.
pub(crate) const DELAY_PACKETS: &str = "delay-packets";

/// Long tests of Rouse on a real cluster, with bounds.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Run only these scenarios
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) only: Vec<Scenario>,
    #[command(flatten)]
    pub(crate) lengths: Lengths,
    /// Milliseconds; the scenario of faults starts this process.
    #[arg(long = DELAY_PACKETS, hide = true)]
    pub(crate) delay_packets: Option<u64>,
}

/// How long each scenario is. The bounds hold for the defaults.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Lengths {
    /// Whether pods have a sidecar. Without one only cycles, restarts, crowd, burst, wakes and
    /// learning run
    #[arg(long, default_value_t = true, action = ArgAction::Set)]
    pub(crate) sidecar: bool,
    /// Cycles from zero to one replica and back
    #[arg(long, default_value_t = 1000)]
    pub(crate) cycles: usize,
    /// Workloads that run these cycles concurrently
    #[arg(long, default_value_t = 10)]
    pub(crate) cyclers: usize,
    /// Bursts on a running workload, for each burst capacity
    #[arg(long, default_value_t = 10)]
    pub(crate) bursts: usize,
    /// Wakes, and as many pod starts without Rouse
    #[arg(long, default_value_t = 100)]
    pub(crate) wakes: usize,
    /// How often the leaders are killed
    #[arg(long, default_value_t = 5)]
    pub(crate) kills: usize,
    /// Concurrent requests to a workload at zero
    #[arg(long, default_value_t = 1000)]
    pub(crate) crowd: u32,
    /// Requests a second while components are restarted and killed
    #[arg(long, default_value_t = 200.0)]
    pub(crate) steady_rate: f64,
    /// Minutes in which targets are learned
    #[arg(long, default_value_t = 15)]
    pub(crate) learning_minutes: u64,
    /// Seconds of each fault; the API server is gone for two minutes, a replica is cut off for at
    /// most three, and kills take three times as long
    #[arg(long, default_value_t = 300)]
    pub(crate) fault_seconds: u64,
    /// Inject only these faults
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) faults: Vec<FaultKind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FaultKind {
    /// 5 % of the packets between pods are lost
    Loss,
    /// Packets between pods are delayed by 200 ms
    Delay,
    /// Clocks are an hour ahead or behind
    Clocks,
    /// The disks of activators are full
    Disk,
    /// No connection to the API server. Before the partitions, which keep workloads from zero
    ApiServer,
    /// Parts are cut off from each other
    Partitions,
    /// One replica of each part is cut off from all other parts for three minutes
    Isolation,
    /// Each leader is stopped for 20 seconds
    Stops,
    /// A process is killed every 20 seconds
    Kills,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum Scenario {
    /// From zero to one replica and back many times, with requests at every phase
    Cycles,
    /// Steady load while each component is restarted and each leader killed
    Restarts,
    /// Very many concurrent requests to a workload at zero
    Crowd,
    /// A hundredfold load on a running workload
    Burst,
    /// The time that a wake takes beyond the start of its pod
    Wakes,
    /// The same with the sidecar behind an app that is slow to listen, beyond the start of a pod
    /// without a sidecar
    AppFirstWakes,
    /// Wakes half a second after the leaders were killed
    Leaders,
    /// User's targets four times too low and too high, of an app with a known knee
    Learning,
    /// Lost and delayed packets, partitions, no API server, clock steps, full disks, and kills
    Faults,
}

// === impl Args ===

impl Args {
    /// The scenarios to run, in order.
    pub(crate) fn scenarios(&self) -> Result<Vec<Scenario>> {
        let has_mode = |scenario: &Scenario| self.lengths.sidecar || scenario.runs_without_sidecar();
        if self.only.is_empty() {
            return Ok(Scenario::value_variants().iter().copied().filter(has_mode).collect());
        }
        let refused = self.only.iter().find(|scenario| !has_mode(scenario));
        ensure!(refused.is_none(), "{refused:?} does not run without a sidecar");
        Ok(self.only.clone())
    }
}

// === impl Lengths ===

impl Lengths {
    /// A workload in the mode of this run.
    pub(crate) fn workload(&self, name: &str) -> Workload {
        let sidecar = if self.sidecar { Sidecar::Native } else { Sidecar::None };
        Workload { sidecar, ..Workload::new(name) }
    }
}

// === impl Scenario ===

impl Scenario {
    fn runs_without_sidecar(self) -> bool {
        matches!(
            self,
            Self::Cycles | Self::Restarts | Self::Crowd | Self::Burst | Self::Wakes | Self::Learning
        )
    }
}
