//! Checks of the manifests in `deploy` that need no cluster.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use docs::page::root;
use serde::Deserialize;
use serde_yaml_ng::Value;

/// The ports that the activators lease: no container declares them.
const LEASED: RangeInclusive<u64> = 10_000..=49_999;

/// All objects of `deploy`, by file. Its components are compared with the chart in `chart/tests`.
fn manifests() -> BTreeMap<String, Vec<Value>> {
    let entries = std::fs::read_dir(root().join("deploy")).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.is_file());
    let read = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let documents = serde_yaml_ng::Deserializer::from_str(&text);
        let objects = documents.map(|document| Value::deserialize(document).unwrap()).collect();
        (path.file_name().unwrap().to_str().unwrap().to_owned(), objects)
    };
    files.map(read).collect()
}

fn of_kind(kind: &str) -> BTreeMap<String, Value> {
    let all = manifests().into_values().flatten().filter(|object| object["kind"] == kind);
    all.map(|object| (object["metadata"]["name"].as_str().unwrap().to_owned(), object)).collect()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_sequence().into_iter().flatten()
}

fn containers(deployment: &Value) -> impl Iterator<Item = &Value> {
    items(&deployment["spec"]["template"]["spec"]["containers"])
}

#[test]
fn admission_policies_refer_to_no_object_that_may_be_lost() {
    for kind in ["Mutating", "Validating"] {
        let policies = of_kind(&format!("{kind}AdmissionPolicy"));
        let bindings = of_kind(&format!("{kind}AdmissionPolicyBinding"));
        for (name, policy) in &policies {
            let binding = bindings.values().find(|binding| binding["spec"]["policyName"] == name.as_str());
            let binding = binding.unwrap_or_else(|| panic!("{name} has no binding"));
            let parameters = [&policy["spec"]["paramKind"], &binding["spec"]["paramRef"]];
            assert!(parameters.iter().all(|value| value.is_null()), "{name} has parameters");
        }
        assert!(!policies.is_empty() && bindings.len() == policies.len());
    }
}

#[test]
fn kustomization_has_every_manifest() {
    let files = manifests();
    let resources = items(&files["kustomization.yaml"][0]["resources"]);
    let listed: BTreeSet<&str> = resources.filter_map(Value::as_str).collect();
    let wanted: BTreeSet<&str> =
        files.keys().map(String::as_str).filter(|file| *file != "kustomization.yaml").collect();
    assert_eq!(listed, wanted);
}

#[test]
fn network_policy_opens_the_ports_of_its_deployment_and_no_other() {
    let policies = of_kind("NetworkPolicy");
    let deployments = of_kind("Deployment");
    assert_eq!(policies.keys().collect::<Vec<_>>(), deployments.keys().collect::<Vec<_>>());
    for (name, deployment) in &deployments {
        let spec = &policies[name]["spec"];
        assert_eq!(spec["podSelector"], deployment["spec"]["selector"], "{name}");
        let declared = containers(deployment).flat_map(|container| items(&container["ports"]));
        let declared = declared.map(|port| port["containerPort"].as_u64().unwrap());
        let mut wanted: BTreeSet<(u64, u64)> = declared.map(|port| (port, port)).collect();
        if name == "activator" {
            wanted.insert((*LEASED.start(), *LEASED.end()));
        }
        let rules = items(&spec["ingress"]).flat_map(|rule| items(&rule["ports"]));
        let range = |rule: &Value| {
            let first = rule["port"].as_u64().unwrap();
            (first, rule["endPort"].as_u64().unwrap_or(first))
        };
        let opened: Vec<(u64, u64)> = rules.map(range).collect();
        assert_eq!(opened.iter().copied().collect::<BTreeSet<_>>(), wanted, "{name}");
        assert_eq!(opened.len(), wanted.len(), "{name} opens a port twice");
        assert_eq!(items(&spec["egress"]).count(), 1, "a default-deny policy would cut {name}");
    }
}

#[test]
fn every_deployment_has_a_priority_a_disruption_budget_and_requests() {
    let (classes, budgets) = (of_kind("PriorityClass"), of_kind("PodDisruptionBudget"));
    for (name, deployment) in &of_kind("Deployment") {
        let class = &deployment["spec"]["template"]["spec"]["priorityClassName"];
        assert!(class.as_str().is_some_and(|class| classes.contains_key(class)), "{name}: {class:?}");
        assert_eq!(budgets[name]["spec"]["selector"], deployment["spec"]["selector"], "{name}");
        for container in containers(deployment) {
            let requests = &container["resources"]["requests"];
            assert!(requests["cpu"].is_string() && requests["memory"].is_string(), "{name}");
        }
    }
}

/// All objects within a value, itself included.
fn nested(value: &Value) -> Vec<&Value> {
    let children: Vec<&Value> = match value {
        Value::Mapping(fields) => fields.values().collect(),
        Value::Sequence(items) => items.iter().collect(),
        _ => Vec::new(),
    };
    std::iter::once(value).chain(children.into_iter().flat_map(nested)).collect()
}

/// Kinds of other projects, which no cluster of the tests has.
#[test]
fn front_doors_call_the_wake_endpoint_as_its_service_is() {
    let services = of_kind("Service");
    let service = &services["activator-wake"];
    let (namespace, port) = (&service["metadata"]["namespace"], &service["spec"]["ports"][0]["port"]);
    let pages = docs::page::pages(&root()).unwrap();
    let page = pages.iter().find(|page| page.path.ends_with("front-doors/wake-endpoint.md")).unwrap();
    let blocks: Vec<_> = page.blocks().into_iter().filter(|block| block.has("foreign")).collect();
    let mut calls = 0;
    for document in blocks.iter().flat_map(|block| serde_yaml_ng::Deserializer::from_str(&block.text)) {
        for value in nested(&Value::deserialize(document).unwrap()) {
            if value["name"] == service["metadata"]["name"] && !value["port"].is_null() {
                assert_eq!((&value["namespace"], &value["port"]), (namespace, port));
                calls += 1;
            }
            if value.as_str().is_some_and(|text| text.starts_with("http://")) {
                let url = "http://activator-wake.rouse-system.svc.cluster.local/shop/web";
                assert_eq!(
                    (value.as_str(), namespace.as_str(), port.as_u64()),
                    (Some(url), Some("rouse-system"), Some(80))
                );
                calls += 1;
            }
        }
    }
    assert_eq!(calls, 3, "Envoy Gateway, Traefik and ingress-nginx");
}
