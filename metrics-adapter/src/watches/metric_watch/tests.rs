use autoscaler::contract::metric_name::MetricName;
use fake_api::FakeApi;
use prometheus::Registry;
use serde_json::{Value, json};

use super::*;

fn objects(spec: Value, annotations: Value, selector: &str) -> (MetricSpec, PodAutoscaler) {
    let metric = serde_json::from_value(json!({
        "service": "web", "selector": selector,
    }));
    let mut autoscaler = json!({
        "metadata": {"namespace": "shop", "name": "web", "annotations": annotations},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "service": "web",
        },
    });
    autoscaler["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    (metric.unwrap(), serde_json::from_value(autoscaler).unwrap())
}

fn build_of(spec: Value, annotations: Value, selector: &str) -> Result<Workload, InvalidWorkload> {
    let (metric, autoscaler) = objects(spec, annotations, selector);
    let (settings, errors) = autoscaler.spec.settings(&AutoscalerConfig::default(), autoscaler.annotations());
    assert_eq!(errors, []);
    workload(&Key::new("shop", "web"), &metric, &autoscaler, &settings)
}

fn build(target: &str, selector: &str) -> Result<Workload, InvalidWorkload> {
    let spec = json!({"metric": "requests-per-second", "target": target, "maxReplicas": 5});
    build_of(spec, json!({}), selector)
}

#[test]
fn builds_workload_from_metric_and_pod_autoscaler() {
    let workload = build("0.7", "app=web").unwrap();
    assert_eq!((workload.target_milli, workload.spec.target), (700, 0.7));
    assert_eq!(workload.spec.total, 1.0);
    assert!(workload.spec.reachable);
    assert_eq!(workload.measure, MetricName::RequestsPerSecond);
    assert_eq!(workload.windows.panic, Duration::from_secs(6));
}

#[test]
fn takes_metric_and_target_from_annotations() {
    let annotations = json!({
        "autoscaling.rouse.dev/metric": "rps", "autoscaling.rouse.dev/target": "300",
        "autoscaling.rouse.dev/reachability": "Unreachable",
    });
    let workload = build_of(json!({}), annotations, "app=web").unwrap();
    assert_eq!(workload.measure, MetricName::RequestsPerSecond);
    assert_eq!((workload.target_milli, workload.spec.total), (210_000, 300.0));
    assert!(!workload.spec.reachable);
    let plain = build_of(json!({"containerConcurrency": 10}), json!({}), "app=web").unwrap();
    assert_eq!(plain.measure, MetricName::Concurrency);
    assert_eq!((plain.target_milli, plain.spec.total), (7000, 10.0));
}

#[test]
fn limit_of_the_pod_template_counts_where_the_pod_autoscaler_has_none() {
    for (of_autoscaler, of_template, expected) in
        [(0, Some(10), Some(10)), (20, Some(10), Some(20)), (20, None, Some(20)), (0, None, None)]
    {
        let spec = json!({"containerConcurrency": of_autoscaler});
        let (metric, autoscaler) = objects(spec, json!({}), "app=web");
        let metric = MetricSpec { container_concurrency: of_template, ..metric };
        let (settings, _) = autoscaler.spec.settings(&AutoscalerConfig::default(), autoscaler.annotations());
        let built = workload(&Key::new("shop", "web"), &metric, &autoscaler, &settings).unwrap();
        assert_eq!(built.container_concurrency, expected);
        assert_eq!(built.spec.total, expected.map_or(100.0, f64::from));
    }
}

#[test]
fn rejects_invalid_target_or_selector_with_the_reason() {
    for (target, selector, part) in
        [("0", "app=web", "above 0"), ("-1", "", "above 0"), ("x", "", "quantity"), ("1", "=", "selector")]
    {
        let error = build(target, selector).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn builds_learning_for_concurrency_and_not_for_requests_per_second() {
    let workload = build_of(json!({"target": "7", "containerConcurrency": 10}), json!({}), "").unwrap();
    assert_eq!(workload.container_concurrency, Some(10));
    assert_eq!(workload.learning.unwrap().spec.user_target, 7.0);
    assert_eq!(build("7", "").unwrap().learning, None);
}

/// Stores the two objects of a workload.
fn put(api: &FakeApi, name: &str, max_replicas: u32) {
    put_with_status(api, name, max_replicas, json!({"target": "concurrency: 70"}));
}

fn put_with_status(api: &FakeApi, name: &str, max_replicas: u32, status: Value) {
    let path = |plural: &str| format!("/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/{plural}/{name}");
    api.put(&path("metrics"), json!({"spec": {"service": name, "selector": "app=web"}}));
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name});
    let spec = json!({"scaleTargetRef": target, "service": name, "maxReplicas": max_replicas});
    api.put(&path("podautoscalers"), json!({"spec": spec, "status": status}));
}

async fn until(workloads: &mut watch::Receiver<Arc<WorkloadTable>>, names: &[&str]) {
    let have =
        |table: &Arc<WorkloadTable>| table.iter().map(|it| it.key.name.as_str()).eq(names.iter().copied());
    let changed = tokio::time::timeout(Duration::from_secs(60), workloads.wait_for(have));
    changed.await.unwrap_or_else(|_| panic!("not {names:?}")).unwrap();
}

#[tokio::test(start_paused = true)]
async fn undecodable_object_leaves_all_workloads_in_the_table() {
    let (api, readiness) = (FakeApi::default(), Readiness::default());
    for (name, max_replicas) in [("a", 5), ("bad", 3_000_000_000), ("c", 5)] {
        put(&api, name, max_replicas);
    }
    let (table, mut workloads) = watch::channel(Arc::default());
    let metrics = Metrics::register(&Registry::new()).unwrap();
    let watch = MetricWatch::new(&api.client(), "rouse-system", &readiness, table, metrics);
    let _watch = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(watch.run()));
    until(&mut workloads, &["a", "c"]).await;
    assert!(readiness.is_ready());
    put(&api, "a", 4_000_000_000);
    put(&api, "d", 5);
    until(&mut workloads, &["a", "c", "d"]).await;
    put(&api, "bad", 5);
    api.break_watches(true);
    until(&mut workloads, &["a", "bad", "c", "d"]).await;
    api.remove("/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/podautoscalers/a");
    until(&mut workloads, &["bad", "c", "d"]).await;
}

#[tokio::test(start_paused = true)]
async fn checkpoint_is_stored_and_changes_no_table() {
    let (api, readiness) = (FakeApi::default(), Readiness::default());
    put(&api, "a", 5);
    let (table, mut workloads) = watch::channel(Arc::default());
    let metrics = Metrics::register(&Registry::new()).unwrap();
    let watch = MetricWatch::new(&api.client(), "rouse-system", &readiness, table, metrics);
    let stored = watch.stored_learning();
    let _watch = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(watch.run()));
    until(&mut workloads, &["a"]).await;
    workloads.mark_unchanged();
    let learning = json!({"mode": "Recommend", "recommendedTarget": "8400m", "confidence": 90});
    put_with_status(&api, "a", 5, json!({"replicas": 3, "learning": learning}));
    let key = Key::new("shop", "a");
    for _ in 0..600 {
        if stored.target(&key).is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(stored.target(&key), Some(8.4));
    tokio::time::sleep(BATCH_DELAY * 2).await;
    assert!(!workloads.has_changed().unwrap());
}
