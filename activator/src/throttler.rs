//! Throttler: all workloads of the process, each with its own throttler and listeners.
//!
//! Input: changes of workloads and pods, messages of other activators, queries of the fallback
//! waker, and the end of the hold. One task owns this; requests never pass through it, since each
//! listener holds its workload's throttler. Messages of other activators come this way so that a
//! workload has the sender among its peers before it receives a message.
//!
//! A workload that was deleted is served for `REMOVAL_DELAY` longer: its EndpointSlices name this
//! activator until they are collected and every kube-proxy has seen that, and clients would find a
//! closed port. Its ports stay its own for that time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::routing::slot_lending::{SlotMessage, WorkloadSlotMessage};
use autoscaler::{Key, Protocol};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::fallback_waker::StrandedQuery;
use crate::queue::context::ThrottlerContext;
use crate::queue::rejection::Rejection;
use crate::queue::workload_throttler::WorkloadThrottler;
use crate::requests::context::RequestContext;
use crate::requests::http_handler::HttpHandler;
use crate::requests::listeners::{Listeners, PortHandler};
use crate::requests::tcp_handler::TcpHandler;
use crate::slots::slot_exchange::SlotExchangeEvents;
use crate::slots::slot_link::ReceivedMessages;
use crate::slots::slot_peers::SlotPeers;
use crate::workloads::directory::WorkloadDirectory;
use crate::workloads::{ClusterChange, Namespaces, Workload, WorkloadIndex, WorkloadUpdate};

/// How long a deleted workload is still served. Garbage collection and kube-proxies take a second
/// or two, more on a busy cluster.
const REMOVAL_DELAY: Duration = Duration::from_secs(10);

/// The workloads, by key.
#[derive(Debug)]
pub struct Throttler {
    context: Arc<ThrottlerContext>,
    requests: Arc<RequestContext>,
    index: WorkloadIndex,
    /// The namespaces of which unlabelled pods are needed.
    namespaces: watch::Sender<Namespaces>,
    workloads: WorkloadDirectory<WorkloadThrottler>,
    /// Deleted workloads and until when they are served, in the order of their deletion.
    deleted: VecDeque<(Instant, Key)>,
    listeners: Listeners,
    peers: Arc<SlotPeers>,
}

// === impl Throttler ===

impl Throttler {
    /// A throttler without workloads. It publishes the `namespaces` that have a workload without a
    /// sidecar.
    pub fn new(
        context: Arc<ThrottlerContext>,
        requests: Arc<RequestContext>,
        listeners: Listeners,
        namespaces: watch::Sender<Namespaces>,
        workloads: WorkloadDirectory<WorkloadThrottler>,
    ) -> Self {
        Self {
            context,
            requests,
            index: WorkloadIndex::default(),
            namespaces,
            workloads,
            deleted: VecDeque::new(),
            listeners,
            peers: Arc::default(),
        }
    }

    /// Applies its inputs; never completes. When all inputs have ended, open ports stay open: the
    /// data plane continues with its last state. From `hold_end` on no request waits for a pod.
    pub async fn run(
        mut self,
        mut changes: mpsc::Receiver<ClusterChange>,
        mut exchange: SlotExchangeEvents,
        mut queries: mpsc::Receiver<StrandedQuery>,
        hold_end: CancellationToken,
    ) {
        let mut holds = true;
        loop {
            tokio::select! {
                biased;
                () = hold_end.cancelled(), if holds => {
                    holds = false;
                    self.workloads.all().iter().for_each(|it| it.close(Rejection::ActivatorStopping));
                }
                Ok(()) = exchange.peers.changed() => {
                    self.set_peers(exchange.peers.borrow_and_update().clone());
                }
                Some(messages) = exchange.messages.recv() => self.receive(messages),
                Some(change) = changes.recv() => self.apply_change(change),
                Some(key) = next_removal(&self.deleted) => self.finish_removal(key),
                Some(query) = queries.recv() => {
                    let workloads = self.workloads.all();
                    let stranded = workloads.iter().filter_map(|workload| workload.stranded());
                    // An error means that the query was cancelled.
                    let _ = query.send(stranded.collect());
                }
                else => std::future::pending().await,
            }
        }
    }

    fn set_peers(&mut self, peers: Arc<SlotPeers>) {
        for workload in self.workloads.all() {
            workload.set_peers(peers.clone());
        }
        self.peers = peers;
    }

    fn receive(&self, ReceivedMessages { from, messages }: ReceivedMessages) {
        for message in messages {
            match (self.workloads.get(&message.workload), &message.message) {
                (Some(workload), _) => workload.receive(from, message.message),
                // A slot lent to a workload that does not exist here goes back to its owner.
                (None, SlotMessage::Lend(pod)) => {
                    let returned = SlotMessage::Return(*pod);
                    self.peers.send(from, WorkloadSlotMessage { message: returned, ..message });
                }
                (None, _) => {}
            }
        }
    }

    fn apply_change(&mut self, change: ClusterChange) {
        match change {
            ClusterChange::Workload(key, None) => {
                self.deleted.push_back((Instant::now() + REMOVAL_DELAY, key));
            }
            ClusterChange::Workload(ref key, Some(_)) => {
                self.deleted.retain(|(_, deleted)| deleted != key);
                self.update_index(change);
            }
            ClusterChange::Pod(..) => self.update_index(change),
        }
    }

    fn finish_removal(&mut self, key: Key) {
        self.deleted.pop_front();
        self.update_index(ClusterChange::Workload(key, None));
    }

    fn update_index(&mut self, change: ClusterChange) {
        let namespace = match &change {
            ClusterChange::Workload(key, _) => Some(key.namespace.clone()),
            ClusterChange::Pod(..) => None,
        };
        for update in self.index.apply(change) {
            self.apply_update(update);
        }
        if let Some(namespace) = namespace {
            self.publish_namespace(namespace);
        }
    }

    fn publish_namespace(&self, namespace: String) {
        let is_needed = self.index.has_workload_without_sidecar(&namespace);
        self.namespaces.send_if_modified(|namespaces| {
            if is_needed { namespaces.insert(namespace) } else { namespaces.remove(&namespace) }
        });
    }

    fn apply_update(&mut self, update: WorkloadUpdate) {
        match update {
            WorkloadUpdate::Workload(key, workload) => self.put(key, workload),
            WorkloadUpdate::Removed(key) => self.remove(&key),
            WorkloadUpdate::Pod(key, name, endpoint) => {
                if let Some(throttler) = self.workloads.get(&key) {
                    throttler.set_pod(&name, endpoint, Instant::now());
                }
            }
            WorkloadUpdate::Starting(key, uid, scheduled) => {
                if let Some(throttler) = self.workloads.get(&key) {
                    throttler.cold_starts().pod_starts().seen(&uid, scheduled, Instant::now());
                }
            }
        }
    }

    fn put(&mut self, key: Key, workload: Workload) {
        let ports = workload.ports.clone();
        let throttler = match self.workloads.get(&key) {
            Some(throttler) => {
                throttler.update(workload);
                throttler.clone()
            }
            None => {
                tracing::info!(workload = %key, ports = ports.len(), "workload added");
                let (context, peers) = (self.context.clone(), self.peers.clone());
                let throttler = WorkloadThrottler::new(key.clone(), workload, context, peers);
                self.workloads.insert(key.clone(), throttler.clone());
                throttler
            }
        };
        let requests = &self.requests;
        self.listeners.set_ports(&key, &ports, |port| match port.protocol {
            Protocol::Http => {
                let handler = HttpHandler::new(requests.clone(), throttler.clone(), port.clone());
                PortHandler::Http(Arc::new(handler))
            }
            Protocol::Tcp => {
                PortHandler::Tcp(TcpHandler::new(requests.clone(), throttler.clone(), port.clone()))
            }
        });
    }

    fn remove(&mut self, key: &Key) {
        if let Some(throttler) = self.workloads.remove(key) {
            tracing::info!(workload = %key, "workload removed");
            self.listeners.close(key);
            throttler.close(Rejection::WorkloadDeleted);
            self.context.metrics.remove_workload(key);
        }
    }
}

/// The next workload to remove, when its delay is over; `None` if there is none.
async fn next_removal(deleted: &VecDeque<(Instant, Key)>) -> Option<Key> {
    let (at, key) = deleted.front()?;
    sleep_until(*at).await;
    Some(key.clone())
}
