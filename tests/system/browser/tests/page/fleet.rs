//! A thousand workloads or a dozen, and the last hour of one workload, as an API has them.

use std::f64::consts::PI;

use autoscaler::history::{
    CurrentSample, CurrentSamples, HistoryReport, INTERVAL_MS, Sample, TimedSample, Wake,
};
use fake_api::FakeApi;
use http::StatusCode;
use serde_json::{Value, json};

/// Workloads of the fleet.
pub(crate) const WORKLOADS: usize = NAMESPACES.len() * NAMES.len();

const NAMESPACES: [&str; 25] = [
    "accounts",
    "ads",
    "analytics",
    "auth",
    "billing",
    "blog",
    "catalog",
    "chat",
    "checkout",
    "content",
    "docs",
    "email",
    "exports",
    "fraud",
    "gateway",
    "geo",
    "images",
    "ledger",
    "mobile",
    "orders",
    "partners",
    "pricing",
    "search",
    "support",
    "warehouse",
];
const NAMES: [&str; 40] = [
    "admin",
    "api",
    "archive",
    "audit",
    "backfill",
    "cache",
    "callbacks",
    "consumer",
    "cron",
    "dashboard",
    "diff",
    "editor",
    "export",
    "feed",
    "graphql",
    "hooks",
    "import",
    "index",
    "intake",
    "jobs",
    "lookup",
    "mailer",
    "merge",
    "metrics",
    "notify",
    "preview",
    "proxy",
    "public",
    "query",
    "reader",
    "relay",
    "render",
    "reports",
    "resize",
    "rules",
    "staging",
    "sync",
    "thumbs",
    "web",
    "worker",
];
const GROUP: &str = "/apis/external.metrics.k8s.io/v1beta1";
/// 2026-01-01T12:00:00Z: the end of the hour.
pub(crate) const NOW: i64 = 1_767_268_800_000;

/// Puts all workloads, with their loads.
pub(crate) fn put_fleet(api: &FakeApi) {
    put_workloads(api, &NAMESPACES, &NAMES);
}

/// Puts a dozen workloads, for pictures.
pub(crate) fn put_dozen(api: &FakeApi) {
    put_workloads(api, &["catalog", "checkout", "orders", "previews"], &["api", "web", "worker"]);
    put_state(api, "orders", "web", json!({"phase": "Waking", "reason": "Activating", "replicas": 1}));
}

fn put_workloads(api: &FakeApi, namespaces: &[&str], names: &[&str]) {
    let version = json!({
        "major": "1", "minor": "37", "gitVersion": "v1.37.0", "gitCommit": "", "gitTreeState": "",
        "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
    });
    api.respond_to_reads("/version", StatusCode::OK, version.to_string());
    let mut workloads = Vec::new();
    let all = namespaces.iter().flat_map(|namespace| names.iter().map(move |name| (*namespace, *name)));
    for (index, (namespace, name)) in all.enumerate() {
        // Most sleep, as in a fleet of previews and internal tools.
        let load = match index % 7 {
            0 => (index % 97) as f64 * 3.1,
            3 => (index % 13) as f64 * 0.6,
            _ => 0.0,
        };
        let pods = (load / 70.0).ceil() as u32;
        let status = match (namespace, name, pods) {
            ("checkout", "web", _) => broken(),
            (_, _, 0) => {
                json!({"phase": "AtZero", "reason": "NoTraffic", "replicas": 0, "savings": savings(index)})
            }
            _ => {
                json!({"phase": "Active", "reason": "ReceivingTraffic", "replicas": pods, "savings": savings(index)})
            }
        };
        put_state(api, namespace, name, status);
        let sample = Sample {
            load: Some(load),
            ready: pods,
            decided: Some(pods),
            target: 70.0,
            learned: None,
            panicking: load > 285.0,
        };
        workloads.push(CurrentSample {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            metric: "concurrency".to_owned(),
            sample,
            missing: None,
        });
    }
    put_hour(api);
    let last = hour().last().copied().map(|timed| timed.sample);
    for current in &mut workloads {
        if (current.namespace.as_str(), current.name.as_str()) == ("catalog", "web") {
            current.sample = last.unwrap_or_default();
        }
    }
    put_json(api, &format!("{GROUP}/history"), &json!(CurrentSamples { workloads }));
}

/// An account. Its present phase adds nothing, so that pictures stay the same.
fn savings(index: usize) -> Value {
    let hours = 3 + index % 160;
    json!({
        "since": "2025-12-25T00:00:00Z", "podSeconds": hours * 3600, "cpuMilliSeconds": hours * 3600 * 250,
        "memoryMebibyteSeconds": hours * 3600 * 512, "wakes": index % 9,
    })
}

/// Puts one workload in this state.
pub(crate) fn put_state(api: &FakeApi, namespace: &str, name: &str, status: Value) {
    api.put(
        &format!("/apis/autoscaling.rouse.dev/v1alpha1/namespaces/{namespace}/podautoscalers/{name}"),
        json!({
            "apiVersion": "autoscaling.rouse.dev/v1alpha1",
            "kind": "PodAutoscaler",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                "service": name, "target": "70", "minReplicas": 1, "maxReplicas": 50, "scaleToZero": true,
            },
            "status": status,
        }),
    );
}

/// The status of a workload whose pods do not start.
fn broken() -> Value {
    let since = "2026-01-01T11:48:00Z";
    let message = "0/6 nodes are available: 6 Insufficient memory.";
    json!({
        "phase": "Degraded", "reason": "Unschedulable", "message": message, "replicas": 2,
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": since},
            {"type": "PodsCanStart", "status": "False", "reason": "Unschedulable", "message": message,
             "lastTransitionTime": since},
        ],
    })
}

/// The last hour of `catalog/web`, with its events and decisions.
fn put_hour(api: &FakeApi) {
    let learning = json!({
        "mode": "Apply", "recommendedTarget": "42", "phase": "Settled", "confidence": 86,
        "message": "p95 stays below 200 ms up to 42 requests for each pod",
    });
    let since = "2026-01-01T09:12:00Z";
    let condition = |kind: &str, reason: &str, message: &str| json!({"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": since});
    let status = json!({
        "phase": "Active", "reason": "ReceivingTraffic", "replicas": 2, "route": "pods", "learning": learning,
        "savings": savings(118),
        "conditions": [
            condition("Ready", "Ready", ""),
            condition("Active", "ReceivingTraffic", ""),
            condition("ScaleTargetInitialized", "PodsWereReady", ""),
        ],
    });
    put_state(api, "catalog", "web", status);
    let wakes = wakes();
    wakes.iter().enumerate().for_each(|(index, wake)| put_event(api, index, wake));
    let history = HistoryReport {
        metric: "concurrency".to_owned(),
        now: NOW,
        interval_ms: INTERVAL_MS,
        samples: hour(),
        wakes,
    };
    put_json(api, &format!("{GROUP}/namespaces/catalog/history/web"), &json!(history));
    let decisions: Vec<_> = (0..15)
        .map(|index| {
            let at = time(NOW - 2000 * index);
            json!({
                "at": at, "desired": 2, "panicking": false, "stable": 60.25, "panic": 58.5, "ready": 2, "target": 42.0,
                "why": "60.25 / 42 = 1.43, rounded up",
            })
        })
        .collect();
    let point = |load: f64, milliseconds: f64| json!({"load": load, "milliseconds": milliseconds, "requestsPerSecond": load / milliseconds * 1000.0});
    let basis = json!({
        "unloadedMilliseconds": 62.5, "fullPodRequestsPerSecond": 688.0, "room": 43.0, "memory": null, "cpu": 61.4,
        "tooMuch": 52.5, "containerConcurrency": null, "factor": null, "boundBy": "room",
        "missing": ["what memory allows: no reading of a pod's memory"],
        "curve": [point(9.6, 62.0), point(19.2, 63.1), point(38.5, 66.4), point(54.1, 79.3)],
    });
    let why = json!({
        "workload": "catalog/web", "service": "web", "metric": "concurrency", "value": "60250m", "target": "70",
        "pods": {"ready": 2, "existing": 2}, "activators": 2, "decisions": decisions,
        "learning": {"mode": "Apply", "targetInForce": 42.0, "learned": {"target": 42.0, "basis": basis}},
    });
    put_json(api, &format!("{GROUP}/namespaces/catalog/why/web"), &why);
}

fn put_event(api: &FakeApi, index: usize, wake: &Wake) {
    let name = format!("web.{index}");
    api.put(
        &format!("/apis/events.k8s.io/v1/namespaces/catalog/events/{name}"),
        json!({
            "metadata": {"name": name, "namespace": "catalog"}, "reason": "ScaledFromZero", "type": "Normal",
            "eventTime": time(wake.received + 5),
            "note": "scaled from 0 to 1 for a held request, 3.1 ms after the activator's report",
            "regarding": {"kind": "PodAutoscaler", "name": "web", "namespace": "catalog"},
        }),
    );
}

/// A time of the test's day, with microseconds as in events.
fn time(unix_millis: i64) -> String {
    let seconds = unix_millis.div_euclid(1000) - (NOW / 1000 - 43_200);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("2026-01-01T{hours:02}:{minutes:02}:{seconds:02}.{:03}000Z", unix_millis.rem_euclid(1000))
}

/// Sleep, a little load, sleep, a burst, and sleep before the present load.
fn hour() -> Vec<TimedSample> {
    let begin = NOW - 119 * INTERVAL_MS;
    let sample = |index: i64| {
        let minute = index as f64 / 2.0;
        let load = match minute {
            6.0..=14.0 => 34.0 * (PI * (minute - 6.0) / 8.0).sin(),
            22.0..=48.0 => {
                60.0 + 150.0 * (-((minute - 30.0) / 4.0).powi(2)).exp() + 9.0 * (minute * 2.1).sin()
            }
            55.0.. => 60.25 - 3.0 * (60.0 - minute),
            _ => 0.0,
        };
        let learned = if minute < 26.0 {
            55.0
        } else if minute < 36.0 {
            48.0
        } else {
            42.0
        };
        let decided = (load / learned).ceil() as u32;
        let panicking = (27.0..31.0).contains(&minute);
        let decided = if panicking { decided.max(5) } else { decided };
        let ready = if (26.5..27.5).contains(&minute) { decided.min(2) } else { decided };
        let sample = Sample {
            load: Some((load * 100.0).round() / 100.0),
            ready,
            decided: Some(decided),
            target: learned,
            learned: Some(learned),
            panicking,
        };
        TimedSample { at: begin + index * INTERVAL_MS, sample }
    };
    (0..120).map(sample).collect()
}

fn wakes() -> Vec<Wake> {
    [(6.0, 1), (22.0, 2), (55.0, 0)]
        .map(|(minute, variant)| Wake {
            received: NOW - 119 * INTERVAL_MS + (minute * 60_000.0) as i64 + 217,
            reported: Some(2),
            created: Some(38 + 5 * variant),
            scheduled: Some(51 + 5 * variant),
            started: 690 + 240 * variant,
            verified: 1240 + 410 * variant,
            forwarded: 1242 + 410 * variant,
            answered: 1263 + 415 * variant,
        })
        .into()
}

fn put_json(api: &FakeApi, path: &str, value: &Value) {
    api.respond_to_reads(path, StatusCode::OK, value.to_string());
}
