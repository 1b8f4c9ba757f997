//! What the stock HPA makes of our metric, by the vectors of its arithmetic and of its order of decisions: `make test-system`.
//!
//! All of them side by side: each is an HPA with a target of its own, for which a played activator reports a load. Three things
//! are not here: an empty list and broken JSON, which the adapter never answers; and an HPA that overwrites what somebody wrote
//! while it computed, which cannot be made to happen.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::contract::{METRIC_CONCURRENCY, METRIC_DESIRED, METRIC_RPS};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};
use system_tests::installation::{begin, without_zero_scaler};
use system_tests::metric::of_service;
use system_tests::namespace::TestNamespace;
use system_tests::played_activator::{Load, Loads, PlayedActivator};
use system_tests::target::{KIND_IS_KNOWN, Scaled, Targets};
use system_tests::wait;

/// A few rounds of the HPA, at the stock period of 15 s as well.
const ROUNDS: Duration = Duration::from_secs(75);
/// Objects made at a time.
const AT_A_TIME: usize = 16;

/// A condition of an HPA: type, status, reason.
type Says = (&'static str, &'static str, &'static str);

const FOLLOWS: Says = ("ScalingActive", "True", "ValidMetricFound");
const NO_METRIC: Says = ("ScalingActive", "False", "FailedGetExternalMetric");
const DISABLED: Says = ("ScalingActive", "False", "ScalingDisabled");

/// An HPA, what it is told, and what it has to make of it.
struct Vector {
    scaled: Scaled,
    load: Vec<Load>,
    /// The sizes that it begins with, its first one included. One alone: it stays there.
    sizes: Vec<i32>,
    says: Says,
}

/// Everything that a vector of several steps needs.
struct Stage {
    namespace: TestNamespace,
    targets: Targets,
    loads: Loads,
}

// === impl Vector ===

impl Vector {
    fn new(name: &str, load: f64, sizes: &[i32]) -> Self {
        let first = sizes.first().copied().unwrap_or_default();
        Self {
            scaled: Scaled::new(name, first),
            load: vec![Load::Concurrency(load)],
            sizes: sizes.into(),
            says: FOLLOWS,
        }
    }

    /// One about which nobody reports anything.
    fn untold(name: &str, sizes: &[i32], says: Says) -> Self {
        Self { load: vec![], says, ..Self::new(name, 0.0, sizes) }
    }

    fn says(self, says: Says) -> Self {
        Self { says, ..self }
    }

    fn with(mut self, change: impl FnOnce(&mut Scaled)) -> Self {
        change(&mut self.scaled);
        self
    }

    fn behavior(self, behavior: Value) -> Self {
        self.with(|scaled| scaled.behavior = behavior)
    }

    /// Whether it is where it should be; else, what it is.
    fn state(
        &self,
        targets: &Targets,
        statuses: &BTreeMap<String, HorizontalPodAutoscalerStatus>,
    ) -> Result<()> {
        let name = &self.scaled.name;
        let sizes = targets.sizes(name);
        let reached =
            if self.sizes.len() == 1 { sizes == self.sizes } else { sizes.starts_with(&self.sizes) };
        ensure!(reached, "{name}: its sizes were {sizes:?}, and not {:?}", self.sizes);
        let status = statuses.get(name).with_context(|| format!("{name}: its HPA has no status"))?;
        ensure!(
            says(status, self.says),
            "{name}: its HPA does not say {:?} but {:?}",
            self.says,
            status.conditions
        );
        // It says so of what it has now, and not of what it was just leaving.
        let (sees, last) = (status.current_replicas.unwrap_or(0), self.sizes.last().copied());
        let moved_on = sizes.len() > self.sizes.len();
        let settled = moved_on || self.scaled.counts.is_some() || last == Some(sees);
        ensure!(settled, "{name}: its HPA sees {sees} replicas");
        Ok(())
    }
}

fn says(status: &HorizontalPodAutoscalerStatus, (kind, value, reason): Says) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|c| c.type_ == kind && c.status == value && c.reason.as_deref() == Some(reason))
}

fn tolerance_0() -> Value {
    json!({"scaleUp": {"tolerance": "0"}, "scaleDown": {"tolerance": "0"}})
}

/// Down at once, and no further than half of it in a minute.
fn half_of_it() -> Value {
    json!({"scaleDown": {
        "stabilizationWindowSeconds": 0,
        "policies": [{"type": "Percent", "value": 50, "periodSeconds": 60}],
    }})
}

fn down_at_once() -> Value {
    json!({"scaleDown": {"stabilizationWindowSeconds": 0}})
}

/// What the API server fills in where a behavior is given.
fn default_policies() -> Value {
    json!({"scaleUp": {"stabilizationWindowSeconds": 0}})
}

/// The default ones, but over a period in which the HPA looks several times.
fn slow_default_policies() -> Value {
    json!({"scaleUp": {"policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 60},
        {"type": "Percent", "value": 100, "periodSeconds": 60},
    ]}})
}

/// The target is 70 unless said otherwise. Where the load is a whole number of targets, so is what the HPA makes of it.
fn arithmetic() -> Vec<Vector> {
    let hundred = |scaled: &mut Scaled| scaled.target = "100";
    let too_few = ("ScalingLimited", "True", "TooFewReplicas");
    vec![
        Vector::new("v1", 350.0, &[4, 5]),
        Vector::new("v2-tolerated", 286.0, &[4]),
        Vector::new("v2-exact", 286.0, &[4, 5]).behavior(tolerance_0()),
        Vector::new("v3", 315.0, &[4, 5]),
        Vector::new("v4", 1100.0, &[10]).with(hundred),
        Vector::new("v5", 900.0, &[10]).with(hundred),
        Vector::new("v6-little", 0.001, &[1]).with(|scaled| scaled.bounds.0 = 0).behavior(down_at_once()),
        Vector::new("v6-nothing", 0.0, &[3, 1]).says(too_few).behavior(down_at_once()),
        Vector::new("v7-nothing", 0.0, &[1])
            .says(too_few)
            .behavior(down_at_once())
            .with(|scaled| scaled.counts = Some(0)),
        Vector::new("v7-more", 70.001, &[1, 2]).with(|scaled| scaled.counts = Some(0)),
        Vector {
            load: [100.0, 100.0, 150.0].map(Load::Concurrency).into(),
            ..Vector::new("v8", 0.0, &[4, 5])
        },
        Vector::new("v11-tolerated", 1400.0, &[20, 21]).with(|scaled| scaled.counts = Some(21)),
        Vector::new("v11-exact", 1400.0, &[20])
            .behavior(tolerance_0())
            .with(|scaled| scaled.counts = Some(21)),
        Vector { load: vec![Load::Rate(350.0)], ..Vector::new("of-rate", 0.0, &[4, 5]) }
            .with(|scaled| scaled.metric = METRIC_RPS),
        Vector::new("of-decision", 350.0, &[4, 5])
            .with(|scaled| (scaled.metric, scaled.target) = (METRIC_DESIRED, "1")),
    ]
}

fn errors() -> Vec<Vector> {
    vec![
        Vector::untold("v9-no-data", &[4], NO_METRIC),
        Vector::new("v9-unknown", 350.0, &[4])
            .says(NO_METRIC)
            .with(|scaled| scaled.metric = "of-nobody-either"),
        Vector::new("v10-less", 210.0, &[5]).says(NO_METRIC).with(|scaled| scaled.asks_too_much = true),
        Vector::new("v10-more", 560.0, &[5, 8]).with(|scaled| scaled.asks_too_much = true),
    ]
}

fn limits() -> Vec<Vector> {
    let up_limit = ("ScalingLimited", "True", "ScaleUpLimit");
    let up = |name, sizes: [i32; 2]| Vector::new(name, 7000.0, &sizes).behavior(default_policies());
    let half = |name, sizes: &[i32]| {
        Vector::new(name, 0.0, sizes).behavior(half_of_it()).with(|scaled| scaled.bounds.0 = 0)
    };
    let kpa = json!({"scaleUp": {"policies": [{"type": "Percent", "value": 99900, "periodSeconds": 15}]}});
    vec![
        up("v12-of-1", [1, 5]),
        up("v12-of-3", [3, 7]),
        up("v12-of-5", [5, 10]),
        Vector::new("v13", 7000.0, &[4, 8]).behavior(slow_default_policies()).says(up_limit),
        Vector::new("v15", 7000.0, &[3, 50]).behavior(kpa).with(|scaled| scaled.bounds.1 = 50).says((
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

/// Nothing is reported of these, so that what the HPA does all the same it does without having asked.
fn unasked() -> Vec<Vector> {
    let bounds = |min, max| move |scaled: &mut Scaled| scaled.bounds = (min, max);
    vec![
        Vector::untold("v20", &[60, 50], NO_METRIC).with(bounds(1, 50)),
        Vector::untold("v21", &[1, 2], NO_METRIC).with(bounds(2, 50)),
        Vector::untold("v22", &[0], DISABLED).with(bounds(1, 50)),
        Vector::untold("v24", &[0], DISABLED).with(bounds(0, 50)),
    ]
}

fn claimed_twice() -> Vec<Vector> {
    let ambiguous = ("ScalingActive", "False", "AmbiguousSelector");
    let one = |name| Vector::new(name, 350.0, &[4]).says(ambiguous);
    vec![one("v26-a").with(|scaled| scaled.selects = "v26-b".to_owned()), one("v26-b")]
}

// === impl Stage ===

impl Stage {
    fn set(&self, name: &str, load: f64) {
        self.loads.set(Scaled::new(name, 0).key(&self.namespace), &[Load::Concurrency(load)]);
    }

    /// Waits until the metric of one is just this.
    async fn until_metric(&self, name: &str, milli: i64) -> Result<()> {
        wait::until(&format!("the metric of {name} to be {milli}m"), ROUNDS, || async {
            let now =
                of_service(&self.namespace.client, &self.namespace.name, METRIC_CONCURRENCY, name).await?;
            ensure!(now == milli, "it is {now}m");
            Ok(Some(()))
        })
        .await
    }

    async fn until_sizes(&self, name: &str, sizes: &[i32]) -> Result<()> {
        wait::until(&format!("{name} to have had the sizes {sizes:?}"), ROUNDS, || async {
            let now = self.targets.sizes(name);
            ensure!(now.starts_with(sizes), "they are {now:?}");
            Ok(Some(()))
        })
        .await
    }

    async fn until_says(&self, name: &str, wanted: Says) -> Result<()> {
        wait::until(&format!("the HPA {name} to say {wanted:?}"), ROUNDS, || async {
            let autoscaler = self.namespace.api::<HorizontalPodAutoscaler>().get(name).await?;
            let status = autoscaler.status.unwrap_or_default();
            ensure!(says(&status, wanted), "it says {:?}", status.conditions);
            Ok(Some(()))
        })
        .await
    }

    /// What somebody else writes is not counted as growth of the HPA's own.
    async fn v14(&self) -> Result<()> {
        self.targets.scale("v14", 8).await?;
        self.set("v14", 7000.0);
        self.until_sizes("v14", &[4, 8, 16]).await
    }

    /// A need of a moment ago keeps what somebody else added from falling below it.
    async fn v18(&self) -> Result<()> {
        self.set("v18", 1260.0);
        self.until_says("v18", FOLLOWS).await?;
        self.targets.scale("v18", 20).await?;
        self.set("v18", 350.0);
        self.until_metric("v18", 350_000).await?;
        self.until_says("v18", ("AbleToScale", "True", "ScaleDownStabilized")).await?;
        self.until_sizes("v18", &[18, 20, 18]).await
    }

    /// After a sleep an HPA without a behavior goes for its old peak, and one with a behavior for what is needed.
    async fn v19(&self, name: &str, woken: i32) -> Result<()> {
        self.set(name, 630.0);
        self.until_says(name, FOLLOWS).await?;
        self.targets.scale(name, 0).await?;
        self.set(name, 210.0);
        self.until_says(name, DISABLED).await?;
        self.until_metric(name, 210_000).await?;
        self.targets.scale(name, 1).await?;
        self.until_sizes(name, &[9, 0, 1, woken]).await
    }

    /// An HPA that went to zero by itself comes back by itself.
    async fn v23(&self) -> Result<()> {
        self.set("v23", 0.0);
        self.until_sizes("v23", &[1, 0]).await?;
        self.until_says("v23", ("ScaledToZero", "True", "ScaledToZero")).await?;
        // Its windows have to be empty, so that it is told of all of the load at once.
        self.loads.silence(&Scaled::new("v23", 0).key(&self.namespace));
        self.until_says("v23", NO_METRIC).await?;
        self.set("v23", 140.0);
        self.until_sizes("v23", &[1, 0, 2]).await
    }

    async fn statuses(&self) -> Result<BTreeMap<String, HorizontalPodAutoscalerStatus>> {
        let all = self.namespace.api::<HorizontalPodAutoscaler>().list(&ListParams::default()).await?;
        Ok(all.into_iter().map(|hpa| (hpa.name_any(), hpa.status.unwrap_or_default())).collect())
    }

    /// Waits until each has been where it should be. They need not be there at the same time.
    async fn until_all(&self, vectors: &[Vector]) -> Result<()> {
        let mut open: Vec<_> = vectors.iter().collect();
        let end = tokio::time::Instant::now() + ROUNDS;
        loop {
            let statuses = self.statuses().await?;
            let mut wrong = Vec::new();
            open.retain(|vector| {
                vector
                    .state(&self.targets, &statuses)
                    .map_err(|error| wrong.push(format!("{error:#}")))
                    .is_err()
            });
            if open.is_empty() {
                return Ok(());
            }
            ensure!(tokio::time::Instant::now() < end, "after {ROUNDS:?}:\n{}", wrong.join("\n"));
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: make test-system"]
async fn the_stock_hpa_reproduces_the_vectors() -> Result<()> {
    let namespace = begin("vectors").await?;
    without_zero_scaler(&namespace.client, async {
        reproduce(&namespace).await?;
        // The adapter serves its API meanwhile, and must not be in the way.
        namespace.delete().await
    })
    .await
}

async fn reproduce(namespace: &TestNamespace) -> Result<()> {
    let targets = Targets::follow(namespace).await?;
    let stage = Stage { namespace: namespace.clone(), targets, loads: Loads::default() };
    let vectors: Vec<_> =
        [arithmetic(), errors(), limits(), unasked(), claimed_twice()].into_iter().flatten().collect();
    let steps = [
        Vector::untold("v14", &[4], NO_METRIC).behavior(default_policies()),
        // 18 for 20 would be tolerated, and 20 be what was needed of late.
        Vector::untold("v18", &[18], NO_METRIC).behavior(tolerance_0()),
        Vector::untold("v19-behavior", &[9], NO_METRIC).behavior(default_policies()),
        Vector::untold("v19-none", &[9], NO_METRIC),
        Vector::untold("v23", &[1], NO_METRIC).with(|scaled| scaled.bounds.0 = 0).behavior(down_at_once()),
    ];
    let all = || vectors.iter().chain(&steps);
    stream::iter(all().map(|vector| stage.targets.create(&vector.scaled)))
        .buffer_unordered(AT_A_TIME)
        .try_collect::<()>()
        .await?;
    stream::iter(all().map(|vector| vector.scaled.create_autoscaler(namespace)))
        .buffer_unordered(AT_A_TIME)
        .try_collect::<()>()
        .await?;

    // Vector 9 for all of them: while nothing is known, no HPA does anything for the metric's sake.
    let told = |vector: &&Vector| !vector.load.is_empty() && vector.says.2 != "AmbiguousSelector";
    let frozen: Vec<_> = vectors.iter().filter(told).chain(&steps).collect();
    wait::until("all HPAs to miss their metrics", KIND_IS_KNOWN + ROUNDS, || async {
        let statuses = stage.statuses().await?;
        for vector in &frozen {
            let name = &vector.scaled.name;
            let status = statuses.get(name).with_context(|| format!("{name} has no status"))?;
            ensure!(says(status, NO_METRIC), "{name} says {:?}", status.conditions);
        }
        Ok(Some(()))
    })
    .await?;
    for vector in &frozen {
        let sizes = stage.targets.sizes(&vector.scaled.name);
        ensure!(
            sizes == [vector.scaled.size],
            "{} went through {sizes:?} without a metric",
            vector.scaled.name
        );
    }

    let _activator = PlayedActivator::start(&namespace.client, "activator-played", stage.loads.clone());
    for vector in vectors.iter().filter(|vector| !vector.load.is_empty()) {
        stage.loads.set(vector.scaled.key(namespace), &vector.load);
    }
    tokio::try_join!(
        stage.until_all(&vectors),
        stage.v14(),
        stage.v18(),
        stage.v19("v19-behavior", 3),
        stage.v19("v19-none", 4),
        stage.v23(),
    )?;
    for vector in vectors.iter().filter(|vector| vector.sizes.len() == 1) {
        let (name, sizes) = (&vector.scaled.name, stage.targets.sizes(&vector.scaled.name));
        ensure!(sizes == vector.sizes, "{name} did not stay: {sizes:?}");
    }
    println!("{} HPAs did what the reference says", vectors.len() + steps.len());
    Ok(())
}
