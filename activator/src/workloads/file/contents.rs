//! What a file of workloads says.
//!
//! ```yaml
//! workloads:
//! - name: shop/web                      # namespace/name
//!   ports:
//!   - {listen: 20001, pod: 8012}        # a port here, and the port of the pods that it stands for
//!   # - {listen: 20002, pod: 8022, protocol: tcp}   # bytes, by the admin port of the pods' queue-proxies
//!   pods:
//!   - {ip: 10.0.0.1, ready: true}       # not ready, as is the default: probed before it gets a request
//!   containerConcurrency: 10            # requests that a pod serves at a time; no limit by default
//!   wakeTimeoutSeconds: 30              # how long requests may wait, and how many, instead of the process's own
//!   queueDepth: 100
//! metricsAdapters: ["127.0.0.1:8080"]   # who gets reports, if anybody does
//! zeroScalers: []
//! ```
//!
//! Pods have no labels here: each gets one that names its workload, and the workload selects that.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use autoscaler::contract::WORKLOAD_LABEL;
use autoscaler::selector::Selector;
use autoscaler::{Key, Protocol};
use serde::Deserialize;

use crate::workloads::{Change, Lease, Pod, Workload};

/// Where reports go.
pub(super) type Addresses = BTreeSet<SocketAddr>;

/// Workloads and their pods, and who hears of them.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) workloads: BTreeMap<Key, Workload>,
    pub(super) pods: BTreeMap<Key, Pod>,
    pub(super) metrics_adapters: Addresses,
    pub(super) zero_scalers: Addresses,
}

/// Why a file says nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read, or is not UTF-8.
    #[error(transparent)]
    Read(#[from] std::io::Error),
    /// It is too large.
    #[error("it is larger than {bound} bytes")]
    TooLarge {
        /// The largest size.
        bound: u64,
    },
    /// It is no YAML, or not of this form; the words name the line.
    #[error(transparent)]
    Form(#[from] serde_yaml_ng::Error),
    /// A value makes no sense, by itself or beside another.
    #[error("{field}: {problem}")]
    Value {
        /// Where it stands, as `workloads[0].ports[1].listen`.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    workloads: Vec<Entry>,
    #[serde(default)]
    metrics_adapters: Addresses,
    #[serde(default)]
    zero_scalers: Addresses,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    name: String,
    ports: Vec<Port>,
    #[serde(default)]
    pods: Vec<Destination>,
    #[serde(default)]
    container_concurrency: u32,
    /// Instead of the process's own.
    wake_timeout_seconds: Option<u64>,
    queue_depth: Option<usize>,
    /// Requests are refused while there is no pod.
    #[serde(default)]
    paused: bool,
    /// Callers are told to connect anew.
    #[serde(default)]
    serving: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Port {
    listen: u16,
    pod: u16,
    #[serde(default)]
    protocol: Protocol,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Destination {
    ip: IpAddr,
    #[serde(default)]
    ready: bool,
}

// === impl Contents ===

impl Contents {
    /// Reads a text in YAML, of which JSON is a part.
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let document: Document = serde_yaml_ng::from_str(text)?;
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

    fn add(&mut self, at: &str, entry: Entry) -> Result<(), Error> {
        let key: Key = entry.name.parse().map_err(|error| bad(format!("{at}.name"), error))?;
        let labels = BTreeMap::from([(WORKLOAD_LABEL.to_owned(), key.name.clone())]);
        // Kubernetes' rules for names and labels are the selector's.
        let selector = Selector::parse(&format!("{WORKLOAD_LABEL}={}", key.name))
            .map_err(|error| bad(format!("{at}.name"), error))?;
        for (number, pod) in entry.pods.into_iter().enumerate() {
            let name = Key::new(key.namespace.clone(), format!("{}-{}", key.name, pod.ip));
            let pod = Pod {
                uid: pod.ip.to_string(),
                labels: labels.clone(),
                ip: Some(pod.ip),
                scheduled: true,
                ready: pod.ready,
                ending: false,
            };
            if self.pods.insert(name, pod).is_some() {
                return Err(bad(format!("{at}.pods[{number}].ip"), "it stands here twice"));
            }
        }
        let lease =
            |port: &Port| Lease { activator_port: port.listen, pod_port: port.pod, protocol: port.protocol };
        let ports = entry.ports.iter().map(lease).collect();
        let workload = Workload {
            selector: Some(selector),
            container_concurrency: entry.container_concurrency,
            activators: 0,
            paused: entry.paused,
            serving: entry.serving,
            wake_timeout: entry.wake_timeout_seconds.map(Duration::from_secs),
            queue_depth: entry.queue_depth,
            start_failure: None,
            wake_target: None,
            ports,
        };
        match self.workloads.insert(key, workload) {
            Some(_) => Err(bad(format!("{at}.name"), "a workload of this name stands here already")),
            None => Ok(()),
        }
    }

    /// What differs, what is gone first: its ports and names may be another's now.
    pub(super) fn changes_since(&self, before: &Self) -> Vec<Change> {
        let gone = before.workloads.keys().filter(|key| !self.workloads.contains_key(key));
        let gone = gone.map(|key| Change::Workload(key.clone(), None));
        let pods_gone = before.pods.keys().filter(|key| !self.pods.contains_key(key));
        let pods_gone = pods_gone.map(|key| Change::Pod(key.clone(), None));
        let workloads =
            self.workloads.iter().filter(|(key, workload)| before.workloads.get(key) != Some(workload));
        let workloads =
            workloads.map(|(key, workload)| Change::Workload(key.clone(), Some(workload.clone())));
        let pods = self.pods.iter().filter(|(key, pod)| before.pods.get(key) != Some(pod));
        let pods = pods.map(|(key, pod)| Change::Pod(key.clone(), Some(pod.clone())));
        gone.chain(pods_gone).chain(workloads).chain(pods).collect()
    }
}

/// Each port stands for one thing.
fn check_ports(at: &str, entry: &Entry, listening: &mut HashMap<u16, String>) -> Result<(), Error> {
    if entry.ports.is_empty() {
        return Err(bad(format!("{at}.ports"), "without a port no request can arrive"));
    }
    for (number, port) in entry.ports.iter().enumerate() {
        let field = |name| format!("{at}.ports[{number}].{name}");
        for (name, value) in [("listen", port.listen), ("pod", port.pod)] {
            if value == 0 {
                return Err(bad(field(name), "0 is no port"));
            }
        }
        if let Some(other) = listening.insert(port.listen, entry.name.clone()) {
            return Err(bad(field("listen"), format!("{} is {other}'s already", port.listen)));
        }
    }
    Ok(())
}

fn bad(field: String, problem: impl ToString) -> Error {
    Error::Value { field, problem: problem.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEB: &str = "{name: shop/web, ports: [{listen: 20001, pod: 8012}], pods: [{ip: 10.0.0.1}]}";
    const API: &str = "{name: shop/api, ports: [{listen: 20002, pod: 8012}]}";

    fn file(entries: &[&str]) -> Contents {
        Contents::parse(&format!("workloads: [{}]", entries.join(", "))).unwrap()
    }

    fn complaint(text: &str) -> String {
        Contents::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_pod_is_its_own_workloads_and_no_others() {
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
    fn json_is_read_as_well() {
        let json = r#"{"workloads": [{"name": "a/b", "ports": [{"listen": 1, "pod": 2}], "containerConcurrency": 3}],
            "metricsAdapters": ["127.0.0.1:8080"]}"#;
        let contents = Contents::parse(json).unwrap();
        assert_eq!(contents.workloads[&Key::new("a", "b")].container_concurrency, 3);
        assert_eq!(contents.metrics_adapters.len(), 1);
    }

    #[test]
    fn complaints_name_the_place() {
        for (text, words) in [
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
            ("workloads: [{name: a/b, ports: []}]", "workloads[0].ports: without a port"),
            (
                "workloads: [{name: a/b, ports: [{listen: 0, pod: 1}]}]",
                "workloads[0].ports[0].listen: 0 is no port",
            ),
            (
                "workloads: [{name: a/b, ports: [{listen: 5, pod: 1}]}, {name: a/c, ports: [{listen: 5, pod: 1}]}]",
                "workloads[1].ports[0].listen: 5 is a/b's already",
            ),
            (
                "workloads: [{name: a/b, ports: [{listen: 5, pod: 1}]}, {name: a/b, ports: [{listen: 6, pod: 1}]}]",
                "workloads[1].name: a workload of this name",
            ),
            (
                "workloads: [{name: a/b, ports: [{listen: 5, pod: 1}], pods: [{ip: \"::1\"}, {ip: \"::1\"}]}]",
                "workloads[0].pods[1].ip: it stands here twice",
            ),
            ("", "workloads"),
        ] {
            let said = complaint(text);
            assert!(said.contains(words), "{text}: {said}");
        }
    }

    #[test]
    fn only_differences_are_told() {
        let before = file(&[WEB, API]);
        assert_eq!(file(&[WEB, API]).changes_since(&before), []);
        let after = file(&[WEB]).changes_since(&before);
        assert_eq!(after, [Change::Workload(Key::new("shop", "api"), None)]);
        let gone = file(&[API]).changes_since(&before);
        assert_eq!(gone.len(), 2, "a workload and its pod: {gone:?}");
        assert_eq!(before.changes_since(&Contents::default()).len(), 3);
    }
}
