use std::thread;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

/// Takes of `bytes` each until one is refused.
fn flood(account: &Arc<MemoryAccount>, bytes: u64) -> Vec<MemoryPermit> {
    std::iter::from_fn(|| account.take(bytes).ok()).collect()
}

fn in_use(budget: &MemoryBudget) -> (u64, u64) {
    (budget.0.taken.load(Ordering::Relaxed), budget.0.pooled.load(Ordering::Relaxed))
}

#[test]
fn dropped_permit_is_available_again() {
    let budget = MemoryBudget::new(100);
    let account = budget.join("shop");
    let permit = account.take(50).unwrap();
    assert_eq!(account.take(50).unwrap_err(), BudgetExceeded { bound: 100 });
    drop(permit);
    assert!(account.take(50).is_ok());
}

#[test]
fn tenant_takes_all_but_the_shares_of_others() {
    let budget = MemoryBudget::new(100);
    let alone = budget.join("shop");
    assert_eq!(flood(&alone, 1).len(), 75, "a quarter is free for the next tenant");
    let _other = budget.join("market");
    assert_eq!(flood(&alone, 1).len(), 66);
}

#[test]
fn tenant_that_joins_a_full_budget_has_its_share() {
    let budget = MemoryBudget::new(1200);
    let accounts: Vec<_> = (0..5).map(|number| budget.join(&number.to_string())).collect();
    let _floods: Vec<_> = accounts.iter().map(|account| flood(account, 1)).collect();
    let next = budget.join("next");
    assert_eq!(flood(&next, 1).len() as u64, next.share());
}

#[test]
fn tenants_that_flood_as_they_join_never_exceed_budget() {
    let budget = MemoryBudget::new(1200);
    let mut floods = Vec::new();
    for number in 0..20 {
        floods.extend(flood(&budget.join(&number.to_string()), 1));
        assert!(floods.len() <= 1200, "{} after {number}", floods.len());
    }
}

#[test]
fn tenant_with_many_accounts_leaves_another_its_share() {
    let budget = MemoryBudget::new(120);
    let many: Vec<_> = (0..10).map(|_| budget.join("many")).collect();
    let single = budget.join("single");
    let floods: Vec<_> = many.iter().flat_map(|account| flood(account, 1)).collect();
    assert_eq!(floods.len(), 80, "the share of the tenant, and the pool");
    assert_eq!(flood(&single, 1).len(), 20);
}

#[test]
fn tenant_counts_until_its_last_permit_is_dropped() {
    let budget = MemoryBudget::new(120);
    let (gone, stays) = (budget.join("gone"), budget.join("stays"));
    let permit = gone.take(1).unwrap();
    drop(gone);
    assert_eq!(stays.share(), 20);
    drop(permit);
    assert_eq!(stays.share(), 30);
}

#[test]
fn share_is_never_refused_while_threads_of_another_tenant_flood() {
    let budget = MemoryBudget::new(4000);
    let (large, small) = (budget.join("large"), budget.join("small"));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..200).for_each(|_| drop(flood(&large, 7))));
        }
        for _ in 0..20_000 {
            let permits: Vec<_> = (0..6).map(|_| small.take(small.share() / 6)).collect();
            assert!(permits.iter().all(Result::is_ok));
            assert!(in_use(&budget).0 <= 4000);
        }
    });
    assert_eq!(in_use(&budget), (0, 0));
}

fn admit(account: &Arc<MemoryAccount>, count: usize) -> Vec<ConnectionPlace<MemoryPermit>> {
    (0..count).map(|_| account.admit(10).unwrap()).collect()
}

fn closed(places: &[ConnectionPlace<MemoryPermit>]) -> usize {
    places.iter().filter(|place| place.is_closed()).count()
}

#[test]
fn full_budget_closes_idle_connection_and_none_with_a_request() {
    let budget = MemoryBudget::new(400);
    let account = budget.join("shop");
    let places = admit(&account, 30);
    let requests: Vec<_> = places[1..].iter().map(|place| place.activity().begin_request()).collect();
    let next = account.admit(10).unwrap();
    assert_eq!((closed(&places), places[0].is_closed()), (1, true));
    let _request = next.activity().begin_request();
    assert!(account.admit(10).is_err());
    assert_eq!(in_use(&budget).0, 300);
    drop((requests, places, next));
    assert_eq!(in_use(&budget), (0, 0));
}

#[test]
fn take_closes_as_many_idle_connections_as_it_needs() {
    let budget = MemoryBudget::new(400);
    let account = budget.join("shop");
    let places = admit(&account, 30);
    let _held = account.take(35).unwrap();
    assert_eq!(closed(&places), 4);
}

#[tokio::test(start_paused = true)]
async fn full_budget_closes_no_connection_of_another_tenant() {
    let budget = MemoryBudget::new(1200);
    let (first, second, other) = (budget.join("shop"), budget.join("shop"), budget.join("market"));
    // Shares of 100, 100 and 200 bytes; the rest is the pool.
    let of_first = admit(&first, 70);
    tokio::time::advance(Duration::from_millis(1)).await;
    let of_second = admit(&second, 10);
    let of_other = admit(&other, 20);
    let _requests: Vec<_> = of_other.iter().map(|place| place.activity().begin_request()).collect();
    assert!(other.admit(10).is_err());
    assert_eq!(closed(&of_first), 0);
    let _next = second.admit(10).unwrap();
    assert_eq!((closed(&of_first[..10]), closed(&of_first), closed(&of_second)), (0, 1, 0));
}

#[test]
fn connection_that_is_taken_over_is_paid_by_its_new_account() {
    let budget = MemoryBudget::new(400);
    let (first, second) = (budget.join("first"), budget.join("second"));
    let place = first.admit(10).unwrap();
    let activity = place.activity();
    let _request = activity.begin_request();
    for _ in 0..2 {
        second.take_over(&activity, 10).unwrap();
        let own = [&first, &second].map(|account| account.own.load(Ordering::Relaxed));
        assert_eq!(own, [0, 10]);
    }
    let _flood = flood(&first, 1);
    assert!(first.take_over(&activity, 10).is_err());
    assert_eq!(second.own.load(Ordering::Relaxed), 10, "it stays where it was");
    drop(place);
    assert_eq!(second.own.load(Ordering::Relaxed), 0);
}

#[derive(Clone, Debug)]
enum Step {
    Join(u8),
    Leave(usize),
    Take(usize, u64),
    Drop(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (0..4u8).prop_map(Step::Join),
        1 => any::<usize>().prop_map(Step::Leave),
        8 => (any::<usize>(), 0..40u64).prop_map(|(member, bytes)| Step::Take(member, bytes)),
        6 => any::<usize>().prop_map(Step::Drop),
    ]
}

proptest! {
    #[test]
    fn permits_never_exceed_budget_and_releases_balance(
        bound in 0..300u64,
        steps in prop::collection::vec(step(), 0..300),
    ) {
        let budget = MemoryBudget::new(bound);
        let (mut members, mut permits) = (vec![budget.join("0")], Vec::new());
        for step in steps {
            match step {
                Step::Join(tenant) => members.push(budget.join(&tenant.to_string())),
                Step::Leave(member) if members.len() > 1 => drop(members.swap_remove(member % members.len())),
                Step::Take(member, bytes) => permits.extend(members[member % members.len()].take(bytes)),
                Step::Drop(permit) if !permits.is_empty() => drop(permits.swap_remove(permit % permits.len())),
                Step::Leave(_) | Step::Drop(_) => {}
            }
            let sum: u64 = permits.iter().map(|permit| permit.bytes).sum();
            prop_assert_eq!(in_use(&budget).0, sum);
            prop_assert!(sum <= bound, "{} of {}", sum, bound);
        }
        permits.clear();
        prop_assert_eq!(in_use(&budget), (0, 0));
        members.clear();
        prop_assert!(budget.0.tenants.lock().is_empty());
        prop_assert_eq!(budget.join("0").share(), bound / 4);
    }

    #[test]
    fn take_within_share_succeeds_whatever_others_use(
        bound in 0..300u64,
        tenants in prop::collection::vec(0..4u8, 1..8),
        steps in prop::collection::vec(step(), 0..300),
    ) {
        let budget = MemoryBudget::new(bound);
        let members: Vec<_> = tenants.iter().map(|name| budget.join(&name.to_string())).collect();
        let mut permits = Vec::new();
        for step in steps {
            match step {
                Step::Take(member, bytes) => {
                    let account = &members[member % members.len()];
                    let fits = account.own.load(Ordering::Relaxed) + bytes <= account.share();
                    let taken = account.take(bytes);
                    prop_assert!(taken.is_ok() || !fits, "refused within the share of {}", account.share());
                    permits.extend(taken);
                }
                Step::Drop(permit) if !permits.is_empty() => drop(permits.swap_remove(permit % permits.len())),
                Step::Join(_) | Step::Leave(_) | Step::Drop(_) => {}
            }
        }
    }
}
