//! Logs of clients and pods, and the idle time of pods while requests waited.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Request;
use tokio::runtime::Runtime;
use tokio::time::Instant;

pub const NUMBER: &str = "request-number";
/// Time that its work takes, in milliseconds.
pub const TAKES: &str = "request-takes";

/// One request on its pod.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub number: usize,
    pub began: Instant,
    pub ended: Instant,
}

/// The result of a run.
#[derive(Debug)]
pub struct Figures {
    pub requests: usize,
    /// How long a request was pending while a pod was idle between two of its requests: the median,
    /// the 99.9th percentile and the maximum of these times.
    pub idle_while_waiting: [Duration; 3],
    /// Requests of the busiest pod relative to the least busy pod, minus 1.
    pub spread: f64,
}

/// Measures every millisecond how late a timer fires, until dropped: the longest stall of the
/// machine.
pub struct Stalls {
    longest: Arc<Mutex<Duration>>,
    runtime: Option<Runtime>,
}

impl Stalls {
    pub fn watch() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let longest = Arc::new(Mutex::new(Duration::ZERO));
        let seen = longest.clone();
        runtime.spawn(async move {
            loop {
                let before = Instant::now();
                tokio::time::sleep(Duration::from_millis(1)).await;
                let mut longest = seen.lock().unwrap();
                *longest = (*longest).max(before.elapsed());
            }
        });
        Self { longest, runtime: Some(runtime) }
    }

    pub fn longest(&self) -> Duration {
        *self.longest.lock().unwrap()
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Number and work of a request that has them.
pub fn number_and_work<B>(request: &Request<B>) -> Option<(usize, Duration)> {
    let read = |name| request.headers().get(name)?.to_str().ok()?.parse::<u64>().ok();
    Some((read(NUMBER)? as usize, Duration::from_millis(read(TAKES)?)))
}

impl Figures {
    /// From each pod's log and the moments at which requests were sent, by their numbers.
    pub fn of(pods: &[Vec<Work>], sent: &[Instant]) -> Self {
        let mut waits: Vec<(Instant, Instant)> =
            pods.iter().flatten().map(|work| (sent[work.number], work.began)).collect();
        waits.sort_unstable();
        let longest_wait = waits.iter().map(|(sent, began)| *began - *sent).max().unwrap_or_default();
        let overlap = |(ended, next): (Instant, Instant)| {
            let from = waits.partition_point(|(sent, _)| *sent + longest_wait < ended);
            let together =
                |(sent, began): &(Instant, Instant)| (*began).min(next).duration_since((*sent).max(ended));
            waits[from..].iter().take_while(|(sent, _)| *sent < next).map(together).max()
        };
        let idle = pods.iter().flat_map(|log| {
            let mut log = log.clone();
            log.sort_unstable_by_key(|work| work.began);
            log.windows(2).map(|pair| (pair[0].ended, pair[1].began)).collect::<Vec<_>>()
        });
        let served = || pods.iter().map(|log| log.len() as f64);
        let (most, least) = (served().fold(0.0, f64::max), served().fold(f64::INFINITY, f64::min));
        let mut idle: Vec<Duration> = idle.filter_map(overlap).collect();
        idle.sort_unstable();
        let of_idle = |part: f64| {
            let at = (idle.len() as f64 * part) as usize;
            idle.get(at.min(idle.len().saturating_sub(1))).copied().unwrap_or_default()
        };
        Self {
            requests: waits.len(),
            idle_while_waiting: [0.5, 0.999, 1.0].map(of_idle),
            spread: most / least - 1.0,
        }
    }
}
