//! The webhook makes the pods that the admission policy makes: the tests of the policy check the
//! same table.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::path::Path;

use clap::Parser;
use json_patch::Patch;
use k8s_openapi::api::core::v1::Pod;
use metrics_adapter::args::Args;
use metrics_adapter::sidecar_injection::SidecarSettings;
use metrics_adapter::sidecar_injection::pod_patch::pod_patch;
use serde_json::Value;

/// Below this crate.
const TABLE: &str = "../tests/cluster/policies/testdata/pods";
/// The image in the table.
const IMAGE: &str = "queue-proxy:v1";

/// The defaults of the flags, which equal the policy's.
fn settings() -> SidecarSettings {
    Args::try_parse_from(["metrics-adapter", "--sidecar-image", IMAGE]).unwrap().sidecar.settings().unwrap()
}

/// All pods of the table, by file and name.
fn table() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(TABLE);
    let mut rows = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
        let file = path.file_name().unwrap().to_str().unwrap();
        rows.extend(cases.into_iter().map(|case| (format!("{file}, {}", case["name"]), case)));
    }
    rows
}

fn typed(pod: &Value) -> Pod {
    serde_json::from_value(pod.clone()).unwrap()
}

fn patch(pod: &Value) -> Patch {
    pod_patch(&typed(pod), &settings()).unwrap()
}

#[test]
fn adds_the_sidecar_as_the_policy_does() {
    let table = table();
    assert!(table.len() > 40, "{} pods", table.len());
    for (name, case) in table {
        let mut pod = case["pod"].clone();
        json_patch::patch(&mut pod, &patch(&case["pod"])).unwrap();
        assert_eq!(typed(&pod), typed(&case["withSidecar"]), "{name}");
        assert!(patch(&pod).is_empty(), "{name}: a second review changes the pod");
    }
}

/// The sidecar reads the probe from a variable; the policy makes its text without a JSON encoder.
#[test]
fn encodes_control_characters_of_a_probe_as_json() {
    let (_, case) = table().into_iter().find(|(name, _)| name.contains("HTTP with the defaults")).unwrap();
    let mut pod = case["pod"].clone();
    pod["spec"]["containers"][0]["readinessProbe"]["httpGet"]["path"] = "/\u{7}\u{b}\u{1}".into();
    let patch = serde_json::to_value(patch(&pod)).unwrap();
    let is_probe = |variable: &&Value| variable["name"] == "QUEUE_PROXY_READINESS_PROBE";
    let operations = patch.as_array().unwrap().iter();
    let variables =
        operations.flat_map(|operation| operation["value"]["env"].as_array().into_iter().flatten());
    let probe = variables.clone().find(is_probe).unwrap();
    let probe: Value = serde_json::from_str(probe["value"].as_str().unwrap()).unwrap();
    assert_eq!(probe["httpGet"]["path"], "/\u{7}\u{b}\u{1}");
}
