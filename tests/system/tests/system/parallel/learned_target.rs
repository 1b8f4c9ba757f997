//! An app with a known knee and a user's target that is four times too high: each pod serves two
//! requests at a time, and the HPA gives it eight. Beside it is the same app without any target.
//!
//! The simulator's scenarios show where a target ends. This test shows that the whole path works,
//! from the sidecars' reports to the size that the stock HPA writes.

use std::time::Duration;

use anyhow::{Result, ensure};
use autoscaler::contract::METRIC_DESIRED;
use serde_json::Value;
use system_tests::cluster::installation::begin_shared;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::traffic::learning::{learning, number};
use system_tests::traffic::load::{Load, ensure_all_ok, until_first_response};
use system_tests::workloads::workload::{Workload, replicas, state};

/// Enough for a pod's start on a loaded machine.
const POD_START: Duration = Duration::from_secs(60);
/// Requests that a pod serves at a time.
const SERVERS: u32 = 2;
const WORK: Duration = Duration::from_millis(200);
/// Its share that a pod should carry, 8.4, is where learning begins without a target of the user.
const CONTAINER_CONCURRENCY: u32 = 12;
/// Requests at a time: less than the user's target, so the HPA keeps one pod, in which a request
/// takes 0.7 s. The objective needs two pods at least.
const CLIENTS: u32 = 7;
const USER_TARGET: f64 = 8.0;
const OBJECTIVE: &str = "400ms@p95";
/// The first minute allows no change, and evidence takes twenty seconds.
const LOAD: Duration = Duration::from_secs(150);

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn learned_target_is_applied_by_the_stock_hpa_or_only_recommended() -> Result<()> {
    let namespace = begin_shared("learned-target").await?;
    let given = |name: &str| Workload { target: USER_TARGET.to_string(), ..Workload::new(name) };
    let none = Workload {
        metric: METRIC_DESIRED,
        target: "1".to_owned(),
        container_concurrency: CONTAINER_CONCURRENCY,
        ..Workload::new("no-target")
    };
    let (applied, recommended, without_target) = tokio::try_join!(
        learn(&namespace, given("apply"), "Apply", |replicas| replicas >= 2),
        learn(&namespace, given("recommend"), "Recommend", |replicas| replicas == 1),
        learn(&namespace, none, "Apply", |replicas| replicas >= 2),
    )?;
    ensure!(number(&without_target, "/targetInForce")? < USER_TARGET * 0.8, "not in force: {without_target}");
    ensure!(number(&applied, "/targetInForce")? < USER_TARGET * 0.8, "not in force: {applied}");
    ensure!(number(&recommended, "/targetInForce")? == USER_TARGET, "in force: {recommended}");
    namespace.delete().await
}

/// Runs the load and returns what `why` reports about learning at its end. All requests must
/// succeed, the target must be lower, and the size must be as expected.
async fn learn(
    namespace: &TestNamespace,
    workload: Workload,
    mode: &str,
    expected: impl Fn(i32) -> bool,
) -> Result<Value> {
    let workload = Workload { servers: Some(SERVERS), ..workload }
        .annotated("learn-target", mode)
        .annotated("latency-objective", OBJECTIVE);
    let name = workload.name.as_str();
    workload.create(namespace).await?;
    let url = workload.url(namespace).await?;
    until_first_response(&url, namespace, POD_START).await?;
    let responses = Load::concurrency(&url, CLIENTS, WORK, LOAD).run(namespace).await?;
    let size = replicas(namespace, name).await?;
    let learning = learning(namespace, name).await?;
    ensure_all_ok(&responses)?;
    let state = state(namespace, name).await;
    ensure!(expected(size), "{size} replicas after the load; {learning}; {state}");
    ensure!(number(&learning, "/learned/target")? < USER_TARGET * 0.8, "{learning}; {state}");
    ensure!(state.contains("recommendedTarget"), "no learned target in the status: {state}");
    println!("{name}: {size} replicas, {learning}");
    Ok(learning)
}
