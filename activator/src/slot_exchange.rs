//! SlotExchange: keeps a connection to every other activator, over which they lend each other slots.
//!
//! Input: the addresses behind the Service `activator`, and connections that others make. Output: who there is
//! ([`Neighbours`]), and what they say ([`Heard`]), both for the [`Throttler`](crate::throttler::Throttler), which hands them
//! to its workloads. A new connection is in `Neighbours` before anything is heard over it, and is a new link: what was
//! said over one that broke has ended with it.
//!
//! Of each pair the one with the lower address connects, and so does whoever is not behind the Service, for it is starting
//! or stopping and the others may not know it; its requests need slots like all others. Connections last as long as both
//! processes do. Who connects shows an activator's token, since who could lend and borrow could make requests wait.

mod link;
mod neighbours;
mod outbox;
mod roster;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use autoscaler::slot_lending::Word;
use proxy::listener::Acceptor;
use runtime::auth::ProjectedToken;
use runtime::auth::TokenGuard;
use runtime::clock;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::metrics::ExchangeMetrics;
use crate::stat_reporter::{Addresses, changed};
use link::{Ended, Socket};
use outbox::Outbox;
use roster::Roster;

pub use link::LinkId;
pub use neighbours::Neighbours;

/// Batches that may wait to be heard; connections wait beyond that.
const HEARD: usize = 256;
/// Activators connected at a time. More are turned away, and share nothing.
const MOST_LINKS: usize = 256;
/// Handshakes under way at a time.
const HANDSHAKES: usize = 64;

/// Where an activator stands among the others.
#[derive(Debug)]
pub struct Position {
    /// Its own address, as the others know it.
    pub own: IpAddr,
    /// Where they connect.
    pub listener: TcpListener,
    /// Whether those who connect are activators.
    pub guard: TokenGuard,
    /// By which the others know it.
    pub token: ProjectedToken,
    /// The addresses of all that are ready, its own among them.
    pub activators: Addresses,
}

/// What one activator said at once.
#[derive(Debug)]
pub struct Heard {
    /// The connection over which it came.
    pub from: LinkId,
    /// In order.
    pub words: Vec<Word<IpAddr>>,
}

/// What the exchange tells.
#[derive(Debug)]
pub struct News {
    /// Who there is. To be looked at before what is heard.
    pub neighbours: watch::Receiver<Arc<Neighbours>>,
    /// What they say.
    pub heard: mpsc::Receiver<Heard>,
}

/// The connections of one activator.
#[derive(Debug)]
struct SlotExchange {
    roster: Roster,
    token: ProjectedToken,
    links: BTreeMap<IpAddr, Link>,
    dials: BTreeMap<SocketAddr, AbortOnDropHandle<()>>,
    next_link: u64,
    neighbours: watch::Sender<Arc<Neighbours>>,
    heard: mpsc::Sender<Heard>,
    events: mpsc::Sender<Event>,
    metrics: ExchangeMetrics,
}

#[derive(Debug)]
struct Link {
    id: LinkId,
    /// Whether the one with the lower address made it.
    by_lower: bool,
    outbox: Arc<Outbox>,
    task: Option<AbortOnDropHandle<()>>,
}

/// What happens to connections.
#[derive(Debug)]
enum Event {
    /// Connected with this activator, which was dialed or has dialed.
    Connected { peer: IpAddr, dialed: bool, socket: Box<Socket> },
    /// The connection is lost.
    Ended { peer: IpAddr, id: LinkId },
}

/// Exchanges slots at `position`, until dropped. Without one nobody is told anything, and the activator fills pods alone.
pub fn exchange(
    position: Option<Position>,
    metrics: ExchangeMetrics,
) -> (News, impl Future<Output = ()> + Send) {
    let (neighbours, receiver) = watch::channel(Arc::new(Neighbours::default()));
    let (heard, heard_receiver) = mpsc::channel(HEARD);
    let news = News { neighbours: receiver, heard: heard_receiver };
    let run = async move {
        let Some(Position { own, listener, guard, token, activators }) = position else {
            // The channels stay open: nobody comes, and nobody has left.
            let _open = (neighbours, heard);
            return std::future::pending().await;
        };
        let (events, receiver) = mpsc::channel(HANDSHAKES);
        let exchange = SlotExchange {
            roster: Roster::new(own),
            token,
            links: BTreeMap::new(),
            dials: BTreeMap::new(),
            next_link: 0,
            neighbours,
            heard,
            events: events.clone(),
            metrics,
        };
        tokio::join!(exchange.run(activators, receiver), accept(listener, guard, own, events));
    };
    (news, run)
}

/// Takes connections of others.
async fn accept(listener: TcpListener, guard: TokenGuard, own: IpAddr, events: mpsc::Sender<Event>) {
    let acceptor = Acceptor::new(listener, HANDSHAKES);
    let mut handshakes = JoinSet::new();
    loop {
        let accepted = acceptor.accept().await;
        while handshakes.try_join_next().is_some() {}
        let (guard, events) = (guard.clone(), events.clone());
        handshakes.spawn(async move {
            // As a whole: its place among the handshakes is kept as long.
            let accepted = accepted;
            match link::accept(accepted.stream, &guard).await {
                Ok((peer, socket)) if peer != own => {
                    let _ = events.send(Event::Connected { peer, dialed: false, socket }).await;
                }
                Ok((peer, _)) => tracing::warn!(%peer, "another activator goes by our own address"),
                Err(error @ Ended::Refused(_)) => {
                    tracing::warn!(%error, "somebody is refused at the slots port")
                }
                Err(error) => tracing::debug!(%error, "no activator connected"),
            }
        });
    }
}

// === impl SlotExchange ===

impl SlotExchange {
    async fn run(mut self, mut activators: Addresses, mut events: mpsc::Receiver<Event>) {
        loop {
            let now = Instant::now();
            self.roster.set_members(&activators.borrow_and_update(), now);
            self.dial();
            self.publish(now);
            let change = self.roster.next_change(now);
            tokio::select! {
                () = changed(&mut activators) => {}
                Some(event) = events.recv() => self.take_in(event),
                () = clock::sleep_until(change) => {}
            }
        }
    }

    fn take_in(&mut self, event: Event) {
        match event {
            Event::Connected { peer, dialed, socket } => self.connected(peer, dialed, socket),
            Event::Ended { peer, id } => {
                if self.links.get(&peer).is_some_and(|link| link.id == id) {
                    tracing::info!(%peer, "activator is lost");
                    self.links.remove(&peer);
                    self.roster.lost(peer);
                }
            }
        }
    }

    fn connected(&mut self, peer: IpAddr, dialed: bool, socket: Box<Socket>) {
        let known = self.links.get(&peer);
        if known.is_none() && self.links.len() >= MOST_LINKS {
            return tracing::warn!(%peer, bound = MOST_LINKS, "too many activators are connected already");
        }
        let by_lower = dialed == (self.roster.own() < peer);
        // Both may have connected at once. The choice is the same on both sides.
        if known.is_some_and(|link| link.by_lower && !by_lower) {
            return tracing::debug!(%peer, "connected twice");
        }
        let id = LinkId::new(self.next_link);
        self.next_link += 1;
        let outbox = Arc::new(Outbox::default());
        tracing::info!(%peer, dialed, "activator is connected");
        self.links.insert(peer, Link { id, by_lower, outbox: outbox.clone(), task: None });
        self.roster.linked(peer);
        // Before anything can be heard.
        self.publish(Instant::now());
        let (events, heard, metrics) = (self.events.clone(), self.heard.clone(), self.metrics.clone());
        let task = tokio::spawn(async move {
            let ended = link::talk(*socket, &outbox, id, heard, metrics).await;
            tracing::debug!(%peer, %ended, "connection to activator ended");
            let _ = events.send(Event::Ended { peer, id }).await;
        });
        if let Some(link) = self.links.get_mut(&peer) {
            link.task = Some(AbortOnDropHandle::new(task));
        }
    }

    fn dial(&mut self) {
        let wanted = self.roster.to_dial();
        self.dials.retain(|address, _| wanted.iter().any(|(wanted, _)| wanted == address));
        for (address, met) in wanted {
            let (own, token, events) = (self.roster.own(), self.token.clone(), self.events.clone());
            self.dials.entry(address).or_insert_with(|| {
                AbortOnDropHandle::new(tokio::spawn(async move {
                    let socket = link::connect_at_last(address, own, &token, met).await;
                    let connected = Event::Connected { peer: address.ip(), dialed: true, socket };
                    let _ = events.send(connected).await;
                }))
            });
        }
    }

    fn publish(&self, now: Instant) {
        let links = self.links.values().map(|link| (link.id, link.outbox.clone())).collect();
        let neighbours = Neighbours::new(self.roster.own(), self.roster.sharers(now), links);
        self.neighbours.send_if_modified(|known| {
            let differs = **known != neighbours;
            if differs {
                *known = Arc::new(neighbours);
            }
            differs
        });
        self.metrics.connected(self.links.len());
    }
}

// === impl Link ===

impl Drop for Link {
    /// Whoever still knows the link says nothing that anybody keeps.
    fn drop(&mut self) {
        self.outbox.close();
    }
}

#[cfg(test)]
mod tests;
