//! Names, ports, paths and headers shared by Rouse's processes, its manifests and users.
//!
//! Every value is visible outside of the processes: a port in a manifest, a label on a pod, a
//! header of a request. Changing a value breaks running clusters.

pub mod key;
pub mod metric_name;
pub mod metric_selector;
pub mod pod_limit;
pub mod pod_targets;
pub mod protocol;
pub mod quantity;
pub mod selector;
pub mod short_name;
pub mod sidecar_ports;
pub mod version_skew;

use std::ops::RangeInclusive;
use std::time::Duration;

use key::Key;

/// API group of the custom resources, and prefix (before `/`) of labels and annotations.
pub const GROUP: &str = "autoscaling.rouse.dev";
/// API version of the custom resources.
pub const VERSION: &str = "v1alpha1";
/// Default namespace of the installation.
pub const SYSTEM_NAMESPACE: &str = "rouse-system";
/// ConfigMap with the cluster-wide settings, in the namespace of the installation.
pub const CONFIG_MAP: &str = "config-autoscaler";
/// ConfigMap with the last valid data of [`CONFIG_MAP`], written by the zero-scaler's leader.
pub const ACCEPTED_CONFIG_MAP: &str = "config-autoscaler-accepted";

/// Annotation on [`CONFIG_MAP`]: `"true"` announces that all parts of Rouse are about to be
/// deleted. The zero-scaler then scales all workloads from zero and leads their Services to pods.
pub const UNINSTALL: &str = "autoscaling.rouse.dev/uninstall";

/// Pod label that requests the sidecar (value `"true"`). The components watch labelled pods of the
/// whole cluster, and other pods only in the namespaces of workloads without a sidecar.
pub const INJECT_LABEL: &str = "autoscaling.rouse.dev/inject";
/// Secret of the metrics-adapter's own serving certificate.
pub const SERVING_CERTIFICATE: &str = "metrics-adapter-serving";
/// The APIService of external metrics, which leads to the metrics-adapter.
pub const EXTERNAL_API: &str = "v1beta1.external.metrics.k8s.io";
/// The APIService of custom metrics, which may lead there too.
pub const CUSTOM_API: &str = "v1beta2.custom.metrics.k8s.io";
/// Name of the admission policy that adds the sidecar, of its binding, and of the webhook in place
/// of both.
pub const INJECTION: &str = "queue-proxy.autoscaling.rouse.dev";
/// Label of all objects that zero-scaler creates; its value is the name of the workload, or the
/// [shortened](short_name::workload_label) name.
pub const WORKLOAD_LABEL: &str = "autoscaling.rouse.dev/workload";
/// Kubernetes' label of a slice with the name of its Service.
pub const SLICE_SERVICE: &str = "kubernetes.io/service-name";
/// Kubernetes' label of a slice with its manager.
pub const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Value of [`SLICE_MANAGED_BY`] on our EndpointSlices of Services with a selector. The controllers
/// of Kubernetes do not change slices with another manager.
pub const SLICE_MANAGER: &str = "zero-scaler.autoscaling.rouse.dev";
/// The same label's value on all EndpointSlices that Kubernetes writes for a selector, and on ours
/// of Services without one: Kubernetes leaves those alone until the Service gets a selector, and
/// then deletes them, whether or not a zero-scaler is left to do it.
pub const KUBERNETES_SLICE_MANAGER: &str = "endpointslice-controller.k8s.io";
/// Label (value `"true"`) by which our slices of Services without a selector differ from those of
/// Kubernetes. Kubernetes copies labels of a Service to its slices, so a policy refuses this one.
pub const MANAGED_SLICE: &str = "autoscaling.rouse.dev/managed-slice";

/// Annotation on an HPA: `"true"` enables scale-to-zero.
pub const SCALE_TO_ZERO: &str = "autoscaling.rouse.dev/scale-to-zero";
/// Annotation of pods: the port on which the app listens.
pub const APP_PORT: &str = "autoscaling.rouse.dev/app-port";
/// The app's port where neither that annotation nor the first container states one.
pub const DEFAULT_APP_PORT: i32 = 8080;
/// Annotation on an HPA: a [`Pause`](crate::settings::Pause).
pub const PAUSED: &str = "autoscaling.rouse.dev/paused";
/// Annotation on an HPA, or on pods for their sidecar: maximum number of concurrent requests per
/// pod; `"0"` or absent means no limit. The limit of a pod takes precedence.
pub const CONTAINER_CONCURRENCY: &str = "autoscaling.rouse.dev/container-concurrency";

/// Annotation on an HPA: `none` lets the HPA scale on its own metrics; Rouse only wakes the
/// workload and scales it to zero. Otherwise a setting.
pub const METRIC: &str = "autoscaling.rouse.dev/metric";
/// Value of [`METRIC`].
pub const NO_METRIC: &str = "none";
/// Annotation on an HPA with that value: the Service, which no metric names.
pub const SERVICE: &str = "autoscaling.rouse.dev/service";

/// Annotation on an HPA and on pods: requests that are not load, as
/// [`NoWakeRules`](crate::settings::NoWakeRules).
pub const NO_WAKE: &str = "autoscaling.rouse.dev/no-wake";

/// Annotation on pods: protocol of the app, a [`Protocol`](crate::Protocol). It must agree with
/// `appProtocol` of the Service port.
pub const PROTOCOL: &str = "autoscaling.rouse.dev/protocol";

/// Name of the sidecar container and of its traffic port. A Service with a selector uses it as
/// `targetPort`.
pub const QUEUE_PROXY: &str = "queue-proxy";

/// Default traffic port of the sidecar: HTTP/1.1 and h2c, or a TCP relay for other protocols. A pod
/// may have others: see [`SidecarPorts`](sidecar_ports::SidecarPorts).
pub const QUEUE_PROXY_PORT: u16 = 8012;
/// Default statistics port of the sidecar. TCP: `/stat` for the collector and `/metrics` for
/// Prometheus. UDP: the same stat as [datagrams](crate::stats::datagram).
pub const QUEUE_PROXY_STATS_PORT: u16 = 9090;
/// Query parameter of `/stat`: the workload's latency objective in microseconds, 0 for none.
pub const OBJECTIVE_PARAMETER: &str = "objective-micros";
/// Default admin port of the sidecar: `/ready` and `/app-ready` for the kubelet,
/// [`START_DRAIN_PATH`] and [`WAIT_FOR_DRAIN_PATH`] for the preStop hooks of sidecar and app. For
/// TCP workloads, activators send probes and tunneled connections ([`TUNNEL_PATH`]) to it.
pub const QUEUE_PROXY_ADMIN_PORT: u16 = 8022;
/// Name of [`QUEUE_PROXY_STATS_PORT`] in the sidecar's container.
pub const QUEUE_PROXY_STATS_PORT_NAME: &str = "queue-stats";
/// Name of [`QUEUE_PROXY_ADMIN_PORT`] in the sidecar's container.
pub const QUEUE_PROXY_ADMIN_PORT_NAME: &str = "queue-admin";
/// Path on the sidecar's admin port that begins a drain, by POST from the pod itself with
/// [`START_DRAIN_HEADER`].
pub const START_DRAIN_PATH: &str = "/start-drain";
/// Header with the pod's UID, or empty if the sidecar has none, by which `queue-proxy start-drain`
/// differs from what the app sends on behalf of its clients.
pub const START_DRAIN_HEADER: &str = "rouse-start-drain";
/// Path on the sidecar's admin port that waits until a drain has ended, and begins none.
pub const WAIT_FOR_DRAIN_PATH: &str = "/wait-for-drain";
/// Activator ports for leases, inclusive. An activator identifies the workload and Service port of
/// a connection by the leased port on which it arrived. Of the ports that Linux gives to
/// connections by default, 32768 to 60999, the last 11,000 are never leased: an activator can have
/// as many connections to each port of a pod while all others are.
pub const LEASED_PORTS: RangeInclusive<u16> = 10000..=49999;
/// The ports that are leased first. Firewalls need no others until these are used up.
pub const FIRST_LEASED_PORTS: RangeInclusive<u16> = 20000..=29999;
/// Port on which metrics-adapter and zero-scaler receive pushes of activators, and on which
/// metrics-adapter streams decisions.
pub const STATS_PORT: u16 = 8080;
/// Name of [`STATS_PORT`] in the Services. Clients find the port by this name in EndpointSlices.
pub const STATS_PORT_NAME: &str = "stats";
/// Path of the activators' push websocket, on metrics-adapter and on zero-scaler.
pub const PUSH_PATH: &str = "/push";
/// Annotation on the Lease of an activator's name: the workloads that it carries requests of and
/// cannot report, as [`CarriedWorkloads`](crate::stats::CarriedWorkloads).
pub const CARRIED_WORKLOADS: &str = "autoscaling.rouse.dev/carried-workloads";
/// Label selector of such Leases.
pub const ACTIVATOR_LEASES: &str = "app.kubernetes.io/name=activator";
/// Path of the decision stream (websocket) of metrics-adapter.
pub const DECISIONS_PATH: &str = "/decisions";
/// Path prefix on [`STATS_PORT`] of the leading metrics-adapter, for queries that other replicas
/// forward.
pub const FORWARD_PATH: &str = "/forward";
/// Audience of the service account tokens with which our components authenticate on [`STATS_PORT`].
/// The API server does not accept tokens of this audience.
pub const STATS_AUDIENCE: &str = "stats.autoscaling.rouse.dev";
/// Mount path of a component's own token of [`STATS_AUDIENCE`].
pub const STATS_TOKEN_FILE: &str = "/var/run/secrets/autoscaling.rouse.dev/token";
/// Service account of activators, which push reports.
pub const ACTIVATOR_ACCOUNT: &str = "activator";
/// Service account of zero-scalers, which read decisions.
pub const ZERO_SCALER_ACCOUNT: &str = "zero-scaler";
/// Service account of metrics-adapters, which forward queries to their leader.
pub const METRICS_ADAPTER_ACCOUNT: &str = "metrics-adapter";
/// Port on which activators connect to each other for slot lending.
pub const SLOTS_PORT: u16 = 8081;
/// Name of [`SLOTS_PORT`] in the Service of the activators.
pub const SLOTS_PORT_NAME: &str = "slots";
/// Port on which activators answer front doors once a workload has a pod.
pub const WAKE_PORT: u16 = 8082;
/// Path of the slot lending websocket.
pub const SLOTS_PATH: &str = "/slots";
/// Header with the connecting activator's own address, as listed in EndpointSlices.
pub const ACTIVATOR_HEADER: &str = "rouse-activator";
/// Port of `/metrics`, `/ready` and `/live` of every process except the sidecar.
pub const ADMIN_PORT: u16 = 9090;
/// Port of the external metrics API of metrics-adapter.
pub const API_PORT: u16 = 10250;

/// Header of a probe. Its value selects the component that responds: [`PROBE_ACTIVATOR`] or
/// [`PROBE_QUEUE_PROXY`]. Probes never count as traffic.
pub const PROBE_HEADER: &str = "rouse-probe";
/// Probe of an activator. Response: 200, body `activator`, workload in [`WORKLOAD_HEADER`].
pub const PROBE_ACTIVATOR: &str = "activator";
/// Probe of a queue-proxy. Response: 200 and body `queue-proxy` once the app accepts requests (the
/// probe is held until then), 503 while queue-proxy drains.
pub const PROBE_QUEUE_PROXY: &str = "queue-proxy";
/// Set by an activator on all that it sends to a queue-proxy: the UID of the pod that it means,
/// from its watch of pods. A pod without credentials cannot read the UID of another pod, so the
/// queue-proxy counts requests with its own pod's UID as proxied, and others as direct. A request
/// for another pod's UID, which had the address before, gets 421 with [`MISDIRECTED_HEADER`].
pub const PROXIED_HEADER: &str = "rouse-proxied";
/// Value of [`PROXIED_HEADER`] of activators 0.1.0, which sent no UID.
pub const PROXIED_WITHOUT_UID: &str = PROBE_ACTIVATOR;
/// In a queue-proxy's response 421: the request is for another pod, and was not forwarded.
pub const MISDIRECTED_HEADER: &str = "rouse-misdirected";
/// `namespace/name` of the workload, in an activator's response to a probe.
pub const WORKLOAD_HEADER: &str = "rouse-workload";
/// Header of the retries of a waiting page, and of an activator's response that requests another
/// retry. In a browser, so clients may send it.
pub const WAITING_PAGE_HEADER: &str = "rouse-waiting-page";
/// The headers that Rouse sends between its parts. Both proxies remove them from clients' requests.
pub const INTERNAL_HEADERS: [&str; 6] = [
    ACTIVATOR_HEADER,
    PROBE_HEADER,
    PROXIED_HEADER,
    MISDIRECTED_HEADER,
    WORKLOAD_HEADER,
    WAITING_PAGE_HEADER,
];

/// Path on which an activator requests a connection to a TCP app, by an upgrade to
/// [`TUNNEL_PROTOCOL`]. The sidecar responds with 101 after the app has accepted the connection.
pub const TUNNEL_PATH: &str = "/tunnel";
/// Upgrade protocol of [`TUNNEL_PATH`]: unmodified bytes in both directions.
pub const TUNNEL_PROTOCOL: &str = "rouse-tcp";
/// Path prefix on an activator's [`ADMIN_PORT`], followed by a leased port number. The response
/// names the workload of the port in [`WORKLOAD_HEADER`]. It also permits the client to send
/// [`TCP_PROBE`] on that port within [`TCP_PROBE_WITHIN`].
pub const LEASES_PATH: &str = "/leases/";
/// Complete payload of a probe on a TCP port. An activator that was notified through
/// [`LEASES_PATH`] responds with [`tcp_probe_answer`]; a queue-proxy closes the connection. Neither
/// counts the connection.
pub const TCP_PROBE: &[u8] = b"rouse-probe activator\r\n";
/// How long an activator expects a probe after the notification. In this time, a connection
/// counts only from its first bytes on.
pub const TCP_PROBE_WITHIN: Duration = Duration::from_secs(1);

/// Metric of HPAs: concurrent requests, the workload's total.
pub const METRIC_CONCURRENCY: &str = "concurrency";
/// Metric of HPAs: requests per second over the window, the workload's total.
pub const METRIC_RPS: &str = "requests-per-second";
/// Metric of HPAs: the decider's desired replicas, for a target of `AverageValue: "1"`.
pub const METRIC_DESIRED: &str = "desired-replicas";
/// The only label of a metric selector; its value is the name of the Service.
pub const SERVICE_SELECTOR: &str = "service";

/// Response to [`TCP_PROBE`] of an activator that serves `workload`. It then closes the connection.
pub fn tcp_probe_answer(workload: &Key) -> String {
    format!("{PROBE_ACTIVATOR} {workload}\r\n")
}
