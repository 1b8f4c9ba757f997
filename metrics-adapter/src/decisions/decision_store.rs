//! DecisionStore: the newest decision of every workload, and the stream of their changes.
//!
//! Only the multi-scaler writes it, and only while this replica leads. The metrics API reads single
//! decisions. A zero-scaler's connection takes a snapshot and, atomically with it, subscribes to
//! all later changes. The stream is bounded: a subscriber that lags too far behind is disconnected
//! and must reconnect for a new snapshot.

use std::collections::BTreeMap;

use autoscaler::stats::reporters::MissingReports;
use autoscaler::{Decision, DecisionEvent, Key};
use axum::extract::ws::Utf8Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast};

/// Changes that a slow subscriber may lag behind.
const BACKLOG: usize = 4096;
/// An unchanged decision is sent again after this long, so that subscribers see fresh data behind
/// it.
const REFRESH_MS: u64 = 10_000;

/// The decisions of all workloads.
#[derive(Debug)]
pub struct DecisionStore {
    decisions: Mutex<BTreeMap<Key, StoredDecision>>,
    missing: Mutex<MissingReports>,
    changes: broadcast::Sender<Utf8Bytes>,
    scale_down: Notify,
}

#[derive(Debug)]
struct StoredDecision {
    newest: Decision,
    /// Without a checkpoint.
    sent: Decision,
}

// === impl DecisionStore ===

impl Default for DecisionStore {
    fn default() -> Self {
        let changes = broadcast::Sender::new(BACKLOG);
        let scale_down = Notify::new();
        Self { decisions: Mutex::default(), missing: Mutex::default(), changes, scale_down }
    }
}

impl DecisionStore {
    /// The newest decision on a workload.
    pub fn get(&self, key: &Key) -> Option<Decision> {
        self.read(key, Decision::clone)
    }

    /// Reads from the newest decision on a workload, without a clone.
    pub fn read<T>(&self, key: &Key, read: impl FnOnce(&Decision) -> T) -> Option<T> {
        self.decisions.lock().get(key).map(|stored| read(&stored.newest))
    }

    /// Stores a decision, and sends it if it differs from the one sent last or that one is old.
    pub fn publish(&self, decision: Decision) {
        let mut decisions = self.decisions.lock();
        if decision.desired < decision.ready {
            let last = decisions.get(&decision.key).map(|stored| stored.newest.desired);
            if last.is_none_or(|last| decision.desired < last) {
                self.scale_down.notify_one();
            }
        }
        match decisions.get_mut(&decision.key) {
            Some(stored) if !must_send(&stored.sent, &decision) => stored.newest = decision,
            _ => {
                self.send(&DecisionEvent::Decided(decision.clone()));
                let key = decision.key.clone();
                let sent = decision.without_checkpoint();
                decisions.insert(key, StoredDecision { newest: decision, sent });
            }
        }
    }

    /// Waits until a decision falls below the ready pods of its workload.
    pub async fn scale_down_ahead(&self) {
        self.scale_down.notified().await;
    }

    /// Updates the idle time of the newest decision, where a lack of data allows no new decision.
    pub fn correct_idleness(&self, key: &Key, idle_since: Option<i64>) {
        let corrected = self.get(key).map(|newest| Decision { idle_since, ..newest });
        if let Some(decision) = corrected {
            self.publish(decision);
        }
    }

    /// Removes the decision on a workload.
    pub fn remove(&self, key: &Key) {
        let mut decisions = self.decisions.lock();
        if decisions.remove(key).is_some() {
            self.send(&DecisionEvent::Removed(key.clone()));
        }
    }

    /// Removes all decisions, when another replica becomes the leader.
    pub fn clear(&self) {
        let mut decisions = self.decisions.lock();
        if !decisions.is_empty() {
            decisions.clear();
            self.send(&DecisionEvent::Snapshot(Vec::new().into()));
        }
    }

    /// Sends which activators' reports are missing, if that changed. Followers send it as well: one
    /// of them may lead next.
    pub fn set_missing_reports(&self, missing: MissingReports) {
        let _order = self.decisions.lock();
        let mut last = self.missing.lock();
        if *last != missing {
            self.send(&DecisionEvent::Missing(missing.clone()));
            *last = missing;
        }
    }

    /// The keys of all workloads with a decision.
    pub fn keys(&self) -> Vec<Key> {
        self.decisions.lock().keys().cloned().collect()
    }

    /// The first messages for a new subscriber, with a snapshot, and the messages after them.
    pub fn subscribe(&self) -> (Vec<Utf8Bytes>, broadcast::Receiver<Utf8Bytes>) {
        // The lock is held while sending, too, so no change is missed or sent twice.
        let decisions = self.decisions.lock();
        let all: Vec<_> = decisions.values().map(|stored| stored.newest.without_checkpoint()).collect();
        let missing = self.missing.lock().clone();
        let missing = (missing != MissingReports::default()).then_some(DecisionEvent::Missing(missing));
        let first = std::iter::once(DecisionEvent::Snapshot(all.into())).chain(missing);
        (first.filter_map(|event| encode(&event)).collect(), self.changes.subscribe())
    }

    fn send(&self, event: &DecisionEvent) {
        if let Some(text) = encode(event) {
            // An error means that there is no subscriber.
            let _ = self.changes.send(text);
        }
    }
}

fn encode(event: &DecisionEvent) -> Option<Utf8Bytes> {
    match serde_json::to_string(event) {
        Ok(text) => Some(text.into()),
        Err(error) => {
            tracing::error!(%error, ?event, "decision not sent, JSON encoding failed");
            None
        }
    }
}

/// Whether `decision` differs from `sent`, or `sent` is old. After a step of the wall clock it may
/// be of the future.
fn must_send(sent: &Decision, decision: &Decision) -> bool {
    !sent.is_like(decision) || decision.decided_at.abs_diff(sent.decided_at) >= REFRESH_MS
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use autoscaler::learning_report::{Checkpoint, LearningReport, Phase};
    use autoscaler::settings::LearnTarget;
    use learning::{Learner, LearningSpec};

    use super::*;

    fn decision(desired: u32, decided_at: i64) -> Decision {
        Decision {
            key: Key::new("shop", "web"),
            desired,
            panicking: false,
            held: false,
            excess_burst_capacity: 0,
            stable: 0.0,
            panic: 0.0,
            ready: 0,
            idle_since: None,
            decided_at,
            learning: None,
            hpa_lag: None,
        }
    }

    fn event(text: Utf8Bytes) -> DecisionEvent {
        serde_json::from_str(text.as_str()).unwrap()
    }

    fn events(texts: Vec<Utf8Bytes>) -> Vec<DecisionEvent> {
        texts.into_iter().map(event).collect()
    }

    #[test]
    fn subscriber_gets_missing_reports_and_their_changes() {
        let (decisions, silent) = (DecisionStore::default(), vec!["activator-1".to_owned()]);
        let missing = MissingReports { silent, cut_off: vec![] };
        let (_, mut changes) = decisions.subscribe();
        for _ in 0..2 {
            decisions.set_missing_reports(missing.clone());
        }
        assert_eq!(event(changes.try_recv().unwrap()), DecisionEvent::Missing(missing.clone()));
        assert!(changes.try_recv().is_err(), "unchanged");
        let snapshot = DecisionEvent::Snapshot(vec![].into());
        assert_eq!(events(decisions.subscribe().0), [snapshot, DecisionEvent::Missing(missing)]);
    }

    #[test]
    fn subscriber_gets_a_snapshot_and_then_changes() {
        let decisions = DecisionStore::default();
        decisions.publish(decision(1, 0));
        let (snapshot, mut changes) = decisions.subscribe();
        assert_eq!(events(snapshot), [DecisionEvent::Snapshot(vec![decision(1, 0)].into())]);
        decisions.publish(decision(1, 2000));
        assert!(changes.try_recv().is_err(), "unchanged");
        decisions.publish(decision(2, 4000));
        assert_eq!(event(changes.try_recv().unwrap()), DecisionEvent::Decided(decision(2, 4000)));
        decisions.publish(decision(2, 14_000));
        assert_eq!(event(changes.try_recv().unwrap()), DecisionEvent::Decided(decision(2, 14_000)));
        decisions.remove(&Key::new("shop", "web"));
        assert_eq!(event(changes.try_recv().unwrap()), DecisionEvent::Removed(Key::new("shop", "web")));
    }

    #[test]
    fn unchanged_decision_is_sent_again_after_ten_seconds_and_after_a_step_of_the_clock() {
        let sent = decision(1, 100_000);
        for (decided_at, is_sent) in [(109_999, false), (110_000, true), (99_000, false), (5_000, true)] {
            assert_eq!(must_send(&sent, &decision(1, decided_at)), is_sent, "{decided_at}");
        }
    }

    #[test]
    fn only_changes_have_checkpoints_of_learning() {
        let state = Learner::new(LearningSpec::default(), 7).state(Duration::ZERO);
        let report = LearningReport {
            mode: LearnTarget::Apply,
            user_target: 20.0,
            target: 8.0,
            backlog: 1.0,
            temporary_limit: None,
            long_requests: false,
            phase: Phase::Settled,
            confidence: 1.0,
            evidence: String::new(),
            pods_with_user_target: 1,
            pods_with_target: 2,
            changes: 1,
            reverts: 0,
            checkpoint: Checkpoint::of(&state),
        };
        let learned = Decision { learning: Some(Box::new(report)), ..decision(1, 0) };
        let decisions = DecisionStore::default();
        let (_, mut changes) = decisions.subscribe();
        decisions.publish(learned.clone());
        assert_eq!(event(changes.try_recv().unwrap()), DecisionEvent::Decided(learned.clone()));
        let (snapshot, _) = decisions.subscribe();
        let expected = DecisionEvent::Snapshot(vec![learned.without_checkpoint()].into());
        assert_eq!(events(snapshot), [expected]);
        assert_eq!(learned.without_checkpoint().learning.unwrap().checkpoint, None);
    }

    #[test]
    fn clear_sends_an_empty_snapshot_once() {
        let decisions = DecisionStore::default();
        decisions.publish(decision(1, 0));
        let (_, mut changes) = decisions.subscribe();
        decisions.clear();
        assert_eq!(event(changes.try_recv().unwrap()), DecisionEvent::Snapshot(vec![].into()));
        assert_eq!(decisions.get(&Key::new("shop", "web")), None);
        decisions.clear();
        assert!(changes.try_recv().is_err(), "already empty");
    }

    #[test]
    fn sends_corrected_idleness_without_a_new_decision() {
        let decisions = DecisionStore::default();
        decisions.publish(Decision { idle_since: Some(5), ..decision(0, 0) });
        let (_, mut changes) = decisions.subscribe();
        decisions.correct_idleness(&Key::new("shop", "web"), None);
        assert_eq!(event(changes.try_recv().unwrap()), DecisionEvent::Decided(decision(0, 0)));
    }
}
