//! Each field of the installation keeps its owner, by Helm 3 and 4: the size that the HPA gave the
//! activators survives upgrades, rollbacks, failed upgrades and the change between Helm and
//! kustomize, and no request fails meanwhile: `make test-owners`.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use system_tests::cluster::helm::Helm;
use system_tests::cluster::installation::{self, COMPONENTS, NAMESPACE, until_rolled_out};
use system_tests::cluster::kubectl;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::traffic::load::{RunningLoad, until_first_response};
use system_tests::workloads::workload::{Sidecar, Workload};

use crate::installed::{
    INSTALLED, ROLLOUT, begin, ensure_served, ensure_serves_without_rouse, start_load, until_nothing_is_left,
};
use crate::kustomize::Manifests;

/// A workload with requests from beginning to end.
const BUSY: &str = "busy";
/// What the HPA made of the activators. The chart's smallest number is two.
const SIZE: i32 = 4;
/// The metrics-adapters are replaced one after the other, a minute apart.
const UPGRADED: Duration = Duration::from_secs(300);

/// A version of Helm, and how it names what the test needs.
struct Version {
    /// The variable that names the program.
    variable: &'static str,
    /// Rolls back a failed upgrade.
    atomic: &'static str,
    /// Takes objects over that `kubectl apply` made.
    takes_over: &'static [&'static str],
}

const HELM_3: Version = Version { variable: "HELM3", atomic: "--atomic", takes_over: &["--take-ownership"] };
const HELM_4: Version = Version {
    variable: "HELM",
    atomic: "--rollback-on-failure",
    takes_over: &["--take-ownership", "--force-conflicts"],
};

#[tokio::test]
#[ignore = "needs a cluster without Rouse: run make test-owners"]
async fn size_of_activators_outlives_upgrades_and_rollbacks_by_helm_4() -> Result<()> {
    ensure_size_stays(&HELM_4).await
}

#[tokio::test]
#[ignore = "needs Helm 3 and a cluster without Rouse: run make test-owners"]
async fn size_of_activators_outlives_upgrades_and_rollbacks_by_helm_3() -> Result<()> {
    ensure_size_stays(&HELM_3).await
}

async fn ensure_size_stays(version: &Version) -> Result<()> {
    let (client, guard) = begin().await?;
    let helm = Helm::from_variable(version.variable)?;
    helm.install(&[]).await?;
    installation::until_ready(&client, INSTALLED).await?;
    let namespace = TestNamespace::create(client.clone(), "rouse-test-owners").await?.with_guard(guard);
    let mut busy = Busy::create(&client, &namespace).await?;

    helm.upgrade(&["--set", "activator.replicas=3"]).await?;
    busy.ensure_unchanged("a larger minimum").await?;
    helm.upgrade(&["--set", "activator.resources.requests.cpu=90m"]).await?;
    busy.ensure_unchanged("an upgrade that replaces the activators").await?;
    let broken = ["--set", "zeroScaler.image.tag=absent", version.atomic, "--timeout", "30s"];
    let failed = helm.upgrade(&broken).await;
    ensure!(failed.is_err(), "an upgrade to an image that does not exist succeeded");
    busy.ensure_unchanged("a failed upgrade").await?;
    helm.rollback(1).await?;
    busy.ensure_unchanged("a rollback").await?;

    Manifests::copy(&client, &[]).await?.apply().await?;
    let release = ["delete", "secrets", "--selector", "owner=helm,name=rouse"];
    kubectl::run(&[&["--namespace", NAMESPACE], &release[..]].concat()).await?;
    busy.ensure_unchanged("from Helm to kustomize").await?;
    helm.install(version.takes_over).await?;
    busy.ensure_unchanged("from kustomize to Helm").await?;
    helm.upgrade(&["--set", "activator.resources.requests.cpu=80m"]).await?;
    busy.ensure_unchanged("an upgrade after kustomize").await?;

    println!("{}", helm.uninstall().await?);
    ensure_serves_without_rouse(&namespace, BUSY, &mut busy.load).await?;
    // It came with the kustomization, and Helm leaves the namespace of a release.
    kubectl::run(&["delete", "namespace", NAMESPACE]).await?;
    until_nothing_is_left().await?;
    namespace.delete().await
}

/// The workload behind activators, of which the HPA has made [`SIZE`].
struct Busy<'a> {
    client: &'a Client,
    load: RunningLoad,
}

// === impl Busy ===

impl<'a> Busy<'a> {
    async fn create(client: &'a Client, namespace: &TestNamespace) -> Result<Self> {
        // Without a sidecar, all requests are through activators.
        let workload = Workload { sidecar: Sidecar::None, ..Workload::new(BUSY) };
        workload.create(namespace).await?;
        let url = workload.url(namespace).await?;
        until_first_response(&url, namespace, ROLLOUT).await?;
        // As the HPA does, which has no metrics here and so leaves a size as it is.
        installation::scale_component(client, "activator", SIZE).await?;
        until_rolled_out(client, "activator", ROLLOUT).await?;
        Ok(Self { client, load: start_load(&url, namespace).await? })
    }

    /// Checks that the activators are as many as before, and that no request failed.
    async fn ensure_unchanged(&mut self, after: &str) -> Result<()> {
        for component in COMPONENTS {
            until_rolled_out(self.client, component, UPGRADED).await.with_context(|| after.to_owned())?;
        }
        installation::until_ready(self.client, INSTALLED).await.with_context(|| after.to_owned())?;
        let activators: Deployment = installation::system_api(self.client).get("activator").await?;
        let size = activators.spec.replicas;
        ensure!(size == Some(SIZE), "{after}: {size:?} activators");
        let requests = ensure_served(&mut self.load).await.with_context(|| after.to_owned())?;
        println!("{after}: {SIZE} activators; {requests} requests, all with status 200");
        Ok(())
    }
}
