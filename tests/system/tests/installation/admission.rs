//! What the admission policy changes in a pod, and how soon the pod is ready on a real kubelet.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::api::sidecar;
use k8s_openapi::api::core::v1::{Container, Namespace, Node, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use system_tests::cluster::installation::begin_shared;
use system_tests::cluster::namespace::{SAMPLE_APP, TestNamespace, is_ready};
use system_tests::wait;
use system_tests::workloads::limits::create_quota;

const SIDECAR_PATH: &str = "/app-ready";
/// The period of the tests' probes. A pod that misses the first round becomes Ready one period
/// later.
const PERIOD: Duration = Duration::from_secs(10);

fn pod(name: &str, annotations: &Value, readiness_probe: &Value) -> Result<Pod> {
    let pod = json!({
        "metadata": {
            "name": name,
            "labels": {"autoscaling.rouse.dev/inject": "true"},
            "annotations": annotations,
        },
        "spec": {
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "app",
                "image": SAMPLE_APP,
                "imagePullPolicy": "IfNotPresent",
                // Slow enough for the kubelet to probe before the app listens.
                "args": ["serve", "--start-delay-ms", "500"],
                "ports": [{"name": "http", "containerPort": 8080}],
                "readinessProbe": readiness_probe,
            }],
        },
    });
    Ok(serde_json::from_value(pod)?)
}

/// The result of admission, by a dry run: the app's readiness probe and the sidecar.
async fn admitted(namespace: &TestNamespace, pod: &Pod) -> Result<(Value, Container)> {
    let pods: Api<Pod> = namespace.api();
    let spec = pods.create(&PostParams { dry_run: true, ..PostParams::default() }, pod).await?.spec;
    let spec = spec.context("a pod without a spec")?;
    let app = spec.containers.first().context("a pod without containers")?;
    let sidecar = sidecar(&spec).context("admission added no sidecar")?;
    Ok((serde_json::to_value(&app.readiness_probe)?, sidecar.clone()))
}

fn variable(container: &Container, name: &str) -> String {
    let variables = container.env.iter().flatten();
    variables
        .filter(|variable| variable.name == name)
        .find_map(|variable| variable.value.clone())
        .unwrap_or_default()
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn sidecar_takes_over_supported_readiness_probes_only() -> Result<()> {
    let namespace = begin_shared("admission").await?;
    let headers = json!([{"name": "X-A", "value": "a \"quoted\" $(HOME)"}]);
    let by_sidecar = [
        (
            json!({"httpGet": {"path": "/h?a=b", "port": "http", "httpHeaders": headers}, "timeoutSeconds": 20}),
            json!({"httpGet": {"path": "/h?a=b", "port": 8080, "httpHeaders": headers},
                "timeoutSeconds": 20, "successThreshold": 1}),
            21,
        ),
        (
            json!({"tcpSocket": {"port": 9000}, "successThreshold": 2}),
            json!({"tcpSocket": {"port": 9000}, "timeoutSeconds": 1, "successThreshold": 2}),
            10,
        ),
        (
            json!({"grpc": {"port": 9000, "service": "web"}, "initialDelaySeconds": 2, "failureThreshold": 5}),
            json!({"grpc": {"port": 9000, "service": "web"}, "timeoutSeconds": 1, "successThreshold": 1}),
            10,
        ),
    ];
    for (original, forwarded, timeout) in by_sidecar {
        let (probe, sidecar) = admitted(&namespace, &pod("by-sidecar", &json!({}), &original)?).await?;
        ensure!(probe["httpGet"]["path"] == SIDECAR_PATH, "the probe {original} became {probe}");
        ensure!(probe["timeoutSeconds"] == timeout, "the probe {original} became {probe}");
        for kept in ["initialDelaySeconds", "failureThreshold", "successThreshold"] {
            ensure!(original[kept].is_null() || original[kept] == probe[kept], "{original} became {probe}");
        }
        // The kubelet expands `$$` to one dollar sign.
        let given = variable(&sidecar, "QUEUE_PROXY_READINESS_PROBE").replace("$$", "$");
        let given: Value = serde_json::from_str(&given).with_context(|| given.clone())?;
        ensure!(given == forwarded, "the sidecar probes {given} for {original}");
    }

    let path = json!({"autoscaling.rouse.dev/readiness-path": "/mine"});
    let by_kubelet = [
        (json!({}), json!({"exec": {"command": ["true"]}})),
        (json!({}), json!({"httpGet": {"port": 8443, "scheme": "HTTPS"}})),
        (json!({}), json!({"httpGet": {"port": 8080, "host": "10.0.0.1"}})),
        (json!({}), json!({"tcpSocket": {"port": "other"}})),
        (path, json!({"httpGet": {"port": 8080}})),
    ];
    for (annotations, original) in by_kubelet {
        let (probe, sidecar) = admitted(&namespace, &pod("by-kubelet", &annotations, &original)?).await?;
        ensure!(probe["httpGet"]["path"] != SIDECAR_PATH, "the probe {original} became {probe}");
        let given = variable(&sidecar, "QUEUE_PROXY_READINESS_PROBE");
        ensure!(given.is_empty(), "the sidecar probes {given} for {original}");
    }
    namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn sidecar_is_admitted_at_the_pod_security_level_restricted() -> Result<()> {
    let namespace = begin_shared("restricted").await?;
    let level = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    let namespaces: Api<Namespace> = Api::all(namespace.client.clone());
    namespaces.patch(&namespace.name, &PatchParams::default(), &Patch::Merge(&level)).await?;
    let mut restricted = pod("restricted", &json!({}), &Value::Null)?;
    // The API server enforces a level once its cache has the label.
    let refused = wait::until("an app that runs as root to be refused", Duration::from_secs(30), || async {
        Ok(admitted(&namespace, &restricted).await.err())
    })
    .await?;
    ensure!(!refused.to_string().contains("queue-proxy"), "the sidecar is refused: {refused}");
    for app in restricted.spec.iter_mut().flat_map(|spec| &mut spec.containers) {
        app.security_context = Some(serde_json::from_value(json!({
            "allowPrivilegeEscalation": false,
            "runAsNonRoot": true,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        }))?);
    }
    admitted(&namespace, &restricted).await?;
    namespace.end().await
}

/// Without the rejection, the pod would start and its requests would fail.
#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn pod_with_a_sidecar_port_that_is_none_is_rejected() -> Result<()> {
    let namespace = begin_shared("sidecar-port").await?;
    for (annotation, index) in [("sidecar-port", 0), ("sidecar-stats-port", 1), ("sidecar-admin-port", 2)] {
        for value in ["http", "0", "65536"] {
            let annotations = json!({format!("autoscaling.rouse.dev/{annotation}"): value});
            let rejected = admitted(&namespace, &pod("rejected", &annotations, &Value::Null)?).await;
            let error = rejected.err().with_context(|| format!("accepted {annotation} {value}"))?.to_string();
            let field = format!("ports[{index}].containerPort");
            ensure!(error.contains(&field), "{annotation} {value}: {error}");
        }
    }
    namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn pod_annotations_become_settings_of_the_sidecar() -> Result<()> {
    let namespace = begin_shared("annotations").await?;
    let settings = [
        "container-concurrency",
        "queue-depth",
        "timeout",
        "response-start-timeout",
        "idle-timeout",
        "protocol",
        "tcp-silence",
        "tcp-answer-time",
    ];
    let annotations: Value =
        settings.iter().map(|name| (format!("autoscaling.rouse.dev/{name}"), json!("7"))).collect();
    let mut with_settings = pod("settings", &annotations, &Value::Null)?;
    if let Some(spec) = &mut with_settings.spec {
        spec.termination_grace_period_seconds = Some(600);
    }
    let (_, sidecar) = admitted(&namespace, &with_settings).await?;
    let drain = variable(&sidecar, "QUEUE_PROXY_DRAIN_TIMEOUT");
    ensure!(drain == "595s", "with a grace period of 600 s the drain timeout is {drain}");
    for name in settings {
        let variable_name = format!("QUEUE_PROXY_{}", name.replace('-', "_").to_uppercase());
        ensure!(
            variable(&sidecar, &variable_name) == "7",
            "{name} did not become {variable_name}: {sidecar:?}"
        );
    }
    namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn sidecar_has_the_pods_uid_and_a_hook_of_its_own() -> Result<()> {
    let namespace = begin_shared("sidecar-hook").await?;
    let (_, sidecar) = admitted(&namespace, &pod("hook", &json!({}), &Value::Null)?).await?;
    let sidecar = serde_json::to_value(sidecar)?;
    let hook = &sidecar["lifecycle"]["preStop"]["exec"]["command"];
    ensure!(*hook == json!(["/queue-proxy", "start-drain"]), "the sidecar's hook is {hook}");
    let variables = sidecar["env"].as_array().context("a sidecar without variables")?;
    let uid = variables.iter().find(|variable| variable["name"] == "QUEUE_PROXY_POD_UID");
    let path = uid.and_then(|uid| uid.pointer("/valueFrom/fieldRef/fieldPath"));
    ensure!(path == Some(&json!("metadata.uid")), "the variable of the uid is {uid:?}");
    namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn sidecar_is_an_ordinary_container_behind_an_app_without_hooks() -> Result<()> {
    let namespace = begin_shared("app-first").await?;
    let pods: Api<Pod> = namespace.api();
    let app_first = pod("app-first", &json!({}), &Value::Null)?;
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let spec = pods.create(&dry_run, &app_first).await?.spec.context("a pod without a spec")?;
    let names: Vec<&str> = spec.containers.iter().map(|container| container.name.as_str()).collect();
    ensure!(names == ["app", "queue-proxy"], "the containers are {names:?}");
    ensure!(spec.init_containers.iter().flatten().next().is_none(), "there is a native sidecar as well");
    let hooks = serde_json::to_value(&spec.containers)?;
    let (app, sidecar) = (&hooks[0]["lifecycle"]["preStop"], &hooks[1]["lifecycle"]["preStop"]);
    ensure!(app["httpGet"]["path"] == "/wait-for-drain", "the app's hook is {app}");
    ensure!(sidecar["exec"]["command"][1] == "start-drain", "the sidecar's hook is {sidecar}");

    pods.create(&PostParams::default(), &app_first).await?;
    wait::until("the pod to be ready", Duration::from_secs(60), || async {
        Ok(is_ready(&pods.get("app-first").await?).then_some(()))
    })
    .await?;
    namespace.end().await
}

/// Within a probe's period after its start, a kubelet delays first probes by a random part of the
/// period. A node is Ready about a second after its kubelet's start.
async fn kubelets_are_older_than(namespace: &TestNamespace, age: Duration) -> Result<bool> {
    let nodes = Api::<Node>::all(namespace.client.clone()).list(&ListParams::default()).await?;
    let is_older = |node: &Node| {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        let ready = conditions.into_iter().flatten().find(|c| c.type_ == "Ready" && c.status == "True");
        let since = ready.and_then(|condition| condition.last_transition_time.as_ref());
        since.is_some_and(|since| {
            since.0.duration_until(k8s_openapi::jiff::Timestamp::now()).unsigned_abs() > age
        })
    };
    Ok(nodes.items.iter().all(is_older))
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn pod_is_ready_with_its_app_not_a_probe_period_later() -> Result<()> {
    let namespace = begin_shared("readiness").await?;
    let pods: Api<Pod> = namespace.api();
    wait::until("kubelets older than a probe period", 4 * PERIOD, || async {
        Ok(kubelets_are_older_than(&namespace, 2 * PERIOD).await?.then_some(()))
    })
    .await?;
    for i in 0..3 {
        let name = format!("ready-{i}");
        let probe = json!({"httpGet": {"path": "/", "port": 8080}, "periodSeconds": PERIOD.as_secs()});
        pods.create(&PostParams::default(), &pod(&name, &json!({}), &probe)?).await?;
        let started =
            wait::until(&format!("the containers of {name} to run"), Duration::from_secs(60), || async {
                let status = pods.get(&name).await?.status.unwrap_or_default();
                let running = status.container_statuses.iter().flatten().any(|app| app.started == Some(true));
                Ok(running.then(tokio::time::Instant::now))
            })
            .await?;
        wait::until(&format!("{name} to be ready"), PERIOD / 2, || async {
            Ok(is_ready(&pods.get(&name).await?).then_some(()))
        })
        .await?;
        println!("{name}: Ready {:?} after its app was seen running", started.elapsed());
    }
    namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn pod_with_a_cpu_limit_of_its_sidecar_fits_a_quota_of_limits() -> Result<()> {
    let namespace = begin_shared("quota").await?;
    create_quota(&namespace, "cpu", json!({"limits.cpu": "4"})).await?;
    let of_app = |annotations: &Value| {
        let mut limited = pod("limited", annotations, &Value::Null)?;
        let resources = json!({"limits": {"cpu": "1"}});
        for app in limited.spec.iter_mut().flat_map(|spec| &mut spec.containers) {
            app.resources = serde_json::from_value(resources.clone())?;
        }
        anyhow::Ok(limited)
    };
    let refused = admitted(&namespace, &of_app(&json!({}))?).await.err().context("no quota holds")?;
    ensure!(format!("{refused:#}").contains("must specify limits.cpu for: queue-proxy"), "{refused:#}");
    let limit = json!({"autoscaling.rouse.dev/sidecar-cpu-limit": "500m"});
    let (_, sidecar) = admitted(&namespace, &of_app(&limit)?).await?;
    let limits = sidecar.resources.and_then(|resources| resources.limits).unwrap_or_default();
    ensure!(limits.get("cpu").is_some_and(|cpu| cpu.0 == "500m"), "the sidecar's limits are {limits:?}");
    namespace.end().await
}
