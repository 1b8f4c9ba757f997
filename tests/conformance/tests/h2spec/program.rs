//! Runs the program.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::Command;

use crate::report::{self, CaseResult};

/// Seconds after which an awaited frame counts as missing. A busy machine needs more than the
/// default of 2.
const FRAME_TIMEOUT: &str = "5";

/// Runs all cases against `address`. The report's file is named after `name`.
pub(crate) async fn run(address: SocketAddr, name: &str) -> Vec<CaseResult> {
    let program = std::env::var_os("H2SPEC").expect("H2SPEC is the path of h2spec");
    let report = report_path(name);
    let mut command = Command::new(&program);
    command.arg("--host").arg(address.ip().to_string()).arg("--port").arg(address.port().to_string());
    command.args(["--strict", "--timeout", FRAME_TIMEOUT, "--junit-report"]).arg(&report);
    command.stdin(Stdio::null()).kill_on_drop(true);
    // Its status shows whether all cases passed, which the report has case by case.
    let output = command.output().await.unwrap();
    let text = std::fs::read_to_string(&report).unwrap_or_else(|error| {
        panic!("no report: {error}: {}", String::from_utf8_lossy(&output.stdout));
    });
    std::fs::remove_file(&report).unwrap();
    report::parse(&text)
}

fn report_path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("h2spec-{name}-{}.xml", std::process::id()))
}
