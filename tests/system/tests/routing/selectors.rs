//! Two versions of pods under one target, of which the Service selects one.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::api::SksMode;
use futures::future::try_join;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use system_tests::cluster::installation::begin_shared;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::traffic::load::{self, Load, Response, until_first_response};
use system_tests::wait;
use system_tests::workloads::deadlines::{POD_START, TO_ZERO};
use system_tests::workloads::workload::{Workload, state, until_mode, until_replicas};

/// Requests a second, each on a new connection.
const RATE: f64 = 200.0;
const RATE_OF_CANARY: f64 = 50.0;
/// Time of each load.
const LOAD: Duration = Duration::from_secs(6);
/// When the selector moves in its load.
const BEFORE_MOVE: Duration = Duration::from_secs(3);
/// The bound from the change of the selector to the last request that the pods before it get.
const IN_PROXY: Duration = Duration::from_secs(1);
/// The same where kube-proxy routes, which applies changes once a second.
const IN_SERVE: Duration = Duration::from_secs(3);

/// A workload with pods of version v1, which its Service selects, and a ready pod of version v2.
/// The target selects both.
struct TwoVersions {
    namespace: TestNamespace,
    name: &'static str,
    url: String,
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn requests_reach_only_pods_that_the_attached_service_selects() -> Result<()> {
    let versions = TwoVersions::start("selects-own", true, "0").await?;
    until_mode(&versions.namespace, versions.name, SksMode::Serve).await?;
    versions.ensure_only_v1("in Serve").await?;
    versions.ensure_wake_reaches_only_v1().await?;
    until_mode(&versions.namespace, versions.name, SksMode::Serve).await?;
    versions.move_under_load(IN_SERVE).await?;
    versions.namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn requests_through_activators_move_with_the_selector_of_the_service() -> Result<()> {
    let versions = TwoVersions::start("selects-proxied", true, "-1").await?;
    versions.ensure_wake_reaches_only_v1().await?;
    versions.ensure_only_v1_by_activators().await?;
    versions.move_under_load(IN_PROXY).await?;
    versions.namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn requests_of_a_managed_service_move_with_the_annotation() -> Result<()> {
    let versions = TwoVersions::start("selects-managed", false, "-1").await?;
    versions.ensure_wake_reaches_only_v1().await?;
    versions.ensure_only_v1_by_activators().await?;
    versions.move_under_load(IN_PROXY).await?;
    versions.namespace.end().await
}

/// As Argo Rollouts does a canary: a Service for each version, and at the promotion the selector of
/// the stable one changes. The second Service is not Rouse's.
#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn promotion_of_a_canary_with_a_service_of_its_own_loses_no_request() -> Result<()> {
    let versions = TwoVersions::start("selects-canary", true, "0").await?;
    let canary = versions.create_canary_service().await?;
    until_first_response(&canary, &versions.namespace, POD_START).await?;
    until_mode(&versions.namespace, versions.name, SksMode::Serve).await?;
    let load = Load::rate(&canary, RATE_OF_CANARY, LOAD + BEFORE_MOVE).start(&versions.namespace).await?;
    versions.move_under_load(IN_SERVE).await?;
    let responses = load.finish().await?;
    load::ensure_all_ok(&responses).context("of the canary")?;
    ensure!(responses.iter().all(is_v2), "v1 got requests of the canary's Service");
    println!("{}: {} requests to the canary", versions.name, responses.len());
    versions.namespace.end().await
}

// === impl TwoVersions ===

impl TwoVersions {
    async fn start(name: &'static str, attached: bool, burst_capacity: &str) -> Result<Self> {
        let namespace = begin_shared(name).await?;
        let mut workload = Workload { attached, max_replicas: 1, ..Workload::new(name) }
            .annotated("target-burst-capacity", burst_capacity);
        workload.labels = [("version".to_owned(), "v1".to_owned())].into();
        if !attached {
            workload = workload.annotated("selector", &format!("app={name},version=v1"));
        }
        workload.create(&namespace).await?;
        create_v2(&namespace, name).await?;
        let url = workload.url(&namespace).await?;
        until_first_response(&url, &namespace, POD_START).await?;
        Ok(Self { namespace, name, url })
    }

    /// A second Service, which selects v2. Returns its URL.
    async fn create_canary_service(&self) -> Result<String> {
        let services: Api<Service> = self.namespace.api();
        let mut spec = services.get(self.name).await?.spec.context("a Service without a spec")?;
        spec.selector.get_or_insert_default().insert("version".to_owned(), "v2".to_owned());
        (spec.cluster_ip, spec.cluster_ips) = (None, None);
        let name = format!("{}-canary", self.name);
        let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        services
            .create(&PostParams::default(), &Service { metadata, spec: Some(spec), status: None })
            .await?;
        Workload::new(&name).url(&self.namespace).await
    }

    async fn ensure_wake_reaches_only_v1(&self) -> Result<()> {
        until_replicas(&self.namespace, self.name, |n| n == 0, TO_ZERO).await?;
        self.ensure_only_v1("through a wake").await
    }

    async fn ensure_only_v1_by_activators(&self) -> Result<()> {
        until_mode(&self.namespace, self.name, SksMode::Proxy).await?;
        self.ensure_only_v1("in Proxy").await
    }

    async fn ensure_only_v1(&self, when: &str) -> Result<()> {
        let responses = Load::rate(&self.url, RATE, LOAD).run(&self.namespace).await?;
        load::ensure_all_ok(&responses).with_context(|| when.to_owned())?;
        let v2 = responses.iter().filter(|response| is_v2(response)).count();
        println!("{} {when}: {} requests, {v2} reached v2", self.name, responses.len());
        ensure!(v2 == 0, "{v2} of {} requests reached v2 {when}", responses.len());
        Ok(())
    }

    /// Changes the selector to v2 during a load.
    async fn move_under_load(&self, bound: Duration) -> Result<()> {
        let load = Load::rate(&self.url, RATE, LOAD + BEFORE_MOVE);
        let change = async {
            tokio::time::sleep(BEFORE_MOVE).await;
            self.select_v2().await?;
            // This machine's clock is also the client pod's.
            Ok(component_base::clock::unix_millis() as f64)
        };
        let (responses, changed) = try_join(load.run(&self.namespace), change).await?;
        load::ensure_all_ok(&responses).context("while the selector changed")?;
        let of_v1 = responses.iter().filter(|response| !is_v2(response));
        let last = of_v1.map(|response| response.sent_ms - changed).fold(f64::NEG_INFINITY, f64::max);
        println!("{}: the last request to v1 was sent {last:.0} ms after the change", self.name);
        let bound = bound.as_secs_f64() * 1000.0;
        ensure!(last <= bound, "v1 got a request {last:.0} ms after the change; {}", self.state().await);
        ensure!(responses.iter().any(is_v2), "no request reached v2; {}", self.state().await);
        Ok(())
    }

    async fn select_v2(&self) -> Result<()> {
        let (merge, name) = (PatchParams::default(), self.name);
        let services: Api<Service> = self.namespace.api();
        let service = services.get(name).await?;
        if service.spec.is_some_and(|spec| spec.selector.is_some()) {
            let patch = json!({"spec": {"selector": {"version": "v2"}}});
            services.patch(name, &merge, &Patch::Merge(patch)).await?;
        } else {
            let selector = format!("app={name},version=v2");
            let patch = json!({"metadata": {"annotations": {"autoscaling.rouse.dev/selector": selector}}});
            let autoscalers: Api<HorizontalPodAutoscaler> = self.namespace.api();
            autoscalers.patch(name, &merge, &Patch::Merge(patch)).await?;
        }
        Ok(())
    }

    async fn state(&self) -> String {
        state(&self.namespace, self.name).await
    }
}

fn is_v2(response: &Response) -> bool {
    response.pod.contains("-v2-")
}

/// A Deployment of the same pods with version v2, and waits until one is ready. The selector of the
/// first Deployment selects them, too.
async fn create_v2(namespace: &TestNamespace, name: &str) -> Result<()> {
    let deployments: Api<Deployment> = namespace.api();
    let v2 = format!("{name}-v2");
    let version = ("version".to_owned(), "v2".to_owned());
    let mut spec = deployments.get(name).await?.spec;
    spec.replicas = Some(1);
    spec.selector.match_labels.get_or_insert_default().extend([version.clone()]);
    let metadata = spec.template.metadata.get_or_insert_default();
    metadata.labels.get_or_insert_default().extend([version]);
    let metadata = ObjectMeta { name: Some(v2.clone()), ..ObjectMeta::default() };
    let deployment = Deployment { metadata, spec, status: None };
    deployments.create(&PostParams::default(), &deployment).await?;
    wait::until("a ready pod of v2", POD_START, || async {
        let status = deployments.get(&v2).await?.status.unwrap_or_default();
        Ok((status.ready_replicas == Some(1)).then_some(()))
    })
    .await
}
