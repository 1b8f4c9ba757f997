//! The activator's view of the cluster: its workloads, and the pods of each.
//!
//! Everything arrives as a [`ClusterChange`] on one bounded channel: [`kubernetes`] fills it from
//! two watches, [`mod@file`] from a file, tests directly. [`WorkloadIndex`] matches pods to
//! workloads and turns each change into the few [`WorkloadUpdate`]s that follow, which the
//! [`Throttler`](crate::throttler::Throttler) applies.
//!
//! A pod counts as soon as it has an IP, long before it is Ready: a probe of the pod then verifies
//! whether it takes requests. It stops to count the moment its deletion begins.

pub mod file;
mod index;
pub mod kubernetes;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use autoscaler::api::ScaleTargetRef;
use autoscaler::contract::selector::Selector;
use autoscaler::scaling::pod_start::StartCause;
use autoscaler::{Key, Protocol};

pub use index::WorkloadIndex;

/// A change of one object of the cluster; `None` if it was deleted.
#[derive(Clone, Debug, PartialEq)]
pub enum ClusterChange {
    /// A workload.
    Workload(Key, Option<Workload>),
    /// A pod, by its own namespace and name.
    Pod(Key, Option<Pod>),
}

/// What follows from a change for one workload.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkloadUpdate {
    /// The workload is new or has changed.
    Workload(Key, Workload),
    /// The workload was deleted.
    Removed(Key),
    /// A pod of the workload, by its name; `None` if it takes no requests any more.
    Pod(Key, String, Option<PodEndpoint>),
    /// A pod of the workload without an address: its uid, and whether it has a node.
    Starting(Key, String, bool),
}

/// One ServerlessService, reduced to what an activator needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// Selects the workload's pods; `None` if it is invalid, which selects no pod rather than all.
    pub selector: Option<Selector>,
    /// Requests that one pod serves at a time; 0 is no limit.
    pub container_concurrency: u32,
    /// How many activators carry it while its Service leads to them; 0 is all.
    pub activators: u32,
    /// Whether it was scaled to zero by hand, so that requests do not wake it.
    pub paused: bool,
    /// Whether its Service leads to the pods: requests then arrive only over existing connections.
    pub serving: bool,
    /// How long its requests may wait for a pod, instead of the process's default.
    pub wake_timeout: Option<Duration>,
    /// How many of its requests may wait, instead of the process's default.
    pub queue_depth: Option<usize>,
    /// Why its pods do not start, if the zero-scaler has found a cause.
    pub start_failure: Option<StartFailure>,
    /// The object that the fallback waker may scale.
    pub wake_target: Option<ScaleTargetRef>,
    /// The ports on which its requests arrive.
    pub ports: Vec<LeasedPort>,
}

/// A port of this process that is leased to one port of one workload's Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeasedPort {
    /// The port of this process.
    pub activator_port: u16,
    /// The port of the pods' queue-proxies that takes the requests, and probes.
    pub pod_port: u16,
    /// The protocol of the Service's port.
    pub protocol: Protocol,
}

/// What keeps the pods of a workload from starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartFailure {
    /// The cause.
    pub cause: StartCause,
    /// Whether requests should no longer be held.
    pub given_up: bool,
}

/// One pod, reduced to what an activator needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    /// Distinguishes a pod from its successor of the same name.
    pub uid: String,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The address, once its sandbox is up.
    pub ip: Option<IpAddr>,
    /// Whether it has a node.
    pub scheduled: bool,
    /// Its Ready condition.
    pub ready: bool,
    /// Whether it is being deleted, or has ended.
    pub ending: bool,
}

/// A pod that may take requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEndpoint {
    /// The pod's uid.
    pub uid: String,
    /// The pod's address.
    pub ip: IpAddr,
    /// Its Ready condition.
    pub ready: bool,
}

// === impl Pod ===

impl Pod {
    /// Whether it will get an address.
    fn is_starting(&self) -> bool {
        self.ip.is_none() && !self.ending
    }

    /// The pod as a destination; `None` if it takes no requests.
    fn endpoint(&self) -> Option<PodEndpoint> {
        let ip = self.ip.filter(|_| !self.ending)?;
        Some(PodEndpoint { uid: self.uid.clone(), ip, ready: self.ready })
    }
}

// === impl Workload ===

impl Workload {
    fn selects(&self, pod: &Pod) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
    }
}
