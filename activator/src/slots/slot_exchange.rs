//! SlotExchange: keeps a connection to every other activator, over which they lend slots to each
//! other.
//!
//! Input: the addresses behind the Service `activator`, and incoming connections. Output: the other
//! activators ([`SlotPeers`]) and their messages ([`ReceivedMessages`]), both for the
//! [`Throttler`](crate::throttler::Throttler), which hands them to its workloads. A new connection
//! is published in `SlotPeers` before a message is received over it. It has a new [`LinkId`]: slots
//! lent over a connection that broke are void.
//!
//! Of each pair, the activator with the lower address connects. So does an activator that is not
//! behind the Service: it is starting or stopping, so the others may not have its address, but its
//! requests need slots as well. A connection lasts as long as both processes. Incoming connections
//! need the token of an activator, since a false lender or borrower could make requests wait.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use component_base::auth::ProjectedToken;
use component_base::auth::TokenGuard;
use component_base::clock;
use component_base::server::{BoundedListener, ConnectionBounds};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use crate::metrics::slot_exchange::SlotExchangeMetrics;
use crate::reports::stat_reporter::{Addresses, changed};
use crate::slots::membership::Membership;
use crate::slots::slot_link::{self, LinkId, ReceivedMessages, SlotLinkError, Socket};
use crate::slots::slot_outbox::SlotOutbox;
use crate::slots::slot_peers::SlotPeers;

/// Batches of messages that may wait to be processed; connections wait beyond that.
const RECEIVED: usize = 256;
/// Activators connected at a time. More are rejected, and share no slots.
const MAX_LINKS: usize = 256;
/// Concurrent handshakes. One more handshake ends that of another peer.
const HANDSHAKES: ConnectionBounds = ConnectionBounds { total: 128, per_peer: 8, authenticated: 0 };

/// What an activator needs to exchange slots.
#[derive(Debug)]
pub struct SlotExchangeConfig {
    /// Its own address, as published in the EndpointSlices.
    pub own: IpAddr,
    /// Accepts connections of other activators.
    pub listener: TcpListener,
    /// Authenticates incoming connections.
    pub guard: TokenGuard,
    /// Authenticates outgoing connections.
    pub token: ProjectedToken,
    /// The addresses of all ready activators, including its own.
    pub activators: Addresses,
}

/// Output of the exchange.
#[derive(Debug)]
pub struct SlotExchangeEvents {
    /// The other activators. To be read before `messages`.
    pub peers: watch::Receiver<Arc<SlotPeers>>,
    /// Messages of the other activators.
    pub messages: mpsc::Receiver<ReceivedMessages>,
}

/// The connections of one activator.
#[derive(Debug)]
struct SlotExchange {
    membership: Membership,
    token: ProjectedToken,
    links: BTreeMap<IpAddr, PeerLink>,
    dials: BTreeMap<SocketAddr, AbortOnDropHandle<()>>,
    next_link: u64,
    peers: watch::Sender<Arc<SlotPeers>>,
    messages: mpsc::Sender<ReceivedMessages>,
    events: mpsc::Sender<LinkEvent>,
    metrics: SlotExchangeMetrics,
}

#[derive(Debug)]
struct PeerLink {
    id: LinkId,
    /// Whether the activator with the lower address made it.
    by_lower: bool,
    outbox: Arc<SlotOutbox>,
    task: Option<AbortOnDropHandle<()>>,
}

/// A change of one connection.
#[derive(Debug)]
enum LinkEvent {
    /// Connected; `dialed` if this side opened the connection.
    Connected { peer: IpAddr, dialed: bool, socket: Box<Socket> },
    /// The connection has ended.
    Ended { peer: IpAddr, id: LinkId },
}

/// Exchanges slots with other activators, until dropped. Without a `config` the activator uses the
/// slots of all pods.
pub fn exchange(
    config: Option<SlotExchangeConfig>,
    metrics: SlotExchangeMetrics,
) -> (SlotExchangeEvents, impl Future<Output = ()> + Send) {
    let (peers, peers_receiver) = watch::channel(Arc::new(SlotPeers::default()));
    let (messages, messages_receiver) = mpsc::channel(RECEIVED);
    let output = SlotExchangeEvents { peers: peers_receiver, messages: messages_receiver };
    let run = async move {
        let Some(SlotExchangeConfig { own, listener, guard, token, activators }) = config else {
            // The channels stay open, as for an exchange without peers.
            let _open = (peers, messages);
            return std::future::pending().await;
        };
        let (events, receiver) = mpsc::channel(HANDSHAKES.total);
        let exchange = SlotExchange {
            membership: Membership::new(own),
            token,
            links: BTreeMap::new(),
            dials: BTreeMap::new(),
            next_link: 0,
            peers,
            messages,
            events: events.clone(),
            metrics,
        };
        tokio::join!(exchange.run(activators, receiver), accept(listener, guard, own, events));
    };
    (output, run)
}

/// Accepts connections of other activators.
async fn accept(listener: TcpListener, guard: TokenGuard, own: IpAddr, events: mpsc::Sender<LinkEvent>) {
    let listener = BoundedListener::new(listener, HANDSHAKES);
    let mut handshakes = JoinSet::new();
    loop {
        let (stream, slot) = listener.accept().await;
        while handshakes.try_join_next().is_some() {}
        let (guard, events) = (guard.clone(), events.clone());
        let span = tracing::info_span!("handshake", from = %slot.peer());
        let handshake = async move {
            let accepted = tokio::select! {
                accepted = slot_link::accept(stream, slot.peer(), own, &guard) => accepted,
                () = slot.evicted() => return tracing::debug!("handshake closed in favour of another"),
            };
            match accepted {
                Ok((peer, socket)) if peer != own => {
                    let _ = events.send(LinkEvent::Connected { peer, dialed: false, socket }).await;
                }
                Ok((peer, _)) => {
                    tracing::warn!(%peer, "activator rejected: same address as this activator")
                }
                Err(error @ SlotLinkError::Refused(_)) => {
                    tracing::warn!(%error, "connection to the slots port rejected")
                }
                Err(error @ SlotLinkError::Version(_)) => tracing::error!(%error, "activator rejected"),
                Err(error) => tracing::debug!(%error, "handshake on the slots port failed"),
            }
        };
        handshakes.spawn(handshake.instrument(span));
    }
}

// === impl SlotExchange ===

impl SlotExchange {
    async fn run(mut self, mut activators: Addresses, mut events: mpsc::Receiver<LinkEvent>) {
        loop {
            let now = Instant::now();
            self.membership.set_members(&activators.borrow_and_update(), now);
            self.dial();
            self.publish(now);
            let change = self.membership.next_change(now);
            tokio::select! {
                () = changed(&mut activators) => {}
                Some(event) = events.recv() => self.apply(event),
                () = clock::sleep_until(change) => {}
            }
        }
    }

    fn apply(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Connected { peer, dialed, socket } => self.connected(peer, dialed, socket),
            LinkEvent::Ended { peer, id } => {
                if self.links.get(&peer).is_some_and(|link| link.id == id) {
                    tracing::info!(%peer, "activator disconnected");
                    self.links.remove(&peer);
                    self.membership.lost(peer);
                }
            }
        }
    }

    fn connected(&mut self, peer: IpAddr, dialed: bool, socket: Box<Socket>) {
        let current = self.links.get(&peer);
        if current.is_none() && self.links.len() >= MAX_LINKS {
            return tracing::warn!(%peer, bound = MAX_LINKS, "activator rejected: connection limit reached");
        }
        let by_lower = dialed == (self.membership.own() < peer);
        // Both sides may have connected at once; both keep the connection of the lower address.
        if current.is_some_and(|link| link.by_lower && !by_lower) {
            return tracing::debug!(%peer, "duplicate connection closed");
        }
        let id = LinkId::new(self.next_link);
        self.next_link += 1;
        let outbox = Arc::new(SlotOutbox::default());
        tracing::info!(%peer, dialed, "activator connected");
        self.links.insert(peer, PeerLink { id, by_lower, outbox: outbox.clone(), task: None });
        self.membership.linked(peer);
        // Before a message can be received.
        self.publish(Instant::now());
        let (events, messages, metrics) = (self.events.clone(), self.messages.clone(), self.metrics.clone());
        let link = async move {
            let error = slot_link::carry(*socket, &outbox, id, messages, metrics).await;
            tracing::debug!(%error, "connection to activator ended");
            let _ = events.send(LinkEvent::Ended { peer, id }).await;
        };
        let task = tokio::spawn(link.instrument(tracing::info_span!("activator", %peer)));
        if let Some(link) = self.links.get_mut(&peer) {
            link.task = Some(AbortOnDropHandle::new(task));
        }
    }

    fn dial(&mut self) {
        let targets = self.membership.to_dial();
        self.dials.retain(|address, _| targets.iter().any(|(target, _)| target == address));
        for (address, was_connected) in targets {
            let (own, token, events) = (self.membership.own(), self.token.clone(), self.events.clone());
            self.dials.entry(address).or_insert_with(|| {
                AbortOnDropHandle::new(tokio::spawn(async move {
                    let socket = slot_link::connect_with_retry(address, own, &token, was_connected).await;
                    let connected = LinkEvent::Connected { peer: address.ip(), dialed: true, socket };
                    let _ = events.send(connected).await;
                }))
            });
        }
    }

    fn publish(&self, now: Instant) {
        let links = self.links.values().map(|link| (link.id, link.outbox.clone())).collect();
        let peers = SlotPeers::new(self.membership.own(), self.membership.sharers(now), links);
        self.peers.send_if_modified(|published| {
            let differs = **published != peers;
            if differs {
                *published = Arc::new(peers);
            }
            differs
        });
        self.metrics.connected(self.links.len());
    }
}

// === impl PeerLink ===

impl Drop for PeerLink {
    /// [`SlotPeers`] that still have the link drop their messages from now on.
    fn drop(&mut self) {
        self.outbox.close();
    }
}

#[cfg(test)]
mod tests;
