//! Process: a started program with its log in a file.
//!
//! It is signalled by its process id, never by name. The program is executed by `setpriv`, which
//! sets its parent death signal: the kernel terminates it when this process ends first, for
//! whatever reason. nginx and haproxy end their own children on SIGTERM.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal};

use super::clock;
use super::cpu_time::fields;

/// Time to end after SIGTERM. Nothing is left to drain; a binary with counters writes them.
const TERMINATION_GRACE: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_micros(100);
/// Longest wait for a program to run and to listen.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// A program and its command line.
#[derive(Debug)]
pub struct Program {
    /// Path of the executable.
    pub path: PathBuf,
    /// Command line without the program's name.
    pub arguments: Vec<OsString>,
    /// Environment variables in addition to this process's.
    pub environment: Vec<(&'static str, OsString)>,
    /// File for the program's output.
    pub log: PathBuf,
}

/// A started program; dropping it ends the program.
pub struct Process {
    child: Child,
    program: Program,
    spawned: Instant,
}

// === impl Process ===

impl Process {
    /// Starts the program.
    ///
    /// # Errors
    /// When the program or `setpriv` cannot be run.
    pub fn start(program: Program) -> Result<Self> {
        let log = File::create(&program.log).with_context(|| program.log.display().to_string())?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "--"]).arg(&program.path).args(&program.arguments);
        command.envs(program.environment.iter().cloned());
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let spawned = clock::now();
        let child = command.spawn().context("cannot run setpriv, of Debian's util-linux")?;
        Ok(Self { child, program, spawned })
    }

    /// Waits until `setpriv` has executed the program, and returns the last time at which it had
    /// not.
    ///
    /// It polls without a pause, so the returned time is only microseconds early. On a busy machine
    /// it is earlier, which makes a start seem longer, never shorter.
    ///
    /// # Errors
    /// When the program ends, or does not run in time.
    pub fn wait_for_exec(&mut self) -> Result<Instant> {
        let (image, program) = (format!("/proc/{}/exe", self.child.id()), self.program.path.canonicalize()?);
        let mut before = self.spawned;
        self.wait_until("run", Duration::ZERO, || {
            let polled = clock::now();
            let runs = fs::read_link(&image).is_ok_and(|image| image == program);
            before = if runs { before } else { polled };
            runs
        })?;
        Ok(before)
    }

    /// Waits until the program accepts connections, and returns that time.
    ///
    /// # Errors
    /// When the program ends, or does not listen in time.
    pub fn wait_for_listening(&mut self, address: SocketAddr) -> Result<Instant> {
        self.wait_until("listen", POLL_INTERVAL, || TcpStream::connect(address).is_ok())
    }

    /// Polls `condition` until it holds, and returns that time.
    fn wait_until(
        &mut self,
        what: &str,
        pause: Duration,
        mut condition: impl FnMut() -> bool,
    ) -> Result<Instant> {
        let end = clock::now() + START_TIMEOUT;
        loop {
            if condition() {
                return Ok(clock::now());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended with {status}: {}", self.program.path.display(), self.output());
            }
            if clock::now() > end {
                bail!("{} does not {what}: {}", self.program.path.display(), self.output());
            }
            thread::sleep(pause);
        }
    }

    /// The program's output so far.
    pub fn output(&self) -> String {
        fs::read_to_string(&self.program.log).unwrap_or_default().trim().to_owned()
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        signal(self.child.id(), Signal::TERM);
    }

    /// Sends SIGKILL.
    pub fn kill(&self) {
        signal(self.child.id(), Signal::KILL);
    }

    /// Process id; `setpriv` and the program share it.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Process ids of the program and all its descendants.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn family(&self) -> Result<Vec<u32>> {
        Ok(descendants(self.child.id(), &parents(Path::new("/proc"))?))
    }

    /// Sends SIGTERM and waits for the end.
    ///
    /// # Errors
    /// When the program does not end `within` that time; it is killed then.
    pub fn finish(mut self, within: Duration) -> Result<()> {
        self.terminate();
        ensure!(self.ends(within)?, "{} does not end: {}", self.program.path.display(), self.output());
        Ok(())
    }

    /// Whether the program ends `within` that time.
    fn ends(&mut self, within: Duration) -> Result<bool> {
        let deadline = clock::now() + within;
        while self.child.try_wait()?.is_none() {
            if clock::now() > deadline {
                return Ok(false);
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(true)
    }

    fn end(&mut self) -> Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        let family = self.family()?;
        self.terminate();
        if !self.ends(TERMINATION_GRACE)? {
            for process in family {
                signal(process, Signal::KILL);
            }
            self.child.wait()?;
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("cannot end {} ({}): {error:#}", self.program.path.display(), self.child.id());
        }
    }
}

/// Ignores the error of a process that has ended.
fn signal(process: u32, signal: Signal) {
    if let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(process, signal);
    }
}

/// Every process id with its parent's.
fn parents(proc: &Path) -> io::Result<Vec<(u32, u32)>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir(proc)? {
        let entry = entry?;
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        match fs::read_to_string(entry.path().join("stat")) {
            Ok(stat) => parents.extend(parent(&stat).map(|parent| (process, parent))),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound) => {}
            // ESRCH: it ended between the opening and the reading.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(parents)
}

fn parent(stat: &str) -> Option<u32> {
    fields(stat)?.nth(1)?.parse().ok()
}

fn descendants(root: u32, parents: &[(u32, u32)]) -> Vec<u32> {
    let mut family = vec![root];
    let mut visited = 0;
    while let Some(&parent) = family.get(visited) {
        visited += 1;
        family.extend(parents.iter().filter(|(_, its)| *its == parent).map(|(child, _)| child));
    }
    family
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn family_has_all_generations() {
        let parents = [(1, 0), (20, 1), (21, 20), (22, 20), (30, 1), (23, 22)];
        assert_eq!(descendants(20, &parents), [20, 21, 22, 23]);
        assert_eq!(descendants(99, &parents), [99]);
    }

    #[test]
    fn reads_parent_from_the_second_field_after_the_name() {
        assert_eq!(parent("21 (nginx: worker) process) S 20 20 20 0 -1"), Some(20));
        assert_eq!(parent("21 nginx"), None);
    }

    #[test]
    fn lists_this_process() {
        let ours = std::process::id();
        assert!(parents(Path::new("/proc")).unwrap().iter().any(|(process, _)| *process == ours));
    }

    #[test]
    fn reports_status_and_output_of_a_program_that_ends_early() {
        let program = Program {
            path: "/bin/sh".into(),
            arguments: vec!["-c".into(), "echo no such port; exit 3".into()],
            environment: Vec::new(),
            log: std::env::temp_dir().join(format!("bench-proxies-{}.log", std::process::id())),
        };
        let log = program.log.clone();
        let mut process = Process::start(program).unwrap();
        let error = process.wait_for_listening("127.0.0.1:1".parse().unwrap()).unwrap_err().to_string();
        fs::remove_file(log).unwrap();
        assert!(error.contains("status: 3: no such port"), "{error}");
    }
}
