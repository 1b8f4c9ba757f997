//! The names and numbers on which Rouse's processes, manifests and users agree.
//!
//! Every value here is visible from outside: a port in a manifest, a label on a pod, a header on the wire. Changing one
//! breaks running clusters, so each stands here once and nowhere else.

pub mod key;
pub mod metric_name;
pub mod protocol;
pub mod quantity;
pub mod selector;

use std::time::Duration;

use key::Key;

/// API group of the custom resources, and prefix (with `/`) of labels and annotations.
pub const GROUP: &str = "autoscaling.rouse.dev";
/// Version of the custom resources.
pub const VERSION: &str = "v1alpha1";
/// Namespace of the installation, unless a process is told otherwise.
pub const SYSTEM_NAMESPACE: &str = "rouse-system";
/// ConfigMap with the cluster-wide settings, in the installation's namespace.
pub const CONFIG_MAP: &str = "config-autoscaler";
/// ConfigMap with the last valid data of [`CONFIG_MAP`], written by the zero-scaler's leader.
pub const ACCEPTED_CONFIG_MAP: &str = "config-autoscaler-accepted";

/// Label that opts a pod into the sidecar (value `"true"`), by which every part finds the pods that have one.
pub const INJECT_LABEL: &str = "autoscaling.rouse.dev/inject";
/// Label on what the zero-scaler makes: the workload's name.
pub const WORKLOAD_LABEL: &str = "autoscaling.rouse.dev/workload";
/// `endpointslice.kubernetes.io/managed-by` of our EndpointSlices; Kubernetes' own controllers then leave them alone.
pub const SLICE_MANAGER: &str = "zero-scaler.autoscaling.rouse.dev";

/// Annotation on an HPA: `"true"` lets the workload go to zero.
pub const SCALE_TO_ZERO: &str = "autoscaling.rouse.dev/scale-to-zero";
/// Annotation on an HPA: requests that one pod may serve at a time; `"0"` or absent means no limit. The pods carry the
/// same annotation for their sidecar.
pub const CONTAINER_CONCURRENCY: &str = "autoscaling.rouse.dev/container-concurrency";

/// Annotation on pods: what is spoken to their app, as [`Protocol`](crate::Protocol) writes it. The Service's
/// `appProtocol` must say the same.
pub const PROTOCOL: &str = "autoscaling.rouse.dev/protocol";

/// Name of the sidecar's container and of its traffic port. A Service in attached mode names it as `targetPort`.
pub const QUEUE_PROXY: &str = "queue-proxy";

/// Traffic through the sidecar: HTTP/1.1 and h2c on one port, or the bytes of a pod that speaks something else.
pub const QUEUE_PROXY_PORT: u16 = 8012;
/// The sidecar's `/stat` for the collector and `/metrics` for Prometheus, over TCP; over UDP the same
/// [stat](crate::stats::datagram) by datagrams.
pub const QUEUE_PROXY_STATS_PORT: u16 = 9090;
/// The sidecar's `/ready` and `/app-ready` for the kubelet, `/wait-for-drain` for the app's preStop hook, and what activators
/// send to pods that do not speak HTTP: probes, and connections by [`TUNNEL_PATH`].
pub const QUEUE_PROXY_ADMIN_PORT: u16 = 8022;
/// Activator ports leased to (workload, Service port) pairs, inclusive. The port a request arrives on is its identity.
pub const LEASED_PORTS: std::ops::RangeInclusive<u16> = 20000..=29999;
/// Port on which metrics-adapter and zero-scaler take the activators' pushes, and the adapter streams its decisions.
pub const STATS_PORT: u16 = 8080;
/// Name of that port in the Services, by which the processes find each other's addresses in EndpointSlices.
pub const STATS_PORT_NAME: &str = "stats";
/// Path of the activators' pushes (websocket), on both receivers.
pub const PUSH_PATH: &str = "/push";
/// Path of the adapter's decision stream (websocket).
pub const DECISIONS_PATH: &str = "/decisions";
/// Path prefix on the stats port of the leading metrics-adapter, for queries that followers forward.
pub const FORWARD_PATH: &str = "/forward";
/// Audience of the tokens by which our parts know each other on the stats port: good for nothing else.
pub const STATS_AUDIENCE: &str = "stats.autoscaling.rouse.dev";
/// Where the kubelet puts a part's own token of that audience, by the manifests.
pub const STATS_TOKEN_FILE: &str = "/var/run/secrets/autoscaling.rouse.dev/token";
/// Service account of the activators, who push.
pub const ACTIVATOR_ACCOUNT: &str = "activator";
/// Service account of the zero-scalers, who read decisions.
pub const ZERO_SCALER_ACCOUNT: &str = "zero-scaler";
/// Service account of the metrics-adapters, who ask their leader.
pub const METRICS_ADAPTER_ACCOUNT: &str = "metrics-adapter";
/// Port on which activators connect to each other, to lend slots.
pub const SLOTS_PORT: u16 = 8081;
/// Name of that port in the Service of the activators.
pub const SLOTS_PORT_NAME: &str = "slots";
/// Path of that connection (websocket).
pub const SLOTS_PATH: &str = "/slots";
/// Header in which the one that connects gives its own address, as it stands in EndpointSlices.
pub const ACTIVATOR_HEADER: &str = "rouse-activator";
/// `/metrics`, `/ready`, `/live` of every process but the sidecar.
pub const ADMIN_PORT: u16 = 9090;
/// The adapter's API port.
pub const API_PORT: u16 = 6443;

/// Header of a request that asks for a process instead of the app: its value is the process asked for
/// ([`PROBE_ACTIVATOR`] or [`PROBE_QUEUE_PROXY`]). Probes never count as traffic.
pub const PROBE_HEADER: &str = "rouse-probe";
/// Answered by an activator: 200, body `activator`, its workload in [`WORKLOAD_HEADER`].
pub const PROBE_ACTIVATOR: &str = "activator";
/// Answered by a queue-proxy: 200 and body `queue-proxy` as soon as its app takes requests (the probe is held open until
/// then), 503 when it drains.
pub const PROBE_QUEUE_PROXY: &str = "queue-proxy";
/// Set by an activator on what it forwards; the queue-proxy counts such requests as proxied.
pub const PROXIED_HEADER: &str = "rouse-proxied";
/// `namespace/name` of the workload, in an activator's answer to a probe.
pub const WORKLOAD_HEADER: &str = "rouse-workload";

/// Where an activator asks a sidecar for a connection to an app that does not speak HTTP, by an upgrade to
/// [`TUNNEL_PROTOCOL`]. Switched to when the app has accepted it.
pub const TUNNEL_PATH: &str = "/tunnel";
/// What such a connection speaks after the switch: the caller's bytes and the app's, as they are.
pub const TUNNEL_PROTOCOL: &str = "rouse-tcp";
/// Path on an activator's [`ADMIN_PORT`], before a port's number: which workload that port stands for, in
/// [`WORKLOAD_HEADER`]. Who asks may call that port within [`TCP_PROBE_WITHIN`] and speak [`TCP_PROBE`].
pub const LEASES_PATH: &str = "/leases/";
/// What a probe says on a port that is not HTTP's, and all that it says. An activator that was told of it answers with
/// [`tcp_probe_answer`]; a queue-proxy closes the connection. Neither counts it.
pub const TCP_PROBE: &[u8] = b"rouse-probe activator\r\n";
/// How long an activator expects a probe after it was told of one. Meanwhile it counts who says nothing only later.
pub const TCP_PROBE_WITHIN: Duration = Duration::from_secs(1);

/// Metric names served to HPAs.
pub const METRIC_CONCURRENCY: &str = "concurrency";
/// Requests per second over the window, the workload's total.
pub const METRIC_RPS: &str = "requests-per-second";
/// The decider's own number, for an HPA target of `AverageValue: "1"`.
pub const METRIC_DESIRED: &str = "desired-replicas";
/// The one label of a metric selector: the Service's name.
pub const SERVICE_SELECTOR: &str = "service";

/// What an activator of `workload` answers to [`TCP_PROBE`] before it closes the connection.
pub fn tcp_probe_answer(workload: &Key) -> String {
    format!("{PROBE_ACTIVATOR} {workload}\r\n")
}
