//! MemoryBudget: the bytes that all connections and requests of a process may take together.
//!
//! Tenants share it. In an activator a tenant is a namespace, with an account for each workload; in
//! a sidecar it is the address of a client, with one account.
//!
//! Half of the budget is reserved, in even shares for the tenants and for one that is yet to come;
//! the share of a tenant is divided evenly among its accounts. The other half is a pool, first
//! come, first served. A tenant can thus use all but the shares of the others, one with many
//! accounts has no larger share, and one that uses less than its share always gets a place.
//!
//! Invariants: the permits never exceed the budget together. While no account joins, each gets all
//! that fits in its share, whatever others use. An account that joins makes shares smaller, but
//! permits are not revoked: of several that join a full budget at once, all but the first may have
//! to wait for permits to be dropped.
//!
//! Where the budget is full, HTTP connections without a request are closed to make room, those that
//! are idle for the longest time first: of the account those in its share, of all its tenant those
//! in the pool. So clients that hold idle connections cannot keep others of their tenant out, and
//! take nothing from other tenants.
//!
//! Every connection and many requests take from it, so a take and a release change two counters
//! each, and lock nothing. One lock is for accounts that join or leave; the locks of
//! [`OpenConnections`] are for connections that open or end.

use std::collections::HashMap;
use std::sync::Arc;

use crate::memory::open_connections::{ConnectionActivity, ConnectionPlace, OpenConnections};
use crate::sync::{AtomicU64, Instant, Mutex, Ordering};

/// Idle connections that one take closes, at most. A held request takes as much as five.
const MAX_CLOSED: usize = 8;

/// The budget of the process. Clones share it.
#[derive(Clone, Debug)]
pub struct MemoryBudget(Arc<Ledger>);

#[derive(Debug)]
struct Ledger {
    bound: u64,
    /// Bytes of all permits.
    taken: AtomicU64,
    /// Bytes of the permits from the pool.
    pooled: AtomicU64,
    /// Number of `tenants`.
    tenant_count: AtomicU64,
    tenants: Mutex<HashMap<Box<str>, Arc<TenantAccount>>>,
    /// Start of the times by which idle connections are compared.
    began: Instant,
}

/// What the accounts of a tenant have in common.
#[derive(Debug)]
struct TenantAccount {
    /// Number of accounts of the tenant.
    accounts: AtomicU64,
    /// Connections with permits from the pool.
    connections: Arc<OpenConnections<MemoryPermit>>,
}

/// What one workload of an activator, or one client of a sidecar, takes of the budget.
#[derive(Debug)]
pub struct MemoryAccount {
    ledger: Arc<Ledger>,
    tenant_name: Box<str>,
    tenant: Arc<TenantAccount>,
    /// Bytes of the permits from the account's share.
    own: AtomicU64,
    /// Connections with permits from the account's share.
    connections: Arc<OpenConnections<MemoryPermit>>,
}

/// Bytes of the budget, until dropped.
#[derive(Debug)]
pub struct MemoryPermit {
    account: Arc<MemoryAccount>,
    bytes: u64,
    is_pooled: bool,
}

/// The account's share and the pool are used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetExceeded {
    /// The bytes of the whole budget.
    pub bound: u64,
}

/// Adds to a counter, unless it would exceed `bound`. Acquires what releases before it wrote.
fn add_within(counter: &AtomicU64, bytes: u64, bound: u64) -> bool {
    let add = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= bound);
    counter.fetch_update(Ordering::Acquire, Ordering::Relaxed, add).is_ok()
}

// === impl MemoryBudget ===

impl MemoryBudget {
    /// A budget of so many bytes, without accounts.
    pub fn new(bound: u64) -> Self {
        Self(Arc::new(Ledger {
            bound,
            taken: AtomicU64::new(0),
            pooled: AtomicU64::new(0),
            tenant_count: AtomicU64::new(0),
            tenants: Mutex::default(),
            began: Instant::now(),
        }))
    }

    /// Adds an account of a tenant, until it and its permits are dropped.
    pub fn join(&self, tenant: &str) -> Arc<MemoryAccount> {
        let ledger = self.0.clone();
        let mut tenants = self.0.tenants.lock();
        let new = || Arc::new(TenantAccount::new(ledger.began));
        let account = tenants.entry(tenant.into()).or_insert_with(new).clone();
        account.accounts.fetch_add(1, Ordering::Relaxed);
        ledger.count(&tenants);
        drop(tenants);
        Arc::new(MemoryAccount {
            tenant_name: tenant.into(),
            tenant: account,
            own: AtomicU64::new(0),
            connections: OpenConnections::new(ledger.began),
            ledger,
        })
    }
}

// === impl Ledger ===

impl Ledger {
    fn pool(&self) -> u64 {
        self.bound - self.bound / 2
    }

    fn count(&self, tenants: &HashMap<Box<str>, Arc<TenantAccount>>) {
        self.tenant_count.store(tenants.len() as u64, Ordering::Relaxed);
    }
}

// === impl TenantAccount ===

impl TenantAccount {
    fn new(began: Instant) -> Self {
        Self { accounts: AtomicU64::new(0), connections: OpenConnections::new(began) }
    }
}

// === impl MemoryAccount ===

impl MemoryAccount {
    /// Takes the bytes of an HTTP connection, which may be closed while it is idle.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn admit(self: &Arc<Self>, bytes: u64) -> Result<ConnectionPlace<MemoryPermit>, BudgetExceeded> {
        let permit = self.take(bytes)?;
        Ok(self.connections_with(&permit).add(permit))
    }

    /// Takes the bytes of a connection that another account has admitted: with the request that
    /// runs on it, the connection has moved to this one. Nothing if it is here already.
    ///
    /// # Errors
    /// As [`take`](Self::take); the connection stays where it was.
    pub fn take_over(
        self: &Arc<Self>,
        connection: &ConnectionActivity<MemoryPermit>,
        bytes: u64,
    ) -> Result<(), BudgetExceeded> {
        if !connection.holds(|permit| Arc::ptr_eq(&permit.account, self)) {
            let permit = self.take(bytes)?;
            connection.move_to(self.connections_with(&permit), permit);
        }
        Ok(())
    }

    /// The list for a connection with this permit.
    fn connections_with(&self, permit: &MemoryPermit) -> &Arc<OpenConnections<MemoryPermit>> {
        if permit.is_pooled { &self.tenant.connections } else { &self.connections }
    }

    /// Takes bytes from the account's share or, if they do not fit there, from the pool. Closes
    /// idle connections where they fit in neither.
    ///
    /// # Errors
    /// When there are not enough of these.
    pub fn take(self: &Arc<Self>, bytes: u64) -> Result<MemoryPermit, BudgetExceeded> {
        self.take_part(bytes, 1)
    }

    /// As [`take`](Self::take), for data that clients send ahead. It fills neither the share nor
    /// the pool beyond their half: requests beside it need memory too.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn take_upload(self: &Arc<Self>, bytes: u64) -> Result<MemoryPermit, BudgetExceeded> {
        self.take_part(bytes, 2)
    }

    /// Takes bytes where they fit in one of `parts` even parts.
    fn take_part(self: &Arc<Self>, bytes: u64, parts: u64) -> Result<MemoryPermit, BudgetExceeded> {
        let mut taken = self.take_free(bytes, parts);
        for _ in 0..MAX_CLOSED {
            if taken.is_ok() || !self.close_idle_connection() {
                break;
            }
            taken = self.take_free(bytes, parts);
        }
        taken
    }

    fn take_free(self: &Arc<Self>, bytes: u64, parts: u64) -> Result<MemoryPermit, BudgetExceeded> {
        let ledger = &*self.ledger;
        let is_pooled = !add_within(&self.own, bytes, self.share() / parts);
        if is_pooled && !add_within(&ledger.pooled, bytes, ledger.pool() / parts) {
            return Err(BudgetExceeded { bound: ledger.bound });
        }
        // Fails only after accounts have joined: permits may then exceed the shares of today.
        if !add_within(&ledger.taken, bytes, ledger.bound) {
            self.source(is_pooled).fetch_sub(bytes, Ordering::Release);
            return Err(BudgetExceeded { bound: ledger.bound });
        }
        Ok(MemoryPermit { account: self.clone(), bytes, is_pooled })
    }

    /// Of the connections with bytes that this account may take, closes the one that is idle for
    /// the longest time.
    fn close_idle_connection(&self) -> bool {
        let lists = [&self.connections, &self.tenant.connections];
        let idle = lists.into_iter().filter_map(|list| Some((list.longest_idle()?, list)));
        let longest = idle.min_by_key(|(since, _)| *since);
        longest.is_some_and(|(_, list)| list.close_longest_idle())
    }

    /// Bytes that are reserved for this account.
    pub fn share(&self) -> u64 {
        let tenants = self.ledger.tenant_count.load(Ordering::Relaxed);
        let accounts = self.tenant.accounts.load(Ordering::Relaxed).max(1);
        self.ledger.bound / 2 / tenants.saturating_add(1) / accounts
    }

    fn source(&self, is_pooled: bool) -> &AtomicU64 {
        if is_pooled { &self.ledger.pooled } else { &self.own }
    }
}

impl Drop for MemoryAccount {
    fn drop(&mut self) {
        let mut tenants = self.ledger.tenants.lock();
        if self.tenant.accounts.fetch_sub(1, Ordering::Relaxed) == 1 {
            tenants.remove(&self.tenant_name);
            self.ledger.count(&tenants);
        }
    }
}

// === impl MemoryPermit ===

impl Drop for MemoryPermit {
    fn drop(&mut self) {
        // The sum first: it is then never more than its parts, and a take that fits in a part is
        // not refused because of a release that is under way.
        self.account.ledger.taken.fetch_sub(self.bytes, Ordering::Relaxed);
        self.account.source(self.is_pooled).fetch_sub(self.bytes, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
