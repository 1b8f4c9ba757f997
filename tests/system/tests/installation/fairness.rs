//! The API server handles the requests by which Rouse wakes and leads in levels of their own, and
//! not behind those of every other operator.

use anyhow::{Context, Result, ensure};
use http::Request;
use k8s_openapi::api::flowcontrol::v1::PriorityLevelConfiguration;
use kube::api::Api;
use kube::client::Body;
use kube::{Client, ResourceExt};
use system_tests::cluster::impersonation::{client_as, service_account};
use system_tests::cluster::installation::begin_shared;

/// The header with the level of each response.
const LEVEL: &str = "x-kubernetes-pf-prioritylevel-uid";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/rouse-system/leases/zero-scaler";
const SCALE: &str = "/apis/apps/v1/namespaces/default/deployments/web/scale";
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/web";

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn leases_sizes_and_slices_are_not_in_the_level_of_other_accounts() -> Result<()> {
    let namespace = begin_shared("fairness").await?;
    for (account, path, level) in [
        ("zero-scaler", LEASE, "leader-election"),
        ("metrics-adapter", LEASE, "leader-election"),
        ("zero-scaler", SCALE, "workload-high"),
        ("activator", SCALE, "workload-high"),
        ("zero-scaler", SLICE, "workload-high"),
        ("other-operator", SCALE, "workload-low"),
    ] {
        let found = level_of(&client_as(&service_account(account)).await?, path).await?;
        let levels: Api<PriorityLevelConfiguration> = Api::all(namespace.client.clone());
        let wanted = levels.get(level).await?.uid();
        ensure!(Some(&found) == wanted.as_ref(), "{account} gets {path} by the level {found}, not {level}");
    }
    namespace.end().await
}

/// The UID of the level in which the API server handled a request, also of an absent object.
async fn level_of(client: &Client, path: &str) -> Result<String> {
    let response = client.send(Request::get(path).body(Body::empty())?).await?;
    let level = response.headers().get(LEVEL).with_context(|| format!("{path}: no {LEVEL}"))?;
    Ok(level.to_str()?.to_owned())
}
