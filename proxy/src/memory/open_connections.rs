//! OpenConnections: HTTP connections in the order of their last use. When the
//! [budget](super::budget) is full, the one that is idle for the longest time is closed.
//!
//! A connection is idle while no request runs on it: before the first head is complete, and after
//! each response. Otherwise clients that open connections and send nothing would keep all places of
//! their account for as long as the header timeout lets them.
//!
//! Requests lock nothing: they change counters of their connection. A connection keeps the position
//! of an earlier use until a search comes across it and moves it. So a position is never later than
//! the last use, and the first connection in its right position is idle for the longest time.
//!
//! A connection can move to another list with a running request: in a sidecar, a connection of an
//! activator counts for the client of the request that it carries.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use crate::sync::{AtomicU64, AtomicWaker, Instant, Mutex, Ordering};

/// The number of requests of a connection that is to close.
const CLOSED: u64 = u64::MAX;
/// From the end of a response body until its connection counts as idle, in milliseconds: the last
/// bytes may still be on their way to the client.
const LAST_BYTES: u64 = 1000;
/// Connections that one search examines, at most. A later search continues behind those that were
/// moved.
const MAX_EXAMINED: usize = 32;

/// Connections with their permits, by their last use.
pub struct OpenConnections<P> {
    /// Times are milliseconds since then.
    began: Instant,
    order: Mutex<Order<P>>,
}

struct Order<P> {
    next: u64,
    by_position: BTreeMap<Position, Arc<Connection<P>>>,
}

/// The time since which a connection was idle when it was last examined, and its number.
type Position = (u64, u64);

struct Connection<P> {
    began: Instant,
    /// Its position. Written under the lock of the list that it is in or enters.
    listed: AtomicU64,
    number: AtomicU64,
    /// Requests that run, or [`CLOSED`].
    running: AtomicU64,
    /// Since when it is idle; of the past while a request runs.
    idle_since: AtomicU64,
    /// Locked before the order of its list, never after it.
    place: Mutex<Place<P>>,
    server: AtomicWaker,
}

/// The list that a connection is in, and what the connection holds of the budget.
struct Place<P> {
    connections: Arc<OpenConnections<P>>,
    /// `None` after the connection has ended or was closed.
    of_connection: Option<P>,
    of_http2: Option<P>,
}

/// The place of an open connection, until dropped.
pub struct ConnectionPlace<P>(Arc<Connection<P>>);

/// Counts the requests of a connection.
pub struct ConnectionActivity<P>(Arc<Connection<P>>);

/// A request that runs on a connection, until dropped.
pub struct ActiveRequest<P>(Arc<Connection<P>>);

fn milliseconds_since(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

// === impl OpenConnections ===

impl<P> OpenConnections<P> {
    /// No connections. Those of lists with the same `began` can be compared.
    pub fn new(began: Instant) -> Arc<Self> {
        let order = Order { next: 0, by_position: BTreeMap::new() };
        Arc::new(Self { began, order: Mutex::new(order) })
    }

    /// Adds a connection that is idle from now on.
    pub fn add(self: &Arc<Self>, permit: P) -> ConnectionPlace<P> {
        let place = Place { connections: self.clone(), of_connection: Some(permit), of_http2: None };
        let now = milliseconds_since(self.began);
        let connection = Arc::new(Connection {
            began: self.began,
            listed: AtomicU64::new(0),
            number: AtomicU64::new(0),
            running: AtomicU64::new(0),
            idle_since: AtomicU64::new(now),
            place: Mutex::new(place),
            server: AtomicWaker::new(),
        });
        self.insert(connection.clone(), now);
        ConnectionPlace(connection)
    }

    fn insert(&self, connection: Arc<Connection<P>>, now: u64) {
        let mut order = self.order.lock();
        let number = order.next;
        order.next += 1;
        connection.listed.store(now, Ordering::Relaxed);
        connection.number.store(number, Ordering::Relaxed);
        order.by_position.insert((now, number), connection);
    }

    /// Since when the connection is idle that is idle for the longest time.
    pub fn longest_idle(&self) -> Option<u64> {
        self.order.lock().first_idle(milliseconds_since(self.began)).map(|((since, _), _)| since)
    }

    /// Closes the connection that is idle for the longest time. Its permits are dropped at once,
    /// and its buffers when its worker runs next.
    pub fn close_longest_idle(&self) -> bool {
        let closed = {
            let mut order = self.order.lock();
            let now = milliseconds_since(self.began);
            // A request may have begun meanwhile; the next search moves its connection.
            let mut idle = (0..MAX_EXAMINED).map_while(|_| order.first_idle(now));
            idle.find(|(_, connection)| connection.try_close())
                .and_then(|(position, _)| order.by_position.remove(&position))
        };
        closed.is_some_and(|connection| {
            connection.drop_permits();
            connection.server.wake();
            true
        })
    }

    fn remove(&self, connection: &Connection<P>) {
        let mut order = self.order.lock();
        let position = (connection.listed.load(Ordering::Relaxed), connection.number.load(Ordering::Relaxed));
        let removed = order.by_position.remove(&position);
        drop(order);
        drop(removed);
    }
}

impl<P> fmt::Debug for OpenConnections<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenConnections").finish_non_exhaustive()
    }
}

// === impl Order ===

impl<P> Order<P> {
    /// The first connection if it is idle, after those before it have moved to where they belong.
    fn first_idle(&mut self, now: u64) -> Option<(Position, Arc<Connection<P>>)> {
        for _ in 0..MAX_EXAMINED {
            let first = self.by_position.first_entry().filter(|first| first.key().0 <= now)?;
            let position = *first.key();
            let since = first.get().idle_since(now);
            if since <= position.0 {
                return Some((position, first.get().clone()));
            }
            let connection = first.remove();
            connection.listed.store(since, Ordering::Relaxed);
            self.by_position.insert((since, position.1), connection);
        }
        None
    }
}

// === impl Connection ===

impl<P> Connection<P> {
    /// Later than `now` while a request runs.
    fn idle_since(&self, now: u64) -> u64 {
        match self.running.load(Ordering::Acquire) {
            0 => self.idle_since.load(Ordering::Relaxed),
            _ => now + 1,
        }
    }

    fn begin_request(&self) -> bool {
        let add = |running: u64| (running != CLOSED).then(|| running + 1);
        self.running.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    fn end_request(&self) {
        // First the time, which a search must not read of an earlier request.
        self.idle_since.store(milliseconds_since(self.began) + LAST_BYTES, Ordering::Relaxed);
        self.running.fetch_sub(1, Ordering::Release);
    }

    fn try_close(&self) -> bool {
        self.running.compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn is_closed(&self) -> bool {
        self.running.load(Ordering::Acquire) == CLOSED
    }

    fn drop_permits(&self) {
        // They end outside of the lock.
        let dropped = self.place.lock().take_permits();
        drop(dropped);
    }
}

// === impl Place ===

impl<P> Place<P> {
    fn take_permits(&mut self) -> (Option<P>, Option<P>) {
        (self.of_connection.take(), self.of_http2.take())
    }
}

// === impl ConnectionPlace ===

impl<P> ConnectionPlace<P> {
    /// Counts the requests of this connection.
    pub fn activity(&self) -> ConnectionActivity<P> {
        ConnectionActivity(self.0.clone())
    }

    /// Keeps what an HTTP/2 connection takes beside others.
    pub fn keep_http2(&self, permit: P) {
        let mut place = self.0.place.lock();
        if !self.0.is_closed() {
            place.of_http2 = Some(permit);
        }
    }

    /// Whether the connection must close.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Completes when the connection must close. One task at a time may wait for it.
    pub async fn closed(&self) {
        poll_fn(|cx| {
            self.0.server.register(cx.waker());
            if self.is_closed() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl<P> Drop for ConnectionPlace<P> {
    fn drop(&mut self) {
        let mut place = self.0.place.lock();
        place.connections.remove(&self.0);
        // In the same step: a request that moves the connection must not list it again.
        let dropped = place.take_permits();
        drop(place);
        drop(dropped);
    }
}

impl<P> fmt::Debug for ConnectionPlace<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionPlace").field("number", &self.0.number).finish_non_exhaustive()
    }
}

// === impl ConnectionActivity ===

impl<P> ConnectionActivity<P> {
    /// Counts a request; `None` on a connection that is about to close.
    pub fn begin_request(&self) -> Option<ActiveRequest<P>> {
        self.0.begin_request().then(|| ActiveRequest(self.0.clone()))
    }

    /// Whether the connection is open with a permit of which this holds.
    pub fn holds(&self, is_searched: impl FnOnce(&P) -> bool) -> bool {
        self.0.place.lock().of_connection.as_ref().is_some_and(is_searched)
    }

    /// Moves the connection to another list with the same `began`, with its permit there. Called
    /// while a request runs on it; one that has ended stays out of all lists.
    pub fn move_to(&self, connections: &Arc<OpenConnections<P>>, permit: P) {
        let mut place = self.0.place.lock();
        if place.of_connection.is_none() {
            return;
        }
        place.connections.remove(&self.0);
        connections.insert(self.0.clone(), milliseconds_since(self.0.began));
        place.connections = connections.clone();
        let previous = place.of_connection.replace(permit);
        drop(place);
        drop(previous);
    }
}

impl<P> Clone for ConnectionActivity<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

// === impl ActiveRequest ===

impl<P> Drop for ActiveRequest<P> {
    fn drop(&mut self) {
        self.0.end_request();
    }
}

#[cfg(test)]
mod tests;
