//! Watches of all API resources, one each.
//!
//! Each fills a store of [`ClusterCache`] and enqueues the objects that a change affects. Objects
//! are trimmed to the fields that are read. A new list (at the start or after a broken watch) may
//! hide deletions, so it enqueues every object. An undecodable object is stored as such.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;

use autoscaler::Key;
use autoscaler::api::{Metric, PodAutoscaler, ServerlessService, key_of};
use autoscaler::contract::WORKLOAD_LABEL;
use autoscaler::findings::annotations::name_of_group;
use autoscaler::findings::hpa::{is_ambiguous, is_metric_failure};
use component_base::kubernetes::{Decoded, logged, watch_objects};
use component_base::readiness::Readiness;
use futures::{StreamExt, TryStreamExt, pin_mut};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ObjectMeta;
use kube::runtime::reflector::{self, ObjectRef, Store, store::Writer};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::cache::cached_target::CachedTarget;
use crate::cache::cluster_cache::{ClusterCache, CollectedMetric};
use crate::cache::last_activation::may_be_at_zero;
use crate::cache::port_leases::PortLeases;
use crate::cache::service::trimmed;
use crate::cache::slice_index::service_of;
use crate::cache::trimmed_store::TrimmedStore;
use crate::cache::work_queue::WorkQueues;
use crate::clock::now;
use crate::kubernetes::server_side_apply::controller_of;
use crate::metrics::Metrics;

/// The Service whose endpoints are the activators.
pub const ACTIVATOR_SERVICE: &str = "activator";

/// Objects per page of a list. Untrimmed objects take ten times the memory, mostly for managed
/// fields.
const PAGE_SIZE: u32 = 50;

/// A watch to be spawned. It never ends.
pub type Watch = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Enqueues the objects that a change affects.
struct Links {
    cache: Arc<ClusterCache>,
    queues: Arc<WorkQueues>,
    system_namespace: String,
}

/// The stores, and the watches that fill them.
pub fn watches(
    client: &Client,
    system_namespace: &str,
    ports_per_namespace: NonZeroU32,
    queues: Arc<WorkQueues>,
    metrics: &Metrics,
    readiness: &Readiness,
) -> (Arc<ClusterCache>, Vec<Watch>) {
    let (hpas, hpa_writer) = reflector::store();
    let (autoscalers, autoscaler_writer) = reflector::store();
    let (serverless_services, sks_writer) = reflector::store();
    let leases = PortLeases::new(ports_per_namespace);
    let cache = Arc::new(ClusterCache::new(hpas, autoscalers, serverless_services, leases));
    let links =
        Arc::new(Links { cache: cache.clone(), queues, system_namespace: system_namespace.to_owned() });
    let kinds = Kinds { client, links, metrics, readiness };
    let watches = vec![
        kinds.reconciled("HPAs", hpa_writer, trim_hpa, Links::hpa, Links::all_hpas),
        kinds.reconciled(
            "PodAutoscalers",
            autoscaler_writer,
            trim_own,
            Links::autoscaler,
            Links::all_autoscalers,
        ),
        kinds.reconciled(
            "ServerlessServices",
            sks_writer,
            trim_own,
            Links::serverless_service,
            Links::all_serverless_services,
        ),
        kinds.trimmed("Metrics", |cache| &cache.metrics, read_metric, Links::metric),
        kinds.trimmed("Services", |cache| &cache.services, |it| Some(trimmed(it)), Links::service),
        kinds.trimmed(
            "Deployments",
            |cache| &cache.deployments,
            CachedTarget::of_deployment,
            Links::deployment,
        ),
        kinds.trimmed(
            "StatefulSets",
            |cache| &cache.stateful_sets,
            CachedTarget::of_stateful_set,
            Links::stateful_set,
        ),
        kinds.slices(),
    ];
    (cache, watches)
}

/// What changed of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Changed {
    Any,
    /// Nothing else.
    Status,
}

/// Shared by all watches.
struct Kinds<'a> {
    client: &'a Client,
    links: Arc<Links>,
    metrics: &'a Metrics,
    readiness: &'a Readiness,
}

// === impl Kinds ===

impl Kinds<'_> {
    /// Watches an API resource that has a reconciler.
    fn reconciled<K>(
        &self,
        name: &'static str,
        mut writer: Writer<Decoded<K>>,
        trim: fn(&mut Decoded<K>),
        one: fn(&Links, &Decoded<K>, Changed),
        all: fn(&Links),
    ) -> Watch
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let store = writer.as_reader();
        self.follow(name, move |links, mut event: Event<Decoded<K>>| {
            if let Event::Apply(object) | Event::InitApply(object) = &mut event {
                trim(object);
            }
            let changed = Changed::by(&event, &store);
            writer.apply_watcher_event(&event);
            match &event {
                Event::Apply(object) | Event::Delete(object) => one(links, object, changed),
                Event::InitDone => all(links),
                Event::Init | Event::InitApply(_) => {}
            }
        })
    }

    /// Watches an API resource that is only read.
    fn trimmed<K, T>(
        &self,
        name: &'static str,
        store: fn(&ClusterCache) -> &TrimmedStore<T>,
        read: fn(&K) -> Option<T>,
        one: fn(&Links, &ObjectMeta),
    ) -> Watch
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        T: 'static,
    {
        self.follow(name, move |links, event: Event<Decoded<K>>| {
            store(&links.cache).apply(&event, read);
            match &event {
                Event::Apply(object) | Event::Delete(object) => one(links, object.meta()),
                Event::InitDone => links.everything(),
                Event::Init | Event::InitApply(_) => {}
            }
        })
    }

    fn slices(&self) -> Watch {
        self.follow("EndpointSlices", |links, mut event: Event<Decoded<EndpointSlice>>| {
            if let Event::Apply(slice) | Event::InitApply(slice) = &mut event {
                trim_slice(slice);
            }
            let left = links.cache.slices.apply(&event);
            links.cache.leases.left_by_slices(&left, now());
            match &event {
                Event::Apply(slice) | Event::Delete(slice) => links.slice(slice.meta()),
                Event::InitDone => links.everything(),
                Event::Init | Event::InitApply(_) => {}
            }
        })
    }

    fn follow<K>(
        &self,
        name: &'static str,
        mut take: impl FnMut(&Links, Event<Decoded<K>>) + Send + 'static,
    ) -> Watch
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let mut latch = Some(self.readiness.latch(name));
        let config = watcher::Config::default().page_size(PAGE_SIZE);
        let api = Api::<Decoded<K>>::all(self.client.clone());
        let events = watch_objects(api, config, self.metrics.decode_errors.of(&K::kind(&())));
        let links = self.links.clone();
        let failures = self.metrics.watch_errors.with_label_values(&[name]);
        Box::pin(async move {
            let events = logged(events.inspect_err(|_| failures.inc()), name.to_owned());
            pin_mut!(events);
            while let Some(event) = events.next().await {
                let listed = matches!(event, Event::InitDone);
                take(&links, event);
                if listed {
                    latch = None;
                }
            }
            drop(latch);
        })
    }
}

// === impl Changed ===

impl Changed {
    /// By an event, before the store has it.
    fn by<K>(event: &Event<Decoded<K>>, store: &Store<Decoded<K>>) -> Self
    where
        K: Resource<DynamicType = ()> + Clone,
    {
        let Event::Apply(object) = event else { return Self::Any };
        let Some(before) = store.get(&ObjectRef::from_obj(object)) else { return Self::Any };
        let resource_version = object.meta().resource_version.clone();
        // The generation changes with the spec.
        let before = ObjectMeta { resource_version, ..before.meta().clone() };
        if before == *object.meta() { Self::Status } else { Self::Any }
    }
}

// === impl Links ===

impl Links {
    fn everything(&self) {
        self.queues.enqueue_everything(&self.cache);
    }

    fn all_hpas(&self) {
        self.cache.index_hpas();
        self.everything();
    }

    fn all_autoscalers(&self) {
        self.cache.index_autoscalers();
        self.everything();
    }

    fn all_serverless_services(&self) {
        self.cache.index_serverless_services();
        self.everything();
    }

    fn hpa(&self, hpa: &Decoded<HorizontalPodAutoscaler>, _: Changed) {
        let Some(key) = key_of(hpa) else { return };
        for rival in self.cache.index_hpa(&key) {
            self.queues.hpas.enqueue(rival.clone());
            self.queues.autoscalers.enqueue(rival);
        }
        self.queues.autoscalers.enqueue(key.clone());
        self.queues.hpas.enqueue(key);
    }

    fn autoscaler(&self, autoscaler: &Decoded<PodAutoscaler>, changed: Changed) {
        let Some(key) = key_of(autoscaler) else { return };
        if changed == Changed::Status {
            return self.queues.autoscalers.enqueue_for_status(key);
        }
        for rival in self.cache.index_autoscaler(&key) {
            self.queues.autoscalers.enqueue(rival);
        }
        // The owner of a shared Service is decided from the PodAutoscalers.
        for rival in self.cache.workloads_by_service.others(&key) {
            self.queues.serverless_services.enqueue(rival);
            self.queues.serverless_services.enqueue(key.clone());
        }
        if let Ok(autoscaler) = &autoscaler.0
            && self.cache.autoscaler_meta(&key).is_none()
            && may_be_at_zero(autoscaler)
        {
            self.cache.abandoned_targets.add(&key.namespace, &autoscaler.spec.scale_target_ref);
        }
        self.queues.hpas.enqueue(key.clone());
        self.queues.autoscalers.enqueue(key);
    }

    fn metric(&self, metric: &ObjectMeta) {
        let (Some(namespace), Some(name)) = (&metric.namespace, &metric.name) else { return };
        self.queues.autoscalers.enqueue(Key::new(namespace, name));
    }

    fn serverless_service(&self, sks: &Decoded<ServerlessService>, changed: Changed) {
        let Some(key) = key_of(sks) else { return };
        let mut affected = self.cache.index_serverless_service(&key);
        affected.insert(key.clone());
        for key in affected {
            match changed {
                Changed::Any => self.queues.serverless_services.enqueue(key),
                Changed::Status => self.queues.serverless_services.enqueue_for_status(key),
            }
        }
        self.queues.autoscalers.enqueue(key);
    }

    fn service(&self, service: &ObjectMeta) {
        let (Some(namespace), Some(name)) = (&service.namespace, &service.name) else { return };
        self.through_service(namespace, name);
    }

    fn slice(&self, slice: &ObjectMeta) {
        let Some((namespace, service)) = service_of(slice) else { return };
        if namespace == self.system_namespace && service == ACTIVATOR_SERVICE {
            self.queues.serverless_services.enqueue_all(&self.cache.serverless_services);
        }
        self.through_service(&namespace, &service);
    }

    fn through_service(&self, namespace: &str, service: &str) {
        for key in self.cache.workloads_of_service(namespace, service) {
            self.queues.autoscalers.enqueue(key.clone());
            self.queues.serverless_services.enqueue(key);
        }
    }

    fn deployment(&self, deployment: &ObjectMeta) {
        self.target("Deployment", deployment);
    }

    fn stateful_set(&self, stateful_set: &ObjectMeta) {
        self.target("StatefulSet", stateful_set);
    }

    fn target(&self, kind: &str, meta: &ObjectMeta) {
        let (Some(namespace), Some(name)) = (&meta.namespace, &meta.name) else { return };
        for key in self.cache.workloads_of_target(namespace, kind, name) {
            self.queues.autoscalers.enqueue(key);
        }
    }
}

/// Annotations of other components may be as large as the object (kubectl stores a copy of it). The
/// status changes with every sync of the HPA controller, and few of its fields are read.
fn trim_hpa(hpa: &mut Decoded<HorizontalPodAutoscaler>) {
    trim_own(hpa);
    if let Ok(hpa) = &mut hpa.0
        && let Some(status) = &mut Arc::make_mut(hpa).status
    {
        status.current_metrics = None;
        let conditions = status.conditions.take().unwrap_or_default();
        let is_read = |condition: &_| is_ambiguous(condition) || is_metric_failure(condition);
        status.conditions = Some(conditions.into_iter().filter(is_read).collect());
    }
    if let Some(annotations) = &mut hpa.meta_mut().annotations {
        annotations.retain(|key, _| name_of_group(key).is_some());
    }
}

fn trim_slice(slice: &mut Decoded<EndpointSlice>) {
    trim(slice);
    slice.meta_mut().annotations = None;
}

fn read_metric(metric: &Metric) -> Option<CollectedMetric> {
    Some(CollectedMetric {
        spec: metric.spec.clone(),
        owner: controller_of(metric).map(|owner| owner.uid.clone()),
    })
}

/// Of the labels, only the one that the zero-scaler writes is read.
fn trim_own<K: Resource>(object: &mut K) {
    trim(object);
    let labels = object.meta_mut().labels.take().into_iter().flatten();
    let own: BTreeMap<_, _> = labels.filter(|(name, _)| name == WORKLOAD_LABEL).collect();
    object.meta_mut().labels = (!own.is_empty()).then_some(own);
}

/// Managed fields of these objects are not read.
fn trim<K: Resource>(object: &mut K) {
    object.meta_mut().managed_fields = None;
}
