//! ResourceReadings: the newest readings of the pods, until they are two minutes old.
//!
//! The reader replaces them all with each list. The scraper takes each reading once, for the second
//! of the pod that it scrapes next: a reading that was repeated each second would look like
//! fifteen. Keyed by pod IP, as are scrapes. An address may belong to another pod by then, so a
//! reading of before the pod's start is not taken.

use std::collections::HashMap;
use std::net::IpAddr;

use autoscaler::Key;
use learning::{CpuReading, PodSecond};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::pod_metrics::{MAX_AGE, PodReading};
use crate::watches::pod::Pod;

/// The readings of all pods, on the leader.
#[derive(Debug, Default)]
pub struct ResourceReadings {
    newest: Mutex<ResourceList>,
}

/// The readings of one list.
#[derive(Debug, Default)]
pub(super) struct ResourceList {
    /// When it was read; `None` before the first one.
    pub(super) read_at: Option<Instant>,
    pub(super) pods: HashMap<IpAddr, StoredReading>,
    pub(super) workloads: HashMap<Key, ResourceUsage>,
}

/// The reading of a pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredReading {
    reading: PodReading,
    expires: Instant,
    taken: bool,
}

/// What the fullest pod of a workload uses, as shares of its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ResourceUsage {
    /// Of memory; `None` if no pod has a limit and a reading.
    pub memory: Option<f64>,
    /// Of CPU; the same.
    pub cpu: Option<f64>,
}

/// Whether the resources of a workload's pods are available.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ResourceStatus {
    /// `metrics.k8s.io` was not read in the last two minutes.
    Unavailable,
    Available(ResourceUsage),
}

// === impl ResourceReadings ===

impl ResourceReadings {
    /// Adds the reading of a pod to its last second, once.
    pub fn add_to(&self, second: PodSecond, pod: &Pod) -> PodSecond {
        let Some(PodReading { at, window, memory, cpu, .. }) = self.take(pod) else { return second };
        let cpu = cpu.zip(window);
        let cpu = cpu.map(|(share, window)| CpuReading { share, from: at.saturating_sub(window), to: at });
        PodSecond { memory, cpu, ..second }
    }

    fn take(&self, pod: &Pod) -> Option<PodReading> {
        let mut newest = self.newest.lock();
        let stored = newest.pods.get_mut(pod.ip.as_ref()?)?;
        let is_of_pod = pod.started.is_some_and(|started| started < stored.reading.at);
        if stored.taken || !is_of_pod || stored.expires < Instant::now() {
            return None;
        }
        stored.taken = true;
        Some(stored.reading)
    }

    /// The resources of a workload's pods.
    pub fn status(&self, workload: &Key) -> ResourceStatus {
        let newest = self.newest.lock();
        match newest.read_at {
            Some(read_at) if read_at.elapsed() <= MAX_AGE => {
                ResourceStatus::Available(newest.workloads.get(workload).copied().unwrap_or_default())
            }
            _ => ResourceStatus::Unavailable,
        }
    }

    /// Replaces all readings. One that is in both lists is taken only once.
    pub(super) fn replace(&self, mut list: ResourceList) {
        let mut newest = self.newest.lock();
        for (ip, stored) in &mut list.pods {
            let last = newest.pods.get(ip);
            stored.taken = last.is_some_and(|last| last.taken && last.reading.at == stored.reading.at);
        }
        let last = std::mem::replace(&mut *newest, list);
        drop(newest);
        // Takes longer than the lock may be held.
        drop(last);
    }

    /// Drops all readings, when another replica becomes the leader.
    pub(super) fn clear(&self) {
        let last = std::mem::take(&mut *self.newest.lock());
        drop(last);
    }
}

// === impl ResourceList ===

impl ResourceList {
    /// What the fullest of these pods uses.
    pub(super) fn usage<'a>(&self, pods: impl IntoIterator<Item = &'a Pod>) -> ResourceUsage {
        let stored = pods.into_iter().filter_map(|pod| self.pods.get(pod.ip.as_ref()?));
        stored.fold(ResourceUsage::default(), |fullest, StoredReading { reading, .. }| ResourceUsage {
            memory: highest(fullest.memory, reading.memory),
            cpu: highest(fullest.cpu, reading.cpu),
        })
    }
}

/// The higher of two shares.
fn highest(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::max)
}

// === impl StoredReading ===

impl StoredReading {
    pub(super) fn new(reading: PodReading) -> Self {
        let left = MAX_AGE.saturating_sub(reading.age);
        Self { reading, expires: Instant::now() + left, taken: false }
    }
}

#[cfg(test)]
impl ResourceReadings {
    /// Stores a list with these shares of a pod's limits, read now.
    pub(crate) fn put_pod_sample(&self, ip: IpAddr, at: std::time::Duration, usage: ResourceUsage) {
        let ResourceUsage { memory, cpu } = usage;
        let window = Some(std::time::Duration::from_secs(15));
        let reading = PodReading { at, age: std::time::Duration::ZERO, window, memory, cpu };
        let pods = HashMap::from([(ip, StoredReading::new(reading))]);
        self.replace(ResourceList { pods, ..ResourceList::default() });
    }

    /// Stores a list with this usage of one workload.
    pub(crate) fn put_sample(&self, workload: &Key, usage: ResourceUsage) {
        let workloads = HashMap::from([(workload.clone(), usage)]);
        self.replace(ResourceList { read_at: Some(Instant::now()), workloads, ..ResourceList::default() });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::Pod as KubernetesPod;
    use serde_json::json;

    use super::*;

    const IP: &str = "10.0.0.1";

    fn pod(started: u64) -> Pod {
        pod_at(Some(IP), Some(started))
    }

    fn pod_at(ip: Option<&str>, started: Option<u64>) -> Pod {
        let object: KubernetesPod = serde_json::from_value(json!({"metadata": {"name": "web"}})).unwrap();
        let mut pod = Pod::from(&object);
        pod.ip = ip.map(|ip| ip.parse().unwrap());
        pod.started = started.map(Duration::from_secs);
        pod
    }

    fn reading(at: u64, age: u64, memory: f64) -> PodReading {
        let (at, age) = (Duration::from_secs(at), Duration::from_secs(age));
        PodReading { at, age, window: None, memory: Some(memory), cpu: None }
    }

    fn list(reading: PodReading) -> ResourceList {
        let pods = HashMap::from([(IP.parse().unwrap(), StoredReading::new(reading))]);
        ResourceList { read_at: Some(Instant::now()), pods, workloads: HashMap::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn reading_is_taken_once_also_from_the_next_list() {
        let readings = ResourceReadings::default();
        assert_eq!(readings.take(&pod(10)), None);
        readings.replace(list(reading(100, 5, 0.5)));
        assert_eq!(readings.take(&pod(10)).and_then(|it| it.memory), Some(0.5));
        assert_eq!(readings.take(&pod(10)), None);
        readings.replace(list(reading(100, 20, 0.5)));
        assert_eq!(readings.take(&pod(10)), None, "the same reading");
        readings.replace(list(reading(130, 5, 0.6)));
        assert_eq!(readings.take(&pod(10)).and_then(|it| it.memory), Some(0.6));
        readings.replace(list(reading(145, 5, 0.7)));
        readings.clear();
        assert_eq!(readings.take(&pod(10)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn reading_of_an_earlier_pod_with_the_address_is_not_taken() {
        let readings = ResourceReadings::default();
        readings.replace(list(reading(100, 5, 0.5)));
        assert_eq!(readings.take(&pod(100)), None);
        assert_eq!(readings.take(&pod_at(Some(IP), None)), None);
        assert_eq!(readings.take(&pod_at(None, Some(10))), None);
        assert_eq!(readings.take(&pod(99)).and_then(|it| it.memory), Some(0.5));
    }

    #[tokio::test(start_paused = true)]
    async fn reading_and_status_expire_after_two_minutes() {
        let (readings, key) = (ResourceReadings::default(), Key::new("shop", "web"));
        assert_eq!(readings.status(&key), ResourceStatus::Unavailable);
        readings.replace(list(reading(100, 100, 0.5)));
        assert_eq!(readings.status(&key), ResourceStatus::Available(ResourceUsage::default()));
        tokio::time::advance(Duration::from_secs(21)).await;
        assert_eq!(readings.take(&pod(10)), None);
        let usage = ResourceUsage { memory: Some(0.5), cpu: None };
        readings.put_sample(&key, usage);
        tokio::time::advance(MAX_AGE).await;
        assert_eq!(readings.status(&key), ResourceStatus::Available(usage));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(readings.status(&key), ResourceStatus::Unavailable);
    }

    #[tokio::test(start_paused = true)]
    async fn usage_is_that_of_the_fullest_pod() {
        let mut list = list(reading(100, 5, 0.5));
        let other = PodReading { memory: None, cpu: Some(0.7), ..reading(100, 5, 0.0) };
        list.pods.insert("10.0.0.2".parse().unwrap(), StoredReading::new(other));
        let second = pod_at(Some("10.0.0.2"), Some(10));
        let unread = pod_at(Some("10.0.0.3"), Some(10));
        let usage = list.usage([&pod(10), &second, &unread]);
        assert_eq!(usage, ResourceUsage { memory: Some(0.5), cpu: Some(0.7) });
        assert_eq!(list.usage([&unread]), ResourceUsage::default());
    }
}
