//! Objects that another manager compares and applies again and again, as Argo CD and Flux do with
//! manifests from Git.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use system_tests::cluster::installation::begin_shared;
use system_tests::cluster::kubectl;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::timeline::{Change, Timeline};
use system_tests::traffic::load::{LONGEST, Load, ensure_all_ok, send_one_request, until_first_response};
use system_tests::workloads::deadlines::{POD_START, TO_ZERO};
use system_tests::workloads::workload::{Workload, replicas, until_replicas};
use tokio::time::Instant;

/// The name under which Argo CD applies.
const MANAGER: &str = "argocd-controller";

/// The manifests of a workload, in a file.
struct Manifests<'a> {
    namespace: &'a TestNamespace,
    file: PathBuf,
}

/// Each form of Service: requests at one, three and no pods, with a comparison and another apply at
/// each size.
#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn sizes_are_no_difference_to_manifests_and_outlast_an_apply() -> Result<()> {
    let namespace = begin_shared("from-git").await?;
    let workload = |name: &str, attached| Workload { attached, ..Workload::new(name) };
    let (managed, attached) = (workload("managed", false), workload("attached", true));
    tokio::try_join!(cycle(&managed, &namespace), cycle(&attached, &namespace))?;
    namespace.end().await
}

async fn cycle(workload: &Workload, namespace: &TestNamespace) -> Result<()> {
    let name = &workload.name;
    let manifests = Manifests::write(workload, namespace)?;
    manifests.apply().await?;
    let url = workload.url(namespace).await?;
    until_first_response(&url, namespace, POD_START).await?;
    let mut timeline = Timeline::follow(namespace, name);
    manifests.ensure_in_sync().await.context("with the first pod")?;
    let load = Load::concurrency(&url, 25, Duration::from_millis(250), LONGEST);
    let mut load = load.start(namespace).await?;
    until_replicas(namespace, name, |size| size == 3, POD_START).await?;
    manifests.ensure_in_sync().await.context("at three pods")?;
    ensure_all_ok(&load.until_now().await?)?;
    drop(load);
    until_replicas(namespace, name, |size| size == 0, TO_ZERO).await?;
    manifests.ensure_in_sync().await.context("at zero")?;
    ensure!(replicas(namespace, name).await? == 0, "an apply woke {name}");
    send_one_request(&url, namespace).await.context("the request at zero")?;
    manifests.ensure_in_sync().await.context("after the wake")?;
    let writers = timeline.drain().into_iter().filter_map(|entry| match entry.change {
        Change::Scaled { by, .. } => by,
        _ => None,
    });
    let writers: BTreeSet<_> = writers.collect();
    ensure!(!writers.contains(MANAGER), "sizes of {name} were written by {writers:?}");
    Ok(())
}

// === impl Manifests ===

impl<'a> Manifests<'a> {
    fn write(workload: &Workload, namespace: &'a TestNamespace) -> Result<Self> {
        let file = std::env::temp_dir().join(format!("{}-{}.json", namespace.name, workload.name));
        std::fs::write(&file, serde_json::to_vec(&workload.manifests()?)?)?;
        Ok(Self { namespace, file })
    }

    async fn apply(&self) -> Result<()> {
        self.kubectl("apply").await
    }

    /// Checks that nothing differs from the manifests, and applies them again.
    async fn ensure_in_sync(&self) -> Result<()> {
        // kubectl reads the object twice, and shows a status that changes in between.
        let started = Instant::now();
        while let Err(difference) = self.kubectl("diff").await {
            let is_of_status = format!("{difference:#}").contains("+  resourceVersion:");
            ensure!(is_of_status && started.elapsed() < POD_START, difference);
        }
        self.apply().await
    }

    async fn kubectl(&self, verb: &str) -> Result<()> {
        let file = self.file.to_str().context("a path that is not UTF-8")?;
        let namespace = &self.namespace.name;
        let manager = format!("--field-manager={MANAGER}");
        kubectl::run(&[verb, "--namespace", namespace, "--server-side", &manager, "--filename", file])
            .await?;
        Ok(())
    }
}

impl Drop for Manifests<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}
