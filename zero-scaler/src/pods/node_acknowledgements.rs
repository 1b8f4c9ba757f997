//! When each node last acknowledged a pod.
//!
//! Input: the watches of starting pods. A kubelet sets `status.startTime` of a pod as soon as it
//! has received it, within some milliseconds. Output: how long a pod may be unacknowledged before
//! its node counts as unresponsive.
//!
//! What surprises: a kubelet that starts hundreds of pods at a time acknowledges them one after the
//! other, at its own rate limit. It is busy and not unresponsive, so the acknowledgement of one pod
//! counts for all pods of its node.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Several times what a busy kubelet takes, and less than clients wait.
const PATIENCE: Duration = Duration::from_millis(1800);
/// Bound of the map. The nodes that are dropped then have had no acknowledgement.
const MAX_NODES: usize = 10_000;

/// The last acknowledgement of each node.
#[derive(Debug, Default)]
pub(crate) struct NodeAcknowledgements(Mutex<HashMap<String, Instant>>);

// === impl NodeAcknowledgements ===

impl NodeAcknowledgements {
    /// Records an acknowledgement of the node.
    pub(crate) fn record(&self, node: &str, now: Instant) {
        let mut nodes = self.0.lock();
        if nodes.len() >= MAX_NODES && !nodes.contains_key(node) {
            nodes.clear();
        }
        nodes.insert(node.to_owned(), now);
    }

    /// When a node counts as unresponsive that has not acknowledged a pod since `since`.
    pub(crate) fn unresponsive_from(&self, node: &str, since: Instant) -> Instant {
        let last = self.0.lock().get(node).copied();
        last.map_or(since, |last| last.max(since)) + PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn acknowledgement_of_one_pod_counts_for_its_node() {
        let (nodes, start) = (NodeAcknowledgements::default(), Instant::now());
        assert_eq!(nodes.unresponsive_from("node1", start), start + PATIENCE);
        let later = start + Duration::from_secs(1);
        nodes.record("node1", later);
        assert_eq!(nodes.unresponsive_from("node1", start), later + PATIENCE);
        assert_eq!(nodes.unresponsive_from("node2", start), start + PATIENCE);
        let latest = start + Duration::from_secs(2);
        assert_eq!(nodes.unresponsive_from("node1", latest), latest + PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn drops_nodes_above_the_bound() {
        let (nodes, now) = (NodeAcknowledgements::default(), Instant::now());
        for number in 0..=MAX_NODES {
            nodes.record(&number.to_string(), now);
        }
        assert_eq!(nodes.0.lock().len(), 1);
    }
}
