//! The format of a workloads file.
//!
//! ```yaml
//! workloads:
//! - name: shop/web                      # namespace/name
//!   ports:
//!   - {listen: 20001, pod: 8012}        # a port of this process, and the port of its pods
//!   # - {listen: 20002, pod: 8022, protocol: tcp}   # by the admin port of the pods' queue-proxies
//!   sidecar: true                       # false: `pod` is the app's port, probed by connections
//!   timeoutSeconds: 300                 # longest request, with sidecar: false; default none
//!   pods:
//!   - {ip: 10.0.0.1, ready: true}       # default false: probed before it gets a request
//!   # - {ip: 10.0.0.2, uid: a1}         # as --pod-uid of its queue-proxy, which refuses others
//!   containerConcurrency: 10            # requests that a pod serves at a time; default no limit
//!   wakeTimeoutSeconds: 30              # how long requests wait, and how many; default: flags
//!   queueDepth: 100
//!   noWake: GET /healthz, HEAD          # requests that count as nothing; default none
//!   waitingPage: true                   # browsers get a page while there is no pod; default false
//! metricsAdapters: ["127.0.0.1:8080"]   # receivers of reports; default none
//! zeroScalers: []
//! ```
//!
//! Pods have no labels here: each gets one that names its workload, and the workload selects that.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use autoscaler::contract::WORKLOAD_LABEL;
use autoscaler::contract::selector::Selector;
use autoscaler::routing::proximity::Proximity;
use autoscaler::settings::{NoWakeRules, Pause, SidecarMode};
use autoscaler::{Key, Protocol};
use k8s_openapi::api::core::v1::{Probe, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use proxy::timeouts::request_timer::Timeouts;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::workloads::containers::{AppPort, Container, Containers, QueueProxy};
use crate::workloads::no_wake::NoWake;
use crate::workloads::{ClusterChange, LeasedPort, Pod, Workload};

/// Addresses of receivers of reports.
pub(super) type Addresses = BTreeSet<SocketAddr>;

/// Workloads, their pods, and receivers of reports.
#[derive(Debug, Default)]
pub(super) struct FileContents {
    pub(super) workloads: BTreeMap<Key, Workload>,
    pub(super) pods: BTreeMap<Key, Pod>,
    pub(super) metrics_adapters: Addresses,
    pub(super) zero_scalers: Addresses,
}

/// Why a file is invalid.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadsFileError {
    /// It cannot be read, or is not UTF-8.
    #[error(transparent)]
    Read(#[from] std::io::Error),
    #[error("the file is larger than {bound} bytes")]
    TooLarge {
        /// The largest size.
        bound: u64,
    },
    /// It is not YAML, or not in this format; the text names the line.
    #[error(transparent)]
    Form(#[from] serde_yaml_ng::Error),
    /// A value is invalid, by itself or beside another.
    #[error("{field}: {problem}")]
    Value {
        /// Its path, such as `workloads[0].ports[1].listen`.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WorkloadsDocument {
    workloads: Vec<WorkloadEntry>,
    #[serde(default)]
    metrics_adapters: Addresses,
    #[serde(default)]
    zero_scalers: Addresses,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WorkloadEntry {
    name: String,
    ports: Vec<PortEntry>,
    #[serde(default)]
    pods: Vec<PodEntry>,
    /// Whether the pods have a queue-proxy.
    #[serde(default = "yes")]
    sidecar: bool,
    #[serde(default)]
    container_concurrency: u32,
    /// Overrides the flag.
    wake_timeout_seconds: Option<u64>,
    queue_depth: Option<usize>,
    /// Longest time of a request, if the pods have no queue-proxy.
    timeout_seconds: Option<u64>,
    /// Requests that are not load.
    #[serde(default, deserialize_with = "no_wake_rules")]
    no_wake: NoWakeRules,
    /// Browsers get a page while there is no pod.
    #[serde(default)]
    waiting_page: bool,
    /// Streams of server-sent events are kept alive while they are held.
    #[serde(default)]
    sse_keep_alive: bool,
    /// Rejects requests while there is no pod.
    #[serde(default)]
    paused: bool,
    /// The Service routes to pods again, so responses signal clients to reconnect.
    #[serde(default)]
    serving: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PortEntry {
    listen: u16,
    pod: u16,
    #[serde(default)]
    protocol: Protocol,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PodEntry {
    ip: IpAddr,
    #[serde(default)]
    ready: bool,
    uid: Option<String>,
}

// === impl FileContents ===

impl FileContents {
    /// Parses YAML, and JSON as a subset of it.
    pub(super) fn parse(text: &str) -> Result<Self, WorkloadsFileError> {
        let document: WorkloadsDocument = serde_yaml_ng::from_str(text)?;
        let mut contents = Self {
            metrics_adapters: document.metrics_adapters,
            zero_scalers: document.zero_scalers,
            ..Self::default()
        };
        let mut listening = HashMap::new();
        for (at, entry) in document.workloads.into_iter().enumerate() {
            let at = format!("workloads[{at}]");
            check_ports(&at, &entry, &mut listening)?;
            contents.add(&at, entry)?;
        }
        Ok(contents)
    }

    fn add(&mut self, at: &str, entry: WorkloadEntry) -> Result<(), WorkloadsFileError> {
        let key: Key = entry.name.parse().map_err(|error| bad(format!("{at}.name"), error))?;
        let labels = BTreeMap::from([(WORKLOAD_LABEL.to_owned(), key.name.clone())]);
        // The selector checks the rules of Kubernetes for names and labels.
        let selector = Selector::parse(&format!("{WORKLOAD_LABEL}={}", key.name))
            .map_err(|error| bad(format!("{at}.name"), error))?;
        let (containers, timeouts) = (entry.containers(), entry.timeouts());
        for (number, pod) in entry.pods.into_iter().enumerate() {
            let name = Key::new(key.namespace.clone(), format!("{}-{}", key.name, pod.ip));
            if pod.uid.as_ref().is_some_and(|uid| !uid.bytes().all(|byte| byte.is_ascii_graphic())) {
                return Err(bad(format!("{at}.pods[{number}].uid"), "must be visible ASCII characters"));
            }
            let pod = Pod {
                uid: pod.uid.unwrap_or_default(),
                labels: labels.clone(),
                ip: Some(pod.ip),
                scheduled: true,
                proximity: Proximity::default(),
                ready: pod.ready,
                was_ready: false,
                ending: false,
                delays_successor: false,
                injected: entry.sidecar,
                queue_proxy: QueueProxy::default(),
                containers: containers.clone(),
            };
            if self.pods.insert(name, pod).is_some() {
                return Err(bad(format!("{at}.pods[{number}].ip"), "duplicate address"));
            }
        }
        let lease = |port: &PortEntry| LeasedPort {
            activator_port: port.listen,
            pod_port: Some(port.pod),
            app_port: (!entry.sidecar).then_some(AppPort::Number(port.pod)),
            protocol: port.protocol,
        };
        let ports = entry.ports.iter().map(lease).collect();
        let workload = Workload {
            selector: Some(selector),
            sidecar: if entry.sidecar { SidecarMode::Required } else { SidecarMode::None },
            container_concurrency: entry.container_concurrency,
            activators: 0,
            pause: if entry.paused { Pause::On } else { Pause::Off },
            serving: entry.serving,
            wake_timeout: entry.wake_timeout_seconds.map(Duration::from_secs),
            queue_depth: entry.queue_depth,
            timeouts,
            no_wake: (!entry.no_wake.is_empty())
                .then(|| Arc::new(NoWake { rules: entry.no_wake, ..NoWake::default() })),
            waiting_page: entry.waiting_page,
            sse_keep_alive: entry.sse_keep_alive,
            observation: None,
            start_failure: None,
            wake_target: None,
            ports,
        };
        match self.workloads.insert(key, workload) {
            Some(_) => Err(bad(format!("{at}.name"), "duplicate workload name")),
            None => Ok(()),
        }
    }

    /// The differences. Deletions come first: another workload may have their ports and names now.
    pub(super) fn changes_since(&self, before: &Self) -> Vec<ClusterChange> {
        let removed = before.workloads.keys().filter(|key| !self.workloads.contains_key(key));
        let removed = removed.map(|key| ClusterChange::Workload(key.clone(), None));
        let pods_removed = before.pods.keys().filter(|key| !self.pods.contains_key(key));
        let pods_removed = pods_removed.map(|key| ClusterChange::Pod(key.clone(), None));
        let workloads =
            self.workloads.iter().filter(|(key, workload)| before.workloads.get(key) != Some(workload));
        let workloads =
            workloads.map(|(key, workload)| ClusterChange::Workload(key.clone(), Some(workload.clone())));
        let pods = self.pods.iter().filter(|(key, pod)| before.pods.get(key) != Some(pod));
        let pods = pods.map(|(key, pod)| ClusterChange::Pod(key.clone(), Some(pod.clone())));
        removed.chain(pods_removed).chain(workloads).chain(pods).collect()
    }
}

// === impl WorkloadEntry ===

impl WorkloadEntry {
    /// The containers of pods without a queue-proxy: one that is ready when its port accepts a
    /// connection.
    fn containers(&self) -> Option<Containers> {
        let port = self.ports.first().filter(|_| !self.sidecar)?.pod;
        let tcp_socket = Some(TCPSocketAction { port: IntOrString::Int(port.into()), host: None });
        let readiness_probe = Some(Box::new(Probe { tcp_socket, ..Probe::default() }));
        let app = Container { readiness_probe, ..Container::default() };
        Some(Containers { all: vec![app], ..Containers::default() })
    }

    /// Timeouts of requests to pods without a queue-proxy.
    fn timeouts(&self) -> Timeouts {
        let total = self.timeout_seconds.filter(|_| !self.sidecar).unwrap_or_default();
        Timeouts::new(Duration::from_secs(total), Duration::ZERO, Duration::ZERO)
    }
}

fn no_wake_rules<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NoWakeRules, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

fn yes() -> bool {
    true
}

/// Checks that no port is used twice.
fn check_ports(
    at: &str,
    entry: &WorkloadEntry,
    listening: &mut HashMap<u16, String>,
) -> Result<(), WorkloadsFileError> {
    if entry.ports.is_empty() {
        return Err(bad(format!("{at}.ports"), "at least one port is required"));
    }
    for (number, port) in entry.ports.iter().enumerate() {
        let field = |name| format!("{at}.ports[{number}].{name}");
        for (name, value) in [("listen", port.listen), ("pod", port.pod)] {
            if value == 0 {
                return Err(bad(field(name), "0 is not a valid port"));
            }
        }
        if let Some(other) = listening.insert(port.listen, entry.name.clone()) {
            return Err(bad(field("listen"), format!("{} is already used by {other}", port.listen)));
        }
    }
    Ok(())
}

fn bad(field: String, problem: impl ToString) -> WorkloadsFileError {
    WorkloadsFileError::Value { field, problem: problem.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEB: &str = "{name: shop/web, ports: [{listen: 20001, pod: 8012}], pods: [{ip: 10.0.0.1}]}";
    const API: &str = "{name: shop/api, ports: [{listen: 20002, pod: 8012}]}";

    fn file(entries: &[&str]) -> FileContents {
        FileContents::parse(&format!("workloads: [{}]", entries.join(", "))).unwrap()
    }

    fn error(text: &str) -> String {
        FileContents::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn pod_belongs_to_its_own_workload_only() {
        let contents = file(&[WEB, API]);
        let pod = contents.pods.values().next().unwrap();
        let selects = |name| {
            let workload = &contents.workloads[&Key::new("shop", name)];
            workload.selector.as_ref().unwrap().matches(&pod.labels)
        };
        assert!(selects("web") && !selects("api"));
        assert_eq!((pod.ip, pod.ready), (Some("10.0.0.1".parse().unwrap()), false));
    }

    #[test]
    fn pod_has_the_uid_of_the_file_if_any() {
        let with_uid = WEB.replace("ip: 10.0.0.1", "ip: 10.0.0.1, uid: a1");
        for (entry, uid) in [(with_uid.as_str(), "a1"), (WEB, "")] {
            assert_eq!(file(&[entry]).pods.values().next().unwrap().uid, uid);
        }
    }

    #[test]
    fn pods_without_sidecar_take_requests_on_the_app_port() {
        let contents = file(&[&WEB.replace("pods:", "sidecar: false, timeoutSeconds: 30, pods:")]);
        let workload = &contents.workloads[&Key::new("shop", "web")];
        assert_eq!(
            (workload.sidecar, &workload.ports[0].app_port),
            (SidecarMode::None, &Some(AppPort::Number(8012)))
        );
        let total = Duration::from_secs(30);
        assert_eq!(workload.timeouts, Timeouts::new(total, Duration::ZERO, Duration::ZERO));
        let pod = contents.pods.values().next().unwrap();
        assert!(!pod.injected && pod.containers.is_some(), "{pod:?}");
    }

    #[test]
    fn parses_json() {
        let json = r#"{"workloads": [{"name": "a/b", "ports": [{"listen": 1, "pod": 2}], "containerConcurrency": 3,
                "waitingPage": true, "sseKeepAlive": true}],
            "metricsAdapters": ["127.0.0.1:8080"]}"#;
        let contents = FileContents::parse(json).unwrap();
        let workload = &contents.workloads[&Key::new("a", "b")];
        let settings = (workload.container_concurrency, workload.waiting_page, workload.sse_keep_alive);
        assert_eq!(settings, (3, true, true));
        assert_eq!(contents.metrics_adapters.len(), 1);
    }

    #[test]
    fn errors_name_the_field() {
        for (text, expected) in [
            (
                "workloads:\n- name: a/b\n  ports:\n  - {listen: 99999, pod: 1}",
                "workloads[0].ports[0].listen: ",
            ),
            ("workloads:\n- name: a/b\n  ports:\n  - {listen: 99999, pod: 1}", "line 4"),
            ("workloads:\n- {name: a/b, port: []}", "unknown field `port`"),
            ("workload: []", "unknown field `workload`"),
            (
                "workloads: [{name: web, ports: [{listen: 1, pod: 1}]}]",
                "workloads[0].name: \"web\" is not namespace/name",
            ),
            ("workloads: [{name: a/b, ports: []}]", "workloads[0].ports: at least one port"),
            (
                "workloads: [{name: a/b, ports: [{listen: 0, pod: 1}]}]",
                "workloads[0].ports[0].listen: 0 is not a valid port",
            ),
            (
                "workloads: [{name: a/b, ports: [{listen: 5, pod: 1}]}, {name: a/c, ports: [{listen: 5, pod: 1}]}]",
                "workloads[1].ports[0].listen: 5 is already used by a/b",
            ),
            (
                "workloads: [{name: a/b, ports: [{listen: 5, pod: 1}]}, {name: a/b, ports: [{listen: 6, pod: 1}]}]",
                "workloads[1].name: duplicate workload name",
            ),
            (
                "workloads: [{name: a/b, ports: [{listen: 5, pod: 1}], pods: [{ip: \"::1\"}, {ip: \"::1\"}]}]",
                "workloads[0].pods[1].ip: duplicate address",
            ),
            (
                "workloads: [{name: a/b, ports: [{listen: 5, pod: 1}], pods: [{ip: \"::1\", uid: a b}]}]",
                "workloads[0].pods[0].uid: must be visible ASCII",
            ),
            (
                "workloads: [{name: a/b, ports: [{listen: 5, pod: 1}], noWake: get /}]",
                "must be rules, separated by commas",
            ),
            ("", "workloads"),
        ] {
            let message = error(text);
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    #[test]
    fn sends_only_differences() {
        let before = file(&[WEB, API]);
        assert_eq!(file(&[WEB, API]).changes_since(&before), []);
        let after = file(&[WEB]).changes_since(&before);
        assert_eq!(after, [ClusterChange::Workload(Key::new("shop", "api"), None)]);
        let removed = file(&[API]).changes_since(&before);
        assert_eq!(removed.len(), 2, "a workload and its pod: {removed:?}");
        assert_eq!(before.changes_since(&FileContents::default()).len(), 3);
    }
}
