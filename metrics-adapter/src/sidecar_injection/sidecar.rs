//! The sidecar's container.

use autoscaler::contract::{QUEUE_PROXY, QUEUE_PROXY_ADMIN_PORT_NAME, QUEUE_PROXY_STATS_PORT_NAME};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, EnvVar, EnvVarSource, ExecAction, Lifecycle, LifecycleHandler,
    ObjectFieldSelector, Probe, ResourceRequirements, SeccompProfile, SecurityContext,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::sidecar_injection::SidecarSettings;
use crate::sidecar_injection::app_pod::AppPod;
use crate::sidecar_injection::app_probe::sidecar_action;

/// User of the image.
const IMAGE_USER: i64 = 65532;
const ROOT: i64 = 0;
/// As in the policy: tags of releases do not move.
const PULL_POLICY: &str = "IfNotPresent";

/// The container for a pod.
///
/// # Errors
/// When the app's probe cannot be encoded.
pub(super) fn container(
    pod: &AppPod<'_>,
    settings: &SidecarSettings,
) -> Result<Container, serde_json::Error> {
    let preparation = ExecAction { command: Some(vec!["/queue-proxy".to_owned(), "start-drain".to_owned()]) };
    let pre_stop = LifecycleHandler { exec: Some(preparation), ..LifecycleHandler::default() };
    let ports = pod.sidecar_ports();
    Ok(Container {
        name: QUEUE_PROXY.to_owned(),
        image: Some(settings.image.clone()),
        image_pull_policy: Some(PULL_POLICY.to_owned()),
        // A native sidecar, unless the app is first.
        restart_policy: (!pod.is_app_first()).then(|| "Always".to_owned()),
        ports: Some(vec![
            port(QUEUE_PROXY, ports.traffic),
            port(QUEUE_PROXY_STATS_PORT_NAME, ports.stats),
            port(QUEUE_PROXY_ADMIN_PORT_NAME, ports.admin),
        ]),
        env: Some(variables(pod)?),
        lifecycle: Some(Lifecycle { pre_stop: Some(pre_stop), ..Lifecycle::default() }),
        readiness_probe: Some(Probe {
            http_get: Some(sidecar_action("/ready", ports)),
            period_seconds: Some(1),
            timeout_seconds: Some(10),
            failure_threshold: Some(1),
            ..Probe::default()
        }),
        resources: Some(resources(pod, settings)),
        security_context: Some(security_context(pod)),
        ..Container::default()
    })
}

/// The settings of one sidecar, checked, and with defaults in place of absent ones.
fn variables(pod: &AppPod<'_>) -> Result<Vec<EnvVar>, serde_json::Error> {
    let annotated = |name: &str| pod.annotation(name).unwrap_or_default().to_owned();
    let probe = pod.probe().map(|probe| probe.json()).transpose()?.unwrap_or_default();
    Ok(vec![
        pod_uid(),
        variable("LISTEN", annotated("sidecar-port")),
        variable("STATS_LISTEN", annotated("sidecar-stats-port")),
        variable("ADMIN_LISTEN", annotated("sidecar-admin-port")),
        variable("APP_PORT", pod.port()),
        variable("PROTOCOL", annotated("protocol")),
        variable("TCP_SILENCE", annotated("tcp-silence")),
        variable("TCP_ANSWER_TIME", annotated("tcp-answer-time")),
        variable("CONTAINER_CONCURRENCY", pod.annotation("container-concurrency").unwrap_or("0").to_owned()),
        variable("QUEUE_DEPTH", annotated("queue-depth")),
        variable("TIMEOUT", annotated("timeout")),
        variable("RESPONSE_START_TIMEOUT", annotated("response-start-timeout")),
        variable("IDLE_TIMEOUT", annotated("idle-timeout")),
        variable("DRAIN_TIMEOUT", pod.drain_timeout()),
        variable("HEALTH_CHECK_AGENTS", annotated("health-check-agents")),
        variable("NO_WAKE", without_expansion(&annotated("no-wake"))),
        variable("READINESS_PATH", annotated("readiness-path")),
        variable("READINESS_PROBE", without_expansion(&probe)),
    ])
}

/// Activators know the UID from the API, and no pod without credentials can: it shows which
/// requests are theirs.
fn pod_uid() -> EnvVar {
    let field_ref =
        ObjectFieldSelector { field_path: "metadata.uid".to_owned(), ..ObjectFieldSelector::default() };
    EnvVar {
        name: "QUEUE_PROXY_POD_UID".to_owned(),
        value_from: Some(EnvVarSource { field_ref: Some(field_ref), ..EnvVarSource::default() }),
        ..EnvVar::default()
    }
}

fn variable(name: &str, value: String) -> EnvVar {
    let value = Some(value).filter(|value| !value.is_empty());
    EnvVar { name: format!("QUEUE_PROXY_{name}"), value, ..EnvVar::default() }
}

/// The kubelet expands `$(NAME)` in environment variables.
fn without_expansion(value: &str) -> String {
    value.replace('$', "$$")
}

fn port(name: &str, number: u16) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: number.into(),
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }
}

fn resources(pod: &AppPod<'_>, settings: &SidecarSettings) -> ResourceRequirements {
    let annotated =
        |name| pod.annotation(name).filter(|text| !text.is_empty()).map(|text| Quantity(text.into()));
    let of = |name, default: &Quantity| annotated(name).unwrap_or_else(|| default.clone());
    // A LimitRange refuses a pod with a request or a ratio out of its bounds.
    let requests = [
        ("cpu", of("sidecar-cpu-request", &settings.cpu_request)),
        ("memory", of("sidecar-memory-request", &settings.memory_request)),
    ];
    // Quotas of CPU limits refuse a pod with a container that has none.
    let cpu_limit = annotated("sidecar-cpu-limit").map(|limit| ("cpu", limit));
    let memory_limit = ("memory", of("sidecar-memory-limit", &settings.memory_limit));
    let limits = cpu_limit.into_iter().chain([memory_limit]);
    ResourceRequirements {
        requests: Some(requests.map(|(name, quantity)| (name.to_owned(), quantity)).into()),
        limits: Some(limits.map(|(name, quantity)| (name.to_owned(), quantity)).collect()),
        ..ResourceRequirements::default()
    }
}

/// What the pod security standard `restricted` demands. The user is that of the image, of the pod,
/// or of the platform: OpenShift assigns each namespace its own, and refuses others.
fn security_context(pod: &AppPod<'_>) -> SecurityContext {
    let seccomp = SeccompProfile { type_: "RuntimeDefault".to_owned(), ..SeccompProfile::default() };
    let user_of_pod = pod.spec().security_context.as_ref().and_then(|context| context.run_as_user);
    SecurityContext {
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: Some(true),
        run_as_non_root: Some(true),
        run_as_user: (user_of_pod == Some(ROOT)).then_some(IMAGE_USER),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), ..Capabilities::default() }),
        seccomp_profile: Some(seccomp),
        ..SecurityContext::default()
    }
}
