//! The compiled activator with `--workloads`, without Kubernetes and other components.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
#![allow(unreachable_pub, missing_debug_implementations, reason = "shared by test files, not published")]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use support::pod::FakePod;
use support::{client, eventually, free_port, within};

const POD: &str = "127.0.0.2";

/// An activator with a workloads file; dropping this ends both.
struct Activator {
    file: PathBuf,
    process: Child,
}

impl Activator {
    fn start(name: &str, workloads: &str) -> Self {
        let file = file(name, workloads);
        let admin = free_port().to_string();
        let process = command(&file).args(["--admin-port", &admin]).stderr(Stdio::null()).spawn().unwrap();
        Self { file, process }
    }

    /// Replaces the file by a rename, as editors and ConfigMaps do.
    fn replace(&self, workloads: &str) {
        let new = self.file.with_extension("new");
        std::fs::write(&new, workloads).unwrap();
        std::fs::rename(&new, &self.file).unwrap();
    }
}

impl Drop for Activator {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_file(&self.file);
    }
}

fn file(name: &str, workloads: &str) -> PathBuf {
    let file = std::env::temp_dir().join(format!("activator-{}-{name}.yaml", std::process::id()));
    std::fs::write(&file, workloads).unwrap();
    file
}

fn command(file: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_activator"));
    command.arg("--workloads").arg(file).stdin(Stdio::null()).stdout(Stdio::piped());
    command.env_remove("KUBECONFIG");
    command
}

fn workload(name: &str, listen: u16, pod: u16) -> String {
    format!("- name: shop/{name}\n  ports: [{{listen: {listen}, pod: {pod}}}]\n  pods: [{{ip: {POD}}}]\n")
}

/// The body of the response; `None` before the port is open.
async fn get(port: u16) -> Option<Bytes> {
    let request = Request::get(format!("http://127.0.0.1:{port}/")).body(Full::<Bytes>::default()).unwrap();
    let response = client().request(request).await.ok()?;
    Some(response.into_body().collect().await.unwrap().to_bytes())
}

#[tokio::test]
async fn holds_requests_until_the_pod_answers_its_probe() {
    let (listen, pod_port) = (free_port(), free_port());
    let pod = FakePod::start(POD, pod_port).await;
    let _activator = Activator::start("held", &format!("workloads:\n{}", workload("web", listen, pod_port)));
    let answer = tokio::spawn(async move {
        loop {
            if let Some(answer) = get(listen).await {
                return answer;
            }
        }
    });
    eventually("the pod is probed", || async { pod.probes() > 0 }).await;
    assert_eq!((pod.served(), answer.is_finished()), (0, false));
    pod.becomes_ready();
    assert_eq!(within("an answer", answer).await.unwrap(), POD);
}

#[tokio::test]
async fn applies_changed_file_and_ignores_invalid_one() {
    let (web, api, pod_port) = (free_port(), free_port(), free_port());
    let _pod = FakePod::ready(POD, pod_port).await;
    let first = format!("workloads:\n{}", workload("web", web, pod_port));
    let activator = Activator::start("changes", &first);
    eventually("web answers", || async { get(web).await.is_some() }).await;

    activator.replace("workloads: [{name: shop/web}]");
    activator.replace(&format!("{first}{}", workload("api", api, pod_port)));
    eventually("api answers", || async { get(api).await.is_some() }).await;
    assert!(get(web).await.is_some());

    activator.replace(&format!("workloads:\n{}", workload("api", api, pod_port)));
    eventually("the port of web is closed", || async { get(web).await.is_none() }).await;
}

#[test]
fn invalid_file_at_start_is_an_error_with_its_position() {
    let file = file("bad", "workloads:\n- name: shop/web\n  ports:\n  - {listen: 70000, pod: 8012}\n");
    let admin = free_port().to_string();
    let Output { status, stderr, .. } = command(&file).args(["--admin-port", &admin]).output().unwrap();
    std::fs::remove_file(&file).unwrap();
    let message = String::from_utf8(stderr).unwrap();
    assert!(!status.success(), "{message}");
    for part in [file.to_str().unwrap(), "workloads[0].ports[0].listen", "line 4"] {
        assert!(message.contains(part), "no {part:?} in {message}");
    }
}
