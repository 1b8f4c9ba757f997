//! The machine at the time of a run: what it is, and how much of it others used meanwhile.
//!
//! Figures from a busy machine are no figures; so a run says how busy it was.

use std::fmt;
use std::fs;
use std::thread::available_parallelism;

use anyhow::{Context, Result};

use crate::cpu_time::Ticks;

/// Disturbance, as a share of the machine, beyond which a run says that it was disturbed.
const BEARABLE: f64 = 0.05;

/// All CPU time since boot, in ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Total {
    busy: u64,
    idle: u64,
    /// Taken by other machines on the same host.
    stolen: u64,
}

/// A moment from which on to look.
pub(crate) struct Watch {
    all: Total,
    ours: u64,
}

/// Shares of the machine's CPU time.
pub(crate) struct Disturbance {
    other_programs: f64,
    stolen: f64,
}

/// Cores that this process may use.
pub(crate) fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// What the machine is and how loaded it has been, in a line.
pub(crate) fn describe() -> String {
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

// === impl Watch ===

impl Watch {
    /// # Errors
    /// When `/proc` is not as Linux has it.
    pub(crate) fn start() -> Result<Self> {
        Ok(Self { all: Total::now()?, ours: Ticks::of("self")?.total() })
    }

    /// What others took since; ours is this process and its children that have ended.
    ///
    /// # Errors
    /// When `/proc` is not as Linux has it.
    pub(crate) fn disturbance(&self) -> Result<Disturbance> {
        let (all, ours) = (Total::now()?, Ticks::of("self")?.total().saturating_sub(self.ours));
        let busy = all.busy.saturating_sub(self.all.busy);
        let stolen = all.stolen.saturating_sub(self.all.stolen);
        let sum = (busy + stolen + all.idle.saturating_sub(self.all.idle)).max(1) as f64;
        Ok(Disturbance {
            other_programs: busy.saturating_sub(ours) as f64 / sum,
            stolen: stolen as f64 / sum,
        })
    }
}

// === impl Disturbance ===

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [programs, machines] = [self.other_programs, self.stolen].map(|share| share * 100.0);
        write!(
            f,
            "Meanwhile other programs used {programs:.1} % of this machine, other machines on its host {machines:.1} %"
        )?;
        let much = self.other_programs + self.stolen > BEARABLE;
        f.write_str(if much { ": too much for figures to be relied on." } else { "." })
    }
}

// === impl Total ===

impl Total {
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
    fn the_first_line_is_the_sum_of_all_cores() {
        let stat = "cpu  100 1 20 700 7 3 4 50 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(Total::parse(stat), Some(Total { busy: 128, idle: 707, stolen: 50 }));
        assert_eq!(Total::parse("cpu0 1 2 3 4 5 6 7 8 9 10\n"), None);
        assert_eq!(Total::parse("cpu  1 2 3\n"), None);
    }
}
