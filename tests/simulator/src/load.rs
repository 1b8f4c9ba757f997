//! Load: the traffic of the clients over time.
//!
//! A [`Profile`] is a level over time: constant, with steps, ramps and noise. A [`Load`] gives the
//! unit of the level (clients, or requests per second) and adds bursts of simultaneous requests.

pub mod arrivals;
pub mod service_time;

use std::time::Duration;

use crate::clock::Time;

/// A level over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Corners in order of time, joined by straight lines; constant after the last.
    corners: Vec<(Time, f64)>,
    noise: f64,
}

/// The traffic of all clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    pub(crate) kind: LoadKind,
    pub(crate) profile: Profile,
    pub(crate) bursts: Vec<(Time, u32)>,
    pub(crate) modulation: Option<Modulation>,
}

/// Times with another level: two states with exponentially distributed lengths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Modulation {
    /// Mean time between two bursts.
    pub(crate) every: Duration,
    /// Mean length of a burst.
    pub(crate) length: Duration,
    /// Factor on the level in a burst.
    pub(crate) factor: f64,
}

/// Unit of a load's level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadKind {
    /// Clients that send the next request when the previous one has ended: the level is the
    /// concurrency.
    Clients,
    /// Requests per second, evenly spaced (open loop).
    Paced,
    /// Requests per second, at random instants (open loop).
    Poisson,
}

// === impl Profile ===

impl Profile {
    pub fn constant(level: f64) -> Self {
        Self { corners: vec![(Duration::ZERO, level)], noise: 0.0 }
    }

    /// Jumps to another level at `at`, which is not before the last corner.
    #[must_use]
    pub fn step(mut self, at: Time, level: f64) -> Self {
        let before = self.corners.last().map_or(0.0, |(_, level)| *level);
        self.corners.extend([(at, before), (at, level)]);
        self
    }

    /// Moves to another level in a straight line, from `from` to `until`.
    #[must_use]
    pub fn ramp(mut self, from: Time, until: Time, level: f64) -> Self {
        let before = self.corners.last().map_or(0.0, |(_, level)| *level);
        self.corners.extend([(from, before), (until, level)]);
        self
    }

    /// Varies the level of each second by up to this fraction up or down.
    #[must_use]
    pub fn noise(mut self, fraction: f64) -> Self {
        self.noise = fraction;
        self
    }

    /// The level at `now`, for a random `noise` from -1 to 1.
    pub(crate) fn at(&self, now: Time, noise: f64) -> f64 {
        let next = self.corners.partition_point(|(at, _)| *at <= now);
        let before = self.corners.get(next.saturating_sub(1)).copied().unwrap_or_default();
        let level = match self.corners.get(next) {
            Some((until, level)) if next > 0 => {
                let share = (now - before.0).as_secs_f64() / (*until - before.0).as_secs_f64();
                before.1 + (level - before.1) * share
            }
            _ => before.1,
        };
        (level * (1.0 + self.noise * noise)).max(0.0)
    }
}

// === impl Load ===

impl Load {
    /// Clients with one request at a time each.
    pub fn clients(profile: Profile) -> Self {
        Self::of(LoadKind::Clients, profile)
    }

    /// Requests per second, evenly spaced.
    pub fn paced(profile: Profile) -> Self {
        Self::of(LoadKind::Paced, profile)
    }

    /// Requests per second on average, at random instants.
    pub fn poisson(profile: Profile) -> Self {
        Self::of(LoadKind::Poisson, profile)
    }

    /// No traffic.
    pub fn none() -> Self {
        Self::clients(Profile::constant(0.0))
    }

    /// Multiplies the level by `factor` in bursts of random length.
    #[must_use]
    pub fn with_bursts(mut self, every: Duration, length: Duration, factor: f64) -> Self {
        self.modulation = Some(Modulation { every, length, factor });
        self
    }

    fn of(kind: LoadKind, profile: Profile) -> Self {
        Self { kind, profile, bursts: Vec::new(), modulation: None }
    }

    /// Adds a burst of simultaneous requests.
    #[must_use]
    pub fn burst(mut self, at: Time, requests: u32) -> Self {
        self.bursts.push((at, requests));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_has_the_level_of_its_steps_and_ramps() {
        let s = Duration::from_secs;
        let profile = Profile::constant(10.0).step(s(5), 20.0).ramp(s(10), s(20), 0.0).noise(0.2);
        for (second, level) in [(0, 10.0), (4, 10.0), (5, 20.0), (10, 20.0), (15, 10.0), (20, 0.0), (99, 0.0)]
        {
            assert_eq!(profile.at(s(second), 0.0), level, "at {second} s");
        }
        assert_eq!(profile.at(s(0), 1.0), 12.0);
        assert_eq!(profile.at(s(0), -1.0), 8.0);
    }
}
