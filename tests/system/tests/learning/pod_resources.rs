//! Apps with a limit of CPU or of memory, on an HPA without a number, beside metrics-server: the
//! target stays within the limit, and no more than one pod is killed for its memory.
//!
//! On a cluster of its own with `--metrics-server`: `make test-learning`.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::contract::METRIC_DESIRED;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use system_tests::cluster::installation::begin_exclusive;
use system_tests::cluster::namespace::{TestNamespace, pods_of};
use system_tests::traffic::learning::{learning, number};
use system_tests::traffic::load::{LONGEST, Load, ensure_all_ok, until_first_response};
use system_tests::workloads::deadlines::POD_START;
use system_tests::workloads::workload::{Workload, replicas};
use tokio::time::Instant;

/// Little CPU for the machine of the test: two apps at 48 requests a second.
const WORK: Duration = Duration::from_millis(500);
const CLIENTS: u32 = 24;
/// Time in which a target is found, and for which the load lasts.
const LEARNED: Duration = Duration::from_secs(600);
const PRINT_INTERVAL: Duration = Duration::from_secs(30);

/// An app with a limit, and the target that the limit allows.
struct LimitedApp {
    name: &'static str,
    arguments: &'static [&'static str],
    limits: Value,
    /// Targets at which the app has no more pods than it may, and none is overloaded.
    expected: std::ops::RangeInclusive<f64>,
    /// Pods that may be killed for their memory.
    kills: i32,
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse and metrics-server: run make test-learning"]
async fn target_stays_within_limits_of_cpu_and_memory_without_a_number() -> Result<()> {
    let namespace = begin_exclusive("limited").await?;
    // 0.2 s of CPU a second and 10 ms a request are 20 requests a second, each of which takes
    // 510 ms: 10.2 at a time.
    let cpu = LimitedApp {
        name: "cpu",
        arguments: &["serve", "--cpu-ms=10"],
        limits: json!({"cpu": "200m"}),
        expected: 8.1..=12.3,
        kills: 0,
    };
    // Some 60 MiB beside the process are 15 requests of 4 MiB at most, of which the target plans
    // for what a pod exceeds by chance. The first pod gets all clients at once.
    let memory = LimitedApp {
        name: "memory",
        arguments: &["serve", "--memory-mib=4"],
        limits: json!({"memory": "64Mi"}),
        expected: 4.5..=15.0,
        kills: 1,
    };
    let (cpu, memory) = tokio::join!(learn(&namespace, cpu), learn(&namespace, memory));
    cpu.context("limit of CPU")?;
    memory.context("limit of memory")?;
    namespace.end().await
}

async fn learn(namespace: &TestNamespace, app: LimitedApp) -> Result<()> {
    let workload = Workload { metric: METRIC_DESIRED, target: "1".to_owned(), ..Workload::new(app.name) };
    workload.create_without_hpa(namespace).await?;
    limit(namespace, &app).await?;
    workload.create_hpa(namespace).await?;
    let url = workload.url(namespace).await?;
    until_first_response(&url, namespace, POD_START).await?;
    let kept = Load { new_connections: false, ..Load::concurrency(&url, CLIENTS, WORK, LONGEST) };
    let mut load = kept.start(namespace).await?;
    let began = Instant::now();
    let (mut lost, mut target, mut restarts) = (Vec::new(), 0.0, BTreeMap::new());
    while began.elapsed() < LEARNED {
        tokio::time::sleep(PRINT_INTERVAL).await;
        let responses = load.until_now().await?;
        restarts.extend(app_restarts(namespace, app.name).await?);
        lost.extend(ensure_all_ok(&responses).err());
        let (size, learning) = (replicas(namespace, app.name).await?, learning(namespace, app.name).await?);
        target = number(&learning, "/targetInForce")?;
        let (name, elapsed, count) = (app.name, began.elapsed().as_secs(), responses.len());
        println!("{name} after {elapsed} s: {count} responses, {size} pods, target {target}, {learning}");
    }
    let kills: i32 = restarts.values().sum();
    println!("{}: target {target}, {kills} kills, lost {lost:?}", app.name);
    ensure!(app.expected.contains(&target), "target {target}, expected {:?}", app.expected);
    ensure!(kills <= app.kills, "{kills} kills");
    // A kill ends the requests of its pod.
    ensure!(kills > 0 || lost.is_empty(), "{lost:?}");
    Ok(())
}

/// Replaces the app's arguments and limits.
async fn limit(namespace: &TestNamespace, app: &LimitedApp) -> Result<()> {
    let container = json!({"name": "app", "args": app.arguments, "resources": {"limits": app.limits}});
    let patch = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
    let deployments = namespace.api::<Deployment>();
    deployments.patch(app.name, &PatchParams::default(), &Patch::Strategic(patch)).await?;
    Ok(())
}

/// How often the app of each pod was restarted. A pod that was killed may be gone at the end.
async fn app_restarts(namespace: &TestNamespace, name: &str) -> Result<Vec<(String, i32)>> {
    let pods = pods_of(namespace, name).await?;
    let restarts = pods.iter().filter_map(|pod| {
        let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
        let app = statuses.iter().find(|status| status.name == "app")?;
        Some((pod.metadata.name.clone()?, app.restart_count))
    });
    Ok(restarts.collect())
}
