//! PodReports: what activators report of the pods without a sidecar of workloads whose target is
//! learned.
//!
//! The stat server records the reports, and the scraper takes one second with each round. Reports
//! of several activators for one pod and second add up. A pod without a report had no request.
//!
//! Bounds: workloads whose rounds take reports, 16 seconds for each, and 10,000 pods for each
//! second.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::stats::{PodStat, Stat};
use parking_lot::Mutex;

/// More than the seconds that timestamps of activators may differ by.
const MAX_SECONDS: usize = 16;
const MAX_PODS: usize = 10_000;

/// The reports that were not taken yet.
#[derive(Debug, Default)]
pub struct PodReports {
    workloads: Mutex<HashMap<Key, BTreeMap<u64, PodStats>>>,
}

/// The stats of pods by address.
pub type PodStats = HashMap<IpAddr, Stat>;

// === impl PodReports ===

impl PodReports {
    /// Adds a report for the second that ended at `end`. Dropped without a round that takes it.
    pub fn record(&self, end: Duration, report: &PodStat) {
        let mut all = self.workloads.lock();
        let Some(seconds) = all.get_mut(&report.key).filter(|_| report.stat.is_plausible()) else { return };
        let second = end.as_secs();
        if !seconds.contains_key(&second) && seconds.len() >= MAX_SECONDS {
            return;
        }
        let pods = seconds.entry(second).or_default();
        if let Some(stat) = pods.get_mut(&report.ip) {
            stat.add(&report.stat);
        } else if pods.len() < MAX_PODS {
            pods.insert(report.ip, report.stat.clone());
        }
    }

    /// Removes and returns the second that ended at `end`, and drops earlier ones. Later reports of
    /// the workload are kept for the next round.
    pub fn take(&self, key: &Key, end: u64) -> PodStats {
        let mut all = self.workloads.lock();
        let Some(seconds) = all.get_mut(key) else {
            all.insert(key.clone(), BTreeMap::new());
            return PodStats::new();
        };
        let mut later = seconds.split_off(&end);
        let taken = later.remove(&end).unwrap_or_default();
        *seconds = later;
        taken
    }

    /// Removes all other workloads.
    pub fn retain(&self, mut keep: impl FnMut(&Key) -> bool) {
        self.workloads.lock().retain(|key, _| keep(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: [u8; 4] = [10, 0, 0, 1];

    fn record(reports: &PodReports, second: u64, ip: [u8; 4], concurrency: f64) {
        let stat = Stat { average_concurrent_requests: concurrency, ..Stat::default() };
        let report = PodStat { key: Key::new("shop", "web"), ip: ip.into(), stat };
        reports.record(Duration::from_millis(second * 1000 + 300), &report);
    }

    fn take(reports: &PodReports, second: u64) -> Vec<f64> {
        let taken = reports.take(&Key::new("shop", "web"), second);
        taken.values().map(|stat| stat.average_concurrent_requests).collect()
    }

    #[test]
    fn reports_of_one_pod_and_second_add_up() {
        let reports = PodReports::default();
        record(&reports, 7, POD, 9.0);
        assert!(take(&reports, 7).is_empty(), "no round took them before");
        for second in [6, 7, 7, 8] {
            record(&reports, second, POD, 1.5);
        }
        assert_eq!(take(&reports, 7), [3.0]);
        assert!(take(&reports, 6).is_empty(), "dropped as late");
        assert_eq!(take(&reports, 8), [1.5]);
    }

    #[test]
    fn invalid_reports_and_those_beyond_the_bounds_are_dropped() {
        let reports = PodReports::default();
        take(&reports, 0);
        record(&reports, 1, POD, f64::NAN);
        assert!(take(&reports, 1).is_empty());
        for second in 2..40 {
            record(&reports, second, POD, 1.0);
        }
        assert_eq!((take(&reports, 17).len(), take(&reports, 18).len()), (1, 0));
    }

    #[test]
    fn removed_workloads_are_dropped() {
        let reports = PodReports::default();
        take(&reports, 0);
        record(&reports, 1, POD, 1.0);
        reports.retain(|_| false);
        record(&reports, 1, POD, 1.0);
        assert!(reports.workloads.lock().is_empty());
    }
}
