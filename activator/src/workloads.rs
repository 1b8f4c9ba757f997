//! What the activator knows of the cluster: its workloads, and the pods of each.
//!
//! Everything comes in as a [`Change`] on one bounded channel: [`kubernetes`] fills it from two watches, [`file`] from a
//! file, tests by hand. [`Index`] matches pods to workloads and turns each change into the few [`Update`]s that it means, which the
//! [`Throttler`](crate::throttler::Throttler) applies.
//!
//! A pod counts as soon as it has an IP, long before it is Ready: whether it can take requests is then asked of the pod
//! itself. It stops to count the moment it is being deleted.

pub mod file;
mod index;
pub mod kubernetes;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use autoscaler::api::ScaleTargetRef;
use autoscaler::pod_start::StartCause;
use autoscaler::selector::Selector;
use autoscaler::{Key, Protocol};

pub use index::Index;

/// One thing that changed in the cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A workload is there, or differs from before; `None`: it is gone.
    Workload(Key, Option<Workload>),
    /// A pod, by its own namespace and name.
    Pod(Key, Option<Pod>),
}

/// What one change means for one workload.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// The workload is new or differs.
    Workload(Key, Workload),
    /// The workload is gone.
    Removed(Key),
    /// A pod of the workload, by its name; `None`: it can take no request any more.
    Pod(Key, String, Option<Endpoint>),
    /// A pod of the workload has no address yet: its uid, and whether it has a node.
    Starting(Key, String, bool),
}

/// One ServerlessService, as far as it matters to an activator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// Which pods are its own; `None` if the text makes no sense, which selects nothing rather than everything.
    pub selector: Option<Selector>,
    /// Requests one pod serves at a time; 0 is no limit.
    pub container_concurrency: u32,
    /// How many activators carry it when its Service leads to them; 0 is all there are.
    pub activators: u32,
    /// Whether somebody else put it to zero, so that nothing wakes it.
    pub paused: bool,
    /// Whether its Service leads to the pods: requests that come here come by connections from before.
    pub serving: bool,
    /// How long its requests may wait for a pod, if it says so.
    pub wake_timeout: Option<Duration>,
    /// How many may, if it says so.
    pub queue_depth: Option<usize>,
    /// Why its pods do not start, if anybody knows.
    pub start_failure: Option<StartFailure>,
    /// What holds its size, if it may be taken from zero when no zero-scaler does it.
    pub wake_target: Option<ScaleTargetRef>,
    /// The ports on which its requests arrive here.
    pub ports: Vec<Lease>,
}

/// A port of this process that stands for one port of one workload's Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The port here.
    pub activator_port: u16,
    /// The port of the pods' queue-proxies that takes what comes here, and probes.
    pub pod_port: u16,
    /// What is spoken on it.
    pub protocol: Protocol,
}

/// What keeps the pods of a workload from starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartFailure {
    /// What it is.
    pub cause: StartCause,
    /// Whether requests should not be held for it any more.
    pub given_up: bool,
}

/// One pod, trimmed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    /// Tells a pod from its successor of the same name.
    pub uid: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its address, once its sandbox is up.
    pub ip: Option<IpAddr>,
    /// Whether it has a node.
    pub scheduled: bool,
    /// Whether Kubernetes calls it Ready.
    pub ready: bool,
    /// Whether it is being deleted, or has ended.
    pub ending: bool,
}

/// A pod that may be able to take requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The pod's uid.
    pub uid: String,
    /// The pod's address.
    pub ip: IpAddr,
    /// Whether Kubernetes calls it Ready.
    pub ready: bool,
}

// === impl Pod ===

impl Pod {
    /// Whether it is on its way to an address.
    fn is_starting(&self) -> bool {
        self.ip.is_none() && !self.ending
    }

    /// The pod as a destination, if it is one.
    fn endpoint(&self) -> Option<Endpoint> {
        let ip = self.ip.filter(|_| !self.ending)?;
        Some(Endpoint { uid: self.uid.clone(), ip, ready: self.ready })
    }
}

// === impl Workload ===

impl Workload {
    fn selects(&self, pod: &Pod) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
    }
}
