//! Subset of activators that serves a workload. It is deterministic and changes little under churn.
//!
//! Input: the available activators and the workload's name. Output: the activators for its
//! EndpointSlices. Rendezvous hashing gives each (workload, activator) pair a score, and the
//! highest scores win. An activator that leaves is thus replaced by one other, a new one displaces
//! at most one, and workloads spread evenly. Knative uses consistent hashing with a ring instead.

use std::collections::BTreeSet;

use super::hash::hash_pair;

/// Selects `size` candidates for `key`; all candidates if there are at most `size`.
pub fn endpoint_subset<'a>(candidates: &BTreeSet<&'a str>, key: &str, size: usize) -> BTreeSet<&'a str> {
    if candidates.len() <= size {
        return candidates.clone();
    }
    let mut scored: Vec<(u64, &str)> = candidates.iter().map(|c| (hash_pair(key, c), *c)).collect();
    scored.sort_unstable_by(|a, b| b.cmp(a));
    scored.into_iter().take(size).map(|(_, candidate)| candidate).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn addresses(n: usize) -> Vec<String> {
        (0..n).map(|i| format!("10.1.{}.{}", i / 250, i % 250 + 1)).collect()
    }

    fn set(addresses: &[String]) -> BTreeSet<&str> {
        addresses.iter().map(String::as_str).collect()
    }

    proptest! {
        #[test]
        fn subset_has_the_requested_size_and_contains_only_candidates(n in 0usize..60, size in 0usize..70, key in "[a-z]{1,8}/[a-z]{1,8}") {
            let all = addresses(n);
            let subset = endpoint_subset(&set(&all), &key, size);
            prop_assert_eq!(subset.len(), size.min(n));
            prop_assert!(subset.is_subset(&set(&all)));
        }

        #[test]
        fn activator_that_leaves_is_replaced_by_at_most_one_other(n in 2usize..60, size in 1usize..60, gone in 0usize..60, key in "[a-z]{1,8}/[a-z]{1,8}") {
            let all = addresses(n);
            let before = endpoint_subset(&set(&all), &key, size);
            let gone = &all[gone % n];
            let rest: Vec<String> = all.iter().filter(|a| *a != gone).cloned().collect();
            let after = endpoint_subset(&set(&rest), &key, size);
            let kept: BTreeSet<&str> = before.iter().copied().filter(|a| a != gone).collect();
            prop_assert!(kept.is_subset(&after));
            if !before.contains(gone.as_str()) {
                prop_assert_eq!(before, after);
            }
        }
    }

    #[test]
    fn workloads_spread_evenly_over_activators() {
        let all = addresses(20);
        let mut carried: BTreeMap<&str, usize> = BTreeMap::new();
        for i in 0..1000 {
            for address in endpoint_subset(&set(&all), &format!("shop/web-{i}"), 2) {
                *carried.entry(address).or_default() += 1;
            }
        }
        // 100 each on average.
        assert_eq!(carried.len(), 20);
        assert!(carried.values().all(|n| (60..=140).contains(n)), "{carried:?}");
    }
}
