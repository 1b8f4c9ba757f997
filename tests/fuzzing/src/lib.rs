//! Odd bytes by a seed and for a time.
//!
//! For tests that hold on to what must be true whatever comes: seeds of inputs that mean something, bent at random. `FUZZ_SECONDS` says how
//! long, `FUZZ_SEED` what (the same each time, if it is not given). A failure must name the seed and print the input; an input
//! that once failed belongs into the corpus.

#![deny(missing_docs)]
#![allow(clippy::panic, reason = "a test that cannot begin has failed")]

mod corpus;
mod mutation;
mod panics;

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::time::Instant;

pub use corpus::Corpus;
pub use mutation::mutate;
pub use panics::Panics;

/// How long to go on when nobody says, in seconds.
const SECONDS: u64 = 4;

/// How long, and with what.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// When it ends.
    pub until: Instant,
    /// What all inputs depend on.
    pub seed: u64,
}

// === impl Campaign ===

impl Campaign {
    /// From now on, as the environment says.
    ///
    /// # Panics
    /// When it says something that is no number.
    pub fn from_environment() -> Self {
        let seconds = number("FUZZ_SECONDS").unwrap_or(SECONDS);
        Self { until: Instant::now() + Duration::from_secs(seconds), seed: number("FUZZ_SEED").unwrap_or(1) }
    }

    /// Whether the time is over.
    pub fn is_over(&self) -> bool {
        Instant::now() > self.until
    }

    /// What one of several that run side by side goes by.
    pub fn random(&self, lane: u64) -> StdRng {
        StdRng::seed_from_u64(self.seed ^ lane)
    }
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is {value:?}, which is no number")))
}
