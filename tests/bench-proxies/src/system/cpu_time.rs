//! CPU time of processes with all their threads, read from `/proc`.
//!
//! `schedstat` has nanoseconds for each thread. `stat` splits user and system time, but in ticks of
//! 10 ms, which is too coarse for a run of one second. So the total comes from `schedstat` and the
//! kernel's share from `stat`.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

/// CPU time of some processes from their start up to now.
#[derive(Clone, Debug, Default)]
pub struct CpuTime {
    by_thread: HashMap<u32, Duration>,
    ticks: Ticks,
}

/// CPU time in clock ticks, usually of 10 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ticks {
    /// User time.
    pub user: u64,
    /// System time.
    pub system: u64,
    /// User and system time of reaped children.
    pub children: u64,
}

/// CPU time between two readings.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuTimeUsed {
    /// User and system time.
    pub total: Duration,
    /// Share of system time, 0 to 1.
    pub kernel: f64,
}

// === impl CpuTime ===

impl CpuTime {
    /// Reads the CPU time of these processes.
    ///
    /// # Errors
    /// When a process has ended.
    pub fn of(processes: &[u32]) -> Result<Self> {
        let mut sum = Self::default();
        for process in processes {
            let ticks = Ticks::of(&process.to_string())?;
            sum.ticks.user += ticks.user;
            sum.ticks.system += ticks.system;
            sum.read_threads(Path::new(&format!("/proc/{process}/task")))?;
        }
        Ok(sum)
    }

    fn read_threads(&mut self, tasks: &Path) -> Result<()> {
        for task in fs::read_dir(tasks).with_context(|| tasks.display().to_string())? {
            let task = task?;
            // A thread may end between the listing and the read.
            let Ok(text) = fs::read_to_string(task.path().join("schedstat")) else { continue };
            let thread = task.file_name().to_string_lossy().parse()?;
            let used = run_time(&text).with_context(|| format!("unknown form of schedstat: {text:?}"))?;
            self.by_thread.insert(thread, used);
        }
        Ok(())
    }

    /// CPU time used since `before`, without the CPU time of threads that have ended since.
    pub fn since(&self, before: &Self) -> CpuTimeUsed {
        let of_thread = |(thread, used): (&u32, &Duration)| {
            used.saturating_sub(before.by_thread.get(thread).copied().unwrap_or_default())
        };
        let system = self.ticks.system.saturating_sub(before.ticks.system) as f64;
        let user = self.ticks.user.saturating_sub(before.ticks.user) as f64;
        CpuTimeUsed {
            total: self.by_thread.iter().map(of_thread).sum(),
            kernel: system / (system + user).max(1.0),
        }
    }
}

// === impl Ticks ===

impl Ticks {
    /// Ticks of one process, given by its id or as `self`.
    ///
    /// # Errors
    /// When it has ended.
    pub fn of(process: &str) -> Result<Self> {
        let path = format!("/proc/{process}/stat");
        let text = fs::read_to_string(&path).with_context(|| path.clone())?;
        Self::parse(&text).with_context(|| format!("unknown form of {path}: {text:?}"))
    }

    fn parse(stat: &str) -> Option<Self> {
        let field = |name: usize| fields(stat)?.nth(name).and_then(|field| field.parse().ok());
        let times: [Option<u64>; 4] = [11, 12, 13, 14].map(field);
        let [Some(user), Some(system), Some(children_user), Some(children_system)] = times else {
            return None;
        };
        Some(Self { user, system, children: children_user + children_system })
    }

    /// User, system and children's ticks.
    pub fn total(self) -> u64 {
        self.user + self.system + self.children
    }
}

/// The fields of `/proc/<pid>/stat` after the program's name, which may contain blanks and
/// parentheses.
pub fn fields(stat: &str) -> Option<impl Iterator<Item = &str>> {
    Some(stat.rsplit_once(')')?.1.split_ascii_whitespace())
}

fn run_time(schedstat: &str) -> Option<Duration> {
    schedstat.split_ascii_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "71 (nginx: a) b) S 70 71 70 0 -1 4194624 171 5 0 0 1234 567 89 10 20 0 1 0 99 1 2 3";

    fn used(threads: &[(u32, u64)], user: u64, system: u64) -> CpuTime {
        let by_thread = threads.iter().map(|(id, ms)| (*id, Duration::from_millis(*ms))).collect();
        CpuTime { by_thread, ticks: Ticks { user, system, children: 0 } }
    }

    #[test]
    fn parses_stat_with_blanks_and_parentheses_in_the_name() {
        assert_eq!(Ticks::parse(STAT), Some(Ticks { user: 1234, system: 567, children: 99 }));
        assert_eq!(Ticks::parse("71 (nginx) S 70 71"), None);
        assert_eq!(Ticks::parse(""), None);
    }

    #[test]
    fn reads_run_time_from_the_first_field_of_schedstat() {
        assert_eq!(run_time("2500000 77 3\n"), Some(Duration::from_micros(2500)));
        assert_eq!(run_time(""), None);
    }

    #[test]
    fn counts_only_threads_of_the_second_reading() {
        let (before, after) = (used(&[(1, 10), (2, 500)], 40, 11), used(&[(1, 25), (3, 5)], 41, 14));
        let used = after.since(&before);
        assert_eq!(used.total, Duration::from_millis(20));
        assert_eq!(used.kernel, 0.75);
    }

    #[test]
    fn reads_cpu_time_of_this_process() {
        let ours = std::process::id();
        assert!(!CpuTime::of(&[ours]).unwrap().by_thread.is_empty());
        assert!(CpuTime::of(&[u32::MAX]).is_err());
    }
}
