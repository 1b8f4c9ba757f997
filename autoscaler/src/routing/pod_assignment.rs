//! Assignment of pod slots to the activators of a workload.
//!
//! Input: the ready pods, the activators in the Service's EndpointSlices, and the container
//! concurrency. Output: the slots of one activator. All activators compute their shares from the
//! same objects, without messages. While their caches differ, the limit of the sidecar prevents
//! overload.
//!
//! ```text
//!  container concurrency 7, activators a, b, c
//!
//!        pod-1      pod-2      pod-3      each activator gets ⌊7/3⌋ = 2 slots of every
//!       aabbcc a   aabbcc c   aabbcc b    pod; the remaining slot goes to the activator with
//!                                         the highest score (rendezvous hashing) that has a
//!                                         remainder left to get
//! ```
//!
//! Shares differ by at most one slot. A pod or an activator that is added or removed moves few
//! slots of the others ([`stable_slot_share`]: a pod moves none, where no sidecar enforces the
//! limit). Slots are divided, not pods as in Knative, so an activator with many
//! requests can use all pods in which it has slots. Activators lend slots that they do not need,
//! see [`slot_lending`](crate::routing::slot_lending). Without a container concurrency there are no
//! slots, and every activator uses every pod.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use crate::routing::hash::{hash, mix};

/// Slots that belong to one activator, by pod. Pods without slots are omitted.
pub type SlotShare<'a> = BTreeMap<&'a str, u32>;

/// An activator during the assignment of the odd slots, which remain after even division.
struct OddSlotCandidate<'a> {
    name: &'a str,
    hash: u64,
    /// Odd slots assigned so far.
    odd: usize,
}

/// Slots of `activator`. An activator that is not among `activators` has none, but can borrow.
pub fn slot_share<'a>(
    workload: &str,
    pods: &BTreeSet<&'a str>,
    activators: &BTreeSet<&str>,
    container_concurrency: NonZeroU32,
    activator: &str,
) -> SlotShare<'a> {
    let Some((each, odd)) = divide(container_concurrency, activators, activator) else {
        return SlotShare::new();
    };
    let mut share: SlotShare<'a> = pods.iter().map(|pod| (*pod, each)).collect();
    for (pod, candidate) in odd_slots(workload, pods, activators, odd) {
        if candidate == activator {
            *share.entry(pod).or_default() += 1;
        }
    }
    share.retain(|_, slots| *slots > 0);
    share
}

/// Slots of `activator`, if the owner of a slot depends on its pod and the activators alone. While
/// pods come and go, no slot of another pod moves, and activators with different caches of pods
/// never own the same slot. Shares are even on the average only; lending makes up for that.
pub fn stable_slot_share<'a>(
    workload: &str,
    pods: &BTreeSet<&'a str>,
    activators: &BTreeSet<&str>,
    container_concurrency: NonZeroU32,
    activator: &str,
) -> SlotShare<'a> {
    let Some((each, odd)) = divide(container_concurrency, activators, activator) else {
        return SlotShare::new();
    };
    let hashes: Vec<(u64, &str)> = activators.iter().map(|name| (hash(name), *name)).collect();
    let own = (hash(activator), activator);
    let slots_on = |pod: &str| {
        let pod_hash = hash(pod) ^ hash(workload);
        let score = |(hash, name)| (mix(pod_hash ^ hash), name);
        let before = hashes.iter().filter(|other| score(**other) > score(own)).count();
        each + u32::from(before < odd)
    };
    pods.iter().map(|pod| (*pod, slots_on(pod))).filter(|(_, slots)| *slots > 0).collect()
}

/// Slots of each activator on every pod, and the number of odd slots, which remain. `None` without
/// slots for `activator`.
fn divide(
    container_concurrency: NonZeroU32,
    activators: &BTreeSet<&str>,
    activator: &str,
) -> Option<(u32, usize)> {
    let count = u32::try_from(activators.len()).ok().filter(|_| activators.contains(activator))?;
    let each = container_concurrency.get().checked_div(count)?;
    Some((each, (container_concurrency.get() % count) as usize))
}

/// Assigns the `odd` slots of each pod, which remain after even division, to activators.
fn odd_slots<'a, 'b>(
    workload: &str,
    pods: &BTreeSet<&'a str>,
    activators: &BTreeSet<&'b str>,
    odd: usize,
) -> Vec<(&'a str, &'b str)> {
    if odd == 0 {
        return Vec::new();
    }
    let slots = pods.len() * odd;
    // Every activator gets `all` odd slots, and `one_more` activators get one more.
    let (all, mut one_more) = (slots / activators.len().max(1), slots % activators.len().max(1));
    let mut candidates: Vec<OddSlotCandidate<'b>> =
        activators.iter().map(|name| OddSlotCandidate { name, hash: hash(name), odd: 0 }).collect();
    let mut given = Vec::with_capacity(slots);
    for pod in pods {
        let pod_hash = hash(pod) ^ hash(workload);
        candidates.sort_unstable_by_key(|candidate| Reverse(mix(pod_hash ^ candidate.hash)));
        let mut left = odd;
        // The last pods need more than one pass if fewer activators than slots have room.
        for candidate in (0..odd).flat_map(|_| 0..activators.len()) {
            let Some(candidate) = candidates.get_mut(candidate).filter(|_| left > 0) else { continue };
            if candidate.odd < all || (candidate.odd == all && one_more > 0) {
                one_more -= usize::from(candidate.odd == all);
                candidate.odd += 1;
                left -= 1;
                given.push((*pod, candidate.name));
            }
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(prefix: &str, n: usize) -> Vec<String> {
        (0..n).map(|i| format!("{prefix}-{:04x}", mix(i as u64) & 0xffff | (i as u64) << 16)).collect()
    }

    fn set(names: &[String]) -> BTreeSet<&str> {
        names.iter().map(String::as_str).collect()
    }

    fn shares<'a>(pods: &'a [String], activators: &'a [String], cc: u32) -> BTreeMap<&'a str, SlotShare<'a>> {
        let cc = NonZeroU32::new(cc).unwrap();
        activators
            .iter()
            .map(|a| (a.as_str(), slot_share("shop/web", &set(pods), &set(activators), cc, a)))
            .collect()
    }

    fn totals(pods: usize, activators: usize, cc: u32) -> Vec<u32> {
        let (pods, activators) = (names("pod", pods), names("activator", activators));
        let mut totals: Vec<u32> =
            shares(&pods, &activators, cc).values().map(|share| share.values().sum()).collect();
        totals.sort_unstable_by_key(|total| Reverse(*total));
        totals
    }

    /// Slots with different owners in two assignments, of pods and activators in both.
    fn moved(
        before: &BTreeMap<&str, SlotShare<'_>>,
        after: &BTreeMap<&str, SlotShare<'_>>,
        pods: &[String],
    ) -> u32 {
        let mut moved = 0;
        for (activator, share) in before {
            let Some(now) = after.get(activator) else { continue };
            for pod in pods {
                let of = |share: &SlotShare<'_>| share.get(pod.as_str()).copied().unwrap_or(0);
                moved += of(share).saturating_sub(of(now));
            }
        }
        moved
    }

    /// Rows of Knative's throttler_test.go about the capacity of an activator.
    #[test]
    fn total_shares_equal_those_of_knative() {
        // T1, T2, T6, T7: even divisions.
        for (pods, activators, cc, each) in [
            (1, 1, 10, 10),
            (10, 1, 10, 100),
            (100, 1, 10, 1000),
            (10, 5, 10, 20),
            (2, 1, 10, 20),
            (2, 2, 10, 10),
        ] {
            assert_eq!(totals(pods, activators, cc), vec![each; activators], "{pods} {activators} {cc}");
        }
        // T4: no pods, no slots.
        assert_eq!(totals(0, 200, 10), [0; 200]);
        // T9, P3, P4, P5: a limit of 1 makes slots and pods the same.
        assert_eq!(totals(5, 2, 1), [3, 2]);
        assert_eq!(totals(3, 3, 1), [1; 3]);
        assert_eq!(totals(10, 3, 1), [4, 3, 3]);
        assert_eq!(totals(150, 5, 1), [30; 5]);
    }

    #[test]
    fn shares_stay_even_where_knative_is_uneven_or_oversubscribes() {
        // T8: Knative divides whole pods, 20 and 10.
        assert_eq!(totals(3, 2, 10), [15, 15]);
        // T3: Knative gives each of 200 activators 1, though the pods have 100 slots. Here the
        // activators without slots borrow.
        let few = totals(10, 200, 10);
        assert_eq!((few.iter().sum::<u32>(), few[0], few[199]), (100, 1, 0));
        // P1, P2: more activators than pods. In Knative they share a pod, which can then get two
        // requests at the same time.
        assert_eq!(totals(1, 2, 1), [1, 0]);
        assert_eq!(totals(2, 3, 1), [1, 1, 0]);
    }

    /// P6: an activator that is not in the EndpointSlices.
    #[test]
    fn activator_outside_the_endpoint_slices_owns_no_slots() {
        let (pods, activators) = (names("pod", 3), names("activator", 2));
        let cc = NonZeroU32::new(5).unwrap();
        assert!(slot_share("shop/web", &set(&pods), &set(&activators), cc, "activator-x").is_empty());
        assert!(slot_share("shop/web", &set(&pods), &BTreeSet::new(), cc, "activator-x").is_empty());
    }

    proptest! {
        #[test]
        fn every_slot_has_one_owner_and_shares_are_even(
            pods in 0usize..40, activators in 1usize..12, cc in 1u32..25,
        ) {
            let (pods, activators) = (names("pod", pods), names("activator", activators));
            let shares = shares(&pods, &activators, cc);
            for pod in &pods {
                let slots: u32 = shares.values().filter_map(|share| share.get(pod.as_str())).sum();
                prop_assert_eq!(slots, cc, "{}", pod);
            }
            let totals: Vec<u32> = shares.values().map(|share| share.values().sum()).collect();
            prop_assert!(totals.iter().max().unwrap() - totals.iter().min().unwrap() <= 1, "{:?}", totals);
        }

        /// A new activator gets its share from all others; few other slots move.
        #[test]
        fn adding_or_removing_an_activator_moves_few_other_slots(
            pods in 1usize..60, activators in 2usize..8, gone in any::<prop::sample::Index>(),
        ) {
            let (pods, activators) = (names("pod", pods), names("activator", activators));
            let mut rest = activators.clone();
            rest.remove(gone.index(activators.len()));
            let (with, without) = (shares(&pods, &activators, 1), shares(&pods, &rest, 1));
            let bound = (pods.len().div_ceil(activators.len()) + activators.len()) as u32;
            let (added, removed) = (moved(&without, &with, &pods), moved(&with, &without, &pods));
            prop_assert!(added <= bound && removed <= bound, "{} {} {}", added, removed, bound);
        }

        #[test]
        fn adding_or_removing_a_pod_moves_few_slots_of_other_pods(
            pods in 2usize..60, activators in 1usize..8, cc in 1u32..8, gone in any::<prop::sample::Index>(),
        ) {
            let (pods, activators) = (names("pod", pods), names("activator", activators));
            let mut rest = pods.clone();
            rest.remove(gone.index(pods.len()));
            let (with, without) = (shares(&pods, &activators, cc), shares(&rest, &activators, cc));
            // Even shares require some moves: about one odd slot of each activator.
            let bound = cc % activators.len() as u32 * activators.len() as u32;
            let (added, removed) = (moved(&without, &with, &rest), moved(&with, &without, &rest));
            prop_assert!(added <= bound && removed <= bound, "{} {} {}", added, removed, bound);
        }
    }

    proptest! {
        #[test]
        fn stable_share_divides_each_pod_by_itself(
            pods in 1usize..40, activators in 1usize..12, cc in 1u32..25, gone in any::<prop::sample::Index>(),
        ) {
            let (pods, activators) = (names("pod", pods), names("activator", activators));
            let mut rest = pods.clone();
            rest.remove(gone.index(pods.len()));
            let cc = NonZeroU32::new(cc).unwrap();
            let share = |pods, activator| {
                stable_slot_share("shop/web", pods, &set(&activators), cc, activator)
            };
            let (all, rest) = (set(&pods), set(&rest));
            for pod in &all {
                let slots: u32 = activators.iter().filter_map(|a| share(&all, a).get(pod).copied()).sum();
                prop_assert_eq!(slots, cc.get(), "{}", pod);
            }
            for activator in &activators {
                let mut with = share(&all, activator);
                with.retain(|pod, _| rest.contains(pod));
                prop_assert_eq!(with, share(&rest, activator));
            }
        }
    }

    #[test]
    fn stable_share_uses_all_activators() {
        let (pods, activators) = (names("pod", 400), names("activator", 4));
        let one = NonZeroU32::new(1).unwrap();
        for activator in &activators {
            let share = stable_slot_share("shop/web", &set(&pods), &set(&activators), one, activator);
            assert!((60..=140).contains(&share.len()), "{activator}: {}", share.len());
        }
    }
}
