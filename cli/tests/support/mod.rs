//! Commands on an API in memory.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::process::ExitCode;

use clap::Parser;
use cli::app;
use cli::args::Cli;
use cli::connection::Session;
use cli::error::CommandError;
use fake_api::FakeApi;
use http::StatusCode;
use serde_json::{Value, json};

/// The output of a command, and its exit code.
pub(crate) struct Output {
    pub(crate) text: String,
    pub(crate) code: ExitCode,
}

// === impl Output ===

impl Output {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub(crate) fn is_success(&self) -> bool {
        format!("{:?}", self.code) == format!("{:?}", ExitCode::SUCCESS)
    }
}

/// Runs `kubectl rouse ARGS` on this API.
pub(crate) async fn run(api: &FakeApi, args: &[&str]) -> Result<Output, CommandError> {
    let cli = Cli::try_parse_from([&["kubectl-rouse"], args].concat()).unwrap();
    let session = Session {
        system_namespace: cli.connection.system_namespace.clone(),
        ..session(api, cli.connection.namespace.as_deref())
    };
    let mut out = Vec::new();
    let code = app::execute(&cli.command, &session, cli.output, &mut out).await?;
    Ok(Output { text: String::from_utf8(out).unwrap(), code })
}

/// A session on this API, with or without `--namespace`.
pub(crate) fn session(api: &FakeApi, namespace: Option<&str>) -> Session {
    Session {
        client: api.client(),
        namespace: namespace.unwrap_or("shop").to_owned(),
        only_namespace: namespace.map(str::to_owned),
        system_namespace: "rouse-system".to_owned(),
    }
}

/// Adds a PodAutoscaler with a status.
pub(crate) fn put_workload(api: &FakeApi, name: &str, status: Value) {
    api.put(
        &format!("/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/podautoscalers/{name}"),
        json!({
            "apiVersion": "autoscaling.rouse.dev/v1alpha1",
            "kind": "PodAutoscaler",
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                "service": name,
                "target": "70",
                "minReplicas": 1,
                "maxReplicas": 50,
                "scaleToZero": true,
            },
            "status": status,
        }),
    );
}

/// Sets the metrics-adapter's report on a workload.
pub(crate) fn put_report(api: &FakeApi, name: &str, report: &Value) {
    let path = format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/why/{name}");
    api.respond_to_reads(&path, StatusCode::OK, report.to_string());
}

/// A report with one decision; without a load, as of a workload without data.
pub(crate) fn report(load: Option<f64>, ready: u32) -> Value {
    let desired = load.map(|load| (load / 70.0).ceil() as u32);
    let idle_since = (load == Some(0.0)).then_some("2026-01-01T00:00:00Z");
    json!({
        "workload": "shop/web", "service": "web", "metric": "concurrency",
        "value": load.map(|load| format!("{}m", load * 1000.0)),
        "missing": load.is_none().then_some("no pod has reported yet"),
        "target": "70", "windows": {"stableSeconds": 60, "panicSeconds": 6},
        "pods": {"ready": ready, "existing": ready}, "activators": 2, "learning": null,
        "decisions": [{
            "at": "2026-01-01T00:01:02Z", "desired": desired, "panicking": load > Some(300.0),
            "stable": load, "panic": load, "ready": ready, "target": 70.0, "idleSince": idle_since,
        }],
    })
}
