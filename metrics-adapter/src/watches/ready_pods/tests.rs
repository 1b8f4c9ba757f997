use super::*;

const REQUIRED: SidecarMode = SidecarMode::Required;

fn pod(name: &str, phase: &str, ready: &str, deleted: bool) -> Decoded<KubernetesPod> {
    let mut metadata = serde_json::json!({"name": name, "namespace": "shop", "labels": {"app": "web"}});
    if deleted {
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    serde_json::from_value(serde_json::json!({
        "metadata": metadata,
        "status": {
            "phase": phase,
            "podIP": "10.0.0.1",
            "startTime": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }))
    .unwrap()
}

#[test]
fn counts_running_ready_pods_that_are_not_deleted() {
    let pods = ReadyPods::default();
    let selector = Selector::parse("app=web").unwrap();
    assert_eq!(pods.count_ready("shop", &selector, REQUIRED), None, "not listed yet");
    pods.apply(Event::Init);
    for (name, phase, ready, deleted) in [
        ("a", "Running", "True", false),
        ("b", "Running", "False", false),
        ("c", "Pending", "True", false),
        ("d", "Running", "True", true),
    ] {
        pods.apply(Event::InitApply(pod(name, phase, ready, deleted)));
    }
    pods.apply(Event::InitDone);
    assert_eq!(pods.count_ready("shop", &selector, REQUIRED), Some(1));
    assert_eq!(pods.select("shop", &selector, REQUIRED).unwrap().len(), 4);
    assert_eq!(pods.count_ready("shop", &Selector::parse("app=api").unwrap(), REQUIRED), Some(0));
    assert_eq!(pods.count_ready("other", &selector, REQUIRED), Some(0));
    pods.apply(Event::Delete(pod("a", "Running", "True", false)));
    assert_eq!(pods.count_ready("shop", &selector, REQUIRED), Some(0));
}

#[test]
fn undecodable_pod_stays_or_counts_as_ready_without_address() {
    let (pods, selector) = (ReadyPods::default(), Selector::parse("app=web").unwrap());
    let bad = |name: &str| -> Decoded<KubernetesPod> {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"}}, "spec": 5,
        }))
        .unwrap()
    };
    pods.apply(Event::Init);
    pods.apply(Event::InitApply(pod("a", "Running", "False", false)));
    pods.apply(Event::InitApply(bad("b")));
    pods.apply(Event::InitDone);
    for _ in 0..2 {
        let mut seen = pods.select("shop", &selector, REQUIRED).unwrap();
        seen.sort_by(|a, b| a.name.cmp(&b.name));
        let seen: Vec<_> = seen.iter().map(|pod| (pod.ready, pod.exists, pod.ip.is_some())).collect();
        assert_eq!(seen, [(false, true, true), (true, true, false)]);
        pods.apply(Event::Apply(bad("a")));
        pods.apply(Event::Init);
        pods.apply(Event::InitApply(bad("a")));
        pods.apply(Event::InitApply(bad("b")));
        pods.apply(Event::InitDone);
    }
    pods.apply(Event::Delete(bad("a")));
    pods.apply(Event::Delete(bad("b")));
    assert!(pods.select("shop", &selector, REQUIRED).unwrap().is_empty());
}

#[test]
fn selects_pods_after_label_changes() {
    let pods = ReadyPods::default();
    pods.apply(Event::Init);
    pods.apply(Event::InitDone);
    let labelled = |name: &str, labels: serde_json::Value| {
        let mut pod = pod(name, "Running", "True", false);
        pod.meta_mut().labels = serde_json::from_value(labels).unwrap();
        pod
    };
    let inject = INJECT_LABEL;
    for (name, app) in [("a", "web"), ("b", "web"), ("c", "api")] {
        let labels = serde_json::json!({"app": app, "tier": "front", "pod": name, inject: "true"});
        pods.apply(Event::Apply(labelled(name, labels)));
    }
    let found = |selector: &str| {
        let selected = pods.select("shop", &Selector::parse(selector).unwrap(), REQUIRED).unwrap();
        let mut names: Vec<_> = selected.iter().map(|pod| pod.name.clone()).collect();
        names.sort_unstable();
        names.concat()
    };
    for (selector, expected) in [
        ("app=web", "ab"),
        ("app=web,pod!=a", "b"),
        ("tier=front,app=api", "c"),
        ("app in (web, api)", "abc"),
        ("autoscaling.rouse.dev/inject=true", "abc"),
        ("!legacy", "abc"),
        ("", "abc"),
        ("app=none", ""),
        ("none=web", ""),
    ] {
        assert_eq!(found(selector), expected, "{selector}");
    }
    pods.apply(Event::Apply(labelled("a", serde_json::json!({"app": "api"}))));
    assert_eq!(
        (found("app=web"), found("app=api"), found("tier=front")),
        ("b".into(), "ac".into(), "bc".into())
    );
    for name in ["a", "b", "c"] {
        pods.apply(Event::Delete(labelled(name, serde_json::json!({}))));
    }
    assert_eq!(found(""), "");
    assert!(pods.index.read().labelled.pods.0.is_empty());
}

#[test]
fn pods_of_workload_without_sidecar_come_from_both_watches() {
    let (pods, selector) = (ReadyPods::default(), Selector::parse("app=web").unwrap());
    let count = |sidecar| pods.count_ready("shop", &selector, sidecar);
    pods.apply(Event::Init);
    pods.apply(Event::InitApply(pod("labelled", "Running", "True", false)));
    pods.apply(Event::InitDone);
    assert_eq!((count(REQUIRED), count(SidecarMode::None)), (Some(1), None), "the namespace is not listed");
    let apply = |event| pods.apply_unlabelled("shop".to_owned(), event);
    apply(Event::Init);
    apply(Event::InitApply(pod("plain", "Running", "True", false)));
    assert_eq!(count(SidecarMode::None), None, "the list is not complete");
    apply(Event::InitDone);
    assert_eq!((count(REQUIRED), count(SidecarMode::None)), (Some(1), Some(2)));
    apply(Event::Delete(pod("plain", "Running", "True", false)));
    assert_eq!(count(SidecarMode::None), Some(1));
    assert_eq!(pods.count_ready("other", &selector, SidecarMode::None), None);
}

#[tokio::test(start_paused = true)]
async fn pods_of_namespace_that_is_no_longer_watched_are_unknown() {
    let api = fake_api::FakeApi::default();
    let labels = serde_json::json!({"app": "web"});
    let status = serde_json::json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    api.put(
        "/api/v1/namespaces/shop/pods/plain",
        serde_json::json!({"metadata": {"labels": labels}, "status": status}),
    );
    let (pods, selector) = (ReadyPods::default(), Selector::parse("app=web").unwrap());
    pods.apply(Event::Init);
    pods.apply(Event::InitDone);
    let namespaces = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let (sender, receiver) = tokio::sync::watch::channel(namespaces(&["shop"]));
    let errors = DecodeErrors::register(&prometheus::Registry::new(), "test").unwrap();
    let watches = NamespaceWatches::new(api.client(), receiver, ReadyPods::unlabelled(), errors);
    let watch = tokio::spawn(pods.clone().watch_unlabelled(watches));
    let until = async |expected: Option<u32>| {
        for _ in 0..1000 {
            if pods.count_ready("shop", &selector, SidecarMode::None) == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("not {expected:?}");
    };
    until(Some(1)).await;
    sender.send_replace(namespaces(&[]));
    until(None).await;
    watch.abort();
}

#[test]
fn finds_template_of_youngest_ready_pod_and_its_memory_kills() {
    let (pods, selector) = (ReadyPods::default(), Selector::parse("app=web").unwrap());
    let started = |name: &str, ready: &str, image: &str, start: u64, killed: Option<&str>| {
        let mut pod = pod(name, "Running", ready, false);
        let object = Arc::make_mut(pod.0.as_mut().unwrap());
        object.spec =
            serde_json::from_value(serde_json::json!({"containers": [{"name": "app", "image": image}]}))
                .unwrap();
        let status = object.status.as_mut().unwrap();
        let start = jiff::Timestamp::from_second(i64::try_from(start).unwrap()).unwrap();
        status.start_time = serde_json::from_value(start.to_string().into()).unwrap();
        let end = killed.map(|at| {
            serde_json::json!({
                "terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": at},
            })
        });
        status.container_statuses = serde_json::from_value(serde_json::json!([{
            "name": "app", "image": image, "imageID": image, "ready": true, "restartCount": 1, "lastState": end,
        }]))
        .unwrap();
        pod
    };
    assert_eq!(pods.youngest_template("shop", &selector, SidecarMode::Required), None);
    pods.apply(Event::Init);
    pods.apply(Event::InitApply(started("a", "True", "web:1", 100, Some("1970-01-01T00:05:00Z"))));
    pods.apply(Event::InitApply(started("b", "False", "web:2", 200, Some("1970-01-01T00:06:00Z"))));
    pods.apply(Event::InitDone);
    let first = pods.youngest_template("shop", &selector, SidecarMode::Required).unwrap();
    let kill = |template| pods.last_memory_kill("shop", &selector, SidecarMode::Required, template);
    assert_eq!(kill(first), Some(Duration::from_secs(300)));
    pods.apply(Event::Apply(started("b", "True", "web:2", 200, None)));
    let second = pods.youngest_template("shop", &selector, SidecarMode::Required).unwrap();
    assert_ne!(first, second);
    assert_eq!(kill(second), None);
    // The kill of a pod that is not ready counts.
    pods.apply(Event::Apply(started("a", "False", "web:1", 100, Some("1970-01-01T00:07:00Z"))));
    assert_eq!(kill(first), Some(Duration::from_secs(420)));
}
