//! The decisions of the stock HPA on Rouse's metric, by the vectors of its arithmetic and of its
//! order of decisions.
//!
//! All vectors run concurrently: each is an HPA with a scale target of its own and the load of a
//! simulated activator. Two inputs are left out because the adapter never sends them: an empty list
//! and broken JSON. A write between an HPA's read and its write is left out because it cannot be
//! timed.

mod table;
mod vector;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::contract::METRIC_CONCURRENCY;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus};
use kube::ResourceExt;
use kube::api::ListParams;
use system_tests::cluster::installation::{begin_exclusive, without_zero_scaler};
use system_tests::cluster::namespace::TestNamespace;
use system_tests::cluster::version::Feature;
use system_tests::traffic::metric::service_metric_milli;
use system_tests::traffic::simulated_activator::{ReportedLoad, ReportedLoads, SimulatedActivator};
use system_tests::wait;
use system_tests::workloads::scale_target::{KIND_DISCOVERY, ScaleTarget, ScaleTargets};

use table::{
    ambiguous_selectors, arithmetic, default_policies, down_at_once, errors, limits, tolerance_0,
    without_metric,
};
use vector::{DISABLED, HpaCondition, METRIC_FOUND, NO_METRIC, Vector, has_condition};

/// A few sync periods of the HPA, at the stock period of 15 s as well.
const ROUNDS: Duration = Duration::from_secs(75);
/// Number of objects created concurrently.
const AT_A_TIME: usize = 16;

/// The environment of the vectors of several steps.
struct VectorTest {
    namespace: TestNamespace,
    targets: ScaleTargets,
    loads: ReportedLoads,
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
    // Before it, HPAs had no tolerance of their own either: these are the vectors of versions with
    // both.
    if !Feature::HpaScaleToZero.is_served(&namespace.client).await? {
        return namespace.end().await;
    }
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
