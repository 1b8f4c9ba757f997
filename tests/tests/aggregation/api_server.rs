//! What the API server knows of an aggregated API, and what it says of it in its log.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use anyhow::{Context, Result};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

/// The errors in the API server's log from a moment on. On a cluster that was not started by `tests/cluster` there is no log to
/// be read, and no error is seen.
pub(crate) struct ErrorLog(Option<(PathBuf, u64)>);

// === impl ErrorLog ===

impl ErrorLog {
    pub(crate) fn from_now_on() -> Result<Self> {
        // Of a cluster of tests/cluster the logs are beside the kubeconfig.
        let beside = std::env::var_os("KUBECONFIG").map(PathBuf::from);
        let log = beside
            .map(|file| file.with_file_name("log").join("kube-apiserver.log"))
            .filter(|log| log.exists());
        let Some(log) = log else {
            println!("the API server's log is not here, so it is not read");
            return Ok(Self(None));
        };
        let length = std::fs::metadata(&log)?.len();
        Ok(Self(Some((log, length))))
    }

    /// Lines of errors and warnings that speak of our API.
    pub(crate) fn complaints(&self) -> Result<Vec<String>> {
        let Some((path, from)) = &self.0 else { return Ok(vec![]) };
        let mut text = String::new();
        let mut log = File::open(path)?;
        log.seek(SeekFrom::Start(*from))?;
        log.read_to_string(&mut text).context("the API server's log")?;
        let about_us =
            |line: &&str| ["external.metrics", "metrics-adapter"].iter().any(|word| line.contains(word));
        let bad = |line: &&str| line.starts_with(['E', 'W', 'F']);
        Ok(text.lines().filter(bad).filter(about_us).map(str::to_owned).collect())
    }
}

/// Has the API server read all of an aggregated API anew, as after a change of its APIService.
pub(crate) async fn look_again(client: &Client, api_service: &str) -> Result<()> {
    let services: Api<APIService> = Api::all(client.clone());
    let now = runtime::clock::unix_millis().to_string();
    let patch = json!({"metadata": {"annotations": {"tests.rouse.dev/looked-at": now}}});
    services.patch(api_service, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// All groups, as the API server collected them.
pub(crate) async fn aggregated_discovery(client: &Client) -> Result<Value> {
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let request = http::Request::get("/apis").header("accept", accept).body(Vec::new())?;
    Ok(serde_json::from_str(&client.request_text(request).await?)?)
}
