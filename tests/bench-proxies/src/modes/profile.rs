//! `--profile`: a perf profile of one proxy under saturating load.
//!
//! perf needs symbols for function names and frame pointers for call chains: `make
//! bench-proxies-profile` builds a binary with both.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::proxies::Proxy;
use crate::traffic::{Generator, RequestRate};

const CONNECTIONS: usize = 64;
const WARM_UP: Duration = Duration::from_millis(500);
const RECORDING: Duration = Duration::from_secs(10);
/// perf attaches before the recording and writes its file after it.
const MARGIN: Duration = Duration::from_secs(1);
/// Samples per second; not a round number, which would coincide with timers.
const FREQUENCY: u32 = 1999;
/// Smallest share that is printed, in percent.
const LEAST_SHARE: &str = "0.4";

/// Records the proxy under load and prints its CPU time by library and by function.
///
/// # Errors
/// When the proxy or perf fails.
pub(crate) fn run(proxy: &Proxy, backend: SocketAddr, directory: &Path, threads: usize) -> Result<()> {
    let mut running = proxy.start(backend, directory)?;
    running.process.wait_for_listening(running.address)?;
    let mut generator = Generator::connect(running.address, CONNECTIONS, threads)?;
    generator.run(RequestRate::Saturating, WARM_UP)?;

    let file = directory.join("perf.data");
    let processes: Vec<_> = running.process.family()?.iter().map(u32::to_string).collect();
    let mut perf = Command::new("perf")
        // A virtual machine may have no cycle counter.
        .args(["record", "--quiet", "--event=cpu-clock", "-g", "--freq", &FREQUENCY.to_string()])
        .arg("--output")
        .arg(&file)
        .args(["--pid", &processes.join(","), "--", "sleep", &RECORDING.as_secs().to_string()])
        .stdin(Stdio::null())
        .spawn()
        .context("cannot run perf, of Debian's linux-perf")?;
    let loaded = generator.run(RequestRate::Saturating, RECORDING + MARGIN);
    let status = perf.wait()?;
    let stats = loaded?;
    ensure!(status.success(), "perf: {status}");

    println!("{}: {:.0} requests per second during the recording", proxy.name, stats.rate());
    println!("\nby library");
    print_report(&file, "--fields=overhead,dso")?;
    println!("\nby function");
    print_report(&file, "--fields=overhead,dso,symbol")?;
    println!("\ncall chains: perf report --input {}", file.display());
    Ok(())
}

fn print_report(file: &Path, fields: &str) -> Result<()> {
    let output = Command::new("perf")
        .args([OsStr::new("report"), OsStr::new("--stdio"), OsStr::new("--input"), file.as_os_str()])
        .args(["--no-children", "--call-graph=none", "--percent-limit", LEAST_SHARE])
        .arg(fields)
        .output()?;
    ensure!(output.status.success(), "perf report: {}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8_lossy(&output.stdout);
    for line in printed.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        println!("{}", line.trim_end());
    }
    Ok(())
}
