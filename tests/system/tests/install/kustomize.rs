//! The manifests with components, beside another adapter, from `kubectl apply -k` to their removal
//! in the documented way.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use docs::page::root;
use kube::Client;
use system_tests::cluster::installation;
use system_tests::cluster::kubectl;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::cluster::version::Feature;
use system_tests::workloads::injection::until_injection;

use crate::installed::{INSTALLED, begin, ensure_serves_without_rouse, start_load, until_nothing_is_left};
use crate::other_adapter::{
    DIRECT, METRICS_APIS, OtherAdapter, create_direct, ensure_wakes_scales_and_sleeps,
};

/// Longer than the deadline of the Job.
const UNINSTALLED: &str = "--timeout=5m";

#[tokio::test]
#[ignore = "needs a cluster without Rouse: run make test-install"]
async fn components_of_kustomize_leave_apis_of_other_adapters() -> Result<()> {
    let (client, guard) = begin().await?;
    let other = OtherAdapter::create(&client, &METRICS_APIS).await?;
    let manifests = Manifests::copy(&client, &["without-metrics-api"]).await?;
    manifests.apply().await?;
    installation::until_available(&client, INSTALLED).await?;
    installation::set_grace_period(&client, "3s").await?;
    let namespace = TestNamespace::create(client.clone(), "rouse-test-kustomize").await?.with_guard(guard);
    until_injection(&namespace, true).await?;

    let url = create_direct(&namespace).await?;
    ensure_wakes_scales_and_sleeps(&url, &namespace).await?;
    other.ensure_unchanged().await?;
    let mut load = start_load(&url, &namespace).await?;
    manifests.uninstall().await?;
    ensure_serves_without_rouse(&namespace, DIRECT, &mut load).await?;
    other.ensure_unchanged().await.context("after the removal")?;
    other.delete().await?;
    until_nothing_is_left().await?;
    namespace.delete().await
}

/// A copy of `deploy/`, and a kustomization with some of its components: kustomize accepts only
/// folders that it reaches by a relative path.
pub(crate) struct Manifests {
    folder: PathBuf,
}

// === impl Manifests ===

impl Manifests {
    /// With these components, and with the webhook where the cluster has no policies that change
    /// pods.
    pub(crate) async fn copy(client: &Client, components: &[&str]) -> Result<Self> {
        let by_webhook = !Feature::MutatingAdmissionPolicy.is_served(client).await?;
        let folder = std::env::temp_dir().join("rouse-test-kustomize");
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(folder.join("choice"))?;
        let copied =
            Command::new("cp").arg("--recursive").arg(root().join("deploy")).arg(&folder).status()?;
        ensure!(copied.success(), "deploy/ was not copied");
        let webhook = by_webhook.then_some("sidecar-webhook");
        let components = components.iter().copied().chain(webhook);
        let components: Vec<_> = components.map(|name| format!("- ../deploy/components/{name}\n")).collect();
        let kustomization = format!("resources:\n- ../deploy\ncomponents:\n{}", components.concat());
        std::fs::write(folder.join("choice/kustomization.yaml"), kustomization)?;
        Ok(Self { folder })
    }

    pub(crate) async fn apply(&self) -> Result<()> {
        kubectl::run(&["apply", "--kustomize", &self.choice()?]).await.map(drop)
    }

    /// The steps of docs/howto/operate/uninstall.md.
    async fn uninstall(&self) -> Result<()> {
        let uninstall = text(&self.folder.join("deploy/components/uninstall"))?;
        self.kubectl(&["apply", "--kustomize", &uninstall]).await?;
        let job =
            ["--namespace", installation::NAMESPACE, "wait", "--for=condition=Complete", "job/uninstall"];
        self.kubectl(&[&job[..], &[UNINSTALLED]].concat()).await?;
        println!(
            "{}",
            self.kubectl(&["--namespace", installation::NAMESPACE, "logs", "job/uninstall"]).await?
        );
        for folder in [self.choice()?, uninstall] {
            // The other adapter does not run, and namespaces are deleted only after its
            // APIServices.
            let delete = ["delete", "--kustomize", &folder, "--ignore-not-found", "--wait=false"];
            self.kubectl(&delete).await?;
        }
        Ok(())
    }

    pub(crate) fn choice(&self) -> Result<String> {
        text(&self.folder.join("choice"))
    }

    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        kubectl::run(arguments).await
    }
}

fn text(path: &Path) -> Result<String> {
    Ok(path.to_str().context("a path that is not UTF-8")?.to_owned())
}
