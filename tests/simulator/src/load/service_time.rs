//! Service time: how long a pod works on a request.

use std::time::Duration;

use rand::{Rng, RngExt};

/// A distribution of service times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ServiceTime {
    /// The same for all requests.
    Constant(Duration),
    /// Exponential with this mean: many short requests, a few long ones.
    Exponential(Duration),
}

// === impl ServiceTime ===

impl ServiceTime {
    /// Draws the time of one request.
    pub fn draw(self, random: &mut impl Rng) -> Duration {
        match self {
            Self::Constant(time) => time,
            Self::Exponential(mean) => mean.mul_f64(exponential(random)),
        }
    }
}

/// An exponentially distributed number of mean 1.
pub(crate) fn exponential(random: &mut impl Rng) -> f64 {
    let uniform: f64 = random.random_range(0.0..1.0);
    -(1.0 - uniform).ln()
}
