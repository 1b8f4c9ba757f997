//! A live workload of Kubernetes alone, with an ordinary Service, is given to Rouse and taken back,
//! each time during a rollout.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::api::{PodAutoscaler, ServerlessService, SksMode};
use autoscaler::contract::{KUBERNETES_SLICE_MANAGER, MANAGED_SLICE};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use system_tests::cluster::installation::begin_shared;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::cluster::network_policies;
use system_tests::timeline::now_ms;
use system_tests::traffic::load::{LONGEST, Load, RunningLoad, ensure_all_ok, until_first_response};
use system_tests::wait;
use system_tests::workloads::deadlines::{POD_START, ROLLOUT};
use system_tests::workloads::injection::ensure_have_sidecars;
use system_tests::workloads::rollout::{until_old_pods_are_gone, until_rolled_out};
use system_tests::workloads::workload::{SERVICE_PORT, Sidecar, Workload, state, until_mode};

const NAME: &str = "adopted";
/// Enough for the end of a workload's objects, and of the grace of its endpoints.
const RELEASED: Duration = Duration::from_secs(90);
/// Requests a second, each on a new connection.
const RATE: f64 = 100.0;

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn no_request_fails_when_a_live_service_is_adopted_and_released() -> Result<()> {
    let namespace = begin_shared(NAME).await?;
    // Clients reach plain pods without the policies that Rouse's documents add.
    network_policies::open(&namespace).await?;
    let plain = Workload {
        attached: true,
        sidecar: Sidecar::None,
        min_replicas: 2,
        replicas: 2,
        ..Workload::new(NAME)
    };
    plain.create_without_hpa(&namespace).await?;
    change_pods(&namespace, &drain_of_endpoints()).await?;
    let url = plain.url(&namespace).await?;
    until_rolled_out(&namespace, NAME, ROLLOUT).await?;
    until_first_response(&url, &namespace, POD_START).await?;
    let mut load = Load::rate(&url, RATE, LONGEST).start(&namespace).await?;

    restart(&namespace).await?;
    make_managed(&namespace, &plain).await?;
    ensure_served(&namespace, &mut load).await.context("made managed")?;
    restart(&namespace).await?;
    release_managed(&namespace).await?;
    ensure_served(&namespace, &mut load).await.context("managed, and given back")?;

    add_sidecars(&namespace).await?;
    restart(&namespace).await?;
    attach(&namespace, &Workload { sidecar: Sidecar::Native, ..plain }).await?;
    ensure_served(&namespace, &mut load).await.context("attached")?;
    restart(&namespace).await?;
    release_attached(&namespace).await?;
    ensure_served(&namespace, &mut load).await.context("attached, and given back")?;
    remove_sidecars(&namespace).await?;
    ensure_served(&namespace, &mut load).await.context("without sidecars again")?;
    drop(load);
    namespace.end().await
}

/// The HPA, then no selector: pods without a sidecar need the managed form.
async fn make_managed(namespace: &TestNamespace, plain: &Workload) -> Result<()> {
    plain.create_hpa(namespace).await?;
    change_service(namespace, &json!({"selector": null})).await?;
    until_mode(namespace, NAME, SksMode::Proxy).await?;
    until_endpoints_are(namespace, "slices of Rouse", |slice| slice.labels().contains_key(MANAGED_SLICE))
        .await
}

/// The selector, then no HPA.
async fn release_managed(namespace: &TestNamespace) -> Result<()> {
    change_service(namespace, &json!({"selector": {"app": NAME}})).await?;
    delete_hpa(namespace).await
}

/// The steps of `docs/howto/coming-from/plain-hpa.md`, after the sidecars.
async fn attach(namespace: &TestNamespace, workload: &Workload) -> Result<()> {
    change_service(namespace, &ports("queue-proxy")).await?;
    workload.create_hpa(namespace).await?;
    wait::until("the activators in the path", RELEASED, || async {
        let service = namespace.api::<ServerlessService>().get_opt(NAME).await?;
        let status = service.and_then(|service| service.status).unwrap_or_default();
        ensure!(status.mode.is_some(), "{}", state(namespace, NAME).await);
        Ok(Some(()))
    })
    .await
}

async fn release_attached(namespace: &TestNamespace) -> Result<()> {
    delete_hpa(namespace).await?;
    change_service(namespace, &ports("web")).await
}

/// Deletes the HPA, and waits until nothing of Rouse is left of the workload.
async fn delete_hpa(namespace: &TestNamespace) -> Result<()> {
    namespace.api::<HorizontalPodAutoscaler>().delete(NAME, &DeleteParams::default()).await?;
    print_step("no HPA");
    wait::until("the end of the workload's objects", RELEASED, || async {
        let autoscaler = namespace.api::<PodAutoscaler>().get_opt(NAME).await?;
        let service = namespace.api::<ServerlessService>().get_opt(NAME).await?;
        ensure!(autoscaler.is_none() && service.is_none(), "{}", state(namespace, NAME).await);
        Ok(Some(()))
    })
    .await?;
    let of_kubernetes = |slice: &EndpointSlice| {
        let manager = slice.labels().get("endpointslice.kubernetes.io/managed-by");
        manager.is_some_and(|it| it == KUBERNETES_SLICE_MANAGER)
            && !slice.labels().contains_key(MANAGED_SLICE)
    };
    until_endpoints_are(namespace, "slices of Kubernetes", of_kubernetes).await
}

/// Waits until all EndpointSlices of the Service are of one writer.
async fn until_endpoints_are(
    namespace: &TestNamespace,
    what: &str,
    is_expected: impl Fn(&EndpointSlice) -> bool,
) -> Result<()> {
    let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={NAME}"));
    wait::until(&format!("{what} alone"), RELEASED, || async {
        let slices = namespace.api::<EndpointSlice>().list(&of_service).await?.items;
        let others: Vec<_> =
            slices.iter().filter(|slice| !is_expected(slice)).map(|s| s.name_any()).collect();
        ensure!(others.is_empty(), "{others:?}; {}", state(namespace, NAME).await);
        Ok((!slices.is_empty()).then_some(()))
    })
    .await
}

async fn add_sidecars(namespace: &TestNamespace) -> Result<()> {
    change_pods(namespace, &sidecar_label(json!("true"))).await?;
    until_rolled_out(namespace, NAME, ROLLOUT).await?;
    until_old_pods_are_gone(namespace, NAME, ROLLOUT).await?;
    ensure_have_sidecars(namespace, NAME).await
}

async fn remove_sidecars(namespace: &TestNamespace) -> Result<()> {
    change_pods(namespace, &sidecar_label(Value::Null)).await
}

fn sidecar_label(inject: Value) -> Value {
    json!({"metadata": {"labels": {"autoscaling.rouse.dev/inject": inject}}})
}

/// The pods take requests for some seconds after their end has begun, as Kubernetes needs it of
/// apps: kube-proxy routes to them for up to a second.
fn drain_of_endpoints() -> Value {
    json!({"spec": {"containers": [{"name": "app", "lifecycle": {"preStop": {"sleep": {"seconds": 4}}}}]}})
}

fn ports(target: &str) -> Value {
    json!({"ports": [{"name": "http", "port": SERVICE_PORT, "targetPort": target}]})
}

async fn change_service(namespace: &TestNamespace, spec: &Value) -> Result<()> {
    let patch = Patch::Merge(json!({"spec": spec}));
    namespace.api::<Service>().patch(NAME, &PatchParams::default(), &patch).await?;
    print_step(&format!("Service with {spec}"));
    Ok(())
}

async fn change_pods(namespace: &TestNamespace, template: &Value) -> Result<()> {
    let patch = Patch::Strategic(json!({"spec": {"template": template}}));
    namespace.api::<Deployment>().patch(NAME, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Begins a rollout.
async fn restart(namespace: &TestNamespace) -> Result<()> {
    namespace.api::<Deployment>().restart(NAME).await?;
    print_step("restart");
    Ok(())
}

/// With the clock of the requests' results, which shows the step in which requests failed.
fn print_step(step: &str) {
    println!("{NAME}: {step} at {:.0}", now_ms());
}

/// Waits for the end of the rollout, and checks all requests up to now.
async fn ensure_served(namespace: &TestNamespace, load: &mut RunningLoad) -> Result<()> {
    until_rolled_out(namespace, NAME, ROLLOUT).await?;
    until_old_pods_are_gone(namespace, NAME, ROLLOUT).await?;
    let responses = load.until_now().await?;
    ensure_all_ok(&responses).with_context(|| format!("of {} requests", responses.len()))?;
    println!("a live Service: {} requests, all with status 200", responses.len());
    Ok(())
}
