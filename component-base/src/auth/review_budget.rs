//! Bounds the reviews that run at the same time, and divides them among clients: each client can
//! request any number of them.
//!
//! ```text
//! acquire ─► place free ─────────────────────────────► review ─► the next in turn
//!         └► wait, of a full queue the client with the most leaves ─┘
//! ```
//!
//! A place goes to the network that was served least recently, in it to the address that was served
//! least recently, and to its oldest review. So a review waits for at most one of each other
//! client, however many they request. A network is an IPv4 address or an IPv6 /64, which the pods
//! of a node share: addresses divide its part.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::listener::client_network::network_of;

/// Concurrent token reviews of a port.
pub const TOKEN_REVIEWS: usize = 16;
/// Stands for all clients, where their addresses are not known.
pub const ALL_CLIENTS: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
/// How long a review may wait for its turn.
const WAIT: Duration = Duration::from_secs(2);
/// Waiting reviews for each running one.
const WAITING_PER_RUNNING: usize = 16;
/// Clients and networks of which the last turn is kept. With more, all turns are dropped.
const MAX_TURNS: usize = 4096;

/// A bound on concurrent reviews. Clones share it.
#[derive(Clone, Debug)]
pub struct ReviewBudget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    places: usize,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    running: usize,
    /// In the order of their arrival.
    waiting: Vec<WaitingReview>,
    /// The last turn of each network and of each address.
    networks: HashMap<IpAddr, u64>,
    addresses: HashMap<IpAddr, u64>,
    turns: u64,
}

#[derive(Debug)]
struct WaitingReview {
    client: IpAddr,
    turn: oneshot::Sender<ReviewPermit>,
}

/// Held while a review runs.
#[derive(Debug)]
pub struct ReviewPermit(Arc<Shared>);

/// Too many reviews run or wait.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("too many reviews at the same time")]
pub struct ReviewBudgetExceeded;

// === impl ReviewBudget ===

impl ReviewBudget {
    /// A budget of this many concurrent reviews.
    pub fn new(places: usize) -> Self {
        Self(Arc::new(Shared { places, queue: Mutex::default() }))
    }

    /// Waits for a place, briefly.
    ///
    /// # Errors
    /// When `client` gets no place in time.
    pub async fn acquire(&self, client: IpAddr) -> Result<ReviewPermit, ReviewBudgetExceeded> {
        let client = client.to_canonical();
        let turn = {
            let mut queue = self.0.queue.lock();
            if queue.running < self.0.places {
                queue.running += 1;
                queue.served(client);
                return Ok(ReviewPermit(self.0.clone()));
            }
            queue.wait(client, self.0.places * WAITING_PER_RUNNING)
        };
        // The sender is dropped when another client takes the place in the queue.
        timeout(WAIT, turn).await.map_err(|_| ReviewBudgetExceeded)?.map_err(|_| ReviewBudgetExceeded)
    }
}

// === impl Queue ===

impl Queue {
    fn wait(&mut self, client: IpAddr, bound: usize) -> oneshot::Receiver<ReviewPermit> {
        let (turn, receiver) = oneshot::channel();
        self.waiting.retain(|review| !review.turn.is_closed());
        self.waiting.push(WaitingReview { client, turn });
        if self.waiting.len() > bound
            && let Some(largest) = self.largest_client()
            && let Some(youngest) = self.waiting.iter().rposition(|review| review.client == largest)
        {
            self.waiting.remove(youngest);
        }
        receiver
    }

    /// The client with the most reviews in the network with the most.
    fn largest_client(&self) -> Option<IpAddr> {
        let clients = || self.waiting.iter().map(|review| review.client);
        let network = most_frequent(clients().map(network_of))?;
        most_frequent(clients().filter(|client| network_of(*client) == network))
    }

    /// Takes the review that has its turn.
    fn next(&mut self) -> Option<WaitingReview> {
        self.waiting.retain(|review| !review.turn.is_closed());
        let last = |turns: &HashMap<IpAddr, u64>, key| turns.get(&key).copied().unwrap_or_default();
        let turn_of = |client| (last(&self.networks, network_of(client)), last(&self.addresses, client));
        let (first, _) = self.waiting.iter().enumerate().min_by_key(|(_, review)| turn_of(review.client))?;
        let review = self.waiting.remove(first);
        self.served(review.client);
        Some(review)
    }

    fn served(&mut self, client: IpAddr) {
        self.turns += 1;
        for (turns, key) in [(&mut self.networks, network_of(client)), (&mut self.addresses, client)] {
            if turns.len() >= MAX_TURNS {
                turns.clear();
            }
            turns.insert(key, self.turns);
        }
    }
}

// === impl ReviewPermit ===

impl Drop for ReviewPermit {
    fn drop(&mut self) {
        let next = {
            let mut queue = self.0.queue.lock();
            let next = queue.next();
            queue.running -= usize::from(next.is_none());
            next
        };
        // If the client left meanwhile, the permit is dropped and goes to the next one.
        let _ = next.map(|review| review.turn.send(Self(self.0.clone())));
    }
}

fn most_frequent(addresses: impl Iterator<Item = IpAddr>) -> Option<IpAddr> {
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    addresses.for_each(|address| *counts.entry(address).or_default() += 1);
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(address, _)| address)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::future::join_all;
    use tokio::time::{Instant, sleep};

    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    #[tokio::test(start_paused = true)]
    async fn review_waits_for_a_place_briefly() {
        let budget = ReviewBudget::new(1);
        let first = budget.acquire(CLIENT).await.unwrap();
        let began = Instant::now();
        assert!(budget.acquire(CLIENT).await.is_err());
        assert_eq!(began.elapsed(), WAIT);
        let (second, ()) = tokio::join!(budget.acquire(CLIENT), async {
            sleep(WAIT / 2).await;
            drop(first);
        });
        drop(second.unwrap());
        assert!(budget.acquire(CLIENT).now_or_never().unwrap().is_ok(), "the place is free again");
    }

    #[tokio::test(start_paused = true)]
    async fn client_with_most_waiting_reviews_leaves_a_full_queue() {
        let budget = ReviewBudget::new(1);
        let running = budget.acquire(CLIENT).await.unwrap();
        let flood = (0..WAITING_PER_RUNNING + 5).map(|_| budget.acquire(CLIENT));
        let other = async {
            tokio::task::yield_now().await;
            let place = budget.acquire([10, 0, 0, 2].into());
            let released = async {
                tokio::task::yield_now().await;
                drop(running);
            };
            assert!(tokio::join!(place, released).0.is_ok());
        };
        let (results, ()) = tokio::join!(join_all(flood), other);
        let refused = results.iter().filter(|result| result.is_err()).count();
        assert!(refused >= 5, "{refused}");
        drop(results);
        assert_eq!(budget.0.queue.lock().running, 0);
    }

    /// Each of these addresses requests reviews without end, each of which takes 250 ms.
    async fn wait_under_flood(attackers: Vec<IpAddr>, client: IpAddr) -> Duration {
        let budget = ReviewBudget::new(16);
        let flood = join_all(attackers.iter().cycle().take(600).map(|attacker| {
            let budget = &budget;
            async move {
                for _ in 0_u64.. {
                    let place = budget.acquire(*attacker).await;
                    let pause = if place.is_ok() { 250 } else { 200 };
                    sleep(Duration::from_millis(pause)).await;
                    drop(place);
                }
            }
        }));
        let measured = async {
            sleep(Duration::from_secs(3)).await;
            let began = Instant::now();
            // The first of a client may be turned down by a tie.
            while budget.acquire(client).await.is_err() {
                sleep(Duration::from_millis(100)).await;
            }
            began.elapsed()
        };
        tokio::select! {
            waited = measured => waited,
            _ = flood => Duration::MAX,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn flood_of_many_addresses_delays_other_clients_by_seconds_at_most() {
        let v4 = |count: u8| (1..=count).map(|last| IpAddr::from([10, 0, 1, last])).collect::<Vec<_>>();
        let v6 = |network: u16, last: u16| IpAddr::from([0xfd00, 0, 0, network, 0, 0, 0, last]);
        let same_network = (1..=500).map(|last| v6(1, last)).collect();
        for (attackers, client, what) in [
            (v4(1), CLIENT, "one address"),
            (v4(8), CLIENT, "eight"),
            (v4(64), CLIENT, "64"),
            (same_network, v6(2, 1), "500 addresses of another /64"),
            ((1..=16).map(|last| v6(1, last)).collect(), v6(1, 1000), "16 addresses of the same node"),
        ] {
            let waited = wait_under_flood(attackers, client).await;
            assert!(waited < Duration::from_secs(5), "{what}: {waited:?}");
        }
    }
}
