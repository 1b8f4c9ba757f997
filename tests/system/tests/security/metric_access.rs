//! Access to the metric API by users, and to the adapters' port for reports without a token.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use autoscaler::contract::STATS_PORT;
use http::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use system_tests::cluster::installation::{self, begin_shared};
use system_tests::cluster::namespace::TestNamespace;
use system_tests::traffic::forwarded_port;
use system_tests::wait;
use system_tests::workloads::workload::Workload;

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn metric_is_served_only_to_users_with_permission() -> Result<()> {
    let namespace = begin_shared("access").await?;
    let workload = Workload::new("guarded");
    workload.create(&namespace).await?;
    let bindings: Api<RoleBinding> = namespace.api();
    let binding = json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}],
    });
    bindings.create(&PostParams::default(), &serde_json::from_value(binding)?).await?;
    let value = wait::until("a reader to get the metric", Duration::from_secs(60), || async {
        let list: Value = serde_json::from_str(&raw_metric(&namespace, "reader").await?)?;
        Ok(Some(list))
    })
    .await?;
    ensure!(value["kind"] == "ExternalMetricValueList", "{value}");
    ensure!(value["items"][0]["metricName"] == "concurrency", "{value}");
    match raw_metric(&namespace, "user-without-permission").await {
        Ok(body) => bail!("a user without permission read {body}"),
        Err(error) => ensure!(format!("{error:#}").contains("forbidden"), "another error: {error:#}"),
    }
    namespace.end().await
}

/// The response that `kubectl get --raw --as USER` would get.
async fn raw_metric(namespace: &TestNamespace, user: &str) -> Result<String> {
    let path = format!(
        "/apis/external.metrics.k8s.io/v1beta1/namespaces/{}/concurrency?labelSelector=service%3Dguarded",
        namespace.name
    );
    let request = http::Request::get(path).header("Impersonate-User", user).body(Vec::new())?;
    Ok(namespace.client.request_text(request).await?)
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn stats_port_rejects_requests_without_token() -> Result<()> {
    let namespace = begin_shared("stats-port").await?;
    let ready = installation::ready_pods(&namespace.client, "metrics-adapter").await?;
    ensure!(ready.len() == 2, "{} adapters are ready", ready.len());
    let pods: Api<Pod> = installation::system_api(&namespace.client);
    for pod in ready {
        let response = forwarded_port::get(&pods, &pod, STATS_PORT, "/forward/why/a/b").await?;
        ensure!(response.status() == StatusCode::UNAUTHORIZED, "not rejected: {response:?}");
    }
    namespace.end().await
}
