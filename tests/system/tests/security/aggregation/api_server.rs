//! The API server's view of an aggregated API: its discovery and the errors in its log.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use anyhow::{Context, Result};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

/// The errors in the API server's log from a time on. A cluster that `tests/cluster` did not start
/// has no log to read, and no error is found there.
pub(crate) struct ErrorLog(Option<(PathBuf, u64)>);

// === impl ErrorLog ===

impl ErrorLog {
    pub(crate) fn from_now_on() -> Result<Self> {
        // `tests/cluster` keeps the logs beside the kubeconfig.
        let kubeconfig = std::env::var_os("KUBECONFIG").map(PathBuf::from);
        let log = kubeconfig
            .map(|file| file.with_file_name("log").join("kube-apiserver.log"))
            .filter(|log| log.exists());
        let Some(log) = log else {
            println!("no log of the API server on this machine; skipping its check");
            return Ok(Self(None));
        };
        let length = std::fs::metadata(&log)?.len();
        Ok(Self(Some((log, length))))
    }

    /// Lines of errors and warnings about the adapter's API.
    pub(crate) fn errors(&self) -> Result<Vec<String>> {
        let Some((path, from)) = &self.0 else { return Ok(vec![]) };
        let mut text = String::new();
        let mut log = File::open(path)?;
        log.seek(SeekFrom::Start(*from))?;
        log.read_to_string(&mut text).context("the API server's log")?;
        let about_adapter =
            |line: &&str| ["external.metrics", "metrics-adapter"].iter().any(|name| line.contains(name));
        let bad = |line: &&str| line.starts_with(['E', 'W', 'F']);
        Ok(text.lines().filter(bad).filter(about_adapter).map(str::to_owned).collect())
    }
}

/// Makes the API server discover an aggregated API again, as after a change of its APIService.
pub(crate) async fn rediscover(client: &Client, api_service: &str) -> Result<()> {
    let services: Api<APIService> = Api::all(client.clone());
    let now = component_base::clock::unix_millis().to_string();
    let patch = json!({"metadata": {"annotations": {"tests.rouse.dev/rediscovered-at": now}}});
    services.patch(api_service, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// All API groups that the API server has collected.
pub(crate) async fn aggregated_discovery(client: &Client) -> Result<Value> {
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let request = http::Request::get("/apis").header("accept", accept).body(Vec::new())?;
    Ok(serde_json::from_str(&client.request_text(request).await?)?)
}
