//! Burst capacity: how many more requests than now the ready pods could take.
//!
//! The zero-scaler reads the sign: negative means the activator belongs in the path. How many activators then is in
//! [`sks_mode`](crate::routing::sks_mode).

use super::spec::DeciderSpec;

/// Spare capacity of `ready` pods over the burst they should be able to take, rounded down.
///
/// 0 and -1 are the two targets that need no calculation: never and always in the path.
pub(super) fn excess(spec: &DeciderSpec, ready: u32, panic_average: f64) -> i32 {
    if spec.target_burst_capacity < 0.0 {
        return -1;
    }
    if spec.target_burst_capacity == 0.0 {
        return 0;
    }
    let spare = f64::from(ready) * spec.total - spec.target_burst_capacity - panic_average;
    // `as` saturates. What is no number says that nothing is known, and then the activator belongs in the path.
    if spare.is_nan() { i32::MIN } else { spare.floor() as i32 }
}
