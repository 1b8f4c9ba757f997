//! A Prometheus that scrapes a workload each second, by a PodMonitor and by both forms of a
//! ServiceMonitor, before and after Rouse manages the Service.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use system_tests::cluster::installation::begin_shared;
use system_tests::cluster::kubectl::ApiProxy;
use system_tests::cluster::network_policies;
use system_tests::monitoring::prometheus::Prometheus;
use system_tests::monitoring::service_targets::{self, Role};
use system_tests::traffic::load::{send_one_request, until_first_response};
use system_tests::wait;
use system_tests::workloads::deadlines::{POD_START, TO_ZERO};
use system_tests::workloads::workload::{Sidecar, Workload, replicas, until_replicas};

const NAME: &str = "scraped";
/// Enough for a reconcile and some scrapes on a loaded machine.
const SCRAPED: Duration = Duration::from_secs(60);
/// Of a workload at zero; longer than its window.
const SCRAPES: f64 = 10.0;
/// Targets that are activators, by the ports that they lease.
const ACTIVATORS: &str = r#"up{job="endpointslice", instance=~".*:2[0-9]{4}"}"#;

/// As docs/howto/requests-at-zero.md says.
#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn scrapes_neither_wake_a_workload_nor_keep_it_above_zero() -> Result<()> {
    let namespace = begin_shared(NAME).await?;
    network_policies::open(&namespace).await?;
    let api = ApiProxy::start().await?;
    let prometheus = Prometheus::start(&service_targets::scrape_configs(), "groups: []").await?;
    let _targets = service_targets::follow(&namespace, NAME, api.address, prometheus.folder());
    let workload = Workload { attached: true, sidecar: Sidecar::None, ..Workload::new(NAME) };
    workload.create_without_hpa(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_first_response(&url, &namespace, POD_START).await?;
    for role in Role::ALL {
        until_targets(&prometheus, &up(role), Some(1.0)).await?;
    }

    let managed = Patch::Merge(json!({"spec": {"selector": null}}));
    namespace.api::<Service>().patch(NAME, &PatchParams::default(), &managed).await?;
    workload.create_hpa(&namespace).await?;
    until_targets(&prometheus, &up(Role::Endpoints), None).await?;
    until_targets(&prometheus, &format!("min({ACTIVATORS})"), Some(1.0)).await?;
    until_replicas(&namespace, NAME, |size| size == 0, TO_ZERO).await?;
    until_targets(&prometheus, &up(Role::Pod), None).await?;

    let scrapes = format!("sum(count_over_time({ACTIVATORS}[1h]))");
    let before = prometheus.value(&scrapes).await?.unwrap_or_default();
    wait::until("scrapes of a workload at zero", SCRAPED, || async {
        let now = prometheus.value(&scrapes).await?.unwrap_or_default();
        Ok((now >= before + SCRAPES).then_some(()))
    })
    .await?;
    ensure!(replicas(&namespace, NAME).await? == 0, "a scrape woke the workload");
    until_targets(&prometheus, &format!("min({ACTIVATORS})"), Some(1.0)).await?;

    let response = send_one_request(&url, &namespace).await?;
    println!("a request beside the scrapes took {:.0} ms", response.ms);
    until_targets(&prometheus, &up(Role::Pod), Some(1.0)).await?;
    namespace.end().await
}

/// How many targets of a role were scraped with success; no series where it has none.
fn up(role: Role) -> String {
    format!("sum(up{{job=\"{}\"}})", role.job())
}

async fn until_targets(prometheus: &Prometheus, query: &str, wanted: Option<f64>) -> Result<()> {
    wait::until(&format!("{query} to be {wanted:?}"), SCRAPED, || async {
        let value = prometheus.value(query).await?;
        ensure!(value == wanted, "{value:?}");
        Ok(Some(()))
    })
    .await
}
