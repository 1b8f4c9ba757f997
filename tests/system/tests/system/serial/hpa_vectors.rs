//! The decisions of the stock HPA on Rouse's metric, by the vectors of its arithmetic and of its
//! order of decisions.
//!
//! All vectors run concurrently: each is an HPA with a scale target of its own and the load of a
//! simulated activator. Two inputs are left out because the adapter never sends them: an empty list
//! and broken JSON. A write between an HPA's read and its write is left out because it cannot be
//! timed.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::contract::{METRIC_CONCURRENCY, METRIC_DESIRED, METRIC_RPS};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};
use system_tests::cluster::installation::{begin_exclusive, without_zero_scaler};
use system_tests::cluster::namespace::TestNamespace;
use system_tests::traffic::metric::service_metric_milli;
use system_tests::traffic::simulated_activator::{ReportedLoad, ReportedLoads, SimulatedActivator};
use system_tests::wait;
use system_tests::workloads::scale_target::{KIND_DISCOVERY, ScaleTarget, ScaleTargets};

/// A few sync periods of the HPA, at the stock period of 15 s as well.
const ROUNDS: Duration = Duration::from_secs(75);
/// Number of objects created concurrently.
const AT_A_TIME: usize = 16;

/// An HPA's condition: type, status, reason.
type HpaCondition = (&'static str, &'static str, &'static str);

const METRIC_FOUND: HpaCondition = ("ScalingActive", "True", "ValidMetricFound");
const NO_METRIC: HpaCondition = ("ScalingActive", "False", "FailedGetExternalMetric");
const DISABLED: HpaCondition = ("ScalingActive", "False", "ScalingDisabled");

/// An HPA, the reported load and the expected result.
struct Vector {
    target: ScaleTarget,
    load: Vec<ReportedLoad>,
    /// The first sizes, the initial one included. A single one: the size must not change.
    sizes: Vec<i32>,
    condition: HpaCondition,
}

/// The environment of the vectors of several steps.
struct VectorTest {
    namespace: TestNamespace,
    targets: ScaleTargets,
    loads: ReportedLoads,
}

// === impl Vector ===

impl Vector {
    fn new(name: &str, load: f64, sizes: &[i32]) -> Self {
        let first = sizes.first().copied().unwrap_or_default();
        Self {
            target: ScaleTarget::new(name, first),
            load: vec![ReportedLoad::Concurrency(load)],
            sizes: sizes.into(),
            condition: METRIC_FOUND,
        }
    }

    /// A vector without reports.
    fn without_reports(name: &str, sizes: &[i32], condition: HpaCondition) -> Self {
        Self { load: vec![], condition, ..Self::new(name, 0.0, sizes) }
    }

    fn expecting(self, condition: HpaCondition) -> Self {
        Self { condition, ..self }
    }

    fn with(mut self, change: impl FnOnce(&mut ScaleTarget)) -> Self {
        change(&mut self.target);
        self
    }

    fn behavior(self, behavior: Value) -> Self {
        self.with(|target| target.behavior = behavior)
    }

    /// Checks whether the expected state is reached; the error describes the actual state.
    fn check(
        &self,
        targets: &ScaleTargets,
        statuses: &BTreeMap<String, HorizontalPodAutoscalerStatus>,
    ) -> Result<()> {
        let name = &self.target.name;
        let sizes = targets.sizes(name);
        let reached =
            if self.sizes.len() == 1 { sizes == self.sizes } else { sizes.starts_with(&self.sizes) };
        ensure!(reached, "{name}: the sizes are {sizes:?}, expected {:?}", self.sizes);
        let status = statuses.get(name).with_context(|| format!("{name}: the HPA has no status"))?;
        ensure!(
            has_condition(status, self.condition),
            "{name}: the HPA lacks the condition {:?}, it has {:?}",
            self.condition,
            status.conditions
        );
        // The condition must be about the final size and not about the one before.
        let (current, last) = (status.current_replicas.unwrap_or(0), self.sizes.last().copied());
        let moved_on = sizes.len() > self.sizes.len();
        let settled = moved_on || self.target.reported_replicas.is_some() || last == Some(current);
        ensure!(settled, "{name}: the HPA's currentReplicas is {current}");
        Ok(())
    }
}

fn has_condition(status: &HorizontalPodAutoscalerStatus, (kind, value, reason): HpaCondition) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|c| c.type_ == kind && c.status == value && c.reason.as_deref() == Some(reason))
}

fn tolerance_0() -> Value {
    json!({"scaleUp": {"tolerance": "0"}, "scaleDown": {"tolerance": "0"}})
}

/// Scale-down without stabilization, by at most half in a minute.
fn half_per_minute() -> Value {
    json!({"scaleDown": {
        "stabilizationWindowSeconds": 0,
        "policies": [{"type": "Percent", "value": 50, "periodSeconds": 60}],
    }})
}

fn down_at_once() -> Value {
    json!({"scaleDown": {"stabilizationWindowSeconds": 0}})
}

/// The policies that the API server fills in where a behavior is given.
fn default_policies() -> Value {
    json!({"scaleUp": {"stabilizationWindowSeconds": 0}})
}

/// The default policies over a period of several HPA syncs.
fn slow_default_policies() -> Value {
    json!({"scaleUp": {"policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 60},
        {"type": "Percent", "value": 100, "periodSeconds": 60},
    ]}})
}

/// The target is 70 unless set. Where the load is a multiple of the target, the expected size is
/// exact.
fn arithmetic() -> Vec<Vector> {
    let hundred = |target: &mut ScaleTarget| target.target = "100";
    let too_few = ("ScalingLimited", "True", "TooFewReplicas");
    vec![
        Vector::new("v1", 350.0, &[4, 5]),
        Vector::new("v2-tolerated", 286.0, &[4]),
        Vector::new("v2-exact", 286.0, &[4, 5]).behavior(tolerance_0()),
        Vector::new("v3", 315.0, &[4, 5]),
        Vector::new("v4", 1100.0, &[10]).with(hundred),
        Vector::new("v5", 900.0, &[10]).with(hundred),
        Vector::new("v6-little", 0.001, &[1]).with(|target| target.bounds.0 = 0).behavior(down_at_once()),
        Vector::new("v6-nothing", 0.0, &[3, 1]).expecting(too_few).behavior(down_at_once()),
        Vector::new("v7-nothing", 0.0, &[1])
            .expecting(too_few)
            .behavior(down_at_once())
            .with(|target| target.reported_replicas = Some(0)),
        Vector::new("v7-more", 70.001, &[1, 2]).with(|target| target.reported_replicas = Some(0)),
        Vector {
            load: [100.0, 100.0, 150.0].map(ReportedLoad::Concurrency).into(),
            ..Vector::new("v8", 0.0, &[4, 5])
        },
        Vector::new("v11-tolerated", 1400.0, &[20, 21]).with(|target| target.reported_replicas = Some(21)),
        Vector::new("v11-exact", 1400.0, &[20])
            .behavior(tolerance_0())
            .with(|target| target.reported_replicas = Some(21)),
        Vector { load: vec![ReportedLoad::Rate(350.0)], ..Vector::new("of-rate", 0.0, &[4, 5]) }
            .with(|target| target.metric = METRIC_RPS),
        Vector::new("of-decision", 350.0, &[4, 5])
            .with(|target| (target.metric, target.target) = (METRIC_DESIRED, "1")),
    ]
}

fn errors() -> Vec<Vector> {
    vec![
        Vector::without_reports("v9-no-data", &[4], NO_METRIC),
        Vector::new("v9-unknown", 350.0, &[4])
            .expecting(NO_METRIC)
            .with(|target| target.metric = "unknown-metric-2"),
        Vector::new("v10-less", 210.0, &[5])
            .expecting(NO_METRIC)
            .with(|target| target.has_unknown_metric = true),
        Vector::new("v10-more", 560.0, &[5, 8]).with(|target| target.has_unknown_metric = true),
    ]
}

fn limits() -> Vec<Vector> {
    let up_limit = ("ScalingLimited", "True", "ScaleUpLimit");
    let up = |name, sizes: [i32; 2]| Vector::new(name, 7000.0, &sizes).behavior(default_policies());
    let half = |name, sizes: &[i32]| {
        Vector::new(name, 0.0, sizes).behavior(half_per_minute()).with(|target| target.bounds.0 = 0)
    };
    let kpa = json!({"scaleUp": {"policies": [{"type": "Percent", "value": 99900, "periodSeconds": 15}]}});
    vec![
        up("v12-of-1", [1, 5]),
        up("v12-of-3", [3, 7]),
        up("v12-of-5", [5, 10]),
        Vector::new("v13", 7000.0, &[4, 8]).behavior(slow_default_policies()).expecting(up_limit),
        Vector::new("v15", 7000.0, &[3, 50]).behavior(kpa).with(|target| target.bounds.1 = 50).expecting((
            "ScalingLimited",
            "True",
            "TooManyReplicas",
        )),
        half("v16-of-1", &[1, 0]),
        half("v16-of-2", &[2, 1]),
        half("v16-of-3", &[3, 1]),
        half("v16-of-5", &[5, 2]),
        half("v16-of-9", &[9, 4]),
        half("v16-of-10", &[10, 5]),
        Vector::new("v17", 350.0, &[20, 5]).behavior(down_at_once()),
    ]
}

/// These have no reports, so the HPA acts without a metric.
fn without_metric() -> Vec<Vector> {
    let bounds = |min, max| move |target: &mut ScaleTarget| target.bounds = (min, max);
    vec![
        Vector::without_reports("v20", &[60, 50], NO_METRIC).with(bounds(1, 50)),
        Vector::without_reports("v21", &[1, 2], NO_METRIC).with(bounds(2, 50)),
        Vector::without_reports("v22", &[0], DISABLED).with(bounds(1, 50)),
        Vector::without_reports("v24", &[0], DISABLED).with(bounds(0, 50)),
    ]
}

fn ambiguous_selectors() -> Vec<Vector> {
    let ambiguous = ("ScalingActive", "False", "AmbiguousSelector");
    let one = |name| Vector::new(name, 350.0, &[4]).expecting(ambiguous);
    vec![one("v26-a").with(|target| target.selected_app = "v26-b".to_owned()), one("v26-b")]
}

// === impl VectorTest ===

impl VectorTest {
    fn set(&self, name: &str, load: f64) {
        self.loads.set(ScaleTarget::new(name, 0).key(&self.namespace), &[ReportedLoad::Concurrency(load)]);
    }

    /// Waits until a target's metric has this value.
    async fn until_metric(&self, name: &str, milli: i64) -> Result<()> {
        wait::until(&format!("the metric of {name} to be {milli}m"), ROUNDS, || async {
            let now =
                service_metric_milli(&self.namespace.client, &self.namespace.name, METRIC_CONCURRENCY, name)
                    .await?;
            ensure!(now == milli, "the metric is {now}m");
            Ok(Some(()))
        })
        .await
    }

    async fn until_sizes(&self, name: &str, sizes: &[i32]) -> Result<()> {
        wait::until(&format!("{name} to go through the sizes {sizes:?}"), ROUNDS, || async {
            let now = self.targets.sizes(name);
            ensure!(now.starts_with(sizes), "the sizes are {now:?}");
            Ok(Some(()))
        })
        .await
    }

    async fn until_condition(&self, name: &str, expected: HpaCondition) -> Result<()> {
        wait::until(&format!("the HPA {name} to have the condition {expected:?}"), ROUNDS, || async {
            let autoscaler = self.namespace.api::<HorizontalPodAutoscaler>().get(name).await?;
            let status = autoscaler.status.unwrap_or_default();
            ensure!(has_condition(&status, expected), "the conditions are {:?}", status.conditions);
            Ok(Some(()))
        })
        .await
    }

    /// A size that another client writes does not count as growth by the HPA.
    async fn v14(&self) -> Result<()> {
        self.targets.scale("v14", 8).await?;
        self.set("v14", 7000.0);
        self.until_sizes("v14", &[4, 8, 16]).await
    }

    /// A recent recommendation keeps a size that another client raised from falling below it.
    async fn v18(&self) -> Result<()> {
        self.set("v18", 1260.0);
        self.until_condition("v18", METRIC_FOUND).await?;
        self.targets.scale("v18", 20).await?;
        self.set("v18", 350.0);
        self.until_metric("v18", 350_000).await?;
        self.until_condition("v18", ("AbleToScale", "True", "ScaleDownStabilized")).await?;
        self.until_sizes("v18", &[18, 20, 18]).await
    }

    /// After some time at zero an HPA without a behavior scales to its old peak, and one with a
    /// behavior to the current load.
    async fn v19(&self, name: &str, after_zero: i32) -> Result<()> {
        self.set(name, 630.0);
        self.until_condition(name, METRIC_FOUND).await?;
        self.targets.scale(name, 0).await?;
        self.set(name, 210.0);
        self.until_condition(name, DISABLED).await?;
        self.until_metric(name, 210_000).await?;
        self.targets.scale(name, 1).await?;
        self.until_sizes(name, &[9, 0, 1, after_zero]).await
    }

    /// An HPA that scaled to zero by itself scales up by itself.
    async fn v23(&self) -> Result<()> {
        self.set("v23", 0.0);
        self.until_sizes("v23", &[1, 0]).await?;
        self.until_condition("v23", ("ScaledToZero", "True", "ScaledToZero")).await?;
        // The windows must be empty, so that the first value contains the whole load.
        self.loads.remove(&ScaleTarget::new("v23", 0).key(&self.namespace));
        self.until_condition("v23", NO_METRIC).await?;
        self.set("v23", 140.0);
        self.until_sizes("v23", &[1, 0, 2]).await
    }

    async fn statuses(&self) -> Result<BTreeMap<String, HorizontalPodAutoscalerStatus>> {
        let all = self.namespace.api::<HorizontalPodAutoscaler>().list(&ListParams::default()).await?;
        Ok(all.into_iter().map(|hpa| (hpa.name_any(), hpa.status.unwrap_or_default())).collect())
    }

    /// Waits until each vector has reached its expected state. They need not be in it at the same
    /// time.
    async fn until_all(&self, vectors: &[Vector]) -> Result<()> {
        let mut open: Vec<_> = vectors.iter().collect();
        let end = tokio::time::Instant::now() + ROUNDS;
        loop {
            let statuses = self.statuses().await?;
            let mut errors = Vec::new();
            open.retain(|vector| {
                vector
                    .check(&self.targets, &statuses)
                    .map_err(|error| errors.push(format!("{error:#}")))
                    .is_err()
            });
            if open.is_empty() {
                return Ok(());
            }
            ensure!(tokio::time::Instant::now() < end, "after {ROUNDS:?}:\n{}", errors.join("\n"));
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn stock_hpa_reproduces_vectors() -> Result<()> {
    let namespace = begin_exclusive("vectors").await?;
    without_zero_scaler(&namespace.client, async {
        reproduce(&namespace).await?;
        // Deleted while the adapter serves its API, which must not block the deletion.
        namespace.delete().await
    })
    .await
}

async fn reproduce(namespace: &TestNamespace) -> Result<()> {
    let targets = ScaleTargets::follow(namespace).await?;
    let test = VectorTest { namespace: namespace.clone(), targets, loads: ReportedLoads::default() };
    let vectors: Vec<_> = [arithmetic(), errors(), limits(), without_metric(), ambiguous_selectors()]
        .into_iter()
        .flatten()
        .collect();
    let steps = [
        Vector::without_reports("v14", &[4], NO_METRIC).behavior(default_policies()),
        // Without a tolerance of zero 18 instead of 20 would be tolerated, and 20 would be the
        // recent recommendation.
        Vector::without_reports("v18", &[18], NO_METRIC).behavior(tolerance_0()),
        Vector::without_reports("v19-behavior", &[9], NO_METRIC).behavior(default_policies()),
        Vector::without_reports("v19-none", &[9], NO_METRIC),
        Vector::without_reports("v23", &[1], NO_METRIC)
            .with(|target| target.bounds.0 = 0)
            .behavior(down_at_once()),
    ];
    let all = || vectors.iter().chain(&steps);
    stream::iter(all().map(|vector| test.targets.create(&vector.target)))
        .buffer_unordered(AT_A_TIME)
        .try_collect::<()>()
        .await?;
    stream::iter(all().map(|vector| vector.target.create_hpa(namespace)))
        .buffer_unordered(AT_A_TIME)
        .try_collect::<()>()
        .await?;

    // Vector 9 for all of them: without a metric no HPA changes a size.
    let has_load = |vector: &&Vector| !vector.load.is_empty() && vector.condition.2 != "AmbiguousSelector";
    let frozen: Vec<_> = vectors.iter().filter(has_load).chain(&steps).collect();
    wait::until("all HPAs to report a missing metric", KIND_DISCOVERY + ROUNDS, || async {
        let statuses = test.statuses().await?;
        for vector in &frozen {
            let name = &vector.target.name;
            let status = statuses.get(name).with_context(|| format!("{name} has no status"))?;
            ensure!(has_condition(status, NO_METRIC), "{name} has the conditions {:?}", status.conditions);
        }
        Ok(Some(()))
    })
    .await?;
    for vector in &frozen {
        let sizes = test.targets.sizes(&vector.target.name);
        ensure!(
            sizes == [vector.target.size],
            "{} went through {sizes:?} without a metric",
            vector.target.name
        );
    }

    let _activator = SimulatedActivator::start(&namespace.client, "activator-simulated", test.loads.clone());
    for vector in vectors.iter().filter(|vector| !vector.load.is_empty()) {
        test.loads.set(vector.target.key(namespace), &vector.load);
    }
    tokio::try_join!(
        test.until_all(&vectors),
        test.v14(),
        test.v18(),
        test.v19("v19-behavior", 3),
        test.v19("v19-none", 4),
        test.v23(),
    )?;
    for vector in vectors.iter().filter(|vector| vector.sizes.len() == 1) {
        let (name, sizes) = (&vector.target.name, test.targets.sizes(&vector.target.name));
        ensure!(sizes == vector.sizes, "{name}: the size changed: {sizes:?}");
    }
    println!("{} HPAs match the reference", vectors.len() + steps.len());
    Ok(())
}
