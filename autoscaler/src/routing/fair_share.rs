//! Fair division of a bounded amount among members, without starvation.
//!
//! Members belong to groups. Half of the amount is reserved in equal shares, one for each group, and
//! the share of a group in equal shares for its members. The other half is a pool, first come, first
//! served. A single member can thus take the whole amount, a new member always gets its share, and a
//! group with many members takes no larger reserve than one with few. The activator divides its slots
//! for held requests, and the bytes that these requests keep in memory, among its workloads this way,
//! grouped by namespace.
//!
//! Invariants: a member can always take up to its share. While no member joins, the members hold
//! at most the bound. A new member makes the shares smaller, but amounts in use are not revoked.
//! Until they are given back, the members may hold up to one and a half times the bound.

use std::collections::HashMap;
use std::sync::Arc;

/// A bounded amount that members share.
#[derive(Clone, Debug)]
pub struct FairShare {
    bound: u64,
    /// Number of members of each group.
    groups: HashMap<Arc<str>, u64>,
    pooled: u64,
}

/// Amount that one member holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShareHolding {
    group: Arc<str>,
    own: u64,
    pooled: u64,
}

// === impl FairShare ===

impl FairShare {
    /// A bound without members.
    pub fn new(bound: u64) -> Self {
        Self { bound, groups: HashMap::new(), pooled: 0 }
    }

    /// The total amount.
    pub fn bound(&self) -> u64 {
        self.bound
    }

    /// Reserved share of each member of a group; 0 if there are more members than half the bound.
    pub fn share(&self, group: &str) -> u64 {
        let groups = u64::try_from(self.groups.len()).unwrap_or(u64::MAX).max(1);
        let members = self.groups.get(group).copied().unwrap_or(1).max(1);
        self.bound / 2 / groups / members
    }

    /// Adds a member of a group, which holds nothing.
    pub fn join(&mut self, group: &str) -> ShareHolding {
        let group =
            self.groups.get_key_value(group).map_or_else(|| Arc::from(group), |(name, _)| name.clone());
        let members = self.groups.entry(group.clone()).or_default();
        *members = members.saturating_add(1);
        ShareHolding { group, ..ShareHolding::default() }
    }

    /// Removes a member and releases all that it holds.
    pub fn leave(&mut self, holding: ShareHolding) {
        if let Some(members) = self.groups.get_mut(&holding.group) {
            *members = members.saturating_sub(1);
            if *members == 0 {
                self.groups.remove(&holding.group);
            }
        }
        self.pooled = self.pooled.saturating_sub(holding.pooled);
    }

    /// Takes the whole `amount` for a member, or nothing and returns false.
    pub fn take(&mut self, holding: &mut ShareHolding, amount: u64) -> bool {
        let own = amount.min(self.share(&holding.group).saturating_sub(holding.own));
        let pooled = amount - own;
        let pool = self.bound - self.bound / 2;
        if pooled > pool.saturating_sub(self.pooled) {
            return false;
        }
        self.pooled += pooled;
        holding.own += own;
        holding.pooled += pooled;
        true
    }

    /// Returns `amount` of a member's holding. What exceeds its current share goes first, because
    /// it belongs to shares of other members; then what came from the pool.
    pub fn give_back(&mut self, holding: &mut ShareHolding, amount: u64) {
        let excess = amount.min(holding.own.saturating_sub(self.share(&holding.group)));
        let pooled = (amount - excess).min(holding.pooled);
        holding.own = holding.own.saturating_sub(amount - pooled);
        holding.pooled -= pooled;
        self.pooled = self.pooled.saturating_sub(pooled);
    }
}

// === impl ShareHolding ===

impl ShareHolding {
    /// The total amount of this holding.
    pub fn amount(&self) -> u64 {
        self.own.saturating_add(self.pooled)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn single_member_can_take_the_whole_amount() {
        let mut places = FairShare::new(11);
        let mut alone = places.join("shop");
        assert!((0..11).all(|_| places.take(&mut alone, 1)));
        assert!(!places.take(&mut alone, 1));
    }

    #[test]
    fn member_with_many_requests_leaves_others_their_share() {
        let mut places = FairShare::new(100);
        let (mut flood, mut few) = (places.join("shop"), places.join("shop"));
        while places.take(&mut flood, 1) {}
        assert_eq!(flood.amount(), 75);
        assert!((0..25).all(|_| places.take(&mut few, 1)));
        assert!(!places.take(&mut few, 1));
        places.give_back(&mut flood, 1);
        assert!(places.take(&mut few, 1), "any member can take from the pool");
    }

    #[test]
    fn group_with_many_members_leaves_others_their_share() {
        let mut places = FairShare::new(100);
        let mut many: Vec<_> = (0..10).map(|_| places.join("many")).collect();
        let mut single = places.join("single");
        for member in &mut many {
            while places.take(member, 1) {}
        }
        // A tenth of the share of the group for each, and the pool.
        assert_eq!(many.iter().map(ShareHolding::amount).sum::<u64>(), 70);
        assert!((0..25).all(|_| places.take(&mut single, 1)));
        assert!(!places.take(&mut single, 1));
        many.into_iter().for_each(|member| places.leave(member));
        assert_eq!(places.share("single"), 50);
    }

    #[test]
    fn failed_take_changes_nothing() {
        let mut bytes = FairShare::new(100);
        let mut one = bytes.join("shop");
        assert!(!bytes.take(&mut one, 101));
        assert_eq!(one.amount(), 0);
        assert!(bytes.take(&mut one, 100));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Join(u8),
        Leave(usize),
        Take(usize, u64),
        GiveBack(usize, u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            1 => (0..3u8).prop_map(Step::Join),
            1 => any::<usize>().prop_map(Step::Leave),
            8 => (any::<usize>(), 0..40u64).prop_map(|(member, amount)| Step::Take(member, amount)),
            6 => (any::<usize>(), 0..40u64).prop_map(|(member, amount)| Step::GiveBack(member, amount)),
        ]
    }

    proptest! {
        #[test]
        fn take_within_share_succeeds_and_total_is_bounded(
            bound in 0..300u64,
            steps in prop::collection::vec(step(), 0..200),
        ) {
            let mut shared = FairShare::new(bound);
            let mut members = vec![shared.join("0")];
            let mut grew = false;
            for step in steps {
                let count = members.len();
                match step {
                    Step::Join(group) => {
                        members.push(shared.join(&group.to_string()));
                        grew = true;
                    }
                    Step::Leave(member) if count > 1 => shared.leave(members.swap_remove(member % count)),
                    Step::Leave(_) => {}
                    Step::Take(member, amount) => {
                        let holding = &mut members[member % count];
                        let share = shared.share(&holding.group);
                        let before = holding.amount();
                        let taken = shared.take(holding, amount);
                        prop_assert!(taken || before + amount > share, "rejected within the share of {share}");
                        prop_assert_eq!(holding.amount(), if taken { before + amount } else { before });
                    }
                    Step::GiveBack(member, amount) => {
                        let holding = &mut members[member % count];
                        let before = holding.amount();
                        shared.give_back(holding, amount.min(before));
                        prop_assert_eq!(holding.amount(), before - amount.min(before));
                    }
                }
                let out: u64 = members.iter().map(ShareHolding::amount).sum();
                let most = if grew { bound + bound / 2 } else { bound };
                prop_assert!(out <= most, "{out} of {bound} are in use");
            }
            for holding in &mut members {
                let all = holding.amount();
                shared.give_back(holding, all);
            }
            prop_assert_eq!((shared.pooled, members.iter().map(ShareHolding::amount).sum::<u64>()), (0, 0));
        }
    }
}
