//! Changes from the Kubernetes API: a watch of ServerlessServices, one of labelled pods, and one of
//! unlabelled pods in each namespace that has a workload without a sidecar.
//!
//! Of a pod, labels, node, address, state and the ports of its queue-proxy are kept; of a pod
//! without a queue-proxy, its ports and probes too. The rest is dropped while the pod is decoded.
//! After a broken watch, all objects are listed again, and those that are missing are reported as
//! deleted. An object that can no longer be decoded stays as it was last decoded, so its requests
//! are still served. The objects can be persisted in files, so that an activator that restarts
//! while the API server is unavailable continues with its last state.

mod listed_keys;
mod object_log;
mod persisted_objects;
mod pods_of_namespaces;
mod trimmed_pod;

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::api::{
    NoWakeSpec, PodObservation, PortLease, RequestTimeouts, ServerlessService, ServerlessServiceSpec, SksMode,
};
use autoscaler::contract::selector::Selector;
use autoscaler::contract::{INJECT_LABEL, LEASED_PORTS};
use autoscaler::routing::proximity::Location;
use autoscaler::settings::{Pause, SidecarMode};
use component_base::kubernetes::{DecodeErrors, Decoded, NamespaceWatches, logged, watch_objects};
use component_base::readiness::ReadinessLatch;
use futures::{Stream, StreamExt, pin_mut};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use listed_keys::ListedKeys;
use persisted_objects::PersistedObjects;
use pods_of_namespaces::PodsOfNamespaces;
use proxy::timeouts::request_timer::Timeouts;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use tracing::Instrument;
use trimmed_pod::{TrimmedPod, trim_metadata, trim_pod};

use super::containers::AppPort;
use super::no_wake::NoWake;
use super::{ClusterChange, LeasedPort, Namespaces, Observation, StartFailure, Workload};

/// Sends every ServerlessService as a change; drops `synced` after the first list. Persists them in
/// `state_directory`, if there is one. Ends when the receiver is dropped.
pub fn follow_workloads(
    client: Client,
    state_directory: Option<&Path>,
    errors: &DecodeErrors,
    changes: mpsc::Sender<ClusterChange>,
    synced: ReadinessLatch,
) -> impl Future<Output = ()> + Send + use<> {
    let api = Api::<Decoded<ServerlessService>>::all(client);
    let errors = errors.of(&ServerlessService::kind(&()));
    let events = watch_objects(api, watcher::Config::default(), errors).modify(trim_metadata);
    let events = logged(events, "ServerlessServices".to_owned());
    let persisted = PersistedObjects::new(state_directory, "serverlessservices");
    let span = tracing::info_span!("watch", resource = "serverlessservices");
    follow(events, workload, ClusterChange::Workload, persisted, |_| {}, changes, synced).instrument(span)
}

/// Sends every labelled pod as a change, like [`follow_workloads`], with its proximity to `own`.
pub fn follow_pods(
    client: Client,
    own: Location,
    state_directory: Option<&Path>,
    errors: &DecodeErrors,
    changes: mpsc::Sender<ClusterChange>,
    synced: ReadinessLatch,
) -> impl Future<Output = ()> + Send + use<> {
    let api = Api::<Decoded<TrimmedPod>>::all(client);
    let config = watcher::Config::default().labels(&format!("{INJECT_LABEL}=true"));
    let events = watch_objects(api, config, errors.of(&TrimmedPod::kind(&()))).modify(trim_pod);
    let events = logged(events, "pods".to_owned());
    let persisted = PersistedObjects::new(state_directory, "pods");
    let span = tracing::info_span!("watch", resource = "pods");
    let read = move |pod: &TrimmedPod| pod.read(&own);
    follow(events, read, ClusterChange::Pod, persisted, mark_persisted, changes, synced).instrument(span)
}

/// Sends every unlabelled pod of these namespaces as a change, with its proximity to `own`.
/// Persists them like [`follow_workloads`]. Ends with the sender of the namespaces.
pub fn follow_pods_of_namespaces(
    client: Client,
    own: Location,
    namespaces: watch::Receiver<Namespaces>,
    state_directory: Option<&Path>,
    errors: &DecodeErrors,
    changes: mpsc::Sender<ClusterChange>,
) -> impl Future<Output = ()> + Send + use<> {
    let config = watcher::Config::default().labels(&format!("{INJECT_LABEL}!=true"));
    let watches = NamespaceWatches::new(client, namespaces, config, errors.clone());
    let persisted = PersistedObjects::new(state_directory, "unlabelled-pods");
    let span = tracing::info_span!("watch", resource = "unlabelled pods");
    PodsOfNamespaces::new(own, persisted, changes).run(watches).instrument(span)
}

fn mark_persisted(pod: &mut TrimmedPod) {
    pod.is_persisted = true;
}

/// Turns watch events into changes.
async fn follow<K: Resource + Clone + Debug + DeserializeOwned + Serialize + Send + Sync + 'static, T>(
    events: impl Stream<Item = Event<Decoded<K>>>,
    read: impl Fn(&K) -> T,
    change: impl Fn(Key, Option<T>) -> ClusterChange,
    mut persisted: PersistedObjects<K>,
    restore: impl Fn(&mut K),
    changes: mpsc::Sender<ClusterChange>,
    synced: ReadinessLatch,
) {
    pin_mut!(events);
    let mut synced = Some(synced);
    let mut keys = ListedKeys::default();
    for mut object in persisted.load() {
        restore(&mut object);
        for (key, value) in keys.apply(Event::Apply(object.into()), &read) {
            if changes.send(change(key, value)).await.is_err() {
                return;
            }
        }
    }
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = persisted.progress() => continue,
        };
        let Some(event) = event else { break };
        persisted.apply(&event);
        let listed = matches!(event, Event::InitDone);
        for (key, value) in keys.apply(event, &read) {
            if changes.send(change(key, value)).await.is_err() {
                return;
            }
        }
        if listed {
            synced = None;
        }
    }
    drop(synced);
}

fn workload(service: &ServerlessService) -> Workload {
    let spec = &service.spec;
    let selector = Selector::parse(&spec.selector)
        .inspect_err(|error| tracing::warn!(namespace = ?service.metadata.namespace, name = ?service.metadata.name, %error, "invalid selector, no pod is selected"))
        .ok()
        .filter(|selector| !selector.requirements().is_empty());
    let status = service.status.as_ref();
    let leases = status.map(|status| status.ports.as_slice()).unwrap_or_default();
    // Other ports, this process' own among them, are not the zero-scaler's to lease.
    let leases = leases.iter().filter(|lease| LEASED_PORTS.contains(&lease.activator_port));
    Workload {
        selector,
        sidecar: spec.sidecar,
        container_concurrency: spec.container_concurrency,
        activators: spec.num_activators,
        pause: pause(spec),
        wake_timeout: spec.wake_timeout_seconds.map(|seconds| Duration::from_secs(seconds.into())),
        queue_depth: spec.wake_queue_depth.map(|depth| usize::try_from(depth).unwrap_or(usize::MAX)),
        timeouts: spec.timeouts.map(timeouts).unwrap_or_default(),
        no_wake: spec.no_wake.as_ref().and_then(|spec| no_wake(service, spec)),
        waiting_page: spec.waiting_page,
        sse_keep_alive: spec.sse_keep_alive,
        observation: spec.observation.map(observation),
        start_failure: status.and_then(|status| status.start_failure.as_ref()).map(start_failure),
        wake_target: spec.wake_target.clone(),
        serving: status.and_then(|status| status.mode) == Some(SksMode::Serve),
        ports: leases.map(|lease| leased_port(lease, spec.sidecar)).collect(),
    }
}

fn start_failure(failure: &autoscaler::api::StartFailure) -> Arc<StartFailure> {
    let message = Some(failure.message.as_str()).filter(|message| !message.is_empty());
    let awaited = message.filter(|_| failure.cause.awaits_capacity()).map(Arc::from);
    Arc::new(StartFailure { cause: failure.cause, awaited, given_up: failure.given_up })
}

fn leased_port(lease: &PortLease, sidecar: SidecarMode) -> LeasedPort {
    let app_port = (!sidecar.is_required()).then(|| app_port(lease));
    LeasedPort { activator_port: lease.activator_port, pod_port: None, app_port, protocol: lease.protocol }
}

fn pause(spec: &ServerlessServiceSpec) -> Pause {
    match &spec.paused_until {
        _ if !spec.paused => Pause::Off,
        Some(end) => Pause::Until(end.0.as_millisecond()),
        None => Pause::On,
    }
}

fn timeouts(spec: RequestTimeouts) -> Timeouts {
    let of = |millis: u32| Duration::from_millis(millis.into());
    Timeouts::new(of(spec.total_millis), of(spec.response_start_millis), of(spec.idle_millis))
}

/// `None` if a part of the rules is invalid: matching requests then wake the workload, as others
/// do.
fn no_wake(service: &ServerlessService, spec: &NoWakeSpec) -> Option<Arc<NoWake>> {
    let parsed = spec.parse();
    if parsed.is_none() {
        tracing::warn!(namespace = ?service.metadata.namespace, name = ?service.metadata.name, "invalid noWake, ignored");
    }
    parsed.map(|(rules, response)| Arc::new(NoWake { rules, response }))
}

fn observation(spec: PodObservation) -> Observation {
    let objective = Duration::from_micros(spec.objective_micros.into());
    Observation { objective: (!objective.is_zero()).then_some(objective) }
}

fn app_port(lease: &PortLease) -> AppPort {
    match &lease.pod_port_name {
        Some(name) => AppPort::Name(name.as_str().into()),
        None => AppPort::Number(lease.pod_port),
    }
}

#[cfg(test)]
mod tests;
