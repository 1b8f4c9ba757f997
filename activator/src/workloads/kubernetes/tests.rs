use autoscaler::Protocol;
use component_base::readiness::Readiness;
use fake_api::FakeApi;
use prometheus::Registry;
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
    let events = futures::stream::iter(events).chain(futures::stream::pending());
    let persisted = PersistedObjects::new(Some(directory), "pods");
    let follow = follow(
        events,
        |pod: &TrimmedPod| pod.read(&Location::default()),
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
    let events = vec![Event::Init, Event::InitApply(listed("a")), Event::InitDone, Event::Apply(listed("b"))];
    let pod = |name: &str, ready| (name.to_owned(), Some(ready));
    assert_eq!(changes(&directory, events).await, (vec![pod("a", true), pod("b", true)], true));
    assert_eq!(changes(&directory, vec![]).await, (vec![pod("a", false), pod("b", false)], false));
    let (news, _) =
        changes(&directory, vec![Event::Init, Event::InitApply(listed("b")), Event::InitDone]).await;
    assert_eq!(news[2..], [pod("b", true), ("a".to_owned(), None)]);
    std::fs::write(directory.join("pods.log"), "[{").unwrap();
    assert_eq!(changes(&directory, vec![]).await, (vec![], false));
    std::fs::remove_dir_all(directory).unwrap();
}

/// A write to a FIFO lasts until the test reads it, as one to a slow disk does.
#[tokio::test(start_paused = true)]
async fn events_are_handled_while_the_file_is_written() {
    let directory = std::env::temp_dir().join(format!("activator-fifo-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let fifo = directory.join("pods.new");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let (events, received) = mpsc::channel(16);
    let received = futures::stream::unfold(received, async |mut received: mpsc::Receiver<_>| {
        Some((received.recv().await?, received))
    });
    let (sender, mut changes) = mpsc::channel(16);
    let persisted = PersistedObjects::new(Some(&directory), "pods");
    let read = |pod: &TrimmedPod| pod.read(&Location::default());
    let latch = Readiness::default().latch("pods");
    tokio::spawn(follow(received, read, ClusterChange::Pod, persisted, mark_persisted, sender, latch));
    for event in [Event::Init, Event::InitApply(listed("a")), Event::InitDone] {
        events.send(event).await.unwrap();
    }
    changes.recv().await.unwrap();
    tokio::time::advance(Duration::from_secs(6)).await;
    // The clock stands still during the write, so a timeout would not end this.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    events.send(Event::Apply(listed("b"))).await.unwrap();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let change = changes.try_recv();
    // Opens the other end, so that the write ends.
    let written = tokio::task::spawn_blocking(move || std::fs::read_to_string(fifo)).await.unwrap().unwrap();
    assert!(matches!(&change, Ok(ClusterChange::Pod(key, Some(_))) if key.name == "b"), "{change:?}");
    assert!(written.contains(r#""name":"a""#) && !written.contains(r#""name":"b""#), "{written}");
    while !directory.join("pods.log").exists() {
        tokio::task::yield_now().await;
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test(start_paused = true)]
async fn follows_workloads_beside_an_undecodable_one() {
    let api = FakeApi::default();
    let put = |name: &str, depth: u64| {
        let path = format!("/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/serverlessservices/{name}");
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
fn invalid_no_wake_rules_exclude_no_request() {
    let read = |no_wake: serde_json::Value| {
        let service: ServerlessService = serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": "web"},
            "spec": {"service": "web", "selector": "app=web", "mode": "Proxy", "numActivators": 1,
                "noWake": no_wake},
        }))
        .unwrap();
        let read = workload(&service).no_wake;
        read.map(|no_wake| (no_wake.rules.to_string(), no_wake.response.to_string()))
    };
    let of = |rules: &str, response: &str| Some((rules.to_owned(), response.to_owned()));
    assert_eq!(read(json!({"requests": "HEAD"})), of("HEAD", "200 asleep"));
    assert_eq!(read(json!({"requests": "HEAD", "response": "503"})), of("HEAD", "503"));
    assert_eq!(read(json!({"requests": "head"})), None);
    assert_eq!(read(json!({"requests": "HEAD", "response": "1"})), None);
    assert_eq!(read(serde_json::Value::Null), None);
}

#[test]
fn empty_or_invalid_selector_selects_nothing() {
    let service = |selector: &str| -> ServerlessService {
        serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": "web"},
            "spec": {"service": "web", "selector": selector, "mode": "Proxy", "numActivators": 1, "waitingPage": true, "sseKeepAlive": true,
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
    assert!(read.selector.is_some() && read.serving && read.waiting_page && read.sse_keep_alive);
    assert_eq!(read.wake_target.map(|target| target.name).as_deref(), Some("web"));
    let port =
        |activator_port, protocol| LeasedPort { activator_port, pod_port: None, app_port: None, protocol };
    assert_eq!(read.ports, [port(20001, Protocol::Http), port(20002, Protocol::Tcp)]);
}

#[test]
fn leases_of_workload_without_sidecar_have_ports_of_the_app() {
    let service: ServerlessService = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"service": "web", "selector": "app=web", "mode": "Proxy", "numActivators": 1, "sidecar": "None",
            "timeouts": {"totalMillis": 1500, "responseStartMillis": 0}},
        "status": {"mode": "Proxy", "ports": [
            {"name": "http", "servicePort": 80, "activatorPort": 20001, "podPort": 8080},
            {"name": "db", "servicePort": 81, "activatorPort": 20002, "podPort": 0, "podPortName": "db",
                "protocol": "tcp"},
        ]}
    }))
    .unwrap();
    let read = workload(&service);
    assert_eq!(read.sidecar, SidecarMode::None);
    assert_eq!(read.timeouts, Timeouts::new(Duration::from_millis(1500), Duration::ZERO, Duration::ZERO));
    let ports: Vec<_> = read.ports.iter().map(|port| port.app_port.clone()).collect();
    let (http, db) = (AppPort::Number(8080), AppPort::Name("db".into()));
    assert_eq!(ports, [Some(http), Some(db)]);
}

fn put_pod(api: &FakeApi, namespace: &str, name: &str) {
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    let ports = json!([{"name": "http", "containerPort": 8080}]);
    let status =
        json!({"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]});
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
        tokio::spawn(follow_pods_of_namespaces(
            client,
            Location::default(),
            namespaces,
            Some(&directory),
            &errors,
            sender,
        ));
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
    while !directory.join("unlabelled-pods.log").exists() {
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
