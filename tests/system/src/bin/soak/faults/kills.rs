//! Kills, and which of the failed requests each of them explains.
//!
//! A request that was in flight at a kill may fail: the killed process held it. A request that
//! began later failed because the slices, or a node's rules, still led there.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use autoscaler::contract::QUEUE_PROXY;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt};
use system_tests::cluster::container_process;
use system_tests::cluster::installation::{self, COMPONENTS};
use system_tests::cluster::namespace::{TestNamespace, is_ready};
use system_tests::timeline::now_ms;

use super::load::FailedRequest;

pub(super) const ACTIVATOR: &str = "activator";
pub(super) const APP: &str = "sample-app";
/// What is killed in turn: the parts of the installation, and processes of a workload's pod.
pub(super) const VICTIMS: [&str; 5] = ["metrics-adapter", "zero-scaler", ACTIVATOR, QUEUE_PROXY, APP];
/// Replicas of a part. One is killed only while all are ready, so that one is left.
const REPLICAS: usize = 2;
/// Time after a kill in which failures are ascribed to it, in milliseconds. Less than from one kill
/// to the next.
const ASCRIBED: f64 = 15_000.0;

/// A killed process.
#[derive(Clone, Debug)]
pub(super) struct Kill {
    pub(super) victim: &'static str,
    /// The only workload with failed requests that the kill explains; `None` means all.
    pub(super) workload: Option<String>,
    /// Unix milliseconds of the signal.
    pub(super) at_ms: f64,
}

/// Failed requests by the kill that explains them.
#[derive(Debug, Default)]
pub(super) struct FailuresByKill {
    /// In flight at the kill, by what was killed.
    pub(super) in_flight: BTreeMap<&'static str, usize>,
    /// Begun after it, with the milliseconds from the kill to the last of them.
    pub(super) begun_after: BTreeMap<&'static str, (usize, f64)>,
    /// Explained by no kill.
    pub(super) unexplained: usize,
}

/// Kills a process. `turn` selects the replica or the workload.
///
/// # Errors
/// When a replica is not ready, and when there is no such process on this machine.
pub(super) async fn kill(
    client: &Client,
    namespace: &TestNamespace,
    victim: &'static str,
    turn: usize,
) -> Result<Kill> {
    let is_part = COMPONENTS.contains(&victim);
    let candidates = if is_part {
        let pods = installation::ready_pods(client, victim).await?;
        ensure!(pods.len() >= REPLICAS, "not all replicas are ready");
        pods.into_iter().map(|pod| (pod, None)).collect()
    } else {
        workload_pods(namespace).await?
    };
    let selected = turn.checked_rem(candidates.len()).and_then(|at| candidates.into_iter().nth(at));
    let (pod, workload) = selected.context("no workload has a pod")?;
    let process = container_process::find(&pod, Some(victim))?;
    let at_ms = now_ms();
    container_process::kill(process)?;
    println!("  killed {victim} of {pod}");
    Ok(Kill { victim, workload, at_ms })
}

/// The ready pods of workloads, with the workloads' names.
async fn workload_pods(namespace: &TestNamespace) -> Result<Vec<(String, Option<String>)>> {
    let pods = namespace.api::<Pod>().list(&kube::api::ListParams::default().labels("app")).await?;
    let ready = pods.iter().filter(|pod| is_ready(pod));
    Ok(ready.map(|pod| (pod.name_any(), pod.labels().get("app").cloned())).collect())
}

// === impl Kill ===

impl Kill {
    fn explains(&self, failed: &FailedRequest) -> bool {
        let since = failed.end() - self.at_ms;
        let is_of_workload = self.workload.as_ref().is_none_or(|workload| *workload == failed.workload);
        (0.0..=ASCRIBED).contains(&since) && is_of_workload
    }
}

// === impl FailuresByKill ===

impl FailuresByKill {
    pub(super) fn of<'a>(failed: impl IntoIterator<Item = &'a FailedRequest>, kills: &[Kill]) -> Self {
        let mut this = Self::default();
        for failed in failed {
            this.add(failed, kills);
        }
        this
    }

    fn add(&mut self, failed: &FailedRequest, kills: &[Kill]) {
        let Some(kill) = kills.iter().rev().find(|kill| kill.explains(failed)) else {
            println!("  no kill explains {failed:?}");
            self.unexplained += 1;
            return;
        };
        let begun = failed.begin() - kill.at_ms;
        if begun <= 0.0 {
            *self.in_flight.entry(kill.victim).or_default() += 1;
        } else {
            let (count, latest) = self.begun_after.entry(kill.victim).or_default();
            (*count, *latest) = (*count + 1, latest.max(begun));
        }
    }
}

#[cfg(test)]
mod tests {
    use system_tests::traffic::load::Response;

    use super::*;

    fn failed(workload: &str, sent_ms: f64, ms: f64) -> FailedRequest {
        let response = Response { sent_ms, ms, ..Response::default() };
        FailedRequest { workload: workload.to_owned(), response }
    }

    #[test]
    fn ascribes_failures_to_the_kill_before_their_end() {
        let kill = |victim, at_ms| Kill { victim, workload: None, at_ms };
        let kills = [kill("a", 1000.0), kill("b", 21_000.0)];
        let all =
            [(500.0, 100.0), (990.0, 20.0), (1010.0, 1.0), (1500.0, 1.0), (17_000.0, 1.0), (20_900.0, 200.0)];
        let by_kill = FailuresByKill::of(&all.map(|(sent, ms)| failed("web", sent, ms)), &kills);
        assert_eq!(by_kill.in_flight, BTreeMap::from([("a", 1), ("b", 1)]));
        assert_eq!(by_kill.begun_after, BTreeMap::from([("a", (2, 500.0))]));
        assert_eq!(by_kill.unexplained, 2);
    }

    #[test]
    fn kill_of_a_pod_explains_no_failure_of_another_workload() {
        let kills = [Kill { victim: "a", workload: Some("web".to_owned()), at_ms: 1000.0 }];
        let all = [failed("web", 1010.0, 1.0), failed("shop", 1010.0, 1.0)];
        let by_kill = FailuresByKill::of(&all, &kills);
        assert_eq!((by_kill.begun_after.len(), by_kill.unexplained), (1, 1));
    }
}
