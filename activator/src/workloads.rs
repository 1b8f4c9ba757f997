//! The activator's view of the cluster: its workloads, and the pods of each.
//!
//! Everything arrives as a [`ClusterChange`] on one bounded channel: [`kubernetes`] fills it from
//! watches, [`mod@file`] from a file, tests directly. [`WorkloadIndex`] matches pods to workloads
//! and turns each change into the few [`WorkloadUpdate`]s that follow, which the
//! [`Throttler`](crate::throttler::Throttler) applies.
//!
//! A pod counts as soon as it has an IP, long before it is Ready: a probe of the pod then verifies
//! whether it takes requests. It stops to count the moment its deletion begins. Only a pod of a
//! StatefulSet counts as [draining](PodEndpoint::draining) while it is still Ready, because its
//! successor has its name and starts after its end.

pub mod containers;
pub mod directory;
pub mod file;
mod index;
pub mod kubernetes;
pub mod no_wake;
pub mod readiness;
mod selector_index;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::api::ScaleTargetRef;
use autoscaler::contract::selector::Selector;
use autoscaler::routing::proximity::Proximity;
use autoscaler::scaling::pod_start::StartCause;
use autoscaler::settings::{Pause, SidecarMode};
use autoscaler::{Key, Protocol};

use proxy::timeouts::request_timer::Timeouts;

use containers::{AppPort, Containers, NamedPort, QueueProxy};
use no_wake::NoWake;
use readiness::PodProbe;

pub use index::WorkloadIndex;

/// The namespaces with a workload without a sidecar, in which pods of all kinds are watched.
pub type Namespaces = BTreeSet<String>;

/// A change of one object of the cluster; `None` if it was deleted.
#[derive(Clone, Debug, PartialEq)]
pub enum ClusterChange {
    Workload(Key, Option<Workload>),
    /// A pod, by its namespace and a name that no other source of pods uses.
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
    /// Whether its pods need a queue-proxy.
    pub sidecar: SidecarMode,
    /// Requests that a pod without a limit of its own serves at a time; 0 means no limit.
    pub container_concurrency: u32,
    /// How many activators carry it while its Service leads to them; 0 is all.
    pub activators: u32,
    /// Whether it stays at zero, so that requests do not wake it. A pause ends at its end, also if
    /// no zero-scaler has written that.
    pub pause: Pause,
    /// Whether its Service leads to the pods: requests then arrive only over existing connections.
    pub serving: bool,
    /// How long its requests may wait for a pod, instead of the process's default.
    pub wake_timeout: Option<Duration>,
    /// How many of its requests may wait, instead of the process's default.
    pub queue_depth: Option<usize>,
    /// Timeouts of its requests; none if its pods have queue-proxies, which apply their own.
    pub timeouts: Timeouts,
    /// Rules of requests that are not load of the workload; `None` if it has none.
    pub no_wake: Option<Arc<NoWake>>,
    /// Whether browsers get a page while there is no pod.
    pub waiting_page: bool,
    /// Whether streams of server-sent events are kept alive while they are held.
    pub sse_keep_alive: bool,
    /// What is observed of each of its pods; `None` if nothing is.
    pub observation: Option<Observation>,
    /// Why its pods do not start, if the zero-scaler has found a cause.
    pub start_failure: Option<Arc<StartFailure>>,
    /// The object that the fallback waker may scale.
    pub wake_target: Option<ScaleTargetRef>,
    /// The ports on which its requests arrive.
    pub ports: Vec<LeasedPort>,
}

/// What is observed of each pod, for a target that is learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The latency objective, against which misses count.
    pub objective: Option<Duration>,
}

/// A port of this process that is leased to one port of one workload's Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasedPort {
    /// The port of this process.
    pub activator_port: u16,
    /// The port of the pods' queue-proxies that takes the requests, and probes, as a workloads file
    /// states it. `None` in a cluster, where each pod declares its own.
    pub pod_port: Option<u16>,
    /// The app's own port, which pods without a queue-proxy take requests on. Only of a workload
    /// that needs no sidecar.
    pub app_port: Option<AppPort>,
    /// The protocol of the Service's port.
    pub protocol: Protocol,
}

/// What keeps the pods of a workload from starting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartFailure {
    pub cause: StartCause,
    /// What the pods wait for, in the words of Kubernetes: a node, a taint, a quota. `None` for
    /// other causes, whose messages name images and Secrets that clients may not read.
    pub awaited: Option<Arc<str>>,
    /// Whether requests should no longer be held.
    pub given_up: bool,
}

/// One pod, reduced to what an activator needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    /// Distinguishes a pod from its successor of the same name.
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    /// The address, once its sandbox is up.
    pub ip: Option<IpAddr>,
    /// Whether it has a node.
    pub scheduled: bool,
    /// How far that node is from this process.
    pub proximity: Proximity,
    /// Its Ready condition.
    pub ready: bool,
    /// Whether its Ready condition was true when it was persisted by an earlier process.
    pub was_ready: bool,
    /// Whether it is being deleted, or has ended.
    pub ending: bool,
    /// Whether its successor can start only after its end.
    pub delays_successor: bool,
    /// Whether it has the label that requests a queue-proxy.
    pub injected: bool,
    /// Its queue-proxy, if it has one.
    pub queue_proxy: QueueProxy,
    /// Its containers, if it has no queue-proxy.
    pub containers: Option<Containers>,
}

/// A pod that may take requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEndpoint {
    pub uid: String,
    pub ip: IpAddr,
    /// How far it is from this process.
    pub proximity: Proximity,
    /// Its Ready condition.
    pub ready: bool,
    /// Whether it is being deleted, so that it takes requests only while no other pod does.
    pub draining: bool,
    /// How requests reach it.
    pub route: PodRoute,
    /// What verifies that it takes requests, beside its Ready condition; `None` if nothing else
    /// does.
    pub probe: Option<PodProbe>,
}

/// How requests reach a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodRoute {
    /// By its queue-proxy.
    QueueProxy(QueueProxy),
    /// Directly to its app, which may have named ports.
    App(Arc<[NamedPort]>),
}

// === impl Pod ===

impl Pod {
    /// Whether it will get an address.
    fn is_starting(&self) -> bool {
        self.ip.is_none() && !self.ending
    }

    /// The pod as a destination of requests; `None` if it takes none.
    fn endpoint(&self, workload: &Workload) -> Option<PodEndpoint> {
        let draining = self.ending && self.ready && self.delays_successor;
        let ip = self.ip.filter(|_| !self.ending || draining)?;
        let (route, probe) = match (workload.sidecar, &self.containers) {
            // Of a workload that does not need them, pods may still have a queue-proxy.
            (SidecarMode::Required, _) | (SidecarMode::None, None) => {
                (PodRoute::QueueProxy(self.queue_proxy), Some(PodProbe::QueueProxy))
            }
            (SidecarMode::None, Some(containers)) => {
                let ports = workload.app_ports();
                ports.clone().find(|port| containers.resolve(port).is_some())?;
                let probe = PodProbe::of_app(containers, ip, ports, self.ready || self.was_ready);
                (PodRoute::App(containers.named_ports()), probe)
            }
        };
        let (uid, proximity) = (self.uid.clone(), self.proximity);
        let probe = probe.filter(|_| !draining);
        Some(PodEndpoint { uid, ip, proximity, ready: self.ready, draining, route, probe })
    }
}

// === impl Workload ===

impl Workload {
    /// Whether the pod is one of the workload's. Those without a queue-proxy are not, if it is
    /// needed.
    fn selects(&self, pod: &Pod) -> bool {
        (pod.injected || !self.sidecar.is_required())
            && self.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
    }

    /// The pod as a destination of the workload's requests.
    fn endpoint(&self, pod: &Pod) -> Option<PodEndpoint> {
        self.selects(pod).then(|| pod.endpoint(self))?
    }

    /// Whether both have the same destinations.
    fn has_endpoints_of(&self, other: &Self) -> bool {
        let of = |workload: &Self| (workload.sidecar, workload.app_ports().cloned().collect::<Vec<_>>());
        self.selector == other.selector && of(self) == of(other)
    }

    fn app_ports(&self) -> impl Iterator<Item = &AppPort> + Clone {
        self.ports.iter().filter_map(|port| port.app_port.as_ref())
    }
}
