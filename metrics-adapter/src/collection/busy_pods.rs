//! BusyPods: which pods of each workload have requests, by their newest reads.
//!
//! The stats scraper records each round's reads, and [`deletion_costs`](crate::deletion_costs)
//! takes the loads. A pod counts as busy from the second read in a row with a request on, so that a
//! short request now and then costs no write.
//!
//! Bounds: workloads with at least two ready pods, and of these the pods that were busy when they
//! were last read, at most [`MAX_PODS`] a workload.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use autoscaler::Key;
use parking_lot::Mutex;

/// How long a read counts. A round reads a sample of many pods, and those with the highest load.
const VALID: Duration = Duration::from_secs(30);
const MAX_PODS: usize = 1_000;

/// The busy pods of all workloads.
#[derive(Debug, Default)]
pub struct BusyPods {
    workloads: Mutex<HashMap<Key, HashMap<IpAddr, BusyPod>>>,
}

/// The reads of one pod since it was last read without a request, in the time of the windows.
#[derive(Debug)]
struct BusyPod {
    since: Duration,
    last: Duration,
    /// Concurrent requests in the last read.
    load: f64,
}

// === impl BusyPods ===

impl BusyPods {
    /// Records the concurrent requests of the pods that the round due at `at` read.
    pub fn record(&self, key: &Key, at: Duration, ready: usize, reads: impl Iterator<Item = (IpAddr, f64)>) {
        let mut all = self.workloads.lock();
        if ready < 2 {
            all.remove(key);
            return;
        }
        let pods = all.entry(key.clone()).or_default();
        pods.retain(|_, pod| at <= pod.last + VALID);
        for (ip, load) in reads {
            if load <= 0.0 {
                pods.remove(&ip);
            } else if let Some(pod) = pods.get_mut(&ip) {
                (pod.last, pod.load) = (at, load);
            } else if pods.len() < MAX_PODS {
                pods.insert(ip, BusyPod { since: at, last: at, load });
            }
        }
    }

    /// The concurrent requests of each busy pod at `now`.
    pub fn loads(&self, key: &Key, now: Duration) -> HashMap<IpAddr, f64> {
        let all = self.workloads.lock();
        let is_busy = |pod: &BusyPod| pod.since < pod.last && now <= pod.last + VALID;
        let busy = all.get(key).into_iter().flatten().filter(|(_, pod)| is_busy(pod));
        busy.map(|(ip, pod)| (*ip, pod.load)).collect()
    }

    /// Removes all other workloads.
    pub fn retain(&self, mut keep: impl FnMut(&Key) -> bool) {
        self.workloads.lock().retain(|key, _| keep(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn record(busy: &BusyPods, second: u64, ready: usize, reads: &[(u8, f64)]) {
        let reads = reads.iter().map(|(pod, load)| (ip(*pod), *load));
        busy.record(&Key::new("shop", "web"), Duration::from_secs(second), ready, reads);
    }

    fn loads(busy: &BusyPods, second: u64) -> Vec<(IpAddr, f64)> {
        let loads = busy.loads(&Key::new("shop", "web"), Duration::from_secs(second));
        let mut loads: Vec<_> = loads.into_iter().collect();
        loads.sort_by_key(|(ip, _)| *ip);
        loads
    }

    #[test]
    fn pod_is_busy_from_its_second_read_with_a_request_until_one_without() {
        let busy = BusyPods::default();
        record(&busy, 1, 3, &[(1, 1.0), (2, 0.5), (3, 0.0)]);
        assert_eq!(loads(&busy, 1), []);
        record(&busy, 2, 3, &[(1, 1.0), (2, 0.0), (3, 2.0)]);
        assert_eq!(loads(&busy, 2), [(ip(1), 1.0)]);
        record(&busy, 3, 3, &[(2, 0.5), (3, 3.0)]);
        assert_eq!(loads(&busy, 3), [(ip(1), 1.0), (ip(3), 3.0)], "the first pod was not read");
        record(&busy, 4, 3, &[(1, 0.0)]);
        assert_eq!(loads(&busy, 4), [(ip(3), 3.0)]);
    }

    #[test]
    fn old_reads_and_single_pods_are_dropped() {
        let busy = BusyPods::default();
        for second in [1, 2] {
            record(&busy, second, 2, &[(1, 1.0)]);
        }
        assert_eq!((loads(&busy, 32).len(), loads(&busy, 33).len()), (1, 0));
        record(&busy, 33, 2, &[]);
        assert_eq!(loads(&busy, 2), [], "removed");
        for second in [40, 41] {
            record(&busy, second, 1, &[(1, 1.0)]);
        }
        assert!(busy.workloads.lock().is_empty());
    }

    #[test]
    fn pods_of_a_workload_are_bounded() {
        let busy = BusyPods::default();
        let reads = (0..5_000_u32).map(|pod| (IpAddr::from(pod.to_be_bytes()), 1.0));
        busy.record(&Key::new("shop", "web"), Duration::from_secs(1), 5_000, reads);
        assert_eq!(busy.workloads.lock().values().map(HashMap::len).sum::<usize>(), MAX_PODS);
    }
}
