//! IdleReads: when each pod of a workload was last read without a request.
//!
//! A round samples a few of many pods. That is enough for an average, but not to show that there is
//! no request: of 500 pods with one long request, the samples of a whole window miss it in one case
//! of six. So a workload counts as idle only if each ready pod was read within a window. While a
//! sample has no request, the scraper also reads the pods that were not read for the longest time.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::time::Duration;

/// Fewest further pods to read in a round. With it, up to twenty pods are all read in each round.
const FEWEST: usize = 16;
/// Most further pods to read in a round.
const MOST: usize = 128;
/// Cycles through all pods in one window, so that a lost response delays nothing.
const CYCLES: usize = 2;

/// The last read without a request of each pod. Holds none while every round reads all pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdleReads(HashMap<SocketAddr, Duration>);

// === impl IdleReads ===

impl IdleReads {
    /// The pods to read beside the sampled ones: the least recently read, at most 128.
    pub fn due(&self, ready: &[SocketAddr], sampled: &[SocketAddr], window: Duration) -> Vec<SocketAddr> {
        let sampled: HashSet<_> = sampled.iter().collect();
        let mut due: Vec<SocketAddr> = ready.iter().filter(|pod| !sampled.contains(pod)).copied().collect();
        due.sort_by_key(|pod| self.0.get(pod));
        due.truncate(rate(ready.len(), window));
        due
    }

    /// Records the reads of one round, each with whether the pod had no request. Keeps the reads of
    /// the ready pods only.
    pub fn record(
        &mut self,
        ready: &[SocketAddr],
        reads: impl Iterator<Item = (SocketAddr, bool)>,
        at: Duration,
    ) {
        for (pod, idle) in reads {
            if idle {
                self.0.insert(pod, at);
            } else {
                self.0.remove(&pod);
            }
        }
        let ready: HashSet<_> = ready.iter().collect();
        self.0.retain(|pod, _| ready.contains(pod));
    }

    /// Whether each ready pod was read without a request within the window before `now`.
    pub fn cover(&self, ready: &[SocketAddr], now: Duration, window: Duration) -> bool {
        let oldest = now.saturating_sub(validity(ready.len(), window));
        ready.iter().all(|pod| self.0.get(pod).is_some_and(|read| *read >= oldest))
    }

    /// Forgets all reads.
    pub fn clear(&mut self) {
        self.0 = HashMap::new();
    }
}

/// Further pods to read in each round, a second apart.
fn rate(ready: usize, window: Duration) -> usize {
    let seconds = usize::try_from(window.as_secs()).unwrap_or(usize::MAX).max(1);
    (ready * CYCLES).div_ceil(seconds).clamp(FEWEST, MOST)
}

/// How long a read counts: a window, and longer where so many pods cannot be read in one.
fn validity(ready: usize, window: Duration) -> Duration {
    let rounds = (ready * CYCLES).div_ceil(MOST);
    window.max(Duration::from_secs(u64::try_from(rounds).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(60);

    fn pods(count: u32) -> Vec<SocketAddr> {
        (0..count).map(|i| (std::net::Ipv4Addr::from(0x0a00_0000 + i), 9090).into()).collect()
    }

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(1_600_000_000 + seconds)
    }

    /// The rounds until all pods are covered, if each reads only what is due.
    fn rounds_until_covered(count: u32, window: Duration) -> u64 {
        let (pods, mut reads) = (pods(count), IdleReads::default());
        for round in 0.. {
            let due = reads.due(&pods, &[], window);
            assert!(due.len() <= MOST);
            reads.record(&pods, due.into_iter().map(|pod| (pod, true)), s(round));
            if reads.cover(&pods, s(round), window) {
                return round + 1;
            }
        }
        unreachable!()
    }

    #[test]
    fn covers_all_pods_in_half_a_window_where_possible() {
        for (count, window, rounds) in [(1, 6, 1), (16, 60, 1), (500, 60, 30), (500, 6, 4), (10_000, 60, 79)]
        {
            assert_eq!(rounds_until_covered(count, Duration::from_secs(window)), rounds, "{count} {window}");
        }
    }

    #[test]
    fn pod_with_request_or_old_read_is_not_covered() {
        let (pods, mut reads) = (pods(3), IdleReads::default());
        reads.record(&pods, pods.iter().map(|pod| (*pod, true)), s(0));
        assert!(reads.cover(&pods, s(60), WINDOW) && !reads.cover(&pods, s(61), WINDOW));
        reads.record(&pods, std::iter::once((pods[1], false)), s(1));
        assert!(!reads.cover(&pods, s(1), WINDOW));
        assert_eq!(reads.due(&pods, &pods[..1], WINDOW), pods[1..], "the unread pod comes first");
    }

    #[test]
    fn new_pod_is_not_covered_until_it_is_read() {
        let (pods, mut reads) = (pods(4), IdleReads::default());
        reads.record(&pods[..3], pods.iter().map(|pod| (*pod, true)), s(0));
        assert!(reads.cover(&pods[..3], s(1), WINDOW) && !reads.cover(&pods, s(1), WINDOW));
    }
}
