//! A program that runs: started with its log in a file, looked at, and ended by its own id.
//!
//! The kernel itself ends it should this process go first, by Ctrl-C, an error or a kill: `setpriv` asks for that, and becomes the
//! program. nginx and haproxy end their own children on SIGTERM.

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

use crate::clock;
use crate::cpu_time::fields;

/// Time to end by itself. queue-proxy would drain for longer, but nothing is left to drain.
const TERMINATION: Duration = Duration::from_millis(500);
const LOOK_AGAIN: Duration = Duration::from_micros(100);
/// Longest wait for a program to run and to listen.
const START: Duration = Duration::from_secs(10);

/// What to start.
#[derive(Debug)]
pub struct Program {
    /// Where it is.
    pub path: PathBuf,
    /// What it is told.
    pub arguments: Vec<OsString>,
    /// Variables that it has beside this process's.
    pub environment: Vec<(&'static str, OsString)>,
    /// Gets what the program prints.
    pub log: PathBuf,
}

/// A started program.
pub struct Process {
    child: Child,
    program: Program,
    spawned: Instant,
}

// === impl Process ===

impl Process {
    /// Starts it.
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

    /// Waits until the program itself runs, and returns when it did not yet. Looks without a pause, so that this is but some
    /// microseconds too early; on a busy machine more, which makes the start look longer, never shorter.
    ///
    /// # Errors
    /// When it ends, or does not run in time.
    pub fn wait_for_exec(&mut self) -> Result<Instant> {
        let (image, program) = (format!("/proc/{}/exe", self.child.id()), self.program.path.canonicalize()?);
        let mut before = self.spawned;
        self.wait_until("run", Duration::ZERO, || {
            let look = clock::now();
            let runs = fs::read_link(&image).is_ok_and(|image| image == program);
            before = if runs { before } else { look };
            runs
        })?;
        Ok(before)
    }

    /// Waits until it takes connections, and returns when that was.
    ///
    /// # Errors
    /// When it ends, or does not listen in time.
    pub fn wait_for_listening(&mut self, address: SocketAddr) -> Result<Instant> {
        self.wait_until("listen", LOOK_AGAIN, || TcpStream::connect(address).is_ok())
    }

    /// Waits until `is_so`, looking in such intervals, and returns when it was.
    fn wait_until(
        &mut self,
        what: &str,
        pause: Duration,
        mut is_so: impl FnMut() -> bool,
    ) -> Result<Instant> {
        let end = clock::now() + START;
        loop {
            if is_so() {
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

    /// What it printed.
    pub fn output(&self) -> String {
        fs::read_to_string(&self.program.log).unwrap_or_default().trim().to_owned()
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        signal(self.child.id(), Signal::TERM);
    }

    /// Ends it on the spot.
    pub fn kill(&self) {
        signal(self.child.id(), Signal::KILL);
    }

    /// Its own id, also before the program itself runs.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its own id and those of its children, and their children.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn family(&self) -> Result<Vec<u32>> {
        Ok(descendants(self.child.id(), &parents(Path::new("/proc"))?))
    }

    /// Asks it to end, and waits until it has.
    ///
    /// # Errors
    /// When it does not end `within` that; it is killed then.
    pub fn finish(mut self, within: Duration) -> Result<()> {
        self.terminate();
        ensure!(self.ends(within)?, "{} does not end: {}", self.program.path.display(), self.output());
        Ok(())
    }

    /// Whether it ends `within` that.
    fn ends(&mut self, within: Duration) -> Result<bool> {
        let deadline = clock::now() + within;
        while self.child.try_wait()?.is_none() {
            if clock::now() > deadline {
                return Ok(false);
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(true)
    }

    fn end(&mut self) -> Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        let family = self.family()?;
        self.terminate();
        if !self.ends(TERMINATION)? {
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

/// A process that is gone needs no signal.
fn signal(process: u32, signal: Signal) {
    if let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(process, signal);
    }
}

/// Every process, and its parent.
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
    let mut known = 0;
    while let Some(&parent) = family.get(known) {
        known += 1;
        family.extend(parents.iter().filter(|(_, its)| *its == parent).map(|(child, _)| child));
    }
    family
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_all_generations() {
        let parents = [(1, 0), (20, 1), (21, 20), (22, 20), (30, 1), (23, 22)];
        assert_eq!(descendants(20, &parents), [20, 21, 22, 23]);
        assert_eq!(descendants(99, &parents), [99]);
    }

    #[test]
    fn the_parent_is_the_second_field_after_the_name() {
        assert_eq!(parent("21 (nginx: worker) process) S 20 20 20 0 -1"), Some(20));
        assert_eq!(parent("21 nginx"), None);
    }

    #[test]
    fn we_are_among_the_processes() {
        let ours = std::process::id();
        assert!(parents(Path::new("/proc")).unwrap().iter().any(|(process, _)| *process == ours));
    }

    #[test]
    fn a_program_that_ends_says_why() {
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
