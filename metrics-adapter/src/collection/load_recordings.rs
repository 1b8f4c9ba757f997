//! LoadRecordings: the loads that clients of `trace` record at present.
//!
//! Input: the stats that the collector records and the decisions of the multi-scaler. Output: the
//! lines that a client has not read yet. A workload without a client costs one atomic read a stat.
//!
//! What surprises: a recording begins with the first decision after its start, which has the
//! settings and the ready pods. It ends when it was not read for a minute, and with the process: a
//! client then gets [`RecordingError::Ended`].

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use autoscaler::Key;
use autoscaler::scaling::decider::DeciderSpec;
use autoscaler::scaling::replay::{LoadRecording, RecordedLines};
use autoscaler::stats::Stat;
use parking_lot::{Mutex, MutexGuard};

use crate::watches::workloads::Workload;

/// Recordings at a time, of all workloads: at most 3 MiB.
const MAX_RECORDINGS: usize = 16;
/// Time without a read after which a recording ends.
const ABANDONED: Duration = Duration::from_secs(60);

/// The recordings of this process.
#[derive(Debug)]
pub struct LoadRecordings {
    recordings: Mutex<Vec<Recording>>,
    /// Number of recordings, read without the lock.
    active: AtomicUsize,
    /// The id of the next recording. The first one is the time of the start, so that no other
    /// process has used it.
    next_id: Mutex<u64>,
}

#[derive(Debug)]
struct Recording {
    id: u64,
    key: Key,
    read_at: Duration,
    /// `None` before the first decision.
    recorded: Option<LoadRecording>,
}

/// Why a recording cannot be started or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordingError {
    /// Too many loads are being recorded.
    #[error("{MAX_RECORDINGS} loads are being recorded already; one ends a minute after its client")]
    TooMany,
    /// No recording has this id.
    #[error(
        "the recording has ended: it was not read for a minute, another replica leads, or the metric of \
         the workload changed"
    )]
    Ended,
    /// Lines were dropped before they were read.
    #[error("lines were dropped because they were not read in time; read each five seconds")]
    Lost,
}

// === impl LoadRecordings ===

impl Default for LoadRecordings {
    fn default() -> Self {
        let first = u64::try_from(component_base::clock::unix_millis()).unwrap_or_default();
        Self { recordings: Mutex::default(), active: AtomicUsize::new(0), next_id: Mutex::new(first) }
    }
}

impl LoadRecordings {
    /// Starts a recording of a workload, and returns its number.
    ///
    /// # Errors
    /// When there are too many.
    pub fn start(&self, key: &Key, now: Duration) -> Result<u64, RecordingError> {
        let mut recordings = self.kept(now);
        if recordings.len() >= MAX_RECORDINGS {
            return Err(RecordingError::TooMany);
        }
        let mut next_id = self.next_id.lock();
        let id = *next_id;
        *next_id += 1;
        recordings.push(Recording { id, key: key.clone(), read_at: now, recorded: None });
        self.active.store(recordings.len(), Ordering::Relaxed);
        Ok(id)
    }

    /// The lines of a workload's recording from number `from` on.
    ///
    /// # Errors
    /// When it ended, or lines were dropped.
    pub fn read(
        &self,
        key: &Key,
        id: u64,
        from: u64,
        now: Duration,
    ) -> Result<RecordedLines, RecordingError> {
        let mut recordings = self.kept(now);
        let recording = recordings.iter_mut().find(|recording| recording.id == id && recording.key == *key);
        let recording = recording.ok_or(RecordingError::Ended)?;
        recording.read_at = now;
        match &recording.recorded {
            None => Ok(RecordedLines { lines: Vec::new(), next: 0 }),
            Some(recorded) => recorded.lines_from(from).ok_or(RecordingError::Lost),
        }
    }

    /// Adds a stat of a workload for the second `at`.
    pub fn stat(&self, key: &Key, at: Duration, stat: &Stat) {
        if self.active.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut recordings = self.recordings.lock();
        let of_workload = recordings.iter_mut().filter(|recording| recording.key == *key);
        for recorded in of_workload.filter_map(|recording| recording.recorded.as_mut()) {
            recorded.stat(at, stat);
        }
    }

    /// Adds a decision on a workload, made with `spec` for so many ready pods.
    pub fn decision(&self, workload: &Workload, spec: &DeciderSpec, ready: u32, now: Duration) {
        if self.active.load(Ordering::Relaxed) == 0 {
            return;
        }
        let Workload { key, measure, windows, .. } = workload;
        let mut recordings = self.kept(now);
        recordings.retain_mut(|recording| {
            let first = || LoadRecording::new(*measure, *windows, spec, ready, now);
            recording.key != *key
                || recording.recorded.get_or_insert_with(first).decision(*measure, *windows, spec, ready, now)
        });
        self.active.store(recordings.len(), Ordering::Relaxed);
    }

    /// The recordings that were read in the last minute; the others end here.
    fn kept(&self, now: Duration) -> MutexGuard<'_, Vec<Recording>> {
        let mut recordings = self.recordings.lock();
        recordings.retain(|recording| now.saturating_sub(recording.read_at) <= ABANDONED);
        self.active.store(recordings.len(), Ordering::Relaxed);
        recordings
    }
}

#[cfg(test)]
mod tests {
    use autoscaler::contract::metric_name::MetricName;

    use super::*;

    const START: Duration = Duration::from_secs(1_763_000_000);

    fn lines(recordings: &LoadRecordings, id: u64, from: u64, now: Duration) -> Vec<String> {
        let read = recordings.read(&Key::new("shop", "web"), id, from, now).unwrap();
        read.lines.iter().map(|line| serde_json::to_string(line).unwrap()).collect()
    }

    #[test]
    fn records_stats_and_decisions_of_its_workload_from_the_first_decision_on() {
        let recordings = LoadRecordings::default();
        let (web, api) = (Workload::sample("web"), Workload::sample("api"));
        let id = recordings.start(&web.key, START).unwrap();
        recordings.stat(&web.key, START, &Stat::default());
        assert_eq!(lines(&recordings, id, 0, START), [""; 0], "no decision yet");
        recordings.decision(&web, &web.spec, 2, START);
        recordings.stat(&web.key, START, &Stat { request_count: 3.0, ..Stat::default() });
        recordings.stat(&api.key, START, &Stat::default());
        recordings.decision(&api, &api.spec, 2, START);
        let found = lines(&recordings, id, 0, START);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains("\"spec\"") && found[0].contains("\"ready\":2"), "{found:?}");
        assert!(found[1].contains("decide") && found[2].contains("\"requestCount\":3.0"), "{found:?}");
        assert_eq!(lines(&recordings, id, 3, START), [""; 0]);
    }

    #[test]
    fn ends_a_minute_after_the_last_read_and_when_the_metric_changes() {
        let recordings = LoadRecordings::default();
        let web = Workload::sample("web");
        let id = recordings.start(&web.key, START).unwrap();
        let at = |seconds| START + Duration::from_secs(seconds);
        for second in [50, 100, 160] {
            recordings.read(&web.key, id, 0, at(second)).unwrap();
        }
        assert_eq!(recordings.read(&web.key, id, 0, at(221)), Err(RecordingError::Ended));
        assert_eq!(recordings.active.load(Ordering::Relaxed), 0);

        let id = recordings.start(&web.key, START).unwrap();
        recordings.decision(&web, &web.spec, 1, START);
        let changed = Workload { measure: MetricName::RequestsPerSecond, ..web.clone() };
        recordings.decision(&changed, &web.spec, 1, START);
        assert_eq!(recordings.read(&web.key, id, 0, START), Err(RecordingError::Ended));
    }

    #[test]
    fn refuses_more_than_its_number_until_one_is_abandoned() {
        let recordings = LoadRecordings::default();
        let key = Key::new("shop", "web");
        for _ in 0..MAX_RECORDINGS {
            recordings.start(&key, START).unwrap();
        }
        assert_eq!(recordings.start(&key, START), Err(RecordingError::TooMany));
        assert!(recordings.start(&key, START + ABANDONED + Duration::from_millis(1)).is_ok());
    }
}
