//! Everything that the watches know, and how one object leads to another.
//!
//! Filled by [`watches`](crate::watches), read by everybody. Custom resources are held behind a guard: one object that does
//! not fit our types (written by another version of Rouse, say) is skipped, and the rest of its kind stays visible.

use std::sync::Arc;

use autoscaler::Key;
use autoscaler::api::{Metric, PodAutoscaler, ScaleTargetRef, ServerlessService, key_of};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Service;
use kube::Resource;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::{Lookup, ObjectRef, Store};

use crate::slice_index::SliceIndex;

/// A custom resource, or what was wrong with it.
pub type Guarded<K> = DeserializeGuard<K>;

/// What the watches know.
pub struct Objects {
    /// All HPAs, also those that are none of ours.
    pub hpas: Store<HorizontalPodAutoscaler>,
    /// What is scaled.
    pub autoscalers: Store<Guarded<PodAutoscaler>>,
    /// What is collected.
    pub metrics: Store<Guarded<Metric>>,
    /// Whose requests are steered.
    pub serverless_services: Store<Guarded<ServerlessService>>,
    /// All Services.
    pub services: Store<Service>,
    /// All slices.
    pub slices: SliceIndex,
    /// All Deployments, trimmed to their size.
    pub deployments: Store<Deployment>,
    /// All StatefulSets, trimmed to their size.
    pub stateful_sets: Store<StatefulSet>,
}

// === impl Objects ===

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects").finish_non_exhaustive()
    }
}

impl Objects {
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

    /// The Metric of a workload.
    pub fn metric(&self, key: &Key) -> Option<Metric> {
        get(&self.metrics, &key.namespace, &key.name)?.0.as_ref().ok().cloned()
    }

    /// The ServerlessService of a workload.
    pub fn serverless_service(&self, key: &Key) -> Option<ServerlessService> {
        get(&self.serverless_services, &key.namespace, &key.name)?.0.as_ref().ok().cloned()
    }

    /// A Service.
    pub fn service(&self, namespace: &str, name: &str) -> Option<Arc<Service>> {
        get(&self.services, namespace, name)
    }

    /// The other HPAs of a namespace.
    pub fn sibling_hpas(&self, key: &Key) -> Vec<Arc<HorizontalPodAutoscaler>> {
        self.hpas.state_filter(|hpa| {
            hpa.metadata.namespace.as_deref() == Some(&key.namespace)
                && hpa.metadata.name.as_deref() != Some(&key.name)
        })
    }

    /// All workloads.
    pub fn workloads(&self) -> Vec<Key> {
        self.autoscalers.state().iter().filter_map(|object| key_of(object.as_ref())).collect()
    }

    /// The workloads whose requests come through this Service, or whose private Service it is.
    pub fn workloads_of_service(&self, namespace: &str, service: &str) -> Vec<Key> {
        let concerned = |sks: &ServerlessService| {
            let private = sks.status.as_ref().and_then(|s| s.private_service.as_deref());
            sks.spec.service == service || private == Some(service)
        };
        self.serverless_services
            .state_filter(|object| {
                object.meta().namespace.as_deref() == Some(namespace)
                    && object.0.as_ref().is_ok_and(concerned)
            })
            .iter()
            .filter_map(|object| key_of(object.as_ref()))
            .collect()
    }

    /// The workloads that scale this object.
    pub fn workloads_of_target(&self, namespace: &str, kind: &str, name: &str) -> Vec<Key> {
        let targets = |target: &ScaleTargetRef| target.kind == kind && target.name == name;
        self.autoscalers
            .state_filter(|object| {
                object.meta().namespace.as_deref() == Some(namespace)
                    && object.0.as_ref().is_ok_and(|pa| targets(&pa.spec.scale_target_ref))
            })
            .iter()
            .filter_map(|object| key_of(object.as_ref()))
            .collect()
    }
}

fn get<K>(store: &Store<K>, namespace: &str, name: &str) -> Option<Arc<K>>
where
    K: Lookup<DynamicType = ()> + Clone + 'static,
{
    store.get(&ObjectRef::new(name).within(namespace))
}
