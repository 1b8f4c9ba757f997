//! The admission policies refuse what no user and no part of Rouse may write, and nothing else.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use autoscaler::api::{Metric, PodAutoscaler, ServerlessService};
use autoscaler::contract::{MANAGED_SLICE, SLICE_MANAGER};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v1::{Scale, ScaleSpec};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use serde_json::{Value, json};
use system_tests::cluster::impersonation::{client_as, service_account};
use system_tests::cluster::installation::begin_shared;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::wait;
use system_tests::workloads::workload::{Workload, scale, until_replicas};

const TENANT: &str = "tenant";
/// Enough for a reconcile, for garbage collection, and for a role to take effect.
const SOON: Duration = Duration::from_secs(60);

/// Grants the tenant rights in the namespace.
async fn grant(namespace: &TestNamespace, role: &str, rules: Value) -> Result<()> {
    let object = json!({"metadata": {"name": role}, "rules": rules});
    let roles: Api<Role> = namespace.api();
    roles.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    let binding = json!({
        "metadata": {"name": role},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": TENANT}],
    });
    let bindings: Api<RoleBinding> = namespace.api();
    bindings.create(&PostParams::default(), &serde_json::from_value(binding)?).await?;
    Ok(())
}

/// Fails unless a policy refused the request with this message.
fn ensure_refused<T: Debug>(result: Result<T, kube::Error>, message: &str) -> Result<()> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 403 && status.message.contains(message) => Ok(()),
        other => bail!("not refused with {message:?}: {other:?}"),
    }
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn user_with_all_rights_in_a_namespace_writes_no_internal_object() -> Result<()> {
    let namespace = begin_shared("internal").await?;
    Workload::new("guarded").create(&namespace).await?;
    let services: Api<ServerlessService> = namespace.api();
    wait::until("the ServerlessService to have a port", SOON, || async {
        let status = services.get_opt("guarded").await?.and_then(|service| service.status);
        Ok(status.filter(|status| !status.ports.is_empty()))
    })
    .await?;
    grant(&namespace, "all", json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])).await?;
    let tenant = namespace.with_client(client_as(TENANT).await?);
    let services: Api<ServerlessService> = tenant.api();
    let autoscalers: Api<PodAutoscaler> = tenant.api();
    wait::until("the tenant's rights", SOON, || async { Ok(Some(services.get("guarded").await?)) }).await?;

    let refused = "only the zero-scaler writes";
    let merge = PatchParams::default();
    let forged = json!({"name": "http", "servicePort": 80, "activatorPort": 20000, "podPort": 8012});
    let status = Patch::Merge(json!({"status": {"ports": [forged]}}));
    ensure_refused(services.patch_status("guarded", &merge, &status).await, refused)?;
    let spec = Patch::Merge(json!({"spec": {"selector": "app=other"}}));
    ensure_refused(services.patch("guarded", &merge, &spec).await, refused)?;
    ensure_refused(services.delete("guarded", &DeleteParams::default()).await, refused)?;
    let mut copy = services.get("guarded").await?;
    copy.metadata = ObjectMeta { name: Some("forged".to_owned()), ..ObjectMeta::default() };
    ensure_refused(services.create(&PostParams::default(), &copy).await, refused)?;
    let metrics: Api<Metric> = tenant.api();
    let spec = Patch::Merge(json!({"spec": {"selector": "app=other"}}));
    ensure_refused(metrics.patch("guarded", &merge, &spec).await, refused)?;
    let status = Patch::Merge(json!({"status": {"desiredReplicas": 9}}));
    ensure_refused(autoscalers.patch_status("guarded", &merge, &status).await, refused)?;
    let slices: Api<EndpointSlice> = tenant.api();
    for label in [("endpointslice.kubernetes.io/managed-by", SLICE_MANAGER), (MANAGED_SLICE, "true")] {
        let slice = json!({
            "metadata": {"name": "forged", "labels": {"kubernetes.io/service-name": "guarded", label.0: label.1}},
            "addressType": "IPv4", "endpoints": [], "ports": [{"name": "http", "port": 20000}],
        });
        let slice: EndpointSlice = serde_json::from_value(slice)?;
        ensure_refused(slices.create(&PostParams::default(), &slice).await, refused)?;
    }

    // Garbage collection may delete them; the end of the namespace shows the same of its
    // controller.
    let hpas: Api<HorizontalPodAutoscaler> = tenant.api();
    hpas.delete("guarded", &DeleteParams::default()).await.context("the tenant's own HPA")?;
    wait::until("garbage collection", SOON, || async {
        Ok(services.get_opt("guarded").await?.is_none().then_some(()))
    })
    .await?;
    Workload::new("left").create(&namespace).await?;
    wait::until("another ServerlessService", SOON, || async {
        services.get_opt("left").await.map_err(Into::into)
    })
    .await?;
    namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn activator_scales_from_zero_to_one_only() -> Result<()> {
    let namespace = begin_shared("activator-scale").await?;
    Workload { replicas: 0, ..Workload::new("target") }.create_deployment(&namespace).await?;
    let activator = namespace.with_client(client_as(&service_account("activator")).await?);
    let targets: Api<Deployment> = activator.api();
    let name = activator.name.clone();
    let write = |replicas: i32| {
        let metadata = ObjectMeta {
            name: Some("target".to_owned()),
            namespace: Some(name.clone()),
            ..ObjectMeta::default()
        };
        let scale = Scale { metadata, spec: Some(ScaleSpec { replicas: Some(replicas) }), status: None };
        let targets = targets.clone();
        async move { targets.replace_scale("target", &PostParams::default(), &scale).await }
    };
    let refused = "an activator may only write 1 replica where there are 0";
    ensure_refused(write(2).await, refused)?;
    write(1).await.context("from 0 to 1")?;
    for replicas in [0, 1, 2] {
        ensure_refused(write(replicas).await, refused)?;
    }
    scale(&namespace, "target", 0).await?;
    until_replicas(&namespace, "target", |n| n == 0, SOON).await?;
    write(1).await.context("from 0 to 1 again")?;
    namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn zero_scaler_writes_no_service_or_slice_of_others() -> Result<()> {
    let namespace = begin_shared("zero-scaler-rights").await?;
    Workload { attached: true, ..Workload::new("users") }.create_without_hpa(&namespace).await?;
    let slices: Api<EndpointSlice> = namespace.api();
    let of_service = ListParams::default().labels("kubernetes.io/service-name=users");
    let slice = wait::until("the slice of Kubernetes", SOON, || async {
        Ok(slices.list(&of_service).await?.items.into_iter().next().and_then(|slice| slice.metadata.name))
    })
    .await?;
    let zero_scaler = namespace.with_client(client_as(&service_account("zero-scaler")).await?);
    let services: Api<Service> = zero_scaler.api();
    let slices: Api<EndpointSlice> = zero_scaler.api();
    let force = PatchParams::apply("zero-scaler").force();

    let changed = "the zero-scaler may not change a Service without the label";
    let selector = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "users"},
        "spec": {"selector": {"app": "another"}},
    });
    ensure_refused(services.patch("users", &force, &Patch::Apply(&selector)).await, changed)?;
    ensure_refused(services.delete("users", &DeleteParams::default()).await, changed)?;
    let exposed = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "exposed", "labels": {"autoscaling.rouse.dev/workload": "users"}},
        "spec": {"type": "NodePort", "selector": {"app": "users"}, "ports": [{"port": 80}]},
    });
    let refused = "the zero-scaler writes only headless Services";
    ensure_refused(services.patch("exposed", &force, &Patch::Apply(&exposed)).await, refused)?;

    let refused = "the zero-scaler may not write EndpointSlices of other managers";
    let patch = Patch::Merge(json!({"endpoints": []}));
    ensure_refused(slices.patch(&slice, &PatchParams::default(), &patch).await, refused)?;
    namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn pod_autoscaler_needs_the_right_to_scale_its_target() -> Result<()> {
    let namespace = begin_shared("author").await?;
    Workload::new("target").create_without_hpa(&namespace).await?;
    let own =
        json!([{"apiGroups": ["autoscaling.rouse.dev"], "resources": ["podautoscalers"], "verbs": ["*"]}]);
    grant(&namespace, "podautoscalers", own).await?;
    let tenant = namespace.with_client(client_as(TENANT).await?);
    let autoscalers: Api<PodAutoscaler> = tenant.api();
    wait::until("the tenant's rights", SOON, || async {
        Ok(Some(autoscalers.list(&ListParams::default()).await?))
    })
    .await?;
    let of = |api_version: &str, kind: &str| -> Result<PodAutoscaler> {
        let target = json!({"apiVersion": api_version, "kind": kind, "name": "target"});
        let spec = json!({"scaleTargetRef": target, "scaler": "Direct", "service": "target", "target": "5",
            "maxReplicas": 2});
        Ok(PodAutoscaler::new("target", serde_json::from_value(spec)?))
    };
    let (create, deployment) = (PostParams::default(), of("apps/v1", "Deployment")?);
    ensure_refused(
        autoscalers.create(&create, &deployment).await,
        "you may not update the scale of Deployment target (deployments/scale in API group \"apps\")",
    )?;
    let scales = json!([{"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["update"]}]);
    grant(&namespace, "scales", scales).await?;
    wait::until("the PodAutoscaler to be accepted", SOON, || async {
        Ok(Some(autoscalers.create(&create, &deployment).await?))
    })
    .await?;

    // The right does not extend to other targets, and a change needs it as well.
    let target = json!({"apiVersion": "v1", "kind": "ReplicationController", "name": "target"});
    let patch = Patch::Merge(json!({"spec": {"scaleTargetRef": target}}));
    let changed = autoscalers.patch("target", &PatchParams::default(), &patch).await;
    ensure_refused(changed, "you may not update the scale of ReplicationController target")?;
    let roles: Api<Role> = namespace.api();
    roles.delete("scales", &DeleteParams::default()).await?;
    wait::until("the right to be withdrawn", SOON, || async {
        let patch = Patch::Merge(
            json!({"metadata": {"annotations": {"autoscaling.rouse.dev/activation-scale": "2"}}}),
        );
        let changed = autoscalers.patch("target", &PatchParams::default(), &patch).await;
        if changed.is_err() {
            return Ok(Some(()));
        }
        // The right may end in between. The next change would then change nothing, and be accepted.
        let undo = Patch::Merge(json!({"metadata": {"annotations": null}}));
        let undone = autoscalers.patch("target", &PatchParams::default(), &undo).await;
        Ok(undone.is_err().then_some(()))
    })
    .await?;
    let labels = Patch::Merge(json!({"metadata": {"labels": {"team": "shop"}}}));
    let labelled = autoscalers.patch("target", &PatchParams::default(), &labels).await?;
    ensure!(labelled.metadata.labels.is_some_and(|labels| labels.contains_key("team")), "labels are free");
    namespace.end().await
}
