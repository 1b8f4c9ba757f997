//! etcd is restored to an older revision, as after a disaster: `make test-restore`. Watches that
//! continue from revisions of the time before would receive nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use system_tests::cluster::container_process;
use system_tests::cluster::helm::Helm;
use system_tests::cluster::installation::{self, until_available};
use system_tests::cluster::namespace::TestNamespace;
use system_tests::traffic::load::{send_one_request, until_first_response};
use system_tests::wait;
use system_tests::workloads::injection::until_injection;
use system_tests::workloads::workload::{Workload, until_replicas};

use crate::installed::{AT_ZERO, INSTALLED, ROLLOUT, begin, until_nothing_is_left};

const WEB: &str = "web";
/// Written behind the snapshot, so that the revisions of that time come only long after the test.
const WRITES: usize = 5000;
/// What an administrator restarts beside the API server.
const CONTROLLERS: [&str; 4] = ["kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"];
/// Enough for the processes to find out, and to list again.
const FOUND: Duration = Duration::from_secs(60);

#[tokio::test]
#[ignore = "needs a cluster of this repository without Rouse: run make test-restore"]
async fn workload_wakes_and_sleeps_after_etcd_was_restored_to_an_older_revision() -> Result<()> {
    let (client, guard) = begin().await?;
    let helm = Helm::from_environment()?;
    helm.install(&["--set-string", "config.scale-to-zero-grace-period=3s"]).await?;
    installation::until_ready(&client, INSTALLED).await?;
    let namespace = TestNamespace::create(client.clone(), "rouse-test-etcd").await?.with_guard(guard);
    until_injection(&namespace, true).await?;
    Workload::new(WEB).create(&namespace).await?;
    let url = Workload::new(WEB).url(&namespace).await?;
    until_first_response(&url, &namespace, ROLLOUT).await?;
    until_replicas(&namespace, WEB, |size| size == 0, AT_ZERO).await?;

    let snapshot = Snapshot::take()?;
    until_api_serves(&client).await?;
    send_one_request(&url, &namespace).await?;
    write_revisions(&namespace).await?;
    snapshot.restore()?;
    until_api_serves(&client).await?;
    for name in CONTROLLERS {
        kill(name)?;
    }
    until_available(&client, INSTALLED).await?;

    until_first_response(&url, &namespace, FOUND).await.context("a wake after the restore")?;
    until_replicas(&namespace, WEB, |size| size == 0, AT_ZERO).await?;
    send_one_request(&url, &namespace).await?;
    helm.uninstall().await?;
    until_nothing_is_left().await?;
    namespace.delete().await
}

/// A copy of the data of etcd.
struct Snapshot {
    data: PathBuf,
    copy: PathBuf,
}

// === impl Snapshot ===

impl Snapshot {
    /// The cluster tool starts a killed process again after a second. The copy takes less.
    fn take() -> Result<Self> {
        let process = processes("etcd").next().context("etcd does not run on this machine")?;
        let arguments = fs::read_to_string(format!("/proc/{process}/cmdline"))?;
        let data = arguments.split('\0').find_map(|argument| argument.strip_prefix("--data-dir="));
        let data = PathBuf::from(data.context("etcd has no data folder")?);
        let snapshot = Self { data, copy: std::env::temp_dir().join("rouse-test-etcd") };
        kill("etcd")?;
        copy(&snapshot.data, &snapshot.copy)?;
        Ok(snapshot)
    }

    fn restore(self) -> Result<()> {
        kill("kube-apiserver")?;
        kill("etcd")?;
        copy(&self.copy, &self.data)?;
        Ok(fs::remove_dir_all(&self.copy)?)
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    let copied = Command::new("cp").arg("--archive").args([from, to]).status()?;
    ensure!(copied.success(), "{} was not copied", from.display());
    Ok(())
}

/// All components of the cluster are one program, which is started under their names.
fn processes(name: &str) -> impl Iterator<Item = u32> {
    let ids = fs::read_dir("/proc").into_iter().flatten();
    let ids = ids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.filter(move |id: &u32| {
        let arguments = fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
        arguments.split('\0').next() == Some(name)
    })
}

fn kill(name: &str) -> Result<()> {
    processes(name).try_for_each(container_process::kill)
}

async fn until_api_serves(client: &Client) -> Result<()> {
    wait::until("the API server to serve", INSTALLED, || async {
        client.apiserver_version().await?;
        Ok(Some(()))
    })
    .await
}

async fn write_revisions(namespace: &TestNamespace) -> Result<()> {
    let maps: Api<ConfigMap> = namespace.api();
    let map = serde_json::from_value(json!({"metadata": {"name": "revisions"}}))?;
    maps.create(&PostParams::default(), &map).await?;
    for number in 0..WRITES {
        let patch = Patch::Merge(json!({"data": {"number": number.to_string()}}));
        maps.patch("revisions", &PatchParams::default(), &patch).await?;
    }
    Ok(())
}
