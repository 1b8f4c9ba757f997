//! NamespaceObjects: the objects of one namespace, which its workloads share. `read_namespace`
//! reads it.

use std::collections::BTreeMap;

use autoscaler::api::{Metric, PodAutoscaler};
use autoscaler::findings::inference_pool::InferencePool;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Namespace, Pod, PodTemplateSpec, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{Resource, ResourceExt};

use super::fetched::Fetched;
use super::front_door::FrontDoor;
use super::peer_authentication::PeerAuthentication;
use super::selection::matches;
use super::selection::service_monitor::ServiceMonitor;

/// The objects of one namespace. A list that could not be read is empty, or `None` where an absent
/// object would be a finding.
#[derive(Clone, Debug)]
pub struct NamespaceObjects {
    pub name: String,
    /// The namespace itself.
    pub object: Fetched<Namespace>,
    pub autoscalers: Vec<PodAutoscaler>,
    pub metrics: Vec<Metric>,
    /// HPAs.
    pub hpas: Vec<HorizontalPodAutoscaler>,
    pub events: Vec<Event>,
    pub deployments: Option<Vec<Deployment>>,
    pub stateful_sets: Option<Vec<StatefulSet>>,
    pub services: Option<Vec<Service>>,
    pub slices: Vec<EndpointSlice>,
    pub pods: Vec<Pod>,
    /// Ingresses and routes of the Gateway API.
    pub front_doors: Vec<FrontDoor>,
    pub inference_pools: Vec<InferencePool>,
    /// Those that select Services here, of all namespaces.
    pub service_monitors: Vec<ServiceMonitor>,
    /// Those of the whole mesh as well.
    pub peer_authentications: Vec<PeerAuthentication>,
    pub network_policies: Vec<NetworkPolicy>,
    pub disruption_budgets: Vec<PodDisruptionBudget>,
    /// Objects of other autoscalers.
    pub other_scalers: Vec<OtherScaler>,
}

/// An object by which another program than Rouse writes the size of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherScaler {
    /// Its kind and name, such as `ScaledObject shop/web`.
    pub object: String,
    /// Kind and name of its target.
    pub target: (String, String),
}

/// What the spec of a target has.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Selects its pods.
    pub selector: &'a LabelSelector,
    pub template: &'a PodTemplateSpec,
}

// === impl NamespaceObjects ===

impl NamespaceObjects {
    /// A Deployment or StatefulSet; `None` for other kinds.
    pub fn target(&self, (kind, name): &(String, String)) -> Option<Target<'_>> {
        match kind.as_str() {
            "Deployment" => named(self.deployments.as_deref()?, name).map(target_of_deployment),
            "StatefulSet" => named(self.stateful_sets.as_deref()?, name).map(target_of_stateful_set),
            _ => None,
        }
    }

    /// Whether it is certain that this Deployment or StatefulSet does not exist.
    pub fn lacks(&self, (kind, name): &(String, String)) -> bool {
        match kind.as_str() {
            "Deployment" => self.deployments.as_ref().is_some_and(|all| named(all, name).is_none()),
            "StatefulSet" => self.stateful_sets.as_ref().is_some_and(|all| named(all, name).is_none()),
            _ => false,
        }
    }

    /// All Deployments and StatefulSets, with kind and name.
    pub fn targets(&self) -> impl Iterator<Item = ((String, String), Target<'_>)> {
        let deployments = self.deployments.iter().flatten();
        let sets = self.stateful_sets.iter().flatten();
        deployments
            .map(|it| (("Deployment".to_owned(), it.name_any()), target_of_deployment(it)))
            .chain(sets.map(|it| (("StatefulSet".to_owned(), it.name_any()), target_of_stateful_set(it))))
    }

    /// The pods that a selector selects, without those that are being deleted.
    pub fn pods_of(&self, selector: &LabelSelector) -> Vec<Pod> {
        let ending = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
        let pods = self.pods.iter().filter(|pod| !ending(pod) && matches(selector, pod.labels()));
        pods.cloned().collect()
    }

    /// The last warning about an object, of a controller with `by` in its name.
    pub fn last_warning(&self, kind: &str, name: &str, by: &str) -> Option<&Event> {
        let about = self.events.iter().filter(|event| {
            let object = event.regarding.as_ref();
            object.is_some_and(|it| it.kind.as_deref() == Some(kind) && it.name.as_deref() == Some(name))
                && event.type_.as_deref() == Some("Warning")
                && event.reporting_controller.as_deref().unwrap_or_default().contains(by)
        });
        about.max_by_key(|event| event.metadata.creation_timestamp.as_ref().map(|time| time.0))
    }

    /// Labels of the namespace; `None` if they could not be read.
    pub fn labels(&self) -> Option<&BTreeMap<String, String>> {
        self.object.found().map(ResourceExt::labels)
    }
}

/// The object of a name.
pub fn named<'a, K: Resource>(objects: &'a [K], name: &str) -> Option<&'a K> {
    objects.iter().find(|object| object.meta().name.as_deref() == Some(name))
}

fn target_of_deployment(deployment: &Deployment) -> Target<'_> {
    Target { selector: &deployment.spec.selector, template: &deployment.spec.template }
}

fn target_of_stateful_set(set: &StatefulSet) -> Target<'_> {
    Target { selector: &set.spec.selector, template: &set.spec.template }
}
