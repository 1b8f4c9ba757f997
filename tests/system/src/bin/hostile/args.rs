//! The form of the run.

use std::time::Duration;

use clap::Parser;
use hostile::Attack;

/// Attacks on every port of an installation, with bounds on what a victim notices.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Attack all ports of an attack at once, for a few seconds
    #[arg(long)]
    pub(crate) short: bool,
    /// Seconds of each attack; by default 60, or 4 with --short
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
}

// === impl Args ===

impl Args {
    pub(crate) fn strength(&self) -> Strength {
        let full = Strength { duration: Duration::from_secs(60), held: 1200, flooding: 16 };
        // An admin port has 64 places.
        let short = Strength { duration: Duration::from_secs(4), held: 150, flooding: 4 };
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
