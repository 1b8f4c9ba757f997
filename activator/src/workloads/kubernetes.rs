//! Changes from the Kubernetes API: a watch of ServerlessServices, one of labelled pods, and one of
//! unlabelled pods in each namespace that has a workload without a sidecar.
//!
//! Of a pod only labels, address, state, and of one without a queue-proxy its ports and probes are
//! kept; the rest is dropped while it is decoded. After a broken watch, all objects are listed
//! again, and those that are missing are reported as deleted. An object that can no longer be
//! decoded stays as it was last decoded, so its requests are still served. The objects can be
//! persisted in files, so that an activator that restarts while the API server is unavailable
//! continues with its last state.

mod listed_keys;
mod persisted_objects;
mod pods_of_namespaces;
mod trimmed_pod;

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use autoscaler::api::{PortLease, ServerlessService, SksMode};
use autoscaler::contract::selector::Selector;
use autoscaler::contract::{INJECT_LABEL, LEASED_PORTS, QUEUE_PROXY_ADMIN_PORT, QUEUE_PROXY_PORT};
use autoscaler::settings::SidecarMode;
use autoscaler::{Key, Protocol};
use futures::{Stream, StreamExt, pin_mut};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use listed_keys::ListedKeys;
use persisted_objects::PersistedObjects;
use pods_of_namespaces::PodsOfNamespaces;
use runtime::kubernetes::{DecodeErrors, Decoded, NamespaceWatches, watch_objects};
use runtime::readiness::ReadinessLatch;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use tracing::Instrument;
use trimmed_pod::{TrimmedPod, trim_metadata, trim_pod};

use super::containers::AppPort;
use super::{ClusterChange, LeasedPort, Namespaces, StartFailure, Workload};

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
    let persisted = PersistedObjects::new(state_directory, "serverlessservices");
    let span = tracing::info_span!("watch", resource = "serverlessservices");
    follow(events, workload, ClusterChange::Workload, persisted, |_| {}, changes, synced).instrument(span)
}

/// Sends every labelled pod as a change, like [`follow_workloads`].
pub fn follow_pods(
    client: Client,
    state_directory: Option<&Path>,
    errors: &DecodeErrors,
    changes: mpsc::Sender<ClusterChange>,
    synced: ReadinessLatch,
) -> impl Future<Output = ()> + Send + use<> {
    let api = Api::<Decoded<TrimmedPod>>::all(client);
    let config = watcher::Config::default().labels(&format!("{INJECT_LABEL}=true"));
    let events = watch_objects(api, config, errors.of(&TrimmedPod::kind(&()))).modify(trim_pod);
    let persisted = PersistedObjects::new(state_directory, "pods");
    let span = tracing::info_span!("watch", resource = "pods");
    follow(events, TrimmedPod::read, ClusterChange::Pod, persisted, mark_persisted, changes, synced)
        .instrument(span)
}

/// Sends every unlabelled pod of these namespaces as a change. Persists them like
/// [`follow_workloads`]. Ends with the sender of the namespaces.
pub fn follow_pods_of_namespaces(
    client: Client,
    namespaces: watch::Receiver<Namespaces>,
    state_directory: Option<&Path>,
    errors: &DecodeErrors,
    changes: mpsc::Sender<ClusterChange>,
) -> impl Future<Output = ()> + Send + use<> {
    let config = watcher::Config::default().labels(&format!("{INJECT_LABEL}!=true"));
    let watches = NamespaceWatches::new(client, namespaces, config, errors.clone());
    let persisted = PersistedObjects::new(state_directory, "unlabelled-pods");
    let span = tracing::info_span!("watch", resource = "unlabelled pods");
    PodsOfNamespaces::new(persisted, changes).run(watches).instrument(span)
}

fn mark_persisted(pod: &mut TrimmedPod) {
    pod.is_persisted = true;
}

/// Turns watch events into changes.
async fn follow<K: Resource + Clone + Debug + DeserializeOwned + Serialize, T>(
    events: impl Stream<Item = Result<Event<Decoded<K>>, watcher::Error>>,
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
            () = persisted.due() => {
                persisted.write().await;
                continue;
            }
        };
        let event = match event {
            Some(Ok(event)) => event,
            Some(Err(error)) => {
                tracing::warn!(%error, "watch failed, retrying");
                continue;
            }
            None => break,
        };
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
        paused: spec.paused,
        wake_timeout: spec.wake_timeout_seconds.map(|seconds| Duration::from_secs(seconds.into())),
        queue_depth: spec.wake_queue_depth.map(|depth| usize::try_from(depth).unwrap_or(usize::MAX)),
        start_failure: status
            .and_then(|status| status.start_failure.as_ref())
            .map(|failure| StartFailure { cause: failure.cause, given_up: failure.given_up }),
        wake_target: spec.wake_target.clone(),
        serving: status.and_then(|status| status.mode) == Some(SksMode::Serve),
        ports: leases.map(|lease| leased_port(lease, spec.sidecar)).collect(),
    }
}

fn leased_port(lease: &PortLease, sidecar: SidecarMode) -> LeasedPort {
    let (pod_port, app_port) = match sidecar {
        SidecarMode::Required => (lease.pod_port, None),
        SidecarMode::None => (QUEUE_PROXY_PORT, Some(app_port(lease))),
    };
    let pod_port = match lease.protocol {
        Protocol::Http => pod_port,
        // On its admin port, the queue-proxy can distinguish our connections from those of clients.
        Protocol::Tcp => QUEUE_PROXY_ADMIN_PORT,
    };
    LeasedPort { activator_port: lease.activator_port, pod_port, app_port, protocol: lease.protocol }
}

fn app_port(lease: &PortLease) -> AppPort {
    match &lease.pod_port_name {
        Some(name) => AppPort::Name(name.as_str().into()),
        None => AppPort::Number(lease.pod_port),
    }
}

#[cfg(test)]
mod tests {
    use fake_api::FakeApi;
    use prometheus::Registry;
    use runtime::readiness::Readiness;
    use serde_json::json;

    use super::*;

    fn listed(name: &str) -> Decoded<TrimmedPod> {
        object(name).into()
    }

    fn object(name: &str) -> TrimmedPod {
        serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "shop", "name": name, "uid": "u", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "app", "image": "app"}]},
            "status": {
                "phase": "Running", "podIP": "10.0.0.1",
                "conditions": [{"type": "Ready", "status": "True", "reason": "x"}]
            }
        }))
        .unwrap()
    }

    /// The changes from the persisted objects and these events, and whether the watch is synced.
    async fn changes(
        directory: &Path,
        events: Vec<Event<Decoded<TrimmedPod>>>,
    ) -> (Vec<(String, Option<bool>)>, bool) {
        let (sender, mut changes) = mpsc::channel(16);
        let readiness = Readiness::default();
        let events = futures::stream::iter(events.into_iter().map(Ok)).chain(futures::stream::pending());
        let persisted = PersistedObjects::new(Some(directory), "pods");
        let follow = follow(
            events,
            TrimmedPod::read,
            ClusterChange::Pod,
            persisted,
            mark_persisted,
            sender,
            readiness.latch("pods"),
        );
        // The clock is paused: the timeout fires when all tasks are idle.
        pin_mut!(follow);
        let _ = tokio::time::timeout(Duration::from_secs(3600), follow.as_mut()).await;
        let (synced, mut seen) = (readiness.is_ready(), Vec::new());
        while let Ok(ClusterChange::Pod(key, pod)) = changes.try_recv() {
            seen.push((key.name, pod.map(|pod| pod.ready)));
        }
        (seen, synced)
    }

    #[tokio::test(start_paused = true)]
    async fn persisted_objects_are_used_until_the_first_list() {
        let directory = std::env::temp_dir().join(format!("activator-state-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let events =
            vec![Event::Init, Event::InitApply(listed("a")), Event::InitDone, Event::Apply(listed("b"))];
        let pod = |name: &str, ready| (name.to_owned(), Some(ready));
        assert_eq!(changes(&directory, events).await, (vec![pod("a", true), pod("b", true)], true));
        assert_eq!(changes(&directory, vec![]).await, (vec![pod("a", false), pod("b", false)], false));
        let (news, _) =
            changes(&directory, vec![Event::Init, Event::InitApply(listed("b")), Event::InitDone]).await;
        assert_eq!(news[2..], [pod("b", true), ("a".to_owned(), None)]);
        std::fs::write(directory.join("pods.json"), "[{").unwrap();
        assert_eq!(changes(&directory, vec![]).await, (vec![], false));
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn follows_workloads_beside_an_undecodable_one() {
        let api = FakeApi::default();
        let put = |name: &str, depth: u64| {
            let path =
                format!("/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/serverlessservices/{name}");
            let spec = json!({"service": name, "selector": "app=web", "mode": "Proxy", "numActivators": 1,
                "wakeQueueDepth": depth});
            api.put(&path, json!({"spec": spec}));
        };
        put("a", 1);
        put("bad", 5_000_000_000);
        put("c", 3);
        let errors = DecodeErrors::register(&Registry::new(), "activator").unwrap();
        let (readiness, (sender, mut changes)) = (Readiness::default(), mpsc::channel(16));
        tokio::spawn(follow_workloads(api.client(), None, &errors, sender, readiness.latch("workloads")));
        let mut next = async || {
            let change = tokio::time::timeout(Duration::from_secs(60), changes.recv()).await;
            let Ok(Some(ClusterChange::Workload(key, workload))) = change else { panic!("no change") };
            (key.name, workload.and_then(|workload| workload.queue_depth))
        };
        assert_eq!(next().await, ("a".to_owned(), Some(1)));
        assert_eq!(next().await, ("c".to_owned(), Some(3)));
        put("a", 6_000_000_000);
        put("c", 4);
        assert_eq!(next().await, ("c".to_owned(), Some(4)), "the last version of the other one stays");
        assert!(readiness.is_ready());
        api.remove("/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/serverlessservices/a");
        assert_eq!(next().await, ("a".to_owned(), None));
    }

    #[test]
    fn empty_or_invalid_selector_selects_nothing() {
        let service = |selector: &str| -> ServerlessService {
            serde_json::from_value(json!({
                "metadata": {"namespace": "shop", "name": "web"},
                "spec": {"service": "web", "selector": selector, "mode": "Proxy", "numActivators": 1,
                    "wakeTarget": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
                "status": {"mode": "Serve", "ports":
                    [{"name": "http", "servicePort": 80, "activatorPort": 20001, "podPort": 8012},
                     {"name": "db", "servicePort": 81, "activatorPort": 20002, "podPort": 8012, "protocol": "tcp"},
                     {"name": "admin", "servicePort": 82, "activatorPort": 9090, "podPort": 8012}]}
            }))
            .unwrap()
        };
        assert_eq!(workload(&service("")).selector, None);
        assert_eq!(workload(&service("a in")).selector, None);
        let read = workload(&service("app=web"));
        assert!(read.selector.is_some() && read.serving);
        assert_eq!(read.wake_target.map(|target| target.name).as_deref(), Some("web"));
        let port = |activator_port, pod_port, protocol| LeasedPort {
            activator_port,
            pod_port,
            app_port: None,
            protocol,
        };
        assert_eq!(read.ports, [port(20001, 8012, Protocol::Http), port(20002, 8022, Protocol::Tcp)]);
    }

    #[test]
    fn leases_of_workload_without_sidecar_have_ports_of_the_app() {
        let service: ServerlessService = serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": "web"},
            "spec": {"service": "web", "selector": "app=web", "mode": "Proxy", "numActivators": 1, "sidecar": "None"},
            "status": {"mode": "Proxy", "ports": [
                {"name": "http", "servicePort": 80, "activatorPort": 20001, "podPort": 8080},
                {"name": "db", "servicePort": 81, "activatorPort": 20002, "podPort": 0, "podPortName": "db",
                    "protocol": "tcp"},
            ]}
        }))
        .unwrap();
        let read = workload(&service);
        assert_eq!(read.sidecar, SidecarMode::None);
        let ports: Vec<_> = read.ports.iter().map(|port| (port.pod_port, port.app_port.clone())).collect();
        let (http, db) = (AppPort::Number(8080), AppPort::Name("db".into()));
        assert_eq!(
            ports,
            [(8012, Some(http)), (8022, Some(db))],
            "a queue-proxy that a pod still has, the app"
        );
    }

    fn put_pod(api: &FakeApi, namespace: &str, name: &str) {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        let ports = json!([{"name": "http", "containerPort": 8080}]);
        let status = json!({"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]});
        api.put(
            &path,
            json!({
                "metadata": {"namespace": namespace, "name": name, "uid": name},
                "spec": {"containers": [{"name": "app", "ports": ports}]}, "status": status,
            }),
        );
    }

    #[tokio::test(start_paused = true)]
    async fn namespace_of_workload_without_sidecar_brings_and_takes_its_pods() {
        let directory = std::env::temp_dir().join(format!("activator-namespaces-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let api = FakeApi::default();
        put_pod(&api, "shop", "web");
        put_pod(&api, "other", "api");
        let errors = DecodeErrors::register(&Registry::new(), "activator").unwrap();
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Namespaces>();
        let follow = |namespaces: &watch::Sender<Namespaces>| {
            let (sender, changes) = mpsc::channel(16);
            let (client, namespaces) = (api.client(), namespaces.subscribe());
            tokio::spawn(follow_pods_of_namespaces(client, namespaces, Some(&directory), &errors, sender));
            changes
        };
        let next = async |changes: &mut mpsc::Receiver<ClusterChange>| {
            let change = tokio::time::timeout(Duration::from_secs(60), changes.recv()).await;
            let Ok(Some(ClusterChange::Pod(key, pod))) = change else { panic!("no change") };
            (key.to_string(), pod.map(|pod| (pod.ready, pod.was_ready, pod.containers.is_some())))
        };
        let namespaces = watch::Sender::new(set(&["shop"]));
        let mut changes = follow(&namespaces);
        let web = || "shop/web/unlabelled".to_owned();
        assert_eq!(next(&mut changes).await, (web(), Some((true, false, true))));
        // The file is written some seconds after a change.
        tokio::time::sleep(Duration::from_secs(30)).await;
        while !directory.join("unlabelled-pods.json").exists() {
            tokio::task::yield_now().await;
        }
        let restarted = watch::Sender::new(set(&["shop"]));
        let mut after_restart = follow(&restarted);
        let restored = (web(), Some((false, true, true)));
        assert_eq!(next(&mut after_restart).await, restored, "before any list, and to be verified");
        assert_eq!(next(&mut after_restart).await, (web(), Some((true, false, true))));

        namespaces.send_replace(set(&["other"]));
        let mut both = [next(&mut changes).await, next(&mut changes).await];
        both.sort();
        assert_eq!(both, [("other/api/unlabelled".to_owned(), Some((true, false, true))), (web(), None)]);
        std::fs::remove_dir_all(directory).unwrap();
    }
}
