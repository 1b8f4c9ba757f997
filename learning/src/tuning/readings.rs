//! Numbers of the readings of CPU and memory.

/// Readings of the pods' resources.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadingTuning {
    /// Readings that show a slope. Chosen.
    pub(crate) slope_readings: f64,
    /// Share of the CPU limit up to which a target may lead. Above it, a request of pure CPU time
    /// takes more than seven times its time without load, and the time grows ever faster. Chosen.
    pub(crate) most_cpu: f64,
}

impl ReadingTuning {
    pub(super) const DEFAULT: Self = Self { slope_readings: 20.0, most_cpu: 0.85 };
}
