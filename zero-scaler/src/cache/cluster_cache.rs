//! Everything that the watches know, and how one object leads to another.
//!
//! Filled by [`watches`](crate::watches), read by everybody. What is looked at by a reconciler is in one of kube's stores, as
//! its machine wants it; of all else only what is read is kept ([`Known`]). Custom resources are held behind a guard: one object that does
//! not fit our types (written by another version of Rouse, say) is skipped, and the rest of its kind stays visible.

use std::collections::BTreeSet;
use std::sync::Arc;

use autoscaler::Key;
use autoscaler::api::{MetricSpec, PodAutoscaler, ServerlessService, key_of};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::Resource;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::{Lookup, ObjectRef, Store};

use crate::cache::abandoned_targets::AbandonedTargets;
use crate::cache::cached_target::CachedTarget;
use crate::cache::port_leases::PortLeases;
use crate::cache::reverse_index::{ObjectName, ReverseIndex};
use crate::cache::service::Service;
use crate::cache::slice_index::SliceIndex;
use crate::cache::trimmed_store::TrimmedStore;

/// A custom resource, or what was wrong with it.
pub type Guarded<K> = DeserializeGuard<K>;

/// The kind of a Service.
const SERVICE: &str = "Service";

/// What is collected for a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectedMetric {
    /// What.
    pub spec: MetricSpec,
    /// The uid of the PodAutoscaler that it goes with.
    pub owner: Option<String>,
}

/// What the watches know.
pub struct ClusterCache {
    /// All HPAs, also those that are none of ours.
    pub hpas: Store<HorizontalPodAutoscaler>,
    /// What is scaled.
    pub autoscalers: Store<Guarded<PodAutoscaler>>,
    /// What is collected.
    pub metrics: TrimmedStore<CollectedMetric>,
    /// Whose requests are steered.
    pub serverless_services: Store<Guarded<ServerlessService>>,
    /// All Services.
    pub services: TrimmedStore<Service>,
    /// All slices.
    pub slices: SliceIndex,
    /// All Deployments.
    pub deployments: TrimmedStore<CachedTarget>,
    /// All StatefulSets.
    pub stateful_sets: TrimmedStore<CachedTarget>,
    /// Who holds which activator port.
    pub leases: PortLeases,
    /// Who was asleep when its PodAutoscaler went.
    pub left: AbandonedTargets,
    /// HPAs by what they scale.
    pub(crate) hpas_by_target: ReverseIndex,
    /// Workloads by what is scaled.
    pub(crate) workloads_by_target: ReverseIndex,
    /// Workloads by their Services, public and private.
    pub(crate) workloads_by_service: ReverseIndex,
}

// === impl Objects ===

impl std::fmt::Debug for ClusterCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterCache").finish_non_exhaustive()
    }
}

impl ClusterCache {
    /// The HPA of a workload.
    pub fn hpa(&self, key: &Key) -> Option<Arc<HorizontalPodAutoscaler>> {
        get(&self.hpas, &key.namespace, &key.name)
    }

    /// The PodAutoscaler of a workload.
    pub fn autoscaler(&self, key: &Key) -> Option<PodAutoscaler> {
        get(&self.autoscalers, &key.namespace, &key.name)?.0.as_ref().ok().cloned()
    }

    /// Whether there is an object of that name, readable or not.
    pub fn autoscaler_meta(&self, key: &Key) -> Option<kube::api::ObjectMeta> {
        Some(get(&self.autoscalers, &key.namespace, &key.name)?.meta().clone())
    }

    /// What is collected for a workload.
    pub fn metric(&self, key: &Key) -> Option<Arc<CollectedMetric>> {
        self.metrics.get(&key.namespace, &key.name)
    }

    /// The ServerlessService of a workload.
    pub fn serverless_service(&self, key: &Key) -> Option<ServerlessService> {
        get(&self.serverless_services, &key.namespace, &key.name)?.0.as_ref().ok().cloned()
    }

    /// A Service.
    pub fn service(&self, namespace: &str, name: &str) -> Option<Arc<Service>> {
        self.services.get(namespace, name)
    }

    /// The other HPAs that scale what this one scales.
    pub fn sibling_hpas(
        &self,
        key: &Key,
        hpa: &HorizontalPodAutoscaler,
    ) -> Vec<Arc<HorizontalPodAutoscaler>> {
        let target = &hpa.spec.scale_target_ref;
        let all = self.hpas_of_target(&key.namespace, &target.kind, &target.name);
        all.into_iter().filter(|(other, _)| other != key).map(|(_, hpa)| hpa).collect()
    }

    /// The HPAs that scale this object.
    pub fn hpas_of_target(
        &self,
        namespace: &str,
        kind: &str,
        name: &str,
    ) -> Vec<(Key, Arc<HorizontalPodAutoscaler>)> {
        let all = self.hpas_by_target.of(&ObjectName::new(namespace, kind, name));
        all.into_iter().filter_map(|key| Some((key.clone(), self.hpa(&key)?))).collect()
    }

    /// Whether a PodAutoscaler of this namespace cannot be read.
    pub fn has_unreadable(&self, namespace: &str) -> bool {
        let all = self.autoscalers.state();
        all.iter()
            .filter_map(|object| object.0.as_ref().err())
            .any(|invalid| invalid.metadata.namespace.as_deref() == Some(namespace))
    }

    /// All workloads.
    pub fn workloads(&self) -> Vec<Key> {
        self.autoscalers.state().iter().filter_map(|object| key_of(object.as_ref())).collect()
    }

    /// The workloads whose requests come through this Service, or whose private Service it is.
    pub fn workloads_of_service(&self, namespace: &str, service: &str) -> Vec<Key> {
        self.workloads_by_service.of(&ObjectName::new(namespace, SERVICE, service))
    }

    /// The workloads that scale this object.
    pub fn workloads_of_target(&self, namespace: &str, kind: &str, name: &str) -> Vec<Key> {
        self.workloads_by_target.of(&ObjectName::new(namespace, kind, name))
    }

    /// Takes in what an HPA scales, or that it is gone; which others scale that, or what it scaled before?
    pub(crate) fn index_hpa(&self, key: &Key) -> BTreeSet<Key> {
        self.hpas_by_target.set(key, self.hpa(key).map(|hpa| target_of(key, &hpa)).unwrap_or_default())
    }

    /// The same for a PodAutoscaler.
    pub(crate) fn index_autoscaler(&self, key: &Key) -> BTreeSet<Key> {
        let named = self.autoscaler(key).map(|autoscaler| scaled_by(key, &autoscaler)).unwrap_or_default();
        self.workloads_by_target.set(key, named)
    }

    /// The same for a ServerlessService, by its Service; and which ports it holds.
    pub(crate) fn index_serverless_service(&self, key: &Key) -> BTreeSet<Key> {
        let sks = self.serverless_service(key);
        self.leases.see(key, sks.as_ref());
        self.workloads_by_service.set(key, sks.map(|sks| services_of(key, &sks)).unwrap_or_default())
    }

    /// Takes in all HPAs, after a fresh list.
    pub(crate) fn index_hpas(&self) {
        let all = self.hpas.state();
        let named = |hpa: &Arc<HorizontalPodAutoscaler>| {
            let key = key_of(hpa.as_ref())?;
            Some((key.clone(), target_of(&key, hpa)))
        };
        self.hpas_by_target.replace(all.iter().filter_map(named));
    }

    /// Takes in all PodAutoscalers, after a fresh list.
    pub(crate) fn index_autoscalers(&self) {
        let all = self.autoscalers.state();
        let named = |object: &Arc<Guarded<PodAutoscaler>>| {
            let key = key_of(object.as_ref())?;
            Some((key.clone(), scaled_by(&key, object.0.as_ref().ok()?)))
        };
        self.workloads_by_target.replace(all.iter().filter_map(named));
    }

    /// Takes in all ServerlessServices, after a fresh list.
    pub(crate) fn index_serverless_services(&self) {
        let all: BTreeSet<Key> =
            self.serverless_services.state().iter().filter_map(|sks| key_of(sks.as_ref())).collect();
        self.leases.keep(&all);
        self.workloads_by_service.replace(None);
        for key in &all {
            self.index_serverless_service(key);
        }
    }
}

/// What an HPA scales.
fn target_of(key: &Key, hpa: &HorizontalPodAutoscaler) -> Vec<ObjectName> {
    let target = &hpa.spec.scale_target_ref;
    vec![ObjectName::new(&key.namespace, &target.kind, &target.name)]
}

/// What is scaled for a PodAutoscaler.
fn scaled_by(key: &Key, autoscaler: &PodAutoscaler) -> Vec<ObjectName> {
    let target = &autoscaler.spec.scale_target_ref;
    vec![ObjectName::new(&key.namespace, &target.kind, &target.name)]
}

/// The Services of a ServerlessService.
fn services_of(key: &Key, sks: &ServerlessService) -> Vec<ObjectName> {
    let private = sks.status.as_ref().and_then(|status| status.private_service.as_ref());
    let names = [Some(&sks.spec.service), private];
    names.into_iter().flatten().map(|name| ObjectName::new(&key.namespace, SERVICE, name)).collect()
}

fn get<K>(store: &Store<K>, namespace: &str, name: &str) -> Option<Arc<K>>
where
    K: Lookup<DynamicType = ()> + Clone + 'static,
{
    store.get(&ObjectRef::new(name).within(namespace))
}
