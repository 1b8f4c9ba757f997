//! Memory: each client's account of the budget of the process.
//!
//! Clients are distinguished by their address: the address of the connection or, for what an
//! activator forwards, the address that the activator names. A pod that takes all that it can
//! leaves others their share, whether it connects itself or through activators. All clients of an
//! ingress count as one client.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use prometheus::IntCounter;
use proxy::memory::budget::{BudgetExceeded, MemoryAccount, MemoryBudget, MemoryPermit};
use proxy::memory::open_connections::{ConnectionActivity, ConnectionPlace};

use crate::stats::metrics::MemoryMetrics;

/// Addresses that are kept before those without connections are removed for the first time.
const FIRST_PRUNE: usize = 64;

/// The accounts of all clients.
#[derive(Debug)]
pub(crate) struct ClientMemory {
    budget: MemoryBudget,
    clients: Mutex<Clients>,
    metrics: MemoryMetrics,
}

#[derive(Debug)]
struct Clients {
    accounts: HashMap<IpAddr, Weak<MemoryAccount>>,
    /// Size at which accounts without connections and requests are removed.
    prune_at: usize,
}

/// The account of one client.
#[derive(Debug)]
pub(crate) struct ClientAccount {
    account: Arc<MemoryAccount>,
    metrics: MemoryMetrics,
}

// === impl ClientMemory ===

impl ClientMemory {
    /// Accounts of one budget of so many bytes.
    pub(crate) fn new(bound: u64, metrics: MemoryMetrics) -> Self {
        let clients = Clients { accounts: HashMap::new(), prune_at: FIRST_PRUNE };
        Self { budget: MemoryBudget::new(bound), clients: Mutex::new(clients), metrics }
    }

    /// The account of the client with this address.
    pub(crate) fn of_client(&self, address: IpAddr) -> ClientAccount {
        let mut clients = self.clients.lock();
        let existing = clients.accounts.get(&address).and_then(Weak::upgrade);
        let account = existing.unwrap_or_else(|| {
            let account = self.budget.join(&address.to_string());
            clients.insert(address, &account);
            account
        });
        ClientAccount { account, metrics: self.metrics.clone() }
    }
}

// === impl Clients ===

impl Clients {
    fn insert(&mut self, address: IpAddr, account: &Arc<MemoryAccount>) {
        if self.accounts.len() >= self.prune_at {
            self.accounts.retain(|_, account| account.strong_count() > 0);
            self.prune_at = FIRST_PRUNE.max(2 * self.accounts.len());
        }
        self.accounts.insert(address, Arc::downgrade(account));
    }
}

// === impl ClientAccount ===

impl ClientAccount {
    /// Takes the bytes of an HTTP connection, which may be closed while it is idle; `None` if it
    /// must be closed at once.
    pub(crate) fn admit(&self, bytes: u64) -> Option<ConnectionPlace<MemoryPermit>> {
        counted(self.account.admit(bytes), &self.metrics.refused_connections).ok()
    }

    /// Takes the bytes of a connection; `None` if it must be closed.
    pub(crate) fn take_connection(&self, bytes: u64) -> Option<MemoryPermit> {
        counted(self.account.take(bytes), &self.metrics.refused_connections).ok()
    }

    /// Takes the bytes of a connection with the request that runs on it, from the account that has
    /// them.
    ///
    /// # Errors
    /// When the client's share and the pool are used up.
    pub(crate) fn take_over(
        &self,
        connection: &ConnectionActivity<MemoryPermit>,
        bytes: u64,
    ) -> Result<(), BudgetExceeded> {
        counted(self.account.take_over(connection, bytes), &self.metrics.refused_requests)
    }

    /// Takes the bytes of a request, if any.
    ///
    /// # Errors
    /// When the client's share and the pool are used up.
    pub(crate) fn take_request(&self, bytes: u64) -> Result<Option<MemoryPermit>, BudgetExceeded> {
        if bytes == 0 {
            return Ok(None);
        }
        counted(self.account.take(bytes), &self.metrics.refused_requests).map(Some)
    }

    /// Takes bytes of uploads that the app does not read.
    ///
    /// # Errors
    /// When the client's parts for uploads are used up.
    pub(crate) fn take_upload(&self, bytes: u64) -> Result<MemoryPermit, BudgetExceeded> {
        counted(self.account.take_upload(bytes), &self.metrics.refused_requests)
    }

    /// Counts an idle connection that was closed for others.
    pub(crate) fn idle_connection_closed(&self) {
        self.metrics.closed_idle_connections.inc();
    }
}

fn counted<T>(taken: Result<T, BudgetExceeded>, refused: &IntCounter) -> Result<T, BudgetExceeded> {
    taken.inspect_err(|_| refused.inc())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use prometheus::Registry;

    use super::*;

    fn memory(bound: u64) -> ClientMemory {
        ClientMemory::new(bound, MemoryMetrics::register(&Registry::new()).unwrap())
    }

    fn address(number: u32) -> IpAddr {
        Ipv4Addr::from(0x0a00_0000 + number).into()
    }

    #[test]
    fn client_that_takes_all_leaves_another_its_share() {
        let memory = memory(1200);
        let flood: Vec<_> = std::iter::from_fn(|| memory.of_client(address(1)).take_connection(1)).collect();
        assert_eq!(flood.len(), 900, "connections of one address share an account");
        let share = std::iter::from_fn(|| memory.of_client(address(2)).take_connection(1)).take(200);
        assert_eq!(share.collect::<Vec<_>>().len(), 200);
    }

    #[test]
    fn accounts_of_clients_that_left_are_removed() {
        let memory = memory(1 << 20);
        let stays = memory.of_client(address(0));
        for number in 1..10_000 {
            drop(memory.of_client(address(number)));
        }
        assert!(memory.clients.lock().accounts.len() <= FIRST_PRUNE);
        assert!(Arc::ptr_eq(&stays.account, &memory.of_client(address(0)).account));
    }
}
