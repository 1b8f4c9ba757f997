//! RecentJoins: which activators joined lately, and when workloads move to them.
//!
//! A join is not urgent: slices stay as they are, and no client fails. So workloads with pods move
//! one after the other, once the activators have been the same for a minute, and workloads at zero
//! do not move at all. A rollout thus ends before the first move. The moves have a pace of their
//! own, a fifth of the rate limit of other writes: in the limit's queue a move would delay
//! reconciles that have urgent writes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use autoscaler::Key;

/// Longer than one activator takes to replace another in a rollout.
const SETTLE: Duration = Duration::from_secs(60);
/// Time between two moves.
const MOVE_INTERVAL: Duration = Duration::from_millis(50);

/// The ready activators, by their first addresses, and the moves that follow from joins.
#[derive(Debug, Default)]
pub(super) struct RecentJoins {
    /// Whether each has joined since the activators were last the same for [`SETTLE`].
    activators: BTreeMap<IpAddr, bool>,
    /// When the last one joined or left. At first, when this process began to observe them, which
    /// may be in the middle of a rollout.
    changed: Option<Instant>,
    /// When workloads move. Bounded by the workloads.
    moves: HashMap<Key, Instant>,
    last_move: Option<Instant>,
}

// === impl RecentJoins ===

impl RecentJoins {
    /// Compares the ready activators with the last call.
    pub(super) fn observe(&mut self, ready: &BTreeSet<IpAddr>, now: Instant) {
        if self.activators.keys().eq(ready) {
            return;
        }
        if self.is_settled(now) {
            self.activators.values_mut().for_each(|recent| *recent = false);
        }
        let is_first = self.changed.is_none();
        self.activators.retain(|ip, _| ready.contains(ip));
        for ip in ready {
            self.activators.entry(*ip).or_insert(!is_first);
        }
        self.changed = Some(now);
        self.moves.clear();
        self.last_move = None;
    }

    /// The activators that joined lately; none once all have been the same for a while.
    pub(super) fn recent(&self, now: Instant) -> BTreeSet<IpAddr> {
        let recent = self.activators.iter().filter(|(_, recent)| **recent && !self.is_settled(now));
        recent.map(|(ip, _)| *ip).collect()
    }

    /// Whether a workload moves now.
    ///
    /// # Errors
    /// The time until it does.
    pub(super) fn try_move(&mut self, key: &Key, now: Instant) -> Result<(), Duration> {
        let earliest = self.changed.map_or(now, |changed| now.max(changed + SETTLE));
        let next = self.last_move.map_or(earliest, |last| earliest.max(last + MOVE_INTERVAL));
        let (moves, last_move) = (&mut self.moves, &mut self.last_move);
        let due = *moves.entry(key.clone()).or_insert_with(|| *last_move.insert(next));
        if due > now {
            return Err(due - now);
        }
        self.moves.remove(key);
        Ok(())
    }

    /// Drops the moves of workloads that no longer exist.
    pub(super) fn prune(&mut self, exists: impl Fn(&Key) -> bool) {
        self.moves.retain(|key, _| exists(key));
    }

    fn is_settled(&self, now: Instant) -> bool {
        self.changed.is_some_and(|changed| now.saturating_duration_since(changed) >= SETTLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(lasts: &[u8]) -> BTreeSet<IpAddr> {
        lasts.iter().map(|last| [10, 0, 0, *last].into()).collect()
    }

    fn web(i: u32) -> Key {
        Key::new("shop", format!("web-{i}"))
    }

    #[test]
    fn activator_is_recent_until_all_are_the_same_for_a_minute() {
        let (mut joins, start) = (RecentJoins::default(), crate::clock::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        joins.observe(&ips(&[1, 2]), at(0));
        assert_eq!(joins.recent(at(0)), ips(&[]), "which came first is unknown");
        joins.observe(&ips(&[1, 2, 3]), at(10));
        joins.observe(&ips(&[2, 3]), at(20));
        joins.observe(&ips(&[2, 3, 4]), at(79));
        assert_eq!(joins.recent(at(138)), ips(&[3, 4]));
        assert_eq!(joins.recent(at(139)), ips(&[]));
        joins.observe(&ips(&[2, 3, 4, 5]), at(200));
        assert_eq!(joins.recent(at(200)), ips(&[5]));
    }

    #[test]
    fn workloads_move_one_after_the_other_after_a_minute() {
        let (mut joins, start) = (RecentJoins::default(), crate::clock::now());
        joins.observe(&ips(&[1]), start);
        joins.observe(&ips(&[1, 2]), start);
        assert_eq!(joins.try_move(&web(0), start), Err(SETTLE));
        assert_eq!(joins.try_move(&web(1), start), Err(SETTLE + MOVE_INTERVAL));
        assert_eq!(joins.try_move(&web(0), start + SETTLE), Ok(()));
        assert_eq!(joins.try_move(&web(1), start + SETTLE), Err(MOVE_INTERVAL), "its own moment stays");
        joins.observe(&ips(&[1, 2, 3]), start + SETTLE);
        assert_eq!(joins.try_move(&web(1), start + SETTLE), Err(SETTLE), "begins anew after a join");
        joins.prune(|_| false);
        assert!(joins.moves.is_empty());
    }

    #[test]
    fn workloads_that_wake_together_long_after_a_join_move_one_after_the_other() {
        let (mut joins, start) = (RecentJoins::default(), crate::clock::now());
        joins.observe(&ips(&[1]), start);
        joins.observe(&ips(&[1, 2]), start);
        for hour in 1..3 {
            let now = start + Duration::from_secs(3600 * hour);
            assert_eq!(joins.try_move(&web(0), now), Ok(()));
            assert_eq!(joins.try_move(&web(1), now), Err(MOVE_INTERVAL));
            assert_eq!(joins.try_move(&web(2), now), Err(2 * MOVE_INTERVAL));
            joins.prune(|_| false);
        }
    }
}
