//! The curl program: the system's, or Debian's package unpacked into the cache.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::OnceLock;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Summary of each transfer, on a line of its own on standard error.
const SUMMARY: &str = "%{stderr}\nsummary %{http_version} %{response_code} %{num_connects}\n";

/// Builder of a command line.
#[derive(Clone, Debug)]
pub(super) struct Curl {
    arguments: Vec<String>,
    version: Option<&'static str>,
}

/// Output of a run.
#[derive(Debug)]
pub(super) struct CurlOutput {
    /// Bodies of all transfers.
    pub(super) body: Vec<u8>,
    /// Status of the last transfer.
    pub(super) status: u16,
    /// Connections of all transfers.
    pub(super) connections: u32,
    /// Text on standard error.
    pub(super) stderr: String,
}

/// curl without its configuration file and without the proxy of the environment.
pub(super) fn curl() -> Curl {
    let quiet = ["--disable", "--silent", "--show-error", "--noproxy", "*", "--write-out", SUMMARY];
    Curl { arguments: quiet.map(str::to_owned).to_vec(), version: None }
}

// === impl Curl ===

impl Curl {
    pub(super) fn arg(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Requires this HTTP version for all transfers.
    pub(super) fn expecting(self, version: &'static str) -> Self {
        Self { version: Some(version), ..self }
    }

    pub(super) async fn run(self, arguments: &[&str], input: &[u8]) -> CurlOutput {
        let (program, environment) = PROGRAM.get_or_init(find);
        let mut command = Command::new(program);
        command.args(&self.arguments).args(arguments).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.envs(environment.iter().cloned());
        let mut child = command.spawn().unwrap();
        let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_vec());
        // curl may end without reading all of its input.
        tokio::spawn(async move { stdin.write_all(&input).await });
        let output = child.wait_with_output().await.unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {}: {stderr}", output.status);
        self.read(output.stdout, stderr)
    }

    fn read(&self, body: Vec<u8>, stderr: String) -> CurlOutput {
        let transfers: Vec<Vec<&str>> = stderr
            .lines()
            .filter_map(|line| line.strip_prefix("summary "))
            .map(|summary| summary.split(' ').collect())
            .collect();
        let last = transfers.last().expect("a summary");
        let version_is = |version| transfers.iter().all(|transfer| transfer[0] == version);
        assert!(self.version.is_none_or(version_is), "{transfers:?}");
        CurlOutput {
            status: last[1].parse().unwrap(),
            connections: transfers.iter().map(|transfer| transfer[2].parse::<u32>().unwrap()).sum(),
            body,
            stderr,
        }
    }
}

static PROGRAM: OnceLock<(PathBuf, Vec<(&'static str, OsString)>)> = OnceLock::new();

fn find() -> (PathBuf, Vec<(&'static str, OsString)>) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(curl) =
        std::env::split_paths(&path).map(|place| place.join("curl")).find(|curl| curl.exists())
    {
        return (curl, Vec::new());
    }
    let cache = std::env::var_os("ROUSE_CACHE").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").expect("a home")).join(".cache/rouse"),
        PathBuf::from,
    );
    let unpacked = bench_proxies::debian::ensure(&cache.join("curl"), &["curl"], &["usr/bin/curl"]).unwrap();
    (unpacked.root.join("usr/bin/curl"), unpacked.environment())
}
