//! The attacker: pods without credentials, in a namespace of their own. One of them attacks, or all
//! where a bound is for each address.

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

/// Pods, each with an address of its own.
const PODS: usize = 8;
const READY: Duration = Duration::from_secs(60);

/// The attacker's pods.
pub(crate) struct Attacker {
    namespace: TestNamespace,
}

/// Attacks that run. Drop ends them.
pub(crate) struct RunningAttacks {
    reports: JoinSet<Result<AttackReport>>,
}

// === impl Attacker ===

impl Attacker {
    /// Starts the pods.
    ///
    /// # Errors
    /// When they do not become ready.
    pub(crate) async fn start(client: Client) -> Result<Self> {
        let namespace = TestNamespace::create(client, "rouse-hostile-attacker").await?;
        let pods: Api<Pod> = namespace.api();
        for number in 0..PODS {
            let pod = serde_json::from_value(pod(number))?;
            pods.create(&PostParams::default(), &pod).await.context("the attacker")?;
        }
        for number in 0..PODS {
            wait::until("the attacker to be ready", READY, || async {
                Ok(is_ready(&pods.get(&name(number)).await?).then_some(()))
            })
            .await?;
        }
        Ok(Self { namespace })
    }

    /// Starts attacks by one pod, or each of them by all pods.
    pub(crate) fn attack(&self, commands: &[AttackCommand], by_all: bool) -> RunningAttacks {
        let mut reports = JoinSet::new();
        for number in 0..if by_all { PODS } else { 1 } {
            for command in commands {
                let (namespace, command) = (self.namespace.clone(), command.clone());
                reports.spawn(async move { attack::run(&namespace, &name(number), &command).await });
            }
        }
        RunningAttacks { reports }
    }

    /// Removes the pods.
    ///
    /// # Errors
    /// When they still exist after two minutes.
    pub(crate) async fn remove(self) -> Result<()> {
        self.namespace.delete().await
    }
}

fn name(number: usize) -> String {
    format!("attacker-{number}")
}

/// On one machine the attacker would otherwise take the CPU time of the attacked, which has another
/// node on a real cluster.
fn pod(number: usize) -> serde_json::Value {
    let (cpu, memory) = if number == 0 { ("500m", "1Gi") } else { ("50m", "128Mi") };
    json!({
        "metadata": {"name": name(number)},
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
                "resources": {"limits": {"cpu": cpu, "memory": memory}},
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
