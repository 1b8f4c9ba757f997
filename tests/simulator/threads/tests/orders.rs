//! Requests, idle connections and memory, in every order of two or three threads.

use std::sync::Arc;

use loom::future::block_on;
use loom::{model, thread};
use threads::http2::woken_streams;
use threads::memory::budget::{MemoryAccount, MemoryBudget};
use threads::memory::open_connections::OpenConnections;
use threads::{Instant, set_time};

/// With one account, half of it is the pool, and a quarter the account's share.
const BUDGET: u64 = 100;
const POOL: u64 = BUDGET / 2;
const SHARE: u64 = BUDGET / 4;

fn account() -> Arc<MemoryAccount> {
    MemoryBudget::new(BUDGET).join("shop")
}

/// Takes all that the account can have.
fn assert_all_is_free(account: &Arc<MemoryAccount>) {
    let _share = account.take(SHARE).expect("the share is free");
    let _pool = account.take(POOL).expect("the pool is free");
}

#[test]
fn permits_of_two_threads_fit_into_the_pool_and_give_all_back() {
    model(|| {
        let account = account();
        let other = account.clone();
        let thread = thread::spawn(move || other.take(POOL));
        let (own, others) = (account.take(POOL), thread.join().unwrap());
        assert_eq!([&own, &others].map(|taken| taken.is_ok()).iter().filter(|ok| **ok).count(), 1);
        drop((own, others));
        assert_all_is_free(&account);
    });
}

#[test]
fn take_beside_release_leaves_nothing_behind() {
    model(|| {
        let account = account();
        let (held, other) = (account.take(POOL).unwrap(), account.clone());
        let thread = thread::spawn(move || drop(other.take(POOL)));
        drop(held);
        thread.join().unwrap();
        assert_all_is_free(&account);
    });
}

#[test]
fn connection_closes_for_a_take_or_runs_a_request_and_never_both() {
    model(|| {
        let account = account();
        let place = account.admit(POOL).unwrap();
        let (activity, other) = (place.activity(), account.clone());
        let thread = thread::spawn(move || other.take(POOL));
        let request = activity.begin_request();
        let taken = thread.join().unwrap();
        assert_eq!(request.is_some(), !place.is_closed());
        assert_eq!(taken.is_ok(), place.is_closed(), "an idle connection makes room");
        drop((request, taken, place));
        assert_all_is_free(&account);
    });
}

#[test]
fn response_that_has_just_ended_keeps_its_connection() {
    model(|| {
        let connections = OpenConnections::new(Instant::now());
        let place = connections.add(());
        let request = place.activity().begin_request().unwrap();
        let thread = thread::spawn(move || {
            set_time(5000);
            drop(request);
        });
        set_time(5500);
        assert!(!connections.close_longest_idle(), "its last bytes may be on their way");
        thread.join().unwrap();
        set_time(6500);
        assert!(connections.close_longest_idle());
    });
}

#[test]
fn another_connection_is_closed_if_a_request_begins_on_the_first() {
    model(|| {
        let connections = OpenConnections::new(Instant::now());
        let places = [(); 2].map(|()| connections.add(()));
        let activity = places[0].activity();
        let thread = thread::spawn(move || activity.begin_request());
        assert!(connections.close_longest_idle());
        let active = thread.join().unwrap();
        assert_ne!(places[0].is_closed(), places[1].is_closed());
        assert_eq!(active.is_some(), places[1].is_closed());
    });
}

#[test]
fn server_that_waits_learns_that_its_connection_closes() {
    model(|| {
        let connections = OpenConnections::new(Instant::now());
        let place = connections.add(());
        let thread = thread::spawn(move || block_on(place.closed()));
        assert!(connections.close_longest_idle());
        thread.join().unwrap();
    });
}

#[test]
fn connection_that_ends_while_it_moves_is_in_no_list() {
    model(|| {
        let lists = [(); 2].map(|()| OpenConnections::new(Instant::now()));
        let permit = Arc::new(());
        let place = lists[0].add(permit.clone());
        let (activity, to, moved) = (place.activity(), lists[1].clone(), permit.clone());
        let thread = thread::spawn(move || activity.move_to(&to, moved));
        drop(place);
        thread.join().unwrap();
        assert!(!lists.iter().any(|list| list.close_longest_idle()));
        assert_eq!(Arc::strong_count(&permit), 1, "its permit was dropped");
    });
}

#[test]
fn no_wake_of_a_stream_is_lost() {
    model(|| woken_streams::task_sees_what_each_waker_added(1));
    // Two wakers in all orders take minutes.
    let mut two = loom::model::Builder::new();
    two.preemption_bound = Some(2);
    two.check(|| woken_streams::task_sees_what_each_waker_added(2));
}

#[test]
fn no_wake_of_frames_or_lifetime_is_lost() {
    model(woken_streams::task_sees_woken_frames_and_lifetime);
}
