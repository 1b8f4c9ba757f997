//! Fuzzing for tests: random mutations of meaningful inputs, reproducible by a seed.
//!
//! `FUZZ_SECONDS` is the duration and `FUZZ_SEED` the seed, which is constant by default. A failing
//! test must print the seed and the input. Add an input that failed to the corpus.

#![deny(missing_docs)]
#![allow(clippy::panic, reason = "an invalid variable fails the test")]

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

/// Default duration in seconds.
const SECONDS: u64 = 4;

/// Duration and seed of a run.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// End of the run.
    pub until: Instant,
    /// Seed of all inputs.
    pub seed: u64,
}

// === impl Campaign ===

impl Campaign {
    /// Starts a run with the settings of the environment.
    ///
    /// # Panics
    /// When a variable is not a number.
    pub fn from_environment() -> Self {
        let seconds = number("FUZZ_SECONDS").unwrap_or(SECONDS);
        Self { until: Instant::now() + Duration::from_secs(seconds), seed: number("FUZZ_SEED").unwrap_or(1) }
    }

    /// Whether the run has ended.
    pub fn is_over(&self) -> bool {
        Instant::now() > self.until
    }

    /// The random numbers of one of several concurrent lanes.
    pub fn random(&self, lane: u64) -> StdRng {
        StdRng::seed_from_u64(self.seed ^ lane)
    }
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is {value:?}, but must be a number")))
}
