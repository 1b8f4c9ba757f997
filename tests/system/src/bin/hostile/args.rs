//! The form of the run.

use std::time::Duration;

use clap::Parser;
use hostile::Attack;

/// Attacks on every port of an installation, with bounds on what a victim notices.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Attack by fewer connections, for a few seconds
    #[arg(long)]
    pub(crate) short: bool,
    /// Seconds of each attack; by default 60, or 5 with --short
    #[arg(long)]
    pub(crate) seconds: Option<u64>,
    /// Run only these attacks
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<Attack>,
}

/// How hard to attack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strength {
    pub(crate) duration: Duration,
    /// Connections to each address by attacks that hold them. More than any port has places.
    pub(crate) held: usize,
    /// Connections to each address by floods.
    pub(crate) flooding: usize,
    /// From a wake to the next one. Workloads that are at zero take turns.
    pub(crate) wake_interval: Duration,
    /// How much slower the median wake may be.
    pub(crate) slower_wake: f64,
    /// Whether the activators are replaced under an attack on what authenticates them.
    pub(crate) replaces_activators: bool,
}

// === impl Args ===

impl Args {
    pub(crate) fn strength(&self) -> Strength {
        let full = Strength {
            duration: Duration::from_secs(60),
            held: 1200,
            flooding: 16,
            wake_interval: Duration::from_secs(5),
            slower_wake: 2.0,
            replaces_activators: true,
        };
        // An admin port has 128 places for one peer. The attacks of all parts share the machine
        // with the attacked parts, and with few wakes the median is uncertain: on two cores, beside
        // a build, it was up to 3.9 times as slow. The bound here is for what keeps wakes from
        // happening.
        let short = Strength {
            duration: Duration::from_secs(5),
            held: 136,
            flooding: 4,
            wake_interval: Duration::from_millis(500),
            slower_wake: 8.0,
            replaces_activators: false,
        };
        let strength = if self.short { short } else { full };
        Strength { duration: self.seconds.map_or(strength.duration, Duration::from_secs), ..strength }
    }

    pub(crate) fn selects(&self, attack: Attack) -> bool {
        self.only.is_empty() || self.only.contains(&attack)
    }
}

// === impl Strength ===

impl Strength {
    pub(crate) fn connections(&self, attack: Attack) -> usize {
        if attack.holds_connections() { self.held } else { self.flooding }
    }
}
