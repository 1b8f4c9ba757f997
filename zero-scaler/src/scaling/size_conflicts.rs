//! SizeConflicts: the workloads whose sizes another controller reverts.
//!
//! Input: each size that the reconciler writes, and the size and its writer at each reconcile.
//! Output: the field manager to which the reconciler yields. An operator, a ScaledObject of KEDA, a
//! Rollout or GitOps with a fixed size would otherwise start and stop the pods for ever. One revert
//! is an ordinary act of a human; [`TOLERATED_REVERTS`] in a row, without a wake in between, are
//! not. After [`YIELD`] one more write is tried.
//!
//! Sizes written in a panic are in [`super::overrides`]: the HPA may revert one of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use autoscaler::Key;
use parking_lot::Mutex;

use crate::cache::cached_target::scale::{Scale, Writer};

/// How long the size is left to the other controller.
pub(crate) const YIELD: Duration = Duration::from_secs(600);
/// Reverts in a row from which on the reconciler yields.
const TOLERATED_REVERTS: u32 = 3;
/// Bound of the map. Further workloads are written without this limit.
const MAX_TRACKED: usize = 100_000;
/// Field manager of the HPA controller, which writes sizes above zero by right.
const HPA_CONTROLLER: &str = "kube-controller-manager";

/// The sizes last written.
#[derive(Debug, Default)]
pub struct SizeConflicts(Mutex<HashMap<Key, WrittenSize>>);

#[derive(Debug)]
struct WrittenSize {
    size: i32,
    written: Instant,
    /// The field manager that reverted it.
    reverted_by: Option<Arc<str>>,
    /// Reverts in a row, with this one.
    reverts: u32,
}

// === impl SizeConflicts ===

impl SizeConflicts {
    /// Records a size that was written.
    pub(crate) fn wrote(&self, key: &Key, size: i32, now: Instant) {
        let mut written = self.0.lock();
        if written.len() >= MAX_TRACKED && !written.contains_key(key) {
            return;
        }
        let before = written.get(key).filter(|before| before.reverted_by.is_some());
        let reverts = before.map_or(0, |before| before.reverts);
        written.insert(key.clone(), WrittenSize { size, written: now, reverted_by: None, reverts });
    }

    /// The field manager to which the reconciler yields, given the present scale.
    pub(crate) fn rival(&self, key: &Key, scale: &Scale, now: Instant) -> Option<Arc<str>> {
        let mut written = self.0.lock();
        let last = written.get_mut(key)?;
        match &scale.writer {
            // A wake: the size was in force until then.
            Writer::Us if scale.replicas != last.size => {
                written.remove(key);
                return None;
            }
            Writer::Other(manager)
                if scale.replicas != last.size
                    && last.reverted_by.is_none()
                    && **manager != *HPA_CONTROLLER =>
            {
                last.reverted_by = Some(manager.clone());
                last.reverts += 1;
            }
            _ => {}
        }
        let is_recent = now.saturating_duration_since(last.written) < YIELD;
        last.reverted_by.clone().filter(|_| is_recent && last.reverts >= TOLERATED_REVERTS)
    }

    /// Drops workloads that no longer exist. Call it periodically.
    pub(crate) fn prune(&self, exists: impl Fn(&Key) -> bool) {
        self.0.lock().retain(|key, _| exists(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(replicas: i32, writer: Writer) -> Scale {
        Scale { replicas, selector: String::new(), resource_version: String::new(), writer }
    }

    fn by(manager: &str, replicas: i32) -> Scale {
        scale(replicas, Writer::Other(manager.into()))
    }

    #[test]
    fn yields_to_a_controller_that_reverts_three_writes_in_a_row() {
        let (sizes, key, began) = (SizeConflicts::default(), Key::new("shop", "web"), crate::clock::now());
        for revert in 1..=3 {
            sizes.wrote(&key, 0, began);
            assert_eq!(sizes.rival(&key, &scale(0, Writer::Us), began), None);
            let rival = sizes.rival(&key, &by("operator", 1), began);
            assert_eq!(rival.as_deref(), (revert == 3).then_some("operator"), "{revert}");
            assert_eq!(sizes.rival(&key, &by("operator", 1), began), rival, "one revert counts once");
        }
        let later = began + YIELD;
        assert_eq!(sizes.rival(&key, &by("operator", 1), later), None, "one more write is tried");
        sizes.wrote(&key, 0, later);
        assert_eq!(sizes.rival(&key, &by("operator", 1), later).as_deref(), Some("operator"));
    }

    #[test]
    fn wakes_humans_and_the_hpa_are_no_conflict() {
        let (sizes, key, now) = (SizeConflicts::default(), Key::new("shop", "web"), crate::clock::now());
        for _ in 0..9 {
            sizes.wrote(&key, 0, now);
            assert_eq!(sizes.rival(&key, &scale(1, Writer::Us), now), None, "a wake");
            assert_eq!(sizes.rival(&key, &by("kubectl", 3), now), None, "a human, after the wake");
        }
        for _ in 0..9 {
            sizes.wrote(&key, 3, now);
            assert_eq!(sizes.rival(&key, &by(HPA_CONTROLLER, 2), now), None);
        }
    }
}
