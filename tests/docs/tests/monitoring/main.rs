//! Checks of `deploy/monitoring` that need no cluster: its queries name what the code has, its
//! alerts are documented, and promtool finds that each fires on a planted fault and none on a
//! healthy installation.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use docs::link::{anchors, prose};
use docs::metric_description::{MetricDescription, MetricKind, programs};
use docs::monitoring::alert::{self, alerts};
use docs::monitoring::dashboard::{Dashboard, dashboards};
use docs::monitoring::query::{Selector, grouping_labels, selectors};
use docs::monitoring::{pod_monitor, program};
use docs::page::{Page, pages, root};
use serde_yaml_ng::Value;

/// The page with a section for each alert.
const PAGE: &str = "docs/reference/monitoring.md";
/// The cases of promtool.
const CASES: &str = "tests/docs/tests/monitoring/alerts.yaml";
/// Labels that Prometheus gives to each target. Those of sidecars have an owner too.
const TARGET_LABELS: [&str; 2] = ["namespace", "pod"];
const SIDECAR: &str = "rouse_queue_proxy_";
const SEVERITIES: [&str; 3] = ["critical", "warning", "info"];

/// The labels of each series of the code.
struct Series(BTreeMap<String, BTreeSet<String>>);

// === impl Series ===

impl Series {
    fn of_code() -> Self {
        let all = programs().unwrap().into_iter().flat_map(|(_, metrics)| metrics);
        Self(all.flat_map(|metric| Self::of_metric(&metric)).collect())
    }

    fn of_metric(metric: &MetricDescription) -> Vec<(String, BTreeSet<String>)> {
        let owner = metric.name.starts_with(SIDECAR).then_some("owner");
        let target = TARGET_LABELS.into_iter().chain(owner).map(str::to_owned);
        let labels: BTreeSet<String> = metric.labels.iter().cloned().chain(target).collect();
        if metric.kind != MetricKind::Histogram {
            return vec![(metric.name.clone(), labels)];
        }
        let of = |suffix: &str| format!("{}_{suffix}", metric.name);
        let with_bound = labels.iter().cloned().chain(["le".to_owned()]).collect();
        vec![(of("sum"), labels.clone()), (of("count"), labels), (of("bucket"), with_bound)]
    }

    /// What a query names and the code does not have.
    fn faults(&self, query: &str) -> Vec<String> {
        let found = selectors(query);
        let unknown = found.iter().flat_map(|selector| self.unknown(selector));
        let known: BTreeSet<&String> = found.iter().filter_map(|s| self.0.get(&s.series)).flatten().collect();
        let groups = grouping_labels(query).into_iter().filter(|label| !known.contains(label));
        let groups = groups.map(|label| format!("no metric has the label {label}"));
        let none = found.is_empty().then(|| "no metric".to_owned());
        unknown.chain(groups).chain(none).map(|fault| format!("{fault}: {query}")).collect()
    }

    fn unknown(&self, selector: &Selector) -> Vec<String> {
        let Some(labels) = self.0.get(&selector.series) else {
            return vec![format!("no metric {}", selector.series)];
        };
        let missing = selector.labels.iter().filter(|label| !labels.contains(*label));
        missing.map(|label| format!("{} has no label {label}", selector.series)).collect()
    }
}

fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn queries_name_metrics_and_labels_that_the_code_has() {
    let series = Series::of_code();
    let dashboards = dashboards(&root()).unwrap();
    let panels = dashboards.iter().flat_map(|dashboard| &dashboard.panels);
    let of_panels = panels.flat_map(|panel| &panel.targets).map(|target| target.expr.clone());
    let of_alerts = alerts(&root()).unwrap().into_iter().map(|alert| alert.expr);
    let variables = dashboards.iter().flat_map(Dashboard::variable_sources);
    let of_variables = variables.map(|(selector, label)| format!("count by ({label}) ({selector})"));
    let queries: Vec<String> = of_panels.chain(of_alerts).chain(of_variables).collect();
    assert!(queries.len() > 90, "{} queries", queries.len());
    let faults: Vec<String> = queries.iter().flat_map(|query| series.faults(query)).collect();
    assert_none(&faults);
}

#[test]
fn rejects_unknown_metrics_and_labels() {
    let series = Series::of_code();
    for query in [
        "rouse_activator_held",
        "rouse_activator_held_requests{owner=\"web\"}",
        "sum by (code) (rouse_activator_requests_total)",
        "rouse_activator_cold_start_seconds",
        "up",
    ] {
        assert_eq!(series.faults(query).len(), 1, "{query}: {:?}", series.faults(query));
    }
}

#[test]
fn panels_have_numbers_of_their_own_and_descriptions() {
    let mut faults = Vec::new();
    for dashboard in dashboards(&root()).unwrap() {
        let ids: BTreeSet<u32> = dashboard.panels.iter().map(|panel| panel.id).collect();
        if ids.len() != dashboard.panels.len() {
            faults.push(format!("{}: two panels have one id", dashboard.title));
        }
        let bare = dashboard.panels.iter().filter(|panel| panel.description.is_empty());
        faults.extend(bare.map(|panel| format!("{}: {} has no description", dashboard.title, panel.title)));
        let variables = dashboard.variables();
        let queries = dashboard.panels.iter().flat_map(|panel| &panel.targets);
        let used = queries.flat_map(|target| target.expr.split("=\"$").skip(1));
        let unknown = used.filter_map(|rest| rest.split('"').next()).filter(|name| !variables.contains(name));
        faults.extend(unknown.map(|name| format!("{}: no variable {name}", dashboard.title)));
    }
    assert_none(&faults);
}

/// Annotation and value of an alert's runbook: Alertmanager and Grafana link `runbook_url`. While
/// Cargo.toml names no public repository, it is a path in the one that the reader has.
fn runbook(section: &str) -> (&'static str, String) {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    match manifest.lines().find_map(|line| line.strip_prefix("repository = ")) {
        Some(url) => ("runbook_url", format!("{}/blob/main/{section}", url.trim_matches('"'))),
        None => ("runbook", section.to_owned()),
    }
}

/// Its runbook leads to a section of the page, which has no others at this level.
#[test]
fn each_alert_has_a_severity_texts_and_a_section() {
    let pages = pages(&root()).unwrap();
    let page = pages.iter().find(|page| page.path == Path::new(PAGE)).unwrap();
    let anchors = anchors(&page.text);
    let mut faults = Vec::new();
    let alerts = alerts(&root()).unwrap();
    for alert in &alerts {
        let anchor = alert.name.to_lowercase();
        let (name, expected) = runbook(&format!("{PAGE}#{anchor}"));
        if alert.annotations.get(name) != Some(&expected) || !anchors.contains(&anchor) {
            faults.push(format!("{}: no section, or the annotation {name} is not {expected}", alert.name));
        }
        let texts = ["summary", "description"].iter().all(|text| alert.annotations.contains_key(*text));
        let severity = alert.labels.get("severity").map(String::as_str).unwrap_or_default();
        if !texts || !SEVERITIES.contains(&severity) {
            faults.push(format!("{}: no summary, description or known severity", alert.name));
        }
    }
    let names: BTreeSet<&str> = alerts.iter().map(|alert| alert.name.as_str()).collect();
    let stale = sections(page).into_iter().filter(|section| !names.contains(section));
    faults.extend(stale.map(|section| format!("{PAGE}: no alert {section}")));
    assert_none(&faults);
}

fn sections(page: &Page) -> Vec<&str> {
    prose(&page.text).filter_map(|(_, line)| line.strip_prefix("### ")).collect()
}

#[test]
fn each_alert_has_a_case_in_which_it_fires() {
    let cases: Value =
        serde_yaml_ng::from_str(&std::fs::read_to_string(root().join(CASES)).unwrap()).unwrap();
    let list = |value: &Value, key: &str| value[key].as_sequence().cloned().unwrap_or_default();
    let expected: String = list(&cases, "tests")
        .iter()
        .flat_map(|case| list(case, "promql_expr_test"))
        .flat_map(|test| list(&test, "exp_samples"))
        .filter_map(|sample| sample["labels"].as_str().map(str::to_owned))
        .collect();
    let fires = |name: &str| expected.contains(&format!("alertname=\"{name}\""));
    let missing: Vec<String> =
        alerts(&root()).unwrap().into_iter().map(|alert| alert.name).filter(|name| !fires(name)).collect();
    assert_none(&missing);
}

#[test]
fn promtool_finds_each_alert_and_no_false_one() {
    let folder = std::env::temp_dir().join(format!("rouse-alerts-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("rules.yaml"), alert::rule_file(&root()).unwrap()).unwrap();
    std::fs::copy(root().join(CASES), folder.join("cases.yaml")).unwrap();
    let outputs = [["check", "rules", "rules.yaml"], ["test", "rules", "cases.yaml"]].map(|arguments| {
        let mut promtool = Command::new(program::path("promtool").unwrap());
        promtool.args(arguments).current_dir(&folder).output().unwrap()
    });
    std::fs::remove_dir_all(&folder).unwrap();
    for output in outputs {
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success(), "{}", text.concat());
    }
}

/// Without their port a PodMonitor scrapes nothing, and reports nothing.
#[test]
fn pod_monitors_name_declared_ports() {
    let manifests = ["activator", "metrics-adapter", "zero-scaler", "queue-proxy"].map(|part| {
        std::fs::read_to_string(root().join("deploy").join(part).with_extension("yaml")).unwrap()
    });
    let (own, sidecar) = manifests.split_at(3);
    let monitors = pod_monitor::pod_monitors(&root()).unwrap();
    let ports: Vec<&str> = monitors
        .iter()
        .flat_map(|monitor| &monitor.spec.pod_metrics_endpoints)
        .map(|endpoint| endpoint.port.as_str())
        .collect();
    assert_eq!(ports.len(), 2, "{ports:?}");
    assert!(own.iter().all(|text| text.contains(&format!("name: {}, containerPort: 9090", ports[0]))));
    assert!(sidecar[0].contains(&format!("name: \"{}\", containerPort: variables.statsPort", ports[1])));
}
