//! The app of a scenario file, and how a change is merged into it.

use serde::Deserialize;
use serde_yaml_ng::{Mapping, Value};

use super::units::{Bytes, DurationText};
use crate::load::service_time::ServiceTime;
use crate::workload::app::AppModel;
use crate::workload::pod_speeds::{FACTORS, PodSpeeds};

/// `app` of the file.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(tag = "model", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum AppSpec {
    /// Requests beyond `servers` in a pod wait inside the app.
    Queue {
        /// Requests that a pod serves at a time.
        servers: usize,
        /// Time of a request on a server.
        service: ServiceSpec,
        /// Slower requests of a pod that has just started, as before a JIT has compiled its code.
        warm_up: Option<WarmUpSpec>,
        /// Pods that are slower than the others for as long as they run, as on a slow node.
        slow_pods: Option<SlowPodsSpec>,
    },
    /// Processor sharing, then a wait.
    Cpu {
        /// Cores of a pod.
        cores: f64,
        /// CPU time of a request.
        cpu: DurationText,
        /// Wait of a request after its CPU time.
        wait: DurationText,
    },
    /// Killed above the limit, ready again after `podStart`.
    Memory {
        /// Memory without requests.
        base: Bytes,
        /// Memory of a request.
        per_request: Bytes,
        /// Limit of the container.
        limit: Bytes,
        /// Time of a request.
        service: ServiceSpec,
    },
    /// One pool of slots for all pods.
    Dependency {
        /// Slots of all pods together.
        slots: usize,
        /// Time of a request in a slot.
        service: ServiceSpec,
    },
}

/// A service time with its variation.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ServiceSpec {
    pub mean: DurationText,
    /// Coefficient of variation; 1 is exponential, 0 constant.
    #[serde(default)]
    pub cv: f64,
    /// Requests that take longer, as those to a slow endpoint.
    pub slow: Option<SlowRequestsSpec>,
}

/// How many requests are slow, and how much.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SlowRequestsSpec {
    /// Share of all requests.
    pub share: f64,
    /// Factor on the service time.
    pub factor: f64,
}

/// The time for which a new pod is slower, and how much.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WarmUpSpec {
    pub time: DurationText,
    /// Factor on the service time.
    pub factor: f64,
}

/// Which pods are slow, and how much.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SlowPodsSpec {
    /// One pod of so many.
    pub every: u64,
    /// Factor on the service time.
    pub factor: f64,
}

// === impl AppSpec ===

impl AppSpec {
    /// The model of the simulation.
    pub fn model(&self) -> AppModel {
        match *self {
            Self::Queue { servers, .. } => AppModel::Queue { servers },
            Self::Cpu { cores, wait, .. } => AppModel::Cpu { cores, wait: wait.0 },
            Self::Memory { base, per_request, limit, .. } => {
                AppModel::Memory { base: base.0, per_request: per_request.0, limit: limit.0 }
            }
            Self::Dependency { slots, .. } => AppModel::Dependency { slots },
        }
    }

    /// Service time of a request; its CPU time in the CPU model.
    pub fn service_time(&self) -> ServiceTime {
        match self {
            Self::Cpu { cpu, .. } => ServiceTime::Constant(cpu.0),
            Self::Queue { service, .. } | Self::Memory { service, .. } | Self::Dependency { service, .. } => {
                service.time()
            }
        }
    }

    /// Which pods are slower than the app.
    pub fn pod_speeds(&self) -> PodSpeeds {
        let Self::Queue { warm_up, slow_pods, .. } = self else { return PodSpeeds::default() };
        PodSpeeds {
            warm_up: warm_up.map(|WarmUpSpec { time, factor }| (time.0, factor)),
            slow_pods: slow_pods.map(|SlowPodsSpec { every, factor }| (every, factor)),
        }
    }

    /// Mean seconds of a request in an app without load.
    pub fn mean_seconds(&self) -> f64 {
        match self {
            Self::Cpu { cpu, wait, .. } => (cpu.0 + wait.0).as_secs_f64(),
            Self::Queue { service, .. } | Self::Memory { service, .. } | Self::Dependency { service, .. } => {
                service.time().mean().as_secs_f64()
            }
        }
    }

    /// Why the values make no app, if they do not.
    pub fn fault(&self) -> Option<&'static str> {
        match self {
            Self::Queue { servers: 0, .. } => Some("servers must be at least 1"),
            Self::Queue { slow_pods: Some(SlowPodsSpec { every: 0, .. }), .. } => {
                Some("every must be at least 1")
            }
            Self::Queue { .. } if !self.pod_speeds().are_valid() => Some("factor must be from 0.01 to 100"),
            Self::Dependency { slots: 0, .. } => Some("slots must be at least 1"),
            Self::Cpu { cores, .. } if !(cores.is_finite() && *cores > 0.0) => Some("cores must be above 0"),
            Self::Cpu { .. } => None,
            Self::Queue { service, .. } | Self::Memory { service, .. } | Self::Dependency { service, .. } => {
                service.fault()
            }
        }
    }
}

// === impl ServiceSpec ===

impl ServiceSpec {
    fn time(self) -> ServiceTime {
        let (mean, cv) = (self.mean.0, self.cv);
        match self.slow {
            Some(SlowRequestsSpec { share, factor }) => {
                ServiceTime::WithSlow { others: (mean, cv), share, factor }
            }
            None => ServiceTime::Varying(mean, cv),
        }
    }

    fn fault(self) -> Option<&'static str> {
        match self.slow {
            _ if !(0.0..=100.0).contains(&self.cv) => Some("cv must be from 0 to 100"),
            Some(slow) if !(0.0..=1.0).contains(&slow.share) => Some("share must be from 0 to 1"),
            Some(slow) if !FACTORS.contains(&slow.factor) => Some("factor must be from 0.01 to 100"),
            _ => None,
        }
    }
}

/// Merges `change` into `base`: mappings field by field, other values by replacement.
pub fn merge(base: &mut Mapping, change: &Mapping) {
    for (key, value) in change {
        match (base.get_mut(key), value) {
            (Some(Value::Mapping(base)), Value::Mapping(change)) => merge(base, change),
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}
