//! Choice of the activators in a workload's EndpointSlices, by what the slices have already.
//!
//! [`endpoint_subset`] alone would write 2/n of all slices whenever an activator joins. Here a join
//! writes none, and a rollout, in which all activators are replaced one after the other, writes
//! those of a workload at zero twice:
//!
//! - What the slices have stays, while it is enough. Two activators are enough for a workload at
//!   zero, so that one may fail.
//! - Slices of a workload at zero that have to be written, mostly because an activator has left,
//!   take activators that joined lately, if there are enough of them: others may leave next.
//!
//! Input: the available activators, those in the slices, and those that joined lately. Output: the
//! activators for the slices. When a workload moves to its subset of all is the caller's decision.

use std::collections::BTreeSet;

use super::endpoint_subset::endpoint_subset;

/// Activators that are enough for a workload at zero, and the least of any workload.
pub const ENOUGH_AT_ZERO: usize = 2;

/// What the choice depends on.
#[derive(Clone, Copy, Debug)]
pub struct ActivatorChoice<'a, 'n> {
    /// The workload, which is hashed.
    pub key: &'a str,
    /// The activators in its slices.
    pub current: &'a BTreeSet<&'n str>,
    /// The activators that joined lately.
    pub recent: &'a BTreeSet<&'n str>,
    /// How many activators should carry it.
    pub size: usize,
    /// Whether no pod is ready.
    pub at_zero: bool,
}

// === impl ActivatorChoice ===

impl<'n> ActivatorChoice<'_, 'n> {
    /// The activators for the slices.
    pub fn among(&self, candidates: &BTreeSet<&'n str>) -> BTreeSet<&'n str> {
        let kept: BTreeSet<&str> = self.current.intersection(candidates).copied().collect();
        let enough = if self.at_zero { self.size.min(ENOUGH_AT_ZERO) } else { self.size };
        let is_enough = kept.len() >= enough.min(candidates.len()) && kept.len() <= self.size;
        if is_enough && kept.len() == self.current.len() {
            return kept;
        }
        let recent: BTreeSet<&str> = self.recent.intersection(candidates).copied().collect();
        let takes_recent = self.at_zero && !recent.is_empty() && recent.len() >= enough;
        let pool = if takes_recent { &recent } else { candidates };
        let kept = kept.intersection(pool).copied().collect();
        let mut chosen = endpoint_subset(&kept, self.key, self.size);
        let others = pool.difference(&chosen).copied().collect();
        chosen.extend(endpoint_subset(&others, self.key, self.size - chosen.len()));
        chosen
    }

    /// The activators that the workload has in the long run, spread evenly over all.
    pub fn settled_among(&self, candidates: &BTreeSet<&'n str>) -> BTreeSet<&'n str> {
        endpoint_subset(candidates, self.key, self.size)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(numbers: std::ops::Range<usize>) -> Vec<String> {
        numbers.map(|i| format!("10.1.{}.{}", i / 250, i % 250 + 1)).collect()
    }

    fn set(names: &[String]) -> BTreeSet<&str> {
        names.iter().map(String::as_str).collect()
    }

    /// The writes of one workload's slices while each of `n` activators is replaced, by a new one
    /// that joins before it leaves.
    fn writes_of_rollout(key: &str, n: usize, size: usize, at_zero: bool) -> usize {
        let (old, new) = (names(0..n), names(n..2 * n));
        let (mut candidates, mut recent) = (set(&old), BTreeSet::new());
        let mut current = endpoint_subset(&candidates, key, size);
        let mut writes = 0;
        for (leaves, joins) in old.iter().zip(&new) {
            for is_join in [true, false] {
                if is_join {
                    candidates.insert(joins);
                    recent.insert(joins.as_str());
                } else {
                    candidates.remove(leaves.as_str());
                }
                let choice = ActivatorChoice { key, current: &current, recent: &recent, size, at_zero };
                let chosen = choice.among(&candidates);
                writes += usize::from(chosen != current);
                current = chosen;
            }
        }
        writes
    }

    proptest! {
        #[test]
        fn choice_is_of_candidates_and_large_enough(
            n in 0_usize..20, current in prop::collection::btree_set(0_usize..25, 0..6),
            recent in prop::collection::btree_set(0_usize..25, 0..6), size in 0_usize..8, at_zero: bool,
            key in "[a-z]{1,8}",
        ) {
            let (all, candidates) = (names(0..25), names(0..n));
            let of = |numbers: &BTreeSet<usize>| numbers.iter().map(|i| all[*i].as_str()).collect();
            let (current, recent): (BTreeSet<&str>, BTreeSet<&str>) = (of(&current), of(&recent));
            let choice = ActivatorChoice { key: &key, current: &current, recent: &recent, size, at_zero };
            let chosen = choice.among(&set(&candidates));
            prop_assert!(chosen.is_subset(&set(&candidates)) && chosen.len() <= size);
            let enough = if at_zero { size.min(ENOUGH_AT_ZERO) } else { size };
            prop_assert!(chosen.len() >= enough.min(n));
            let again = ActivatorChoice { current: &chosen, ..choice };
            prop_assert_eq!(&again.among(&set(&candidates)), &chosen, "a second reconcile writes nothing");
        }

        #[test]
        fn join_changes_nothing_where_enough_activators_are_left(
            n in 2_usize..20, size in 2_usize..5, at_zero: bool, key in "[a-z]{1,8}",
        ) {
            let (before, after) = (names(0..n), names(0..n + 1));
            let current = endpoint_subset(&set(&before), &key, size);
            let recent = BTreeSet::from([after[n].as_str()]);
            let choice = ActivatorChoice { key: &key, current: &current, recent: &recent, size, at_zero };
            prop_assume!(at_zero || n >= size);
            prop_assert_eq!(choice.among(&set(&after)), current);
        }

        #[test]
        fn rollout_writes_slices_of_workload_at_zero_twice_at_most(
            n in 2_usize..20, size in 2_usize..6, key in "[a-z]{1,8}/[a-z]{1,8}",
        ) {
            let writes = writes_of_rollout(&key, n, size, true);
            prop_assert!(writes <= 2, "{} writes", writes);
        }
    }

    #[test]
    fn rollout_of_two_activators_writes_twice() {
        for i in 0..100 {
            let key = format!("shop/web-{i}");
            assert_eq!(writes_of_rollout(&key, 2, 3, true), 2);
            assert_eq!(writes_of_rollout(&key, 2, 2, false), 2);
        }
    }
}
