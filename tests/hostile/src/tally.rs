//! Counters of an attack, and the report of them.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// What clients did and received. They count in it concurrently.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    opened: AtomicU64,
    refused: AtomicU64,
    ended: AtomicU64,
    held: AtomicU64,
    held_at_most: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

/// The counts at the end of an attack.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttackReport {
    /// Connections, with their TLS handshakes.
    pub opened: u64,
    /// Attempts that failed or took too long.
    pub refused: u64,
    /// Connections that the server ended.
    pub ended: u64,
    /// Most connections open at a time.
    pub held: u64,
    /// Bytes, frames, requests or datagrams sent, by the attack's unit.
    pub sent: u64,
    /// Reads that returned bytes.
    pub received: u64,
}

impl AddAssign for AttackReport {
    /// Of attacks at the same time.
    fn add_assign(&mut self, other: Self) {
        self.opened += other.opened;
        self.refused += other.refused;
        self.ended += other.ended;
        self.held += other.held;
        self.sent += other.sent;
        self.received += other.received;
    }
}

/// An open connection; its drop counts the end.
pub(crate) struct HeldConnection<'a>(&'a Tally);

// === impl Tally ===

impl Tally {
    /// Counts a connection for as long as the value lives.
    pub(crate) fn hold(&self) -> HeldConnection<'_> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let held = self.held.fetch_add(1, Ordering::Relaxed) + 1;
        self.held_at_most.fetch_max(held, Ordering::Relaxed);
        HeldConnection(self)
    }

    pub(crate) fn add_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_ended(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_sent(&self, count: u64) {
        self.sent.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn add_received(&self) {
        self.received.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn report(&self) -> AttackReport {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        AttackReport {
            opened: count(&self.opened),
            refused: count(&self.refused),
            ended: count(&self.ended),
            held: count(&self.held_at_most),
            sent: count(&self.sent),
            received: count(&self.received),
        }
    }
}

impl Drop for HeldConnection<'_> {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::Relaxed);
    }
}
