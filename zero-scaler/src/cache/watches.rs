//! The watches: every kind once, whoever needs it.
//!
//! Each fills a store in [`Objects`] and fires the triggers of what a change concerns. Of an object no more is stored than
//! somebody here reads. A fresh list (at the start, or after a broken watch) may hide deletions, so it fires everything.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use autoscaler::api::{Metric, PodAutoscaler, ServerlessService, key_of};
use autoscaler::contract::GROUP;
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::reflector::{self, store::Writer};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client, Resource};
use prometheus::IntCounterVec;
use runtime::readiness::Readiness;
use serde::de::DeserializeOwned;

use crate::cache::abandoned_targets::AbandonedTargets;
use crate::cache::cached_target::CachedTarget;
use crate::cache::cluster_cache::{ClusterCache, CollectedMetric, Guarded};
use crate::cache::port_leases::PortLeases;
use crate::cache::reverse_index::ReverseIndex;
use crate::cache::service::Service;
use crate::cache::slice_index::{SliceIndex, service_of};
use crate::cache::trimmed_store::TrimmedStore;
use crate::cache::work_queue::WorkQueues;
use crate::controllers::hpa::is_ambiguous;
use crate::kubernetes::server_side_apply::controller_of;

/// The Service whose endpoints are the activators.
pub const ACTIVATOR_SERVICE: &str = "activator";

/// Objects on one page of a list. Before they are trimmed they take ten times what is kept of them, managed fields above all.
const PAGE: u32 = 50;

/// A watch to be spawned. It never ends.
pub type Watch = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a change concerns.
struct Links {
    objects: Arc<ClusterCache>,
    queues: Arc<WorkQueues>,
    system_namespace: String,
}

/// The stores, and the watches that fill them.
pub fn watches(
    client: &Client,
    system_namespace: &str,
    queues: Arc<WorkQueues>,
    errors: &IntCounterVec,
    readiness: &Readiness,
) -> (Arc<ClusterCache>, Vec<Watch>) {
    let (hpas, hpa_writer) = reflector::store();
    let (autoscalers, autoscaler_writer) = reflector::store();
    let (serverless_services, sks_writer) = reflector::store();
    let objects = Arc::new(ClusterCache {
        hpas,
        autoscalers,
        metrics: TrimmedStore::default(),
        serverless_services,
        services: TrimmedStore::default(),
        slices: SliceIndex::default(),
        deployments: TrimmedStore::default(),
        stateful_sets: TrimmedStore::default(),
        leases: PortLeases::default(),
        left: AbandonedTargets::default(),
        hpas_by_target: ReverseIndex::default(),
        workloads_by_target: ReverseIndex::default(),
        workloads_by_service: ReverseIndex::default(),
    });
    let links =
        Arc::new(Links { objects: objects.clone(), queues, system_namespace: system_namespace.to_owned() });
    let kinds = Kinds { client, links, errors, readiness };
    let watches = vec![
        kinds.looked_at("HPAs", hpa_writer, trim_hpa, Links::hpa, Links::all_hpas),
        kinds.looked_at(
            "PodAutoscalers",
            autoscaler_writer,
            trim_own,
            Links::autoscaler,
            Links::all_autoscalers,
        ),
        kinds.looked_at(
            "ServerlessServices",
            sks_writer,
            trim_own,
            Links::serverless_service,
            Links::all_serverless_services,
        ),
        kinds.known("Metrics", |objects| &objects.metrics, read_metric, Links::metric),
        kinds.known("Services", |objects| &objects.services, read_service, Links::service),
        kinds.known(
            "Deployments",
            |objects| &objects.deployments,
            CachedTarget::of_deployment,
            Links::deployment,
        ),
        kinds.known(
            "StatefulSets",
            |objects| &objects.stateful_sets,
            CachedTarget::of_stateful_set,
            Links::stateful_set,
        ),
        kinds.slices(),
    ];
    (objects, watches)
}

/// What all watches share.
struct Kinds<'a> {
    client: &'a Client,
    links: Arc<Links>,
    errors: &'a IntCounterVec,
    readiness: &'a Readiness,
}

// === impl Kinds ===

impl Kinds<'_> {
    /// A kind whose objects have a reconciler.
    fn looked_at<K>(
        &self,
        name: &'static str,
        mut writer: Writer<K>,
        trim: fn(&mut K),
        one: fn(&Links, &K),
        all: fn(&Links),
    ) -> Watch
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        self.follow(name, move |links, mut event| {
            if let Event::Apply(object) | Event::InitApply(object) = &mut event {
                trim(object);
            }
            writer.apply_watcher_event(&event);
            match &event {
                Event::Apply(object) | Event::Delete(object) => one(links, object),
                Event::InitDone => all(links),
                Event::Init | Event::InitApply(_) => {}
            }
        })
    }

    /// A kind of which others need to know something.
    fn known<K, T>(
        &self,
        name: &'static str,
        known: fn(&ClusterCache) -> &TrimmedStore<T>,
        read: fn(&K) -> Option<T>,
        one: fn(&Links, &K),
    ) -> Watch
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        T: 'static,
    {
        self.follow(name, move |links, event| {
            known(&links.objects).apply(&event, read);
            match &event {
                Event::Apply(object) | Event::Delete(object) => one(links, object),
                Event::InitDone => links.everything(),
                Event::Init | Event::InitApply(_) => {}
            }
        })
    }

    fn slices(&self) -> Watch {
        self.follow("EndpointSlices", |links, mut event: Event<EndpointSlice>| {
            if let Event::Apply(slice) | Event::InitApply(slice) = &mut event {
                trim_slice(slice);
            }
            links.objects.slices.apply(&event);
            match &event {
                Event::Apply(slice) | Event::Delete(slice) => links.slice(slice),
                Event::InitDone => links.everything(),
                Event::Init | Event::InitApply(_) => {}
            }
        })
    }

    fn follow<K>(&self, name: &'static str, mut take: impl FnMut(&Links, Event<K>) + Send + 'static) -> Watch
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let mut latch = Some(self.readiness.latch(name));
        let config = watcher::Config::default().page_size(PAGE);
        let events = watch(Api::<K>::all(self.client.clone()), config).default_backoff();
        let links = self.links.clone();
        let failures = self.errors.with_label_values(&[name]);
        Box::pin(async move {
            pin_mut!(events);
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) => {
                        let listed = matches!(event, Event::InitDone);
                        take(&links, event);
                        if listed {
                            latch = None;
                        }
                    }
                    Err(error) => {
                        failures.inc();
                        tracing::warn!(kind = name, %error, "watch failed; it is tried again");
                    }
                }
            }
            drop(latch);
        })
    }
}

// === impl Links ===

impl Links {
    fn everything(&self) {
        self.queues.everything(&self.objects);
    }

    fn all_hpas(&self) {
        self.objects.index_hpas();
        self.everything();
    }

    fn all_autoscalers(&self) {
        self.objects.index_autoscalers();
        self.everything();
    }

    fn all_serverless_services(&self) {
        self.objects.index_serverless_services();
        self.everything();
    }

    fn hpa(&self, hpa: &HorizontalPodAutoscaler) {
        let Some(key) = key_of(hpa) else { return };
        for sibling in self.objects.index_hpa(&key) {
            self.queues.hpas.enqueue(sibling.clone());
            self.queues.autoscalers.enqueue(sibling);
        }
        self.queues.autoscalers.enqueue(key.clone());
        self.queues.hpas.enqueue(key);
    }

    fn autoscaler(&self, autoscaler: &Guarded<PodAutoscaler>) {
        if let Err(invalid) = &autoscaler.0 {
            let (namespace, name) = (&invalid.metadata.namespace, &invalid.metadata.name);
            tracing::warn!(
                ?namespace,
                ?name,
                error = invalid.error,
                "a PodAutoscaler that cannot be read is skipped"
            );
        }
        let Some(key) = key_of(autoscaler) else { return };
        for rival in self.objects.index_autoscaler(&key) {
            self.queues.autoscalers.enqueue(rival);
        }
        // Which of several has a Service is read from their PodAutoscalers.
        for rival in self.objects.workloads_by_service.others(&key) {
            self.queues.serverless_services.enqueue(rival);
            self.queues.serverless_services.enqueue(key.clone());
        }
        if let Ok(autoscaler) = &autoscaler.0
            && self.objects.autoscaler_meta(&key).is_none()
        {
            self.objects.left.by(&key.namespace, autoscaler);
        }
        self.queues.hpas.enqueue(key.clone());
        self.queues.autoscalers.enqueue(key);
    }

    fn metric(&self, metric: &Guarded<Metric>) {
        key_of(metric).into_iter().for_each(|key| self.queues.autoscalers.enqueue(key));
    }

    fn serverless_service(&self, sks: &Guarded<ServerlessService>) {
        let Some(key) = key_of(sks) else { return };
        for rival in self.objects.index_serverless_service(&key) {
            self.queues.serverless_services.enqueue(rival);
        }
        self.queues.autoscalers.enqueue(key.clone());
        self.queues.serverless_services.enqueue(key);
    }

    fn service(&self, service: &Service) {
        let Some(key) = key_of(service) else { return };
        self.through_service(&key.namespace, &key.name);
    }

    fn slice(&self, slice: &EndpointSlice) {
        let Some((namespace, service)) = service_of(slice) else { return };
        if namespace == self.system_namespace && service == ACTIVATOR_SERVICE {
            self.queues.serverless_services.enqueue_all(&self.objects.serverless_services);
        }
        self.through_service(&namespace, &service);
    }

    fn through_service(&self, namespace: &str, service: &str) {
        for key in self.objects.workloads_of_service(namespace, service) {
            self.queues.autoscalers.enqueue(key.clone());
            self.queues.serverless_services.enqueue(key);
        }
    }

    fn deployment(&self, deployment: &Deployment) {
        self.target("Deployment", &deployment.metadata);
    }

    fn stateful_set(&self, stateful_set: &StatefulSet) {
        self.target("StatefulSet", &stateful_set.metadata);
    }

    fn target(&self, kind: &str, meta: &kube::api::ObjectMeta) {
        let (Some(namespace), Some(name)) = (&meta.namespace, &meta.name) else { return };
        for key in self.objects.workloads_of_target(namespace, kind, name) {
            self.queues.autoscalers.enqueue(key);
        }
    }
}

/// What others keep in annotations may be as large as the object: kubectl keeps the whole of it. The status changes each time that
/// an HPA looks at its metric, and says little to us.
fn trim_hpa(hpa: &mut HorizontalPodAutoscaler) {
    trim_own(hpa);
    if let Some(status) = &mut hpa.status {
        status.current_metrics = None;
        let conditions = status.conditions.take().unwrap_or_default();
        status.conditions = Some(conditions.into_iter().filter(is_ambiguous).collect());
    }
    if let Some(annotations) = &mut hpa.metadata.annotations {
        annotations.retain(|key, _| key.split_once('/').is_some_and(|(prefix, _)| prefix == GROUP));
    }
}

fn trim_slice(slice: &mut EndpointSlice) {
    trim(slice);
    slice.metadata.annotations = None;
}

/// What is collected, if it can be read.
fn read_metric(metric: &Guarded<Metric>) -> Option<CollectedMetric> {
    let metric = metric.0.as_ref().ok()?;
    Some(CollectedMetric {
        spec: metric.spec.clone(),
        owner: controller_of(metric).map(|owner| owner.uid.clone()),
    })
}

fn read_service(service: &Service) -> Option<Service> {
    Some(service.trimmed())
}

/// Of our own objects the labels are for people.
fn trim_own<K: Resource>(object: &mut K) {
    trim(object);
    object.meta_mut().labels = None;
}

/// Nobody here reads the managed fields of these.
fn trim<K: Resource>(object: &mut K) {
    object.meta_mut().managed_fields = None;
}
