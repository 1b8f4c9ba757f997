//! ReportOutbox: the reports that wait to be sent to one receiver.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::reports::poke::PokeSent;

/// Reports kept for one receiver.
const BOUND: usize = 256;
/// Older reports are not sent after a reconnection: the next periodic report has the requests that
/// still wait.
const STALE: Duration = Duration::from_secs(2);

/// One report, serialized.
#[derive(Clone, Debug)]
pub(super) struct QueuedReport {
    pub(super) text: Utf8Bytes,
    /// Set if the report is a poke.
    pub(super) poke: Option<PokeSent>,
    pub(super) queued: Instant,
}

/// Bounded queue to one receiver.
#[derive(Debug, Default)]
pub(super) struct ReportOutbox {
    state: Mutex<OutboxState>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct OutboxState {
    reports: VecDeque<QueuedReport>,
    connected: bool,
}

// === impl ReportOutbox ===

impl ReportOutbox {
    /// Queues a report; returns how many were dropped for it, including itself.
    pub(super) fn put(&self, report: QueuedReport) -> u64 {
        let dropped = self.lock().put(report);
        self.filled.notify_one();
        dropped
    }

    pub(super) async fn next(&self) -> QueuedReport {
        loop {
            if let Some(report) = self.lock().reports.pop_front() {
                return report;
            }
            self.filled.notified().await;
        }
    }

    /// Marks the receiver as connected, and drops stale reports.
    pub(super) fn connected(&self, now: Instant) {
        let mut state = self.lock();
        state.connected = true;
        state.reports.retain(|report| now.duration_since(report.queued) < STALE);
    }

    /// Whether the receiver is connected.
    pub(super) fn is_connected(&self) -> bool {
        self.lock().connected
    }

    /// Marks the receiver as disconnected.
    pub(super) fn disconnected(&self) {
        self.lock().connected = false;
    }

    fn lock(&self) -> MutexGuard<'_, OutboxState> {
        self.state.lock()
    }
}

// === impl OutboxState ===

impl OutboxState {
    fn put(&mut self, report: QueuedReport) -> u64 {
        let before = self.reports.len();
        let is_poke = report.poke.is_some();
        if !self.connected && !is_poke {
            self.reports.retain(|other| other.poke.is_some());
        }
        if self.reports.len() >= BOUND {
            match self.reports.iter().position(|other| other.poke.is_none()) {
                Some(oldest_report) => drop(self.reports.remove(oldest_report)),
                None if is_poke => drop(self.reports.pop_front()),
                None => return 1,
            }
        }
        // A held request waits for its poke, and a large report takes long to send.
        let first_report = self.reports.iter().position(|other| other.poke.is_none());
        let place = first_report.filter(|_| is_poke).unwrap_or(self.reports.len());
        self.reports.insert(place, report);
        (before + 1).saturating_sub(self.reports.len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(text: &str, poke: bool) -> QueuedReport {
        QueuedReport { text: text.into(), poke: poke.then(PokeSent::default), queued: Instant::now() }
    }

    fn texts(outbox: &ReportOutbox) -> Vec<String> {
        outbox.lock().reports.iter().map(|report| report.text.to_string()).collect()
    }

    #[test]
    fn keeps_all_pokes_and_newest_report_while_disconnected() {
        let outbox = ReportOutbox::default();
        assert_eq!(outbox.put(report("r1", false)), 0);
        assert_eq!(outbox.put(report("p1", true)), 0);
        assert_eq!(outbox.put(report("r2", false)), 1);
        assert_eq!(texts(&outbox), ["p1", "r2"]);
    }

    #[test]
    fn poke_passes_reports_and_no_other_poke() {
        let outbox = ReportOutbox::default();
        outbox.connected(Instant::now());
        for (text, poke) in [("r1", false), ("r2", false), ("p1", true), ("p2", true), ("r3", false)] {
            outbox.put(report(text, poke));
        }
        assert_eq!(texts(&outbox), ["p1", "p2", "r1", "r2", "r3"]);
    }

    #[test]
    fn full_outbox_drops_report_for_poke_and_never_poke_for_report() {
        let outbox = ReportOutbox::default();
        outbox.connected(Instant::now());
        outbox.put(report("report", false));
        for _ in 1..BOUND {
            outbox.put(report("poke", true));
        }
        assert_eq!(outbox.put(report("last", true)), 1);
        assert!(!texts(&outbox).contains(&"report".to_owned()));
        assert_eq!(outbox.put(report("report", false)), 1);
        assert_eq!(texts(&outbox).len(), BOUND);
        assert_eq!(texts(&outbox).last().map(String::as_str), Some("last"));
    }

    #[tokio::test(start_paused = true)]
    async fn drops_stale_reports_at_reconnection() {
        let outbox = ReportOutbox::default();
        outbox.put(report("old", true));
        tokio::time::advance(STALE).await;
        outbox.put(report("new", true));
        outbox.connected(Instant::now());
        assert_eq!(outbox.next().await.text.as_str(), "new");
    }
}
