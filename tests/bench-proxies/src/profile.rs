//! Where one proxy spends its CPU time under saturating load, as perf sees it.
//!
//! A binary without symbols gives addresses only, one without frame pointers no callers: `make bench-proxies-profile` builds one
//! with both.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::load::{Generator, Pace};
use crate::proxy::Proxy;

const CONNECTIONS: usize = 64;
const WARM_UP: Duration = Duration::from_millis(500);
const RECORDED: Duration = Duration::from_secs(10);
/// perf attaches before the recording and writes after it.
const MARGIN: Duration = Duration::from_secs(1);
/// Times a second; not a round number, so as not to fall in step with timers.
const FREQUENCY: u32 = 1999;
/// Least share of the whole, in percent, that is worth a line.
const WORTH_A_LINE: &str = "0.4";

/// Loads the proxy, records, and prints who used the time.
///
/// # Errors
/// When the proxy or perf fails.
pub(crate) fn run(proxy: &Proxy, backend: SocketAddr, directory: &Path, threads: usize) -> Result<()> {
    let mut running = proxy.start(backend, directory)?;
    running.process.wait_for_listening(running.address)?;
    let mut generator = Generator::connect(running.address, CONNECTIONS, threads)?;
    generator.run(Pace::Saturating, WARM_UP)?;

    let file = directory.join("perf.data");
    let processes: Vec<_> = running.process.family()?.iter().map(u32::to_string).collect();
    let mut perf = Command::new("perf")
        // The machine may be virtual and have no counter of cycles.
        .args(["record", "--quiet", "--event=cpu-clock", "-g", "--freq", &FREQUENCY.to_string()])
        .arg("--output")
        .arg(&file)
        .args(["--pid", &processes.join(","), "--", "sleep", &RECORDED.as_secs().to_string()])
        .stdin(Stdio::null())
        .spawn()
        .context("cannot run perf, of Debian's linux-perf")?;
    let loaded = generator.run(Pace::Saturating, RECORDED + MARGIN);
    let status = perf.wait()?;
    let tally = loaded?;
    ensure!(status.success(), "perf: {status}");

    println!("{}: {:.0} requests a second while recorded", proxy.name, tally.rate());
    println!("\nby part");
    print_report(&file, "--fields=overhead,dso")?;
    println!("\nby function");
    print_report(&file, "--fields=overhead,dso,symbol")?;
    println!("\nCallers: perf report --input {}", file.display());
    Ok(())
}

fn print_report(file: &Path, fields: &str) -> Result<()> {
    let output = Command::new("perf")
        .args([OsStr::new("report"), OsStr::new("--stdio"), OsStr::new("--input"), file.as_os_str()])
        .args(["--no-children", "--call-graph=none", "--percent-limit", WORTH_A_LINE])
        .arg(fields)
        .output()?;
    ensure!(output.status.success(), "perf report: {}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout);
    for line in said.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        println!("{}", line.trim_end());
    }
    Ok(())
}
