//! Scrape configurations from PodMonitors, as prometheus-operator makes them.
//!
//! Prometheus runs beside the tests and not on the cluster, so it scrapes the pods by `kubectl
//! proxy`.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use docs::monitoring::pod_monitor::{Endpoint, PodMonitor};
use serde_json::{Value, json};

use crate::monitoring::discovery::{FILE, META, pod_label};

/// In place of the PodMonitors' interval, so that a test takes less time.
const INTERVAL: &str = "1s";

/// The configurations of all endpoints. A PodMonitor of all namespaces is narrowed to `namespace`,
/// because the namespaces of other tests are isolated.
pub fn scrape_configs(monitors: &[PodMonitor], api: SocketAddr, namespace: &str) -> Value {
    let configs = monitors.iter().flat_map(|monitor| {
        let endpoints = monitor.spec.pod_metrics_endpoints.iter().enumerate();
        endpoints.map(move |(index, endpoint)| scrape_config(monitor, index, endpoint, api, namespace))
    });
    configs.collect()
}

fn scrape_config(
    monitor: &PodMonitor,
    index: usize,
    endpoint: &Endpoint,
    api: SocketAddr,
    namespace: &str,
) -> Value {
    let own = &monitor.metadata.namespace;
    let namespace = if monitor.spec.namespace_selector.any { namespace } else { own.as_str() };
    let rules = [
        vec![json!({"action": "keep", "source_labels": [format!("{META}_namespace")], "regex": namespace})],
        selected_pods(monitor),
        selected_port(endpoint),
        target_labels(),
        endpoint.relabelings.iter().map(snake_case).collect(),
        through_proxy(api),
    ];
    json!({
        "job_name": format!("podMonitor/{own}/{}/{index}", monitor.metadata.name),
        "honor_labels": endpoint.honor_labels,
        "scrape_interval": INTERVAL,
        "scrape_timeout": INTERVAL,
        "file_sd_configs": [{"files": [FILE]}],
        "relabel_configs": rules.concat(),
    })
}

fn selected_pods(monitor: &PodMonitor) -> Vec<Value> {
    let selector = &monitor.spec.selector;
    let labels = selector.match_labels.iter().map(|(key, value)| (key.as_str(), value.clone()));
    let expressions = selector.match_expressions.iter();
    let expressions = expressions.map(|expression| (expression.key.as_str(), expression.values.join("|")));
    let keep = |(key, values): (&str, String)| json!({"action": "keep", "source_labels": [pod_label(key)], "regex": values});
    let phases = json!({
        "action": "drop", "source_labels": [format!("{META}_pod_phase")], "regex": "Failed|Succeeded",
    });
    labels.chain(expressions).map(keep).chain([phases]).collect()
}

fn selected_port(endpoint: &Endpoint) -> Vec<Value> {
    let name = format!("{META}_pod_container_port_name");
    vec![json!({"action": "keep", "source_labels": [name], "regex": endpoint.port})]
}

fn target_labels() -> Vec<Value> {
    let labels = [
        ("__address__", "instance"),
        ("__meta_kubernetes_namespace", "namespace"),
        ("__meta_kubernetes_pod_name", "pod"),
        ("__meta_kubernetes_pod_container_name", "container"),
    ];
    labels.map(|(source, target)| json!({"source_labels": [source], "target_label": target})).to_vec()
}

fn through_proxy(api: SocketAddr) -> Vec<Value> {
    let parts = ["namespace", "pod_name", "pod_container_port_number"].map(|name| format!("{META}_{name}"));
    vec![
        json!({
            "source_labels": parts,
            "regex": "(.+);(.+);(.+)",
            "replacement": "/api/v1/namespaces/$1/pods/$2:$3/proxy/metrics",
            "target_label": "__metrics_path__",
        }),
        json!({"replacement": api.to_string(), "target_label": "__address__"}),
    ]
}

/// A rule with the names of Prometheus' own configuration.
fn snake_case(rule: &BTreeMap<String, Value>) -> Value {
    rule.iter().map(|(key, value)| (words(key), value.clone())).collect::<serde_json::Map<_, _>>().into()
}

/// `sourceLabels` as `source_labels`.
fn words(key: &str) -> String {
    key.chars().flat_map(|c| c.is_uppercase().then_some('_').into_iter().chain(c.to_lowercase())).collect()
}

#[cfg(test)]
mod tests {
    use docs::monitoring::pod_monitor::pod_monitors;
    use docs::page::root;

    use super::*;

    #[test]
    fn makes_a_job_of_each_endpoint() {
        let monitors = pod_monitors(&root()).unwrap();
        let configs = scrape_configs(&monitors, "127.0.0.1:1".parse().unwrap(), "shop");
        assert_eq!(configs[0]["job_name"], "podMonitor/rouse-system/rouse/0");
        assert_eq!(configs[0]["relabel_configs"][0]["regex"], "rouse-system");
        assert_eq!(configs[1]["relabel_configs"][0]["regex"], "shop");
        let rules = configs[1]["relabel_configs"].as_array().unwrap();
        let inject = "__meta_kubernetes_pod_label_autoscaling_rouse_dev_inject";
        assert!(rules.iter().any(|rule| rule["source_labels"][0] == inject && rule["regex"] == "true"));
        assert!(rules.iter().any(|rule| rule["target_label"] == "owner"), "{rules:?}");
    }
}
