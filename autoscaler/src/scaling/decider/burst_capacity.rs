//! Excess burst capacity: how many more concurrent requests than now the ready pods can take.
//!
//! The zero-scaler reads the sign: negative means the activator belongs in the path.
//! [`sks_mode`](crate::routing::sks_mode) derives the number of activators.

use super::spec::DeciderSpec;
use crate::settings::BurstCapacity;

/// Spare capacity of `ready` pods beyond the target burst capacity, rounded down.
///
/// A target of 0 never puts the activator in the path, and -1 always does, without any calculation.
pub(super) fn excess(spec: &DeciderSpec, ready: u32, panic_average: f64) -> i32 {
    let (capacity, target) = match spec.target_burst_capacity {
        BurstCapacity::Always => return -1,
        BurstCapacity::Never => return 0,
        BurstCapacity::Spare(requests) => (spec.total, requests),
        BurstCapacity::BySize => {
            let capacity = BurstCapacity::capacity(spec.target, spec.total);
            (capacity, BurstCapacity::by_size(ready, capacity))
        }
    };
    let spare = f64::from(ready) * capacity - target - panic_average;
    // `as` saturates. NaN means that the load is unknown, so the activator belongs in the path.
    if spare.is_nan() { i32::MIN } else { spare.floor() as i32 }
}
