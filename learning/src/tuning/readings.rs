//! Numbers of the readings of CPU and memory.

/// Readings that show a slope. Chosen.
pub(crate) const SLOPE_READINGS: f64 = 20.0;
/// Share of the CPU limit up to which a target may lead. Above it, a request of pure CPU time
/// takes more than seven times its time without load, and the time grows ever faster. Chosen.
pub(crate) const MOST_CPU: f64 = 0.85;
