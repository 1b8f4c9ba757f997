//! The attacker: a pod without credentials, in a namespace of its own.

use std::time::Duration;

use anyhow::{Context, Result};
use hostile::{AttackCommand, AttackReport};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::json;
use system_tests::cluster::namespace::{CLIENT_PORT, SAMPLE_APP, TestNamespace, is_ready};
use system_tests::traffic::attack;
use system_tests::wait;
use tokio::task::JoinSet;

const POD: &str = "attacker";
const READY: Duration = Duration::from_secs(60);

/// The attacker's pod.
pub(crate) struct Attacker {
    namespace: TestNamespace,
}

/// Attacks that run. Drop ends them.
pub(crate) struct RunningAttacks {
    reports: JoinSet<Result<AttackReport>>,
}

// === impl Attacker ===

impl Attacker {
    /// Starts the pod.
    ///
    /// # Errors
    /// When it does not become ready.
    pub(crate) async fn start(client: Client) -> Result<Self> {
        let namespace = TestNamespace::create(client, "rouse-hostile-attacker").await?;
        let pods: Api<Pod> = namespace.api();
        pods.create(&PostParams::default(), &serde_json::from_value(pod())?).await.context("the attacker")?;
        wait::until("the attacker to be ready", READY, || async {
            Ok(is_ready(&pods.get(POD).await?).then_some(()))
        })
        .await?;
        Ok(Self { namespace })
    }

    /// Starts attacks.
    pub(crate) fn attack(&self, commands: Vec<AttackCommand>) -> RunningAttacks {
        let mut reports = JoinSet::new();
        for command in commands {
            let namespace = self.namespace.clone();
            reports.spawn(async move { attack::run(&namespace, POD, &command).await });
        }
        RunningAttacks { reports }
    }

    /// Removes the pod.
    ///
    /// # Errors
    /// When it still exists after two minutes.
    pub(crate) async fn remove(self) -> Result<()> {
        self.namespace.delete().await
    }
}

/// On one machine the attacker would otherwise take the CPU time of the attacked, which has another
/// node on a real cluster.
fn pod() -> serde_json::Value {
    json!({
        "metadata": {"name": POD},
        "spec": {
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "attacker",
                "image": SAMPLE_APP,
                "imagePullPolicy": "IfNotPresent",
                "args": ["client", "--port", CLIENT_PORT.to_string()],
                "ports": [{"containerPort": CLIENT_PORT}],
                "readinessProbe": {"tcpSocket": {"port": CLIENT_PORT}, "periodSeconds": 1},
                "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}},
            }],
        },
    })
}

// === impl RunningAttacks ===

impl RunningAttacks {
    /// Waits until all attacks are over, and adds up their reports.
    ///
    /// # Errors
    /// When the attacker failed.
    pub(crate) async fn finish(mut self) -> Result<AttackReport> {
        let mut sum = AttackReport::default();
        while let Some(report) = self.reports.join_next().await {
            sum += report??;
        }
        Ok(sum)
    }
}
