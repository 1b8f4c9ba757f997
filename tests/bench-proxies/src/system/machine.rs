//! The machine of a run: its description, and the CPU time that other programs used during the run.
//!
//! Figures from a busy machine are not reliable, so each run prints this interference.

use std::fmt;
use std::fs;
use std::thread::available_parallelism;

use anyhow::{Context, Result};

use super::cpu_time::Ticks;

/// Share of the machine's CPU time. A run with more interference prints a warning.
const TOLERATED: f64 = 0.05;

/// All CPU time since boot, in ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct MachineCpuTime {
    busy: u64,
    idle: u64,
    /// Used by other virtual machines on the same host.
    stolen: u64,
}

/// Measures interference from its start on.
pub struct InterferenceMonitor {
    all: MachineCpuTime,
    ours: u64,
}

/// Shares of the machine's CPU time.
pub struct Interference {
    other_programs: f64,
    stolen: f64,
}

/// Cores that this process may use.
pub fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// The machine's processor, kernel and load average, in one line.
pub fn describe() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let load = read("/proc/loadavg");
    format!(
        "{} cores ({}), Linux {}, load average {}",
        cores(),
        model.trim_start_matches([' ', '\t', ':']),
        read("/proc/sys/kernel/osrelease").trim(),
        load.split(' ').take(3).collect::<Vec<_>>().join(" ")
    )
}

// === impl InterferenceMonitor ===

impl InterferenceMonitor {
    /// Begins to measure.
    ///
    /// # Errors
    /// When `/proc` cannot be parsed.
    pub fn start() -> Result<Self> {
        Ok(Self { all: MachineCpuTime::now()?, ours: Ticks::of("self")?.total() })
    }

    /// CPU time used since the start by anything but this process and its reaped children.
    ///
    /// # Errors
    /// When `/proc` cannot be parsed.
    pub fn interference(&self) -> Result<Interference> {
        let (all, ours) = (MachineCpuTime::now()?, Ticks::of("self")?.total().saturating_sub(self.ours));
        let busy = all.busy.saturating_sub(self.all.busy);
        let stolen = all.stolen.saturating_sub(self.all.stolen);
        let sum = (busy + stolen + all.idle.saturating_sub(self.all.idle)).max(1) as f64;
        Ok(Interference {
            other_programs: busy.saturating_sub(ours) as f64 / sum,
            stolen: stolen as f64 / sum,
        })
    }
}

// === impl Interference ===

impl fmt::Display for Interference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [programs, machines] = [self.other_programs, self.stolen].map(|share| share * 100.0);
        write!(
            f,
            "interference: other programs {programs:.1} % of the machine's CPU time, other virtual machines {machines:.1} %"
        )?;
        let unreliable = self.other_programs + self.stolen > TOLERATED;
        f.write_str(if unreliable { "; the figures are unreliable" } else { "" })
    }
}

// === impl MachineCpuTime ===

impl MachineCpuTime {
    fn now() -> Result<Self> {
        let text = fs::read_to_string("/proc/stat").context("/proc/stat")?;
        Self::parse(&text).context("unknown form of /proc/stat")
    }

    fn parse(stat: &str) -> Option<Self> {
        let times: Option<Vec<u64>> = stat
            .lines()
            .next()?
            .strip_prefix("cpu ")?
            .split_ascii_whitespace()
            .map(|time| time.parse().ok())
            .collect();
        let [user, nice, system, idle, waiting, irq, softirq, stolen, ..] = times?[..] else { return None };
        Some(Self { busy: user + nice + system + irq + softirq, idle: idle + waiting, stolen })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_machine_cpu_time_from_the_first_line_of_stat() {
        let stat = "cpu  100 1 20 700 7 3 4 50 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(MachineCpuTime::parse(stat), Some(MachineCpuTime { busy: 128, idle: 707, stolen: 50 }));
        assert_eq!(MachineCpuTime::parse("cpu0 1 2 3 4 5 6 7 8 9 10\n"), None);
        assert_eq!(MachineCpuTime::parse("cpu  1 2 3\n"), None);
    }
}
