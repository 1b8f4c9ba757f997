//! An app with a known knee and a user's target that is four times too high: each pod serves two
//! requests at a time, and the HPA gives it eight. Beside it is the same app without any target.
//!
//! The simulator's scenarios show where a target ends. This test shows that the whole path works,
//! from the sidecars' reports to the size that the stock HPA writes.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::contract::METRIC_DESIRED;
use serde_json::Value;
use system_tests::cluster::installation::begin_shared;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::traffic::learning::{learning, number};
use system_tests::traffic::load::{LONGEST, Load, RunningLoad, ensure_all_ok, until_first_response};
use system_tests::wait;
use system_tests::workloads::deadlines::POD_START;
use system_tests::workloads::workload::{Workload, replicas, state};

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
const LEARNED: Duration = Duration::from_secs(180);
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A workload under load that has learned a lower target.
struct Learner {
    name: String,
    load: RunningLoad,
    learning: Value,
}

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
    // The others took their time, in which a recommendation must not have changed a size.
    let size = replicas(&namespace, &recommended.name).await?;
    ensure!(size == 1, "{size} replicas by a target that is only recommended");
    for learner in [&applied, &without_target] {
        let Learner { learning, .. } = learner;
        ensure!(number(learning, "/targetInForce")? < USER_TARGET * 0.8, "not in force: {learning}");
    }
    let learning = learning(&namespace, &recommended.name).await?;
    ensure!(number(&learning, "/targetInForce")? == USER_TARGET, "in force: {learning}");
    for mut learner in [applied, recommended, without_target] {
        ensure_all_ok(&learner.load.until_now().await?).with_context(|| learner.name)?;
    }
    namespace.end().await
}

/// Runs the load until the target is lower, and the size is as expected.
async fn learn(
    namespace: &TestNamespace,
    workload: Workload,
    mode: &str,
    expected: impl Fn(i32) -> bool,
) -> Result<Learner> {
    let workload = Workload { servers: Some(SERVERS), ..workload }
        .annotated("learn-target", mode)
        .annotated("latency-objective", OBJECTIVE);
    workload.create(namespace).await?;
    let url = workload.url(namespace).await?;
    until_first_response(&url, namespace, POD_START).await?;
    let load = Load::concurrency(&url, CLIENTS, WORK, LONGEST).start(namespace).await?;
    let (name, expected) = (workload.name, &expected);
    let what = format!("{name} to learn a target");
    let learned = wait::until_at(CHECK_INTERVAL, &what, LEARNED, || async {
        let size = replicas(namespace, &name).await?;
        let learning = learning(namespace, &name).await?;
        let state = state(namespace, &name).await;
        ensure!(number(&learning, "/learned/target")? < USER_TARGET * 0.8, "{learning}; {state}");
        ensure!(state.contains("recommendedTarget"), "no learned target in the status: {state}");
        ensure!(expected(size), "{size} replicas; {learning}; {state}");
        Ok(Some((size, learning)))
    });
    let (size, learning) = learned.await?;
    println!("{name}: {size} replicas, {learning}");
    Ok(Learner { name, load, learning })
}
