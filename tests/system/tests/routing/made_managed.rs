//! A live Service loses its selector, so that Rouse manages its endpoints from then on.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::contract::MANAGED_SLICE;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;
use system_tests::cluster::installation::begin_shared;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::traffic::load::{self, LONGEST, Load, until_first_response};
use system_tests::wait;
use system_tests::workloads::deadlines::{POD_START, ROLLOUT};
use system_tests::workloads::rollout::{until_old_pods_are_gone, until_rolled_out};
use system_tests::workloads::workload::{Workload, state};

/// Enough for a reconcile and the mirroring of Endpoints.
const RECONCILED: Duration = Duration::from_secs(60);

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn no_request_fails_when_a_live_service_is_made_managed() -> Result<()> {
    let namespace = begin_shared("made-managed").await?;
    let mut workload =
        Workload { attached: true, min_replicas: 2, replicas: 2, ..Workload::new("made-managed") };
    workload.annotations.remove("scale-to-zero");
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_first_response(&url, &namespace, POD_START).await?;
    until_rolled_out(&namespace, &workload.name, ROLLOUT).await?;
    let mut load = Load::rate(&url, 20.0, LONGEST).start(&namespace).await?;
    make_managed(&namespace, &workload.name).await?;
    namespace.api::<Deployment>().restart(&workload.name).await?;
    until_rolled_out(&namespace, &workload.name, ROLLOUT).await?;
    until_old_pods_are_gone(&namespace, &workload.name, ROLLOUT).await?;
    load::ensure_all_ok(&load.until_now().await?).context("while the Service was made managed")?;
    drop(load);
    let after = Load::rate(&url, 20.0, Duration::from_secs(5)).run(&namespace).await?;
    load::ensure_all_ok(&after).context("after the rollout")?;
    namespace.end().await
}

/// Removes the selector, and waits until only slices of the zero-scaler are left.
async fn make_managed(namespace: &TestNamespace, name: &str) -> Result<()> {
    let services: Api<Service> = namespace.api();
    let patch = json!({"spec": {"selector": null}});
    services.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    let (slices, endpoints): (Api<EndpointSlice>, Api<Endpoints>) = (namespace.api(), namespace.api());
    let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={name}"));
    wait::until("the slices of the zero-scaler alone", RECONCILED, || async {
        let all = slices.list(&of_service).await?.items;
        let is_foreign = |slice: &&EndpointSlice| !slice.labels().contains_key(MANAGED_SLICE);
        let foreign: Vec<_> = all.iter().filter(is_foreign).map(ResourceExt::name_any).collect();
        let are_deleted = endpoints.get_opt(name).await?.is_none();
        ensure!(are_deleted && foreign.is_empty(), "{foreign:?}; {}", state(namespace, name).await);
        Ok((!all.is_empty()).then_some(()))
    })
    .await
}
