//! The program itself: the system's, or Debian's, unpacked into the cache where the system has
//! none.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::OnceLock;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// What each transfer is asked for at its end, in a line of its own on standard error.
const SUMMARY: &str = "%{stderr}\nsummary %{http_version} %{response_code} %{num_connects}\n";

/// A command line that grows.
#[derive(Clone, Debug)]
pub(super) struct Curl {
    arguments: Vec<String>,
    version: Option<&'static str>,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Got {
    /// Of all transfers.
    pub(super) body: Vec<u8>,
    /// Of the last.
    pub(super) status: u16,
    /// Made by all transfers.
    pub(super) connections: u32,
    /// What was said on standard error.
    pub(super) told: String,
}

/// curl, which neither reads a configuration nor uses a proxy of the environment.
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

    /// Every transfer is to be in this version.
    pub(super) fn expecting(self, version: &'static str) -> Self {
        Self { version: Some(version), ..self }
    }

    pub(super) async fn run(self, arguments: &[&str], input: &[u8]) -> Got {
        let (program, environment) = PROGRAM.get_or_init(find);
        let mut command = Command::new(program);
        command.args(&self.arguments).args(arguments).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.envs(environment.iter().cloned());
        let mut child = command.spawn().unwrap();
        let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_vec());
        // It need not read what nobody wants.
        tokio::spawn(async move { stdin.write_all(&input).await });
        let output = child.wait_with_output().await.unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {}: {told}", output.status);
        self.read(output.stdout, told)
    }

    fn read(&self, body: Vec<u8>, told: String) -> Got {
        let transfers: Vec<Vec<&str>> = told
            .lines()
            .filter_map(|line| line.strip_prefix("summary "))
            .map(|summary| summary.split(' ').collect())
            .collect();
        let last = transfers.last().expect("a summary");
        let version_is = |version| transfers.iter().all(|transfer| transfer[0] == version);
        assert!(self.version.is_none_or(version_is), "{transfers:?}");
        Got {
            status: last[1].parse().unwrap(),
            connections: transfers.iter().map(|transfer| transfer[2].parse::<u32>().unwrap()).sum(),
            body,
            told,
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
