//! Steps the clock of one process, and of no other one on the machine.
//!
//! Programs read the time in the page that the kernel maps into each process (`[vdso]`). This
//! replaces the function there by one that makes the system call and adds the step. The time that
//! timers use (`CLOCK_MONOTONIC`) stays as it is, as on a machine with a stepped clock.
//!
//! The process is stopped while its code is replaced, at a moment at which no thread runs it.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use system_tests::cluster::container_process::signal;

/// Machine code, so the only function of the kernel that it can replace is that of this
/// architecture.
const ARCHITECTURE: &str = "x86_64";
const FUNCTION: &[u8] = b"__vdso_clock_gettime\0";
/// Tags of ELF's dynamic section, and its type of program header.
const SYMBOLS: u64 = 6;
const STRINGS: u64 = 5;
const DYNAMIC: u64 = 2;
/// Size of a symbol, and of a program header.
const SYMBOL: usize = 24;
const PROGRAM_HEADER: usize = 56;

/// Attempts to stop a process outside of the function, and the time for all threads to stop.
const ATTEMPTS: usize = 100;
const STOP_TIME: Duration = Duration::from_millis(2);

/// The clock of a process, stepped until dropped.
pub(crate) struct SteppedClock {
    process: u32,
    vdso: Range<u64>,
    memory: File,
    address: u64,
    original: Vec<u8>,
}

/// Adds so many seconds to the clock of a process.
///
/// # Errors
/// On another architecture, and when this user may not write to the process's memory.
pub(crate) fn step(process: u32, seconds: i32) -> Result<SteppedClock> {
    ensure!(std::env::consts::ARCH == ARCHITECTURE, "clocks can be stepped on {ARCHITECTURE} only");
    let memory = File::options().read(true).write(true).open(format!("/proc/{process}/mem"))?;
    let (start, end) = mapping(&fs::read_to_string(format!("/proc/{process}/maps"))?)?;
    let mut image = vec![0; usize::try_from(end - start)?];
    memory.read_exact_at(&mut image, start)?;
    let offset = function(&image).context("the vdso has no clock_gettime")?;
    let code = code(seconds);
    let original = image.get(offset..offset + code.len()).context("the vdso ends early")?.to_vec();
    let address = start + u64::try_from(offset)?;
    let clock = SteppedClock { process, vdso: start..end, memory, address, original };
    clock.replace(&code)?;
    Ok(clock)
}

fn mapping(maps: &str) -> Result<(u64, u64)> {
    let line = maps.lines().find(|line| line.ends_with("[vdso]")).context("the process has no vdso")?;
    let (start, rest) = line.split_once('-').context("no range")?;
    let end = rest.split(' ').next().unwrap_or_default();
    Ok((u64::from_str_radix(start, 16)?, u64::from_str_radix(end, 16)?))
}

/// Where the function begins in the image of the vdso.
fn function(image: &[u8]) -> Option<usize> {
    let headers = usize::try_from(number(image, 32, 8)?).ok()?;
    let count = number(image, 56, 2)?;
    let mut all = (0..usize::try_from(count).ok()?).map(|i| headers + i * PROGRAM_HEADER);
    let dynamic = all.find(|at| number(image, *at, 4) == Some(DYNAMIC))?;
    let dynamic = usize::try_from(number(image, dynamic + 8, 8)?).ok()?;
    let tag = |wanted| {
        let entries = (dynamic..image.len()).step_by(16);
        let mut entries = entries
            .map_while(|at| number(image, at, 8).filter(|tag| *tag != 0).zip(number(image, at + 8, 8)));
        entries.find(|(tag, _)| *tag == wanted).and_then(|(_, value)| usize::try_from(value).ok())
    };
    let (symbols, strings) = (tag(SYMBOLS)?, tag(STRINGS)?);
    // The strings follow the symbols.
    let mut symbols = (symbols..strings).step_by(SYMBOL);
    let symbol = symbols.find(|at| {
        let name = number(image, *at, 4).and_then(|name| usize::try_from(name).ok());
        name.and_then(|name| image.get(strings + name..)).is_some_and(|name| name.starts_with(FUNCTION))
    })?;
    usize::try_from(number(image, symbol + 8, 8)?).ok()
}

fn number(image: &[u8], at: usize, bytes: usize) -> Option<u64> {
    let mut value = [0; 8];
    value.get_mut(..bytes)?.copy_from_slice(image.get(at..at + bytes)?);
    Some(u64::from_le_bytes(value))
}

fn code(seconds: i32) -> Vec<u8> {
    let parts: [&[u8]; 7] = [
        &[0xb8, 0xe4, 0, 0, 0],    // mov eax, 228: the system call clock_gettime
        &[0x0f, 0x05],             // syscall
        &[0x85, 0xc0, 0x75, 0x0b], // test eax, eax; jne to the end: it failed
        &[0x85, 0xff, 0x75, 0x07], // test edi, edi; jne to the end: not CLOCK_REALTIME
        &[0x48, 0x81, 0x06],       // add qword [rsi], the step
        &seconds.to_le_bytes(),
        &[0xc3], // ret
    ];
    parts.concat()
}

// === impl SteppedClock ===

impl SteppedClock {
    fn replace(&self, code: &[u8]) -> Result<()> {
        for _ in 0..ATTEMPTS {
            signal(self.process, "STOP")?;
            std::thread::sleep(STOP_TIME);
            let is_outside = self.is_outside();
            let written = is_outside.then(|| self.memory.write_all_at(code, self.address));
            signal(self.process, "CONT")?;
            if let Some(written) = written {
                return Ok(written?);
            }
        }
        bail!("process {} always runs the function", self.process)
    }

    /// Whether all threads are stopped elsewhere. The last field of `syscall` is the address of the
    /// next instruction, or the word `running`.
    fn is_outside(&self) -> bool {
        let address = |thread: &Path| {
            let state = fs::read_to_string(thread.join("syscall")).ok()?;
            u64::from_str_radix(state.split_whitespace().last()?.strip_prefix("0x")?, 16).ok()
        };
        let is_outside = |thread: &Path| address(thread).is_some_and(|at| !self.vdso.contains(&at));
        let threads = fs::read_dir(format!("/proc/{}/task", self.process));
        threads.is_ok_and(|mut all| all.all(|thread| thread.is_ok_and(|thread| is_outside(&thread.path()))))
    }
}

impl Drop for SteppedClock {
    fn drop(&mut self) {
        // Fails when the process has ended.
        let _ = self.replace(&self.original);
    }
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::process::{ChildStdin, ChildStdout, Command, Stdio};

    use super::*;

    const ANSWER: &str = "now ";

    /// A process that is this program, and prints its time for each line.
    struct Clock {
        input: ChildStdin,
        output: BufReader<ChildStdout>,
    }

    impl Clock {
        /// Seconds by which it is ahead of this process.
        fn ahead(&mut self) -> i64 {
            writeln!(self.input).unwrap();
            let answer = self.output.by_ref().lines().find_map(|line| {
                line.unwrap().strip_prefix(ANSWER).map(|seconds| seconds.parse::<i64>().unwrap())
            });
            answer.unwrap() - now()
        }
    }

    fn now() -> i64 {
        i64::try_from(component_base::clock::since_epoch().as_secs()).unwrap()
    }

    #[test]
    #[ignore = "the other test starts it as a process"]
    fn prints_time_for_each_line() {
        for _ in std::io::stdin().lines().take_while(Result::is_ok) {
            // Behind the name of the test, which has no end of line.
            println!("\n{ANSWER}{}", now());
        }
    }

    #[test]
    fn steps_the_clock_of_one_process_and_back() {
        let name = format!("{}::prints_time_for_each_line", module_path!().split_once("::").unwrap().1);
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &name, "--ignored", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut clock = Clock { input, output: BufReader::new(output) };
        assert!(clock.ahead().abs() < 60);
        let stepped = step(process.id(), -3600).unwrap();
        assert!((clock.ahead() + 3600).abs() < 60);
        drop(stepped);
        assert!(clock.ahead().abs() < 60);
        process.kill().unwrap();
        process.wait().unwrap();
    }
}
