//! Pod: the fields of a pod that the process uses.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use autoscaler::api::sidecar_ports;
use autoscaler::contract::QUEUE_PROXY_STATS_PORT;
use component_base::kubernetes::unix_time;
use k8s_openapi::api::core::v1::Pod as KubernetesPod;
use kube::ResourceExt;
use kube::api::ObjectMeta;

use crate::watches::app_containers::{AppContainer, app_containers};
use crate::watches::deletion_cost::DeletionCost;
use crate::watches::pod_template;

/// The fields of a pod that are used here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    pub name: String,
    pub uid: Box<str>,
    /// The pod IP; `None` until it is assigned.
    pub ip: Option<IpAddr>,
    /// The statistics port of its sidecar; the default one if it has no sidecar.
    pub stats_port: u16,
    /// Whether it is running, ready and not being deleted.
    pub ready: bool,
    /// When it became ready, in Unix time; its start time if the condition does not state it.
    pub ready_since: Option<Duration>,
    /// Whether it has neither succeeded nor failed.
    pub exists: bool,
    /// Start time, in Unix time.
    pub started: Option<Duration>,
    /// Identifies what runs in it; `None` if it could not be decoded.
    pub template: Option<u64>,
    /// When it was last killed for its memory, in Unix time.
    pub memory_kill: Option<Duration>,
    /// The containers of the app that have a limit.
    pub app_containers: Box<[AppContainer]>,
    pub deletion_cost: DeletionCost,
    pub labels: BTreeMap<String, String>,
}

// === impl Pod ===

impl Pod {
    /// Where its sidecar reports; `None` until the pod has an address.
    pub fn stats_address(&self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.ip?, self.stats_port))
    }

    /// A pod of which only the metadata could be decoded. It counts as ready without an address: it
    /// may serve requests that no scrape counts, so its workload is neither idle nor without pods.
    pub(super) fn undecodable(metadata: &ObjectMeta) -> Self {
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            uid: uid(metadata),
            ip: None,
            stats_port: QUEUE_PROXY_STATS_PORT,
            ready: metadata.deletion_timestamp.is_none(),
            ready_since: None,
            exists: true,
            started: None,
            template: None,
            memory_kill: None,
            app_containers: Box::default(),
            deletion_cost: DeletionCost::of(metadata),
            labels: metadata.labels.clone().unwrap_or_default(),
        }
    }
}

impl From<&KubernetesPod> for Pod {
    fn from(pod: &KubernetesPod) -> Self {
        let status = pod.status.as_ref();
        let phase = status.and_then(|s| s.phase.as_deref()).unwrap_or_default();
        let conditions = status.and_then(|s| s.conditions.as_deref()).unwrap_or_default();
        let condition = conditions.iter().find(|c| c.type_ == "Ready" && c.status == "True");
        let since = condition.and_then(|c| c.last_transition_time.as_ref());
        Self {
            name: pod.name_any(),
            uid: uid(&pod.metadata),
            ip: status.and_then(|s| s.pod_ip.as_deref()?.parse().ok()),
            stats_port: pod.spec.as_ref().and_then(sidecar_ports).unwrap_or_default().stats,
            ready: phase == "Running" && condition.is_some() && pod.metadata.deletion_timestamp.is_none(),
            ready_since: since.or(status.and_then(|s| s.start_time.as_ref())).and_then(unix_time),
            exists: phase != "Succeeded" && phase != "Failed",
            started: status.and_then(|s| s.start_time.as_ref()).and_then(unix_time),
            template: pod.spec.as_ref().map(pod_template::template_hash),
            memory_kill: status.and_then(pod_template::last_memory_kill),
            app_containers: pod.spec.as_ref().map(|spec| app_containers(spec, status)).unwrap_or_default(),
            deletion_cost: DeletionCost::of(&pod.metadata),
            labels: pod.metadata.labels.clone().unwrap_or_default(),
        }
    }
}

fn uid(metadata: &ObjectMeta) -> Box<str> {
    metadata.uid.as_deref().unwrap_or_default().into()
}
