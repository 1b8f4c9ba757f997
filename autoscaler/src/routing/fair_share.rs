//! FairShare: an amount that many share, of which nobody can be starved.
//!
//! Half of it is reserved: each member has the same part of that half for itself, whatever others take. The other half is a
//! pool, for whoever comes first. So one alone may have all of it, and a newcomer is never told that others were here
//! before. The activator shares its places for held requests, and the bytes that they keep, among its workloads this way.
//!
//! Laws: who holds no more than the share with what is asked for gets it, always; and as long as nobody joins, no more is out
//! than there is. Somebody who joins makes the shares smaller, and nothing is taken from those who hold more: until they give
//! back, half as much again may be out.

/// An amount and what is out of it.
#[derive(Clone, Debug)]
pub struct FairShare {
    bound: u64,
    members: u64,
    pooled: u64,
}

/// What one member holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShareHolding {
    own: u64,
    pooled: u64,
}

// === impl FairShare ===

impl FairShare {
    /// So much, of which nothing is out.
    pub fn new(bound: u64) -> Self {
        Self { bound, members: 0, pooled: 0 }
    }

    /// How much there is.
    pub fn bound(&self) -> u64 {
        self.bound
    }

    /// What each member may hold, whatever the others do; 0 where there are more members than half the amount.
    pub fn share(&self) -> u64 {
        (self.bound / 2).checked_div(self.members).unwrap_or(self.bound / 2)
    }

    /// One more member, that holds nothing.
    pub fn join(&mut self) -> ShareHolding {
        self.members = self.members.saturating_add(1);
        ShareHolding::default()
    }

    /// One less, with all that it holds.
    pub fn leave(&mut self, holding: ShareHolding) {
        self.members = self.members.saturating_sub(1);
        self.pooled = self.pooled.saturating_sub(holding.pooled);
    }

    /// Takes `amount` for a member, whole or not at all.
    pub fn take(&mut self, holding: &mut ShareHolding, amount: u64) -> bool {
        let own = amount.min(self.share().saturating_sub(holding.own));
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

    /// Gives back `amount` of what a member holds: first what is others' share by now, then what is anybody's.
    pub fn give_back(&mut self, holding: &mut ShareHolding, amount: u64) {
        let excess = amount.min(holding.own.saturating_sub(self.share()));
        let pooled = (amount - excess).min(holding.pooled);
        holding.own = holding.own.saturating_sub(amount - pooled);
        holding.pooled -= pooled;
        self.pooled = self.pooled.saturating_sub(pooled);
    }
}

// === impl ShareHolding ===

impl ShareHolding {
    /// How much it is.
    pub fn amount(&self) -> u64 {
        self.own.saturating_add(self.pooled)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_alone_may_have_all_of_it() {
        let mut places = FairShare::new(11);
        let mut alone = places.join();
        assert!((0..11).all(|_| places.take(&mut alone, 1)));
        assert!(!places.take(&mut alone, 1));
    }

    #[test]
    fn a_flood_leaves_the_others_their_share() {
        let mut places = FairShare::new(100);
        let (mut flood, mut few) = (places.join(), places.join());
        while places.take(&mut flood, 1) {}
        assert_eq!(flood.amount(), 75);
        assert!((0..25).all(|_| places.take(&mut few, 1)));
        assert!(!places.take(&mut few, 1));
        places.give_back(&mut flood, 1);
        assert!(places.take(&mut few, 1), "what is of the pool is anybody's");
    }

    #[test]
    fn what_does_not_fit_as_a_whole_takes_nothing() {
        let mut bytes = FairShare::new(100);
        let mut one = bytes.join();
        assert!(!bytes.take(&mut one, 101));
        assert_eq!(one.amount(), 0);
        assert!(bytes.take(&mut one, 100));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Join,
        Leave(usize),
        Take(usize, u64),
        GiveBack(usize, u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            1 => Just(Step::Join),
            1 => any::<usize>().prop_map(Step::Leave),
            8 => (any::<usize>(), 0..40u64).prop_map(|(who, amount)| Step::Take(who, amount)),
            6 => (any::<usize>(), 0..40u64).prop_map(|(who, amount)| Step::GiveBack(who, amount)),
        ]
    }

    proptest! {
        #[test]
        fn nobody_is_starved_and_no_more_is_out_than_there_is(
            bound in 0..300u64,
            steps in prop::collection::vec(step(), 0..200),
        ) {
            let mut shared = FairShare::new(bound);
            let mut members = vec![shared.join()];
            let mut grew = false;
            for step in steps {
                let count = members.len();
                match step {
                    Step::Join => {
                        members.push(shared.join());
                        grew = true;
                    }
                    Step::Leave(who) if count > 1 => shared.leave(members.swap_remove(who % count)),
                    Step::Leave(_) => {}
                    Step::Take(who, amount) => {
                        let (share, holding) = (shared.share(), &mut members[who % count]);
                        let before = holding.amount();
                        let taken = shared.take(holding, amount);
                        prop_assert!(taken || before + amount > share, "refused within the share of {share}");
                        prop_assert_eq!(holding.amount(), if taken { before + amount } else { before });
                    }
                    Step::GiveBack(who, amount) => {
                        let holding = &mut members[who % count];
                        let before = holding.amount();
                        shared.give_back(holding, amount.min(before));
                        prop_assert_eq!(holding.amount(), before - amount.min(before));
                    }
                }
                let out: u64 = members.iter().map(ShareHolding::amount).sum();
                let most = if grew { bound + bound / 2 } else { bound };
                prop_assert!(out <= most, "{out} of {bound} are out");
            }
            for holding in &mut members {
                let all = holding.amount();
                shared.give_back(holding, all);
            }
            prop_assert_eq!((shared.pooled, members.iter().map(ShareHolding::amount).sum::<u64>()), (0, 0));
        }
    }
}
