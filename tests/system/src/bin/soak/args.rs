//! The scenarios and their lengths.

use clap::{Parser, ValueEnum};

/// Long tests of Rouse on a real cluster, with bounds.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Run only these scenarios
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) only: Vec<Scenario>,
    #[command(flatten)]
    pub(crate) lengths: Lengths,
}

/// How long each scenario is. The bounds hold for the defaults.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Lengths {
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
    /// Seconds of each fault
    #[arg(long, default_value_t = 120)]
    pub(crate) fault_seconds: u64,
    /// Of the faults, only the kills
    #[arg(long)]
    pub(crate) only_kills: bool,
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
    /// Wakes half a second after the leaders were killed
    Leaders,
    /// User's targets four times too low and too high, of an app with a known knee
    Learning,
    /// Lost and delayed packets, partitions, and a kill every 20 seconds
    Faults,
}
