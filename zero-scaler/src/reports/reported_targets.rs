//! ReportedTargets: the learned target of each workload as the last event reported it.
//!
//! A learned target changes in small steps, of which none is worth an event. Kept in memory only:
//! after a restart the target in the status counts as reported.

use std::collections::HashMap;

use autoscaler::Key;
use parking_lot::Mutex;

/// Relative change that is an event.
const CHANGE: f64 = 0.2;
/// Upper bound of the workloads with a reported target.
const MAX_WORKLOADS: usize = 100_000;

/// The last reported target of each workload.
#[derive(Debug, Default)]
pub struct ReportedTargets(Mutex<HashMap<Key, f64>>);

// === impl ReportedTargets ===

impl ReportedTargets {
    /// Stores the target if it differs from the last reported one by more than a fifth, and returns
    /// that one. `known` counts as reported for a workload without an entry.
    pub fn replace_if_far(&self, key: &Key, target: f64, known: f64) -> Option<f64> {
        let mut targets = self.0.lock();
        if targets.len() >= MAX_WORKLOADS && !targets.contains_key(key) {
            targets.clear();
        }
        let last = targets.entry(key.clone()).or_insert(known);
        let is_far = (target - *last).abs() > CHANGE * last.abs();
        is_far.then(|| std::mem::replace(last, target))
    }

    /// Removes the entry of a workload that learns no more.
    pub fn remove(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_steps_are_reported_when_they_add_up_to_a_fifth() {
        let (targets, key) = (ReportedTargets::default(), Key::new("shop", "web"));
        let far = |target| targets.replace_if_far(&key, target, 20.0);
        assert_eq!(far(20.0), None);
        assert_eq!((far(18.0), far(16.0)), (None, None));
        assert_eq!(far(15.9), Some(20.0));
        assert_eq!((far(15.9), far(19.0)), (None, None));
        assert_eq!(far(19.1), Some(15.9));
        targets.remove(&key);
        assert_eq!(far(24.1), Some(20.0), "the known target counts again");
        assert_eq!(far(f64::NAN), None);
    }
}
