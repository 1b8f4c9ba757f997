//! The life of a release of Helm: installed with defaults, upgraded and uninstalled under load.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use docs::page::{pages, root};
use kube::Client;
use system_tests::cluster::helm::Helm;
use system_tests::cluster::installation::{self, until_rolled_out};
use system_tests::cluster::kubectl;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::cluster::version::Feature;
use system_tests::traffic::load::{send_one_request, until_first_response};
use system_tests::workloads::injection::{ensure_have_sidecars, until_injection};
use system_tests::workloads::workload::{Workload, until_replicas};

use crate::installed::{
    AT_ZERO, INSTALLED, ROLLOUT, begin, ensure_served, ensure_serves_without_rouse, start_load,
    until_nothing_is_left,
};

/// The page with the example, and the name of its workload.
const GETTING_STARTED: &str = "docs/getting-started.md";
const EXAMPLE: &str = "web";
/// A workload with requests from beginning to end.
const BUSY: &str = "busy";
/// Settings of the upgrade: a short grace period, and what replaces the pods of two components.
const UPGRADE: [&str; 6] = [
    "--set-string",
    "config.scale-to-zero-grace-period=3s",
    "--set",
    "activator.resources.requests.cpu=90m",
    "--set",
    "zeroScaler.resources.requests.cpu=40m",
];

#[tokio::test]
#[ignore = "needs a cluster without Rouse: run make test-install"]
async fn no_request_fails_from_helm_install_to_helm_uninstall() -> Result<()> {
    let (client, guard) = begin().await?;
    let helm = Helm::from_environment()?;
    let notes = helm.install(&[]).await?;
    ensure!(notes.contains("Metrics API: external.metrics.k8s.io"), "{notes}");
    let by_webhook = notes.contains("by a webhook, because the cluster");
    ensure!(by_webhook != Feature::MutatingAdmissionPolicy.is_served(&client).await?, "{notes}");
    installation::until_ready(&client, INSTALLED).await?;
    ensure_api_server_accepts_template(&client, &helm).await?;
    let namespace = TestNamespace::create(client.clone(), "rouse-test-release").await?.with_guard(guard);
    until_injection(&namespace, true).await?;

    let example = apply_example(&namespace).await?;
    let busy = Workload { attached: true, ..Workload::new(BUSY) };
    busy.create(&namespace).await?;
    let busy_url = busy.url(&namespace).await?;
    until_first_response(&busy_url, &namespace, ROLLOUT).await?;
    ensure_have_sidecars(&namespace, BUSY).await?;
    let mut load = start_load(&busy_url, &namespace).await?;

    helm.upgrade(&UPGRADE).await?;
    for component in ["activator", "zero-scaler"] {
        until_rolled_out(&client, component, ROLLOUT).await?;
    }
    println!("helm upgrade: {} requests, all with status 200", ensure_served(&mut load).await?);

    until_replicas(&namespace, EXAMPLE, |size| size == 0, AT_ZERO).await?;
    let response = send_one_request(&example, &namespace).await?;
    println!("a wake of the documented example took {:.0} ms", response.ms);
    until_replicas(&namespace, EXAMPLE, |size| size == 0, AT_ZERO).await?;

    // Requests to the workload at zero, too, while Rouse goes.
    let mut example_load = start_load(&example, &namespace).await?;
    println!("{}", helm.uninstall().await?);
    println!("helm uninstall: {} requests, all with status 200", ensure_served(&mut load).await?);
    for (name, load) in [(BUSY, &mut load), (EXAMPLE, &mut example_load)] {
        ensure_serves_without_rouse(&namespace, name, load).await.with_context(|| name.to_owned())?;
    }
    until_nothing_is_left().await?;
    namespace.delete().await
}

/// The API server accepts what `helm template` prints for its version, as Argo CD
/// and `helm template | kubectl apply` send it, and the running installation does not differ from
/// it.
async fn ensure_api_server_accepts_template(client: &Client, helm: &Helm) -> Result<()> {
    let version = client.apiserver_version().await?.git_version;
    let rendered = helm.template(&["--kube-version", &version, "--set", "metricsApi=external"]).await?;
    let file = std::env::temp_dir().join(format!("rouse-test-template-{}.yaml", std::process::id()));
    std::fs::write(&file, rendered)?;
    let path = file.to_str().context("a path that is not UTF-8")?;
    let arguments = ["--server-side", "--force-conflicts", "--filename", path];
    let applied = kubectl::run(&[&["apply", "--dry-run=server"], &arguments[..]].concat()).await?;
    let manager = "--field-manager=argocd-controller";
    kubectl::run(&[&["diff", manager], &arguments[..]].concat()).await.context("the installation drifts")?;
    std::fs::remove_file(&file)?;
    println!("Kubernetes {version} accepts {} objects of helm template", applied.lines().count());
    ensure!(applied.contains("deployment.apps/activator"), "{applied}");
    Ok(())
}

/// Applies the objects of the page in order, with a window of 6 s. Returns the URL of the Service.
async fn apply_example(namespace: &TestNamespace) -> Result<String> {
    let pages = pages(&root())?;
    let page =
        pages.iter().find(|page| page.path.to_str() == Some(GETTING_STARTED)).context(GETTING_STARTED)?;
    let directory = std::env::temp_dir().join(&namespace.name);
    std::fs::create_dir_all(&directory)?;
    for block in page.blocks() {
        let Some(file) = block.file() else { continue };
        let file = directory.join(file);
        std::fs::write(&file, &block.text)?;
        let file = file.to_str().context("a path that is not UTF-8")?;
        kubectl::run(&["--namespace", &namespace.name, "apply", "--filename", file]).await?;
    }
    std::fs::remove_dir_all(&directory)?;
    let window = "autoscaling.rouse.dev/window=6s";
    kubectl::run(&["--namespace", &namespace.name, "annotate", "hpa", EXAMPLE, window]).await?;
    let url = Workload::new(EXAMPLE).url(namespace).await?;
    until_first_response(&url, namespace, Duration::from_secs(60)).await?;
    Ok(url)
}
