//! ClusterCache: copies of all watched objects, and the indexes between them.
//!
//! Filled by the watches of this folder, read by the controllers. Objects with a reconciler are in
//! stores of kube, of the others only the used fields are kept ([`TrimmedStore`]). An object that
//! does not match the types here (one of another version of Rouse, for example) is kept as
//! undecodable: it exists, and nothing is written that would follow from it.

use std::collections::BTreeSet;
use std::sync::Arc;

use autoscaler::Key;
use autoscaler::api::{MetricSpec, PodAutoscaler, ServerlessService, WorkloadPhase, key_of};
use autoscaler::contract::short_name::private_name;
use autoscaler::scaling::savings::ResourceTime;
use component_base::kubernetes::Decoded;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Service;
use kube::Resource;
use kube::runtime::reflector::{Lookup, ObjectRef, Store};

use crate::cache::abandoned_targets::AbandonedTargets;
use crate::cache::cached_target::CachedTarget;
use crate::cache::port_leases::PortLeases;
use crate::cache::reverse_index::{ObjectName, ReverseIndex};
use crate::cache::slice_index::SliceIndex;
use crate::cache::trimmed_store::TrimmedStore;
use crate::clock::now;

/// The kind of a Service.
const SERVICE: &str = "Service";

/// The collected metric of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectedMetric {
    pub spec: MetricSpec,
    /// The uid of the PodAutoscaler that controls it.
    pub owner: Option<String>,
}

/// Copies of all watched objects.
pub struct ClusterCache {
    /// All HPAs, managed by Rouse or not.
    pub hpas: Store<Decoded<HorizontalPodAutoscaler>>,
    pub autoscalers: Store<Decoded<PodAutoscaler>>,
    pub metrics: TrimmedStore<CollectedMetric>,
    pub serverless_services: Store<Decoded<ServerlessService>>,
    pub services: TrimmedStore<Service>,
    /// All EndpointSlices.
    pub slices: SliceIndex,
    pub deployments: TrimmedStore<CachedTarget>,
    pub stateful_sets: TrimmedStore<CachedTarget>,
    /// The leases of activator ports.
    pub leases: PortLeases,
    /// Targets at zero whose PodAutoscaler was deleted.
    pub abandoned_targets: AbandonedTargets,
    /// HPAs by their target.
    pub(crate) hpas_by_target: ReverseIndex,
    pub(crate) workloads_by_target: ReverseIndex,
    /// Workloads by their Services, public and private.
    pub(crate) workloads_by_service: ReverseIndex,
}

// === impl ClusterCache ===

impl std::fmt::Debug for ClusterCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterCache").finish_non_exhaustive()
    }
}

impl ClusterCache {
    /// The objects of these stores, and none of the other kinds.
    pub(super) fn new(
        hpas: Store<Decoded<HorizontalPodAutoscaler>>,
        autoscalers: Store<Decoded<PodAutoscaler>>,
        serverless_services: Store<Decoded<ServerlessService>>,
        leases: PortLeases,
    ) -> Self {
        Self {
            hpas,
            autoscalers,
            metrics: TrimmedStore::default(),
            serverless_services,
            services: TrimmedStore::default(),
            slices: SliceIndex::default(),
            deployments: TrimmedStore::default(),
            stateful_sets: TrimmedStore::default(),
            leases,
            abandoned_targets: AbandonedTargets::default(),
            hpas_by_target: ReverseIndex::default(),
            workloads_by_target: ReverseIndex::default(),
            workloads_by_service: ReverseIndex::default(),
        }
    }

    /// The HPA of a workload.
    pub fn hpa(&self, key: &Key) -> Option<Arc<HorizontalPodAutoscaler>> {
        get(&self.hpas, &key.namespace, &key.name)?.0.as_ref().ok().cloned()
    }

    /// Why the HPA of a workload could not be decoded, if it exists and could not.
    pub fn hpa_error(&self, key: &Key) -> Option<String> {
        let hpa = get(&self.hpas, &key.namespace, &key.name)?;
        hpa.0.as_ref().err().map(|undecodable| undecodable.error.clone())
    }

    /// The PodAutoscaler of a workload.
    pub fn autoscaler(&self, key: &Key) -> Option<Arc<PodAutoscaler>> {
        get(&self.autoscalers, &key.namespace, &key.name)?.0.as_ref().ok().cloned()
    }

    /// The metadata of a PodAutoscaler, decodable or not.
    pub fn autoscaler_meta(&self, key: &Key) -> Option<kube::api::ObjectMeta> {
        Some(get(&self.autoscalers, &key.namespace, &key.name)?.meta().clone())
    }

    /// The collected metric of a workload.
    pub fn metric(&self, key: &Key) -> Option<Arc<CollectedMetric>> {
        self.metrics.get(&key.namespace, &key.name)
    }

    /// The ServerlessService of a workload.
    pub fn serverless_service(&self, key: &Key) -> Option<ServerlessService> {
        get(&self.serverless_services, &key.namespace, &key.name)?.0.as_deref().ok().cloned()
    }

    pub fn service(&self, namespace: &str, name: &str) -> Option<Arc<Service>> {
        self.services.get(namespace, name)
    }

    /// The other HPAs with the same target.
    pub fn sibling_hpas(
        &self,
        key: &Key,
        hpa: &HorizontalPodAutoscaler,
    ) -> Vec<Arc<HorizontalPodAutoscaler>> {
        let target = &hpa.spec.scale_target_ref;
        let all = self.hpas_of_target(&key.namespace, &target.kind, &target.name);
        all.into_iter().filter(|(other, _)| other != key).map(|(_, hpa)| hpa).collect()
    }

    /// The HPAs with this target.
    pub fn hpas_of_target(
        &self,
        namespace: &str,
        kind: &str,
        name: &str,
    ) -> Vec<(Key, Arc<HorizontalPodAutoscaler>)> {
        let all = self.hpas_by_target.of(&ObjectName::new(namespace, kind, name));
        all.into_iter().filter_map(|key| Some((key.clone(), self.hpa(&key)?))).collect()
    }

    /// Whether a PodAutoscaler of this namespace is undecodable.
    pub fn has_undecodable_autoscaler(&self, namespace: &str) -> bool {
        let all = self.autoscalers.state();
        all.iter()
            .filter_map(|object| object.0.as_ref().err())
            .any(|undecodable| undecodable.metadata.namespace.as_deref() == Some(namespace))
    }

    pub fn workloads(&self) -> Vec<Key> {
        self.autoscalers.state().iter().filter_map(|object| key_of(object.as_ref())).collect()
    }

    /// What all workloads together saved until `now`.
    pub fn savings(&self, now: jiff::Timestamp) -> ResourceTime {
        let all = self.autoscalers.state();
        let statuses = all.iter().filter_map(|object| object.0.as_ref().ok()?.status.as_ref());
        let savings = statuses.filter_map(|status| status.savings.as_ref());
        savings.fold(ResourceTime::default(), |total, savings| total.plus(savings.at(now)))
    }

    /// The number of workloads in this phase.
    pub fn in_phase(&self, phase: WorkloadPhase) -> usize {
        let all = self.autoscalers.state();
        let statuses = all.iter().filter_map(|object| object.0.as_ref().ok()?.status.as_ref());
        statuses.filter(|status| status.phase == Some(phase)).count()
    }

    /// The workloads with this public or private Service.
    pub fn workloads_of_service(&self, namespace: &str, service: &str) -> Vec<Key> {
        self.workloads_by_service.of(&ObjectName::new(namespace, SERVICE, service))
    }

    pub fn workloads_of_target(&self, namespace: &str, kind: &str, name: &str) -> Vec<Key> {
        self.workloads_by_target.of(&ObjectName::new(namespace, kind, name))
    }

    /// Indexes the target of an HPA. Returns the other HPAs, and the workloads, with its new or its
    /// previous target.
    pub(crate) fn index_hpa(&self, key: &Key) -> BTreeSet<Key> {
        let after = self.hpa(key).map(|hpa| target_of(key, &hpa)).unwrap_or_default();
        let targets: Vec<ObjectName> =
            self.hpas_by_target.objects_of(key).into_iter().chain(after.clone()).collect();
        let mut rivals = self.hpas_by_target.set(key, after);
        rivals.extend(targets.iter().flat_map(|target| self.workloads_by_target.of(target)));
        rivals
    }

    /// The same for a PodAutoscaler.
    pub(crate) fn index_autoscaler(&self, key: &Key) -> BTreeSet<Key> {
        let named = self.autoscaler(key).map(|autoscaler| scaled_by(key, &autoscaler)).unwrap_or_default();
        self.workloads_by_target.set(key, named)
    }

    /// The same for a ServerlessService by its Services, and for its port leases.
    pub(crate) fn index_serverless_service(&self, key: &Key) -> BTreeSet<Key> {
        let sks = self.serverless_service(key);
        self.leases.observe(key, sks.as_ref(), now());
        self.workloads_by_service.set(key, sks.map(|sks| services_of(key, &sks)).unwrap_or_default())
    }

    /// Indexes all HPAs, after a new list.
    pub(crate) fn index_hpas(&self) {
        let all = self.hpas.state();
        let named = |hpa: &Arc<Decoded<HorizontalPodAutoscaler>>| {
            let key = key_of(hpa.as_ref())?;
            Some((key.clone(), target_of(&key, hpa.0.as_ref().ok()?)))
        };
        self.hpas_by_target.replace(all.iter().filter_map(named));
    }

    /// Indexes all PodAutoscalers, after a new list.
    pub(crate) fn index_autoscalers(&self) {
        let all = self.autoscalers.state();
        let named = |object: &Arc<Decoded<PodAutoscaler>>| {
            let key = key_of(object.as_ref())?;
            Some((key.clone(), scaled_by(&key, object.0.as_ref().ok()?)))
        };
        self.workloads_by_target.replace(all.iter().filter_map(named));
    }

    /// Indexes all ServerlessServices, after a new list.
    pub(crate) fn index_serverless_services(&self) {
        let listed = self.serverless_services.state();
        let created = |sks: &Decoded<ServerlessService>| {
            sks.meta().creation_timestamp.as_ref().map_or(i64::MAX, |time| time.0.as_second())
        };
        // From the oldest on: of two that claim a port, the first has it.
        let all: BTreeSet<(i64, Key)> =
            listed.iter().filter_map(|sks| Some((created(sks), key_of(sks.as_ref())?))).collect();
        self.leases.retain(&all.iter().map(|(_, key)| key.clone()).collect(), now());
        self.workloads_by_service.replace(None);
        for (_, key) in &all {
            self.index_serverless_service(key);
        }
    }
}

/// The target of an HPA.
fn target_of(key: &Key, hpa: &HorizontalPodAutoscaler) -> Vec<ObjectName> {
    let target = &hpa.spec.scale_target_ref;
    vec![ObjectName::new(&key.namespace, &target.kind, &target.name)]
}

/// The target of a PodAutoscaler.
fn scaled_by(key: &Key, autoscaler: &PodAutoscaler) -> Vec<ObjectName> {
    let target = &autoscaler.spec.scale_target_ref;
    vec![ObjectName::new(&key.namespace, &target.kind, &target.name)]
}

/// The Services of a ServerlessService. The private one counts also while a Service of a user has
/// its name: the workload waits for that to change.
fn services_of(key: &Key, sks: &ServerlessService) -> Vec<ObjectName> {
    let private = private_name(&sks.spec.service);
    let previous = sks.status.as_ref().and_then(|status| status.private_service.as_ref());
    let names = [Some(&sks.spec.service), Some(&private), previous.filter(|name| **name != private)];
    names.into_iter().flatten().map(|name| ObjectName::new(&key.namespace, SERVICE, name)).collect()
}

fn get<K>(store: &Store<K>, namespace: &str, name: &str) -> Option<Arc<K>>
where
    K: Lookup<DynamicType = ()> + Clone + 'static,
{
    store.get(&ObjectRef::new(name).within(namespace))
}
