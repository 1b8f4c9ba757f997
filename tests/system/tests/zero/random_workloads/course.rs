//! The course of one random workload, from its creation to its deletion.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::api::PodAutoscaler;
use futures::future::try_join_all;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::traffic::load::{self, LONGEST, Load, RunningLoad, until_first_response};
use system_tests::wait;
use system_tests::workloads::deadlines::{ROLLOUT, TO_ZERO};
use system_tests::workloads::limits::{create_limit, create_quota};
use system_tests::workloads::orphaned_autoscaler;
use system_tests::workloads::random::description::{Change, Description, End, Fault, Kind, Outcome, Phase};
use system_tests::workloads::rollout::until_rolled_out;
use system_tests::workloads::scale_target::ScaleTargets;
use system_tests::workloads::workload::{scale, state};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::reports::reports;
use super::target::Target;

/// Enough for a reconcile, garbage collection and kube-proxy.
pub(super) const RECONCILED: Duration = Duration::from_secs(90);
/// Enough for many pods that start at the same time, and for HPAs to find a new kind.
const STARTED: Duration = Duration::from_secs(150);
/// Enough for a check of an idle workload; one that a second writer wakes is idle three times.
const REPORTED: Duration = Duration::from_secs(240);
/// Requests a second to each port.
const RATE: f64 = 4.0;
/// Time of a load, and of a load behind a change.
const LOAD: Duration = Duration::from_secs(2);
/// The port that a Service gets later.
const LATER_PORT: u16 = 9999;
/// The pods of a custom resource follow it after this time.
const FOLLOWED: Duration = Duration::from_millis(200);

/// A workload on the cluster.
pub(super) struct Course {
    pub(super) workload: Description,
    /// The namespace of the client pod.
    clients: TestNamespace,
    pub(super) namespace: TestNamespace,
    pub(super) target: Target,
    /// The present TCP ports of the Service.
    pub(super) ports: Vec<u16>,
    /// The controller of a custom resource, and a second writer.
    pub(super) tasks: JoinSet<()>,
}

// === impl Course ===

impl Course {
    /// Runs a workload from its creation to its deletion.
    pub(super) async fn run(clients: TestNamespace, workload: Description) -> Result<()> {
        let namespace = clients.sibling(&format!("{}-{}", clients.name, workload.index)).await?;
        let target = Target::of(&workload, &namespace)?;
        let (ports, tasks) = (workload.first_ports(), JoinSet::new());
        let mut this = Self { workload, clients, namespace, target, ports, tasks };
        let began = Instant::now();
        let result = this.live().await;
        let Description { index, kind, fault, change, end, .. } = &this.workload;
        let (outcome, seconds) = (if result.is_ok() { "ok" } else { "failed" }, began.elapsed().as_secs());
        println!(
            "random workload {index}: {kind:?}, {fault:?}, {change:?}, {end:?}: {outcome} in {seconds} s"
        );
        let result = match result {
            Ok(()) => Ok(()),
            Err(error) => Err(error.context(this.state().await)),
        };
        this.namespace.delete().await?;
        if this.workload.fault == Some(Fault::VolumesDeleted) {
            this.delete_volume().await?;
        }
        result
    }

    async fn live(&mut self) -> Result<()> {
        self.create().await.context("create")?;
        self.fault_in(Phase::Serving).await.context("fault while it serves")?;
        if self.workload.fault == Some(Fault::SecondWriter) {
            // The second writer keeps the size for ten minutes.
            return Ok(());
        }
        self.until_zero().await.context("first sleep")?;
        self.fault_in(Phase::AtZero).await.context("fault at zero")?;
        self.load().await.context("wake")?;
        self.change().await.with_context(|| format!("change {:?}", self.workload.change))?;
        self.end().await.with_context(|| format!("end {:?}", self.workload.end))
    }

    /// What is reported of the workload, for the message of a failed test.
    async fn state(&self) -> String {
        let state = state(&self.namespace, &self.workload.names.hpa).await;
        let reasons = reports(&self.namespace).await.unwrap_or_default();
        let reasons: BTreeSet<_> = reasons.into_iter().map(|(reason, _)| reason).collect();
        format!("size {:?}, {state}, reasons {reasons:?}", self.target.size().await.ok())
    }

    async fn create(&mut self) -> Result<()> {
        if self.workload.pods.limited {
            let requests = json!({"type": "Container", "defaultRequest": {"cpu": "1m", "memory": "8Mi"}});
            create_limit(&self.namespace, "defaults", requests).await?;
            let room = json!({"requests.cpu": "8", "requests.memory": "16Gi"});
            create_quota(&self.namespace, "room", room).await?;
        }
        let fault = self.workload.fault.filter(|fault| fault.phase() == Phase::Created);
        if let Some(fault) = fault {
            self.begin_fault(fault).await?;
        }
        self.create_target().await?;
        self.create_service().await?;
        let hpas: Api<HorizontalPodAutoscaler> = self.namespace.api();
        let hpa = self.workload.hpa(self.workload.hpa.max_replicas)?;
        hpas.create(&PostParams::default(), &hpa).await.context("the HPA")?;
        if let Some(fault) = fault.filter(|fault| fault.outcome() == Outcome::Waits) {
            self.until_reported(fault).await?;
            self.end_fault(fault).await?;
        }
        self.until_first_responses().await?;
        self.load().await?;
        if let Some(fault) = fault.filter(|fault| fault.outcome() != Outcome::Waits) {
            self.until_reported(fault).await?;
            self.live_with(fault).await?;
        }
        Ok(())
    }

    async fn create_target(&mut self) -> Result<()> {
        let owner = self.workload.pod_owner()?;
        if self.workload.kind != Kind::CustomResource {
            return self.target.create(owner).await;
        }
        let targets = ScaleTargets::follow(&self.namespace).await?;
        let deployments: Api<Deployment> = self.namespace.api();
        deployments.create(&PostParams::default(), &serde_json::from_value(owner)?).await?;
        targets.create_alone(&self.workload.scale_target()).await?;
        let (namespace, name, app) =
            (self.namespace.clone(), self.workload.names.target.clone(), self.workload.app());
        self.tasks.spawn(async move {
            let mut written = 1;
            loop {
                let size = targets.sizes(&name).last().copied().unwrap_or(written);
                if size != written && scale(&namespace, &app, size).await.is_ok() {
                    written = size;
                }
                tokio::time::sleep(FOLLOWED).await;
            }
        });
        Ok(())
    }

    pub(super) async fn create_service(&self) -> Result<()> {
        let services: Api<Service> = self.namespace.api();
        let service = serde_json::from_value(self.workload.service(&self.ports))?;
        services.create(&PostParams::default(), &service).await.context("the Service")?;
        Ok(())
    }

    /// Begins and ends a fault of this phase.
    async fn fault_in(&mut self, phase: Phase) -> Result<()> {
        let Some(fault) = self.workload.fault.filter(|fault| fault.phase() == phase) else { return Ok(()) };
        self.begin_fault(fault).await?;
        if fault.outcome() == Outcome::Waits {
            let held = self.start_load(1.0, Duration::from_secs(1)).await?;
            self.until_reported(fault).await?;
            self.end_fault(fault).await?;
            return load::ensure_all_ok(&held.finish().await?).context("a held request");
        }
        self.until_reported(fault).await?;
        self.live_with(fault).await
    }

    /// A fault that keeps the workload above zero ends after a load.
    async fn live_with(&self, fault: Fault) -> Result<()> {
        if fault.outcome() == Outcome::Sleeps {
            return Ok(());
        }
        self.load().await.context("beside the fault")?;
        let size = self.target.size().await?;
        ensure!(size > 0, "the size is {size}");
        self.end_fault(fault).await
    }

    async fn until_reported(&self, fault: Fault) -> Result<()> {
        let Some((reason, text)) = fault.report() else { return Ok(()) };
        wait::until(&format!("a report {reason} with {text:?}"), REPORTED, || async {
            let reports = reports(&self.namespace).await?;
            Ok(reports.iter().any(|(is, message)| is == reason && message.contains(text)).then_some(()))
        })
        .await
    }

    /// Waits until the size is 0.
    async fn until_zero(&self) -> Result<()> {
        wait::until("the size to be 0", TO_ZERO, || async {
            Ok((self.target.size().await? == 0).then_some(()))
        })
        .await
    }

    async fn until_above_zero(&self) -> Result<()> {
        wait::until("the target to be left above zero", RECONCILED, || async {
            Ok((self.target.size().await? > 0).then_some(()))
        })
        .await
    }

    async fn until_bound(&self, max_replicas: i32) -> Result<()> {
        let autoscalers: Api<PodAutoscaler> = self.namespace.api();
        wait::until("the bounds of the HPA to be followed", RECONCILED, || async {
            let bound = autoscalers.get(&self.workload.names.hpa).await?.spec.max_replicas;
            Ok((bound == Some(max_replicas)).then_some(()))
        })
        .await
    }

    async fn urls(&self) -> Result<Vec<String>> {
        let services: Api<Service> = self.namespace.api();
        let spec = services.get(&self.workload.names.service).await?.spec;
        let ip = spec.and_then(|spec| spec.cluster_ip).context("no address")?;
        Ok(self.ports.iter().map(|port| format!("http://{ip}:{port}/")).collect())
    }

    pub(super) async fn until_first_responses(&self) -> Result<()> {
        let urls = self.urls().await?;
        let responses = urls.iter().map(|url| until_first_response(url, &self.clients, STARTED));
        try_join_all(responses).await.map(drop)
    }

    /// Sends some requests to each port, of which none may fail.
    async fn load(&self) -> Result<()> {
        let urls = self.urls().await?;
        try_join_all(urls.iter().map(async |url| {
            let load = Load { timeout: STARTED, ..Load::rate(url, RATE, LOAD) };
            load::ensure_all_ok(&load.run(&self.clients).await?).with_context(|| url.clone())
        }))
        .await
        .map(drop)
    }

    async fn start_load(&self, rate: f64, duration: Duration) -> Result<RunningLoad> {
        let urls = self.urls().await?;
        let url = urls.first().context("no port")?;
        Load { timeout: REPORTED, ..Load::rate(url, rate, duration) }.start(&self.clients).await
    }

    /// What the user changes while requests arrive.
    async fn change(&mut self) -> Result<()> {
        let mut running = self.start_load(RATE, LONGEST).await?;
        match self.workload.change {
            Change::Nothing => {}
            Change::Rollout => {
                let annotations = json!({"metadata": {"annotations": {"rolled": "out"}}});
                self.target.patch_template(annotations).await?;
                until_rolled_out(&self.namespace, &self.workload.names.target, ROLLOUT).await?;
            }
            Change::Bounds => {
                let max_replicas = self.workload.hpa.max_replicas + 2;
                self.patch_hpa(json!({"spec": {"maxReplicas": max_replicas}})).await?;
                self.until_bound(max_replicas).await?;
            }
            Change::Port => {
                self.ports.push(LATER_PORT);
                let spec = self.workload.service(&self.ports);
                self.patch_service(json!({"spec": {"ports": spec.pointer("/spec/ports")}})).await?;
                self.until_first_responses().await?;
                self.load().await?;
            }
            Change::Selector => {
                self.patch_service(json!({"spec": {"selector": self.workload.selector()}})).await?;
            }
        }
        self.load().await?;
        load::ensure_all_ok(&running.until_now().await?)
    }

    async fn end(&mut self) -> Result<()> {
        let hpas: Api<HorizontalPodAutoscaler> = self.namespace.api();
        let autoscalers: Api<PodAutoscaler> = self.namespace.api();
        let name = self.workload.names.hpa.clone();
        if self.workload.end == End::HpaDeletedUnderLoad {
            let mut running = self.start_load(RATE, LONGEST).await?;
            hpas.delete(&name, &DeleteParams::default()).await?;
            wait::until("the PodAutoscaler to be gone", RECONCILED, || async {
                Ok(autoscalers.get_opt(&name).await?.is_none().then_some(()))
            })
            .await?;
            self.load().await?;
            return load::ensure_all_ok(&running.until_now().await?);
        }
        self.until_zero().await?;
        match self.workload.end {
            End::HpaDeleted => drop(hpas.delete(&name, &DeleteParams::default()).await?),
            End::HpaOrphaned => {
                orphaned_autoscaler::delete_hpa(&self.namespace, &name).await?;
                wait::until("the PodAutoscaler without an owner", RECONCILED, || async {
                    let owners = autoscalers.get(&name).await?.metadata.owner_references;
                    Ok(owners.unwrap_or_default().is_empty().then_some(()))
                })
                .await?;
                autoscalers.delete(&name, &DeleteParams::default()).await?;
            }
            End::TargetChanged => {
                self.patch_hpa(json!({"spec": {"scaleTargetRef": {"name": "another"}}})).await?;
            }
            End::HpaDeletedUnderLoad | End::NamespaceDeleted => return Ok(()),
        }
        self.until_above_zero().await
    }

    async fn patch_hpa(&self, patch: serde_json::Value) -> Result<()> {
        let hpas: Api<HorizontalPodAutoscaler> = self.namespace.api();
        hpas.patch(&self.workload.names.hpa, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    async fn patch_service(&self, patch: serde_json::Value) -> Result<()> {
        let services: Api<Service> = self.namespace.api();
        services.patch(&self.workload.names.service, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }
}
