//! From a previous version to this one and back under load, and each part alone at this version
//! beside the others at the previous one: `make test-upgrade`.
//!
//! The variable PREVIOUS names the folder with the previous version's source and images, which the
//! Makefile builds.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::api::sidecar;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use system_tests::cluster::cluster_tool::load_image;
use system_tests::cluster::helm::Helm;
use system_tests::cluster::installation::{self, until_rolled_out};
use system_tests::cluster::namespace::{TestNamespace, pods_of};
use system_tests::traffic::load::{RunningLoad, send_one_request, until_first_response};
use system_tests::workloads::injection::until_injection;
use system_tests::workloads::rollout;
use system_tests::workloads::workload::{Workload, state, until_replicas};

use crate::installed::{
    AT_ZERO, INSTALLED, ROLLOUT, begin, ensure_scales_up, ensure_served, start_load, until_nothing_is_left,
};

/// Tag of the images of the previous version.
const PREVIOUS_TAG: &str = "v0.0.0-previous";
const THIS_TAG: &str = concat!("v", env!("CARGO_PKG_VERSION"));
/// The metrics-adapters are replaced one after the other, a minute apart.
const UPGRADED: Duration = Duration::from_secs(300);
/// The parts, as the chart's values name them.
const PARTS: [&str; 4] = ["activator", "metricsAdapter", "zeroScaler", "sidecar"];
/// A workload with requests from beginning to end, and one that goes to zero again and again.
const BUSY: &str = "busy";
const INTERMITTENT: &str = "intermittent";

#[tokio::test]
#[ignore = "needs a previous version and a cluster without Rouse: run make test-upgrade"]
async fn from_previous_version_and_back_without_a_failed_request() -> Result<()> {
    let (client, guard) = begin().await?;
    let folder = PathBuf::from(std::env::var_os("PREVIOUS").context("PREVIOUS is not set")?);
    for image in ["activator", "metrics-adapter", "zero-scaler", "queue-proxy"] {
        let file = folder.join("images").join(image).with_extension("tar");
        load_image(file.to_str().context("a path that is not UTF-8")?)?;
    }
    let this = Helm::from_environment()?;
    let previous = this.with_chart(folder.join("source/chart"));
    previous.install(&arguments(&images(&[]))).await?;
    installation::until_ready(&client, INSTALLED).await?;
    let namespace = TestNamespace::create(client.clone(), "rouse-test-upgrade").await?.with_guard(guard);
    until_injection(&namespace, true).await?;
    let mut workloads = Workloads::create(&namespace).await?;
    workloads.ensure_served("all parts at the previous version").await?;

    for part in PARTS {
        this.upgrade(&arguments(&images(&[part]))).await?;
        until_installed(&client).await?;
        workloads.ensure_served(&format!("{part} alone at this version")).await?;
    }
    this.upgrade(&arguments(&images(&PARTS))).await?;
    until_installed(&client).await?;
    workloads.ensure_served("all parts at this version").await?;
    workloads.replace_busy_pods().await?;

    this.rollback(1).await?;
    until_installed(&client).await?;
    workloads.ensure_served("back at the previous version, with sidecars of this one").await?;
    previous.uninstall().await?;
    until_nothing_is_left().await?;
    namespace.delete().await
}

/// The images of these parts at this version, and of the others at the previous one.
fn images(at_this_version: &[&str]) -> Vec<String> {
    let tag = |part| if at_this_version.contains(part) { THIS_TAG } else { PREVIOUS_TAG };
    PARTS.iter().map(|part| format!("{part}.image.tag={}", tag(part))).collect()
}

fn arguments(values: &[String]) -> Vec<&str> {
    let short_window = ["--set-string", "config.scale-to-zero-grace-period=3s"];
    let values = values.iter().flat_map(|value| ["--set", value.as_str()]);
    values.chain(short_window).collect()
}

async fn until_installed(client: &Client) -> Result<()> {
    for component in installation::COMPONENTS {
        until_rolled_out(client, component, UPGRADED).await?;
    }
    installation::until_ready(client, INSTALLED).await
}

/// The workloads of the test.
struct Workloads<'a> {
    namespace: &'a TestNamespace,
    intermittent: String,
    load: RunningLoad,
}

// === impl Workloads ===

impl<'a> Workloads<'a> {
    async fn create(namespace: &'a TestNamespace) -> Result<Self> {
        let busy = Workload { attached: true, ..Workload::new(BUSY) };
        let intermittent = Workload { target: "5".to_owned(), ..Workload::new(INTERMITTENT) };
        for workload in [&busy, &intermittent] {
            workload.create(namespace).await?;
            until_first_response(&workload.url(namespace).await?, namespace, ROLLOUT).await?;
        }
        let load = start_load(&busy.url(namespace).await?, namespace).await?;
        Ok(Self { namespace, intermittent: intermittent.url(namespace).await?, load })
    }

    /// Checks that a workload at zero wakes, scales under load and is at zero again, while no
    /// request of the other one fails.
    async fn ensure_served(&mut self, installed: &str) -> Result<()> {
        self.wake_and_scale().await.with_context(|| installed.to_owned())?;
        let requests = ensure_served(&mut self.load).await.with_context(|| installed.to_owned())?;
        println!("{installed}: {requests} requests, all with status 200");
        Ok(())
    }

    async fn wake_and_scale(&self) -> Result<()> {
        let namespace = self.namespace;
        until_replicas(namespace, INTERMITTENT, |size| size == 0, AT_ZERO).await?;
        let response = send_one_request(&self.intermittent, namespace).await?;
        ensure!(response.status == 200, "{response:?}, {}", state(namespace, INTERMITTENT).await);
        ensure_scales_up(namespace, INTERMITTENT, &self.intermittent, 2, ROLLOUT).await?;
        until_replicas(namespace, INTERMITTENT, |size| size == 0, AT_ZERO).await?;
        Ok(())
    }

    /// Gives the busy workload sidecars of this version.
    async fn replace_busy_pods(&mut self) -> Result<()> {
        self.namespace.api::<Deployment>().restart(BUSY).await?;
        rollout::until_rolled_out(self.namespace, BUSY, ROLLOUT).await?;
        let pods = pods_of(self.namespace, BUSY).await?;
        let mut sidecars = pods.iter().filter_map(|pod| sidecar(pod.spec.as_ref()?)?.image.as_deref());
        ensure!(sidecars.any(|image| image.ends_with(THIS_TAG)));
        let requests =
            ensure_served(&mut self.load).await.context("a rollout to sidecars of this version")?;
        println!("a rollout to sidecars of this version: {requests} requests, all with status 200");
        Ok(())
    }
}
