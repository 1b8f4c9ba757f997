//! The platforms of `docs/howto/operate/platforms.md`: the API server accepts the chart with the
//! values of each, and Rouse works under policies that do to pods what OpenShift, GKE Autopilot and
//! the CIS profile of RKE2 do.

use anyhow::{Context, Result, ensure};
use docs::page::{pages, root};
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams};
use system_tests::cluster::helm::Helm;
use system_tests::cluster::installation::{NAMESPACE, set_grace_period, until_ready};
use system_tests::cluster::kubectl;
use system_tests::cluster::namespace::{CLIENT_POD, TestNamespace};
use system_tests::cluster::version::Feature;
use system_tests::traffic::load::{create_at_zero, send_one_request};
use system_tests::wait;
use system_tests::workloads::injection::{ensure_have_sidecars, until_injection};
use system_tests::workloads::workload::Workload;

use crate::installed::{INSTALLED, ROLLOUT, begin, until_nothing_is_left};

const PAGE: &str = "docs/howto/operate/platforms.md";
/// The first line of a file of values on the page.
const VALUES: &str = "# values: ";
/// That of the values for the policy that makes limits equal to requests.
const AUTOPILOT: &str = "# values: GKE Autopilot";
/// Where the policies apply, beside Rouse's own namespace.
const TESTED: &str = "rouse-test-platform";
/// Name of the policies.
const POLICIES: &str = "rouse-test-platform";
/// A user of a namespace's range on OpenShift.
const USER: i64 = 1_000_650_000;

/// What a platform needs of the chart.
struct PlatformValues {
    name: String,
    /// A file of values.
    file: String,
}

#[tokio::test]
#[ignore = "needs a cluster without Rouse: run make test-install"]
async fn api_server_accepts_the_chart_with_the_values_of_each_platform() -> Result<()> {
    let (client, _guard) = begin().await?;
    let helm = Helm::from_environment()?;
    let version = client.apiserver_version().await?.git_version;
    kubectl::run(&["create", "namespace", NAMESPACE]).await?;
    let file = std::env::temp_dir().join(format!("rouse-test-platform-{}.yaml", std::process::id()));
    let path = file.to_str().context("a path that is not UTF-8")?;
    let platforms = platforms()?;
    ensure!(platforms.len() > 8, "{} platforms on {PAGE}", platforms.len());
    for PlatformValues { name, file: values } in platforms {
        std::fs::write(&file, &values)?;
        let arguments = ["--kube-version", &version, "--set", "metricsApi=external", "--values", path];
        let rendered = helm.template(&arguments).await.with_context(|| format!("{name}: {values}"))?;
        std::fs::write(&file, rendered)?;
        let apply = ["apply", "--server-side", "--dry-run=server", "--filename", path];
        let applied = kubectl::run(&apply).await.with_context(|| format!("{name}: {values}"))?;
        ensure!(applied.contains("deployment.apps/activator"), "{applied}");
        println!("{name}: {} objects are accepted", applied.lines().count());
    }
    std::fs::remove_file(&file)?;
    kubectl::run(&["delete", "namespace", NAMESPACE]).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster without Rouse: run make test-install"]
async fn serves_where_the_platform_sets_users_and_limits() -> Result<()> {
    let (client, guard) = begin().await?;
    if !Feature::MutatingAdmissionPolicy.is_served(&client).await? {
        println!("without MutatingAdmissionPolicy nothing here can set users and limits");
        return Ok(());
    }
    let helm = Helm::from_environment()?;
    let namespace = TestNamespace::create(client.clone(), TESTED).await?.with_guard(guard);
    kubectl::run(&["create", "namespace", NAMESPACE]).await?;
    kubectl::run(&["label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted"]).await?;
    let file = std::env::temp_dir().join(format!("{TESTED}-{}.yaml", std::process::id()));
    let path = file.to_str().context("a path that is not UTF-8")?;
    std::fs::write(&file, policies().to_string())?;
    kubectl::run(&["apply", "--filename", path]).await?;
    until_users_are_set(&namespace).await?;
    let platforms = platforms()?;
    let autopilot = platforms.iter().find(|platform| platform.file.starts_with(AUTOPILOT));
    std::fs::write(&file, &autopilot.context(AUTOPILOT)?.file)?;

    helm.install(&["--values", path]).await?;
    std::fs::remove_file(&file)?;
    until_ready(&client, INSTALLED).await?;
    set_grace_period(&client, "3s").await?;
    until_injection(&namespace, true).await?;
    let workload = Workload { attached: true, ..Workload::new("web") };
    let url = create_at_zero(&workload, &namespace, ROLLOUT).await?;
    let response = send_one_request(&url, &namespace).await?;
    println!("a wake took {:.0} ms", response.ms);
    ensure_have_sidecars(&namespace, "web").await?;
    for tested in [NAMESPACE, TESTED] {
        ensure_policies_had_effect(Api::namespaced(client.clone(), tested)).await.context(tested)?;
    }

    println!("{}", helm.uninstall().await?);
    until_nothing_is_left().await?;
    for kind in ["mutatingadmissionpolicy", "mutatingadmissionpolicybinding"] {
        kubectl::run(&["delete", kind, POLICIES]).await?;
    }
    namespace.delete().await
}

/// The rows of the table that have a value in place of a link, the defaults, and each file of
/// values.
fn platforms() -> Result<Vec<PlatformValues>> {
    let pages = pages(&root())?;
    let page = pages.iter().find(|page| page.path.to_str() == Some(PAGE)).context(PAGE)?;
    let blocks = page.blocks().into_iter().filter_map(|block| {
        let name = block.text.strip_prefix(VALUES)?.lines().next()?.to_owned();
        Some(PlatformValues { name, file: block.text })
    });
    let mut platform = "";
    let rows = page.text.lines().filter(|line| line.starts_with("| ")).filter_map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [name, _, values] = cells.as_slice() else { return None };
        platform = if name.is_empty() { platform } else { *name };
        let (key, value) = values.split('`').nth(1)?.split_once(": ")?;
        Some(PlatformValues { name: platform.to_owned(), file: nested(key, value) })
    });
    let defaults = PlatformValues { name: "all others".to_owned(), file: String::new() };
    Ok(std::iter::once(defaults).chain(rows).chain(blocks).collect())
}

/// A key with dots as YAML, of which JSON is a part.
fn nested(key: &str, value: &str) -> String {
    key.rsplit('.').fold(value.to_owned(), |inner, key| format!("{{{key}: {inner}}}"))
}

/// Sets the user and the group of pods, and the memory limit of each container to its request.
fn policies() -> serde_json::Value {
    let user = format!(
        "Object{{spec: Object.spec{{securityContext: Object.spec.securityContext{{runAsUser: {USER}, fsGroup: {USER}}}}}}}"
    );
    let limits = |field: &str| {
        format!(
            "Object{{spec: Object.spec{{{field}: object.spec.?{field}.orValue([])\
             .filter(c, has(c.resources) && has(c.resources.requests) && 'memory' in c.resources.requests)\
             .map(c, Object.spec.{field}{{name: c.name, resources: Object.spec.{field}.resources{{\
             limits: {{'memory': c.resources.requests['memory']}}}}}})}}}}"
        )
    };
    let mutation = |expression: String| serde_json::json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}});
    let (version, metadata) = ("admissionregistration.k8s.io/v1", serde_json::json!({"name": POLICIES}));
    let policy = serde_json::json!({
        "apiVersion": version, "kind": "MutatingAdmissionPolicy", "metadata": metadata,
        "spec": {
            "failurePolicy": "Fail",
            // Again after the policy that adds the sidecar.
            "reinvocationPolicy": "IfNeeded",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"],
            }]},
            "mutations": [
                mutation(user), mutation(limits("containers")), mutation(limits("initContainers")),
            ],
        },
    });
    let binding = serde_json::json!({
        "apiVersion": version, "kind": "MutatingAdmissionPolicyBinding", "metadata": metadata,
        "spec": {
            "policyName": POLICIES,
            "matchResources": {"namespaceSelector": {"matchExpressions": [{
                "key": "kubernetes.io/metadata.name", "operator": "In", "values": [NAMESPACE, TESTED],
            }]}},
        },
    });
    serde_json::json!({"apiVersion": "v1", "kind": "List", "items": [policy, binding]})
}

/// Waits until the API server follows the policies.
async fn until_users_are_set(namespace: &TestNamespace) -> Result<()> {
    let pod: Pod = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "new"}, "spec": {"containers": [{"name": "app", "image": "app"}]},
    }))?;
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    wait::until("users of pods to be set", INSTALLED, || async {
        let admitted = namespace.api::<Pod>().create(&dry_run, &pod).await?;
        Ok((user(admitted.spec.as_ref()) == Some(USER)).then_some(()))
    })
    .await
}

fn user(spec: Option<&PodSpec>) -> Option<i64> {
    spec?.security_context.as_ref()?.run_as_user
}

/// Checks that no pod or container has a user of its own, and that limits are as the policy wants.
async fn ensure_policies_had_effect(pods: Api<Pod>) -> Result<()> {
    let pods = pods.list(&ListParams::default()).await?.items;
    ensure!(pods.iter().any(|pod| pod.name_any() != CLIENT_POD), "no pod");
    // The client of the requests is older than the policies.
    let pods = pods.into_iter().filter(|pod| pod.name_any() != CLIENT_POD);
    for spec in pods.filter_map(|pod| pod.spec) {
        ensure!(user(Some(&spec)) == Some(USER), "{:?}", user(Some(&spec)));
        for container in spec.containers.into_iter().chain(spec.init_containers.unwrap_or_default()) {
            let own = container.security_context.and_then(|context| context.run_as_user);
            ensure!(own.is_none(), "{} has the user {own:?}", container.name);
            let resources = container.resources.unwrap_or_default();
            let memory = [resources.limits, resources.requests].map(|all| all?.get("memory").cloned());
            ensure!(memory[1].is_none() || memory[0] == memory[1], "{}: {memory:?}", container.name);
        }
    }
    Ok(())
}
