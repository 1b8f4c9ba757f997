//! Decisions: the newest one of every workload, and the stream of their changes.
//!
//! Written by the multi-scaler alone, and only while this replica leads. The API reads single ones; a connection of a zero-scaler takes a snapshot and, from the
//! same instant on, every change. The stream is bounded: a reader that falls too far behind loses its place and must come
//! back for a fresh snapshot.

use std::collections::BTreeMap;

use autoscaler::{Decision, DecisionEvent, Key};
use axum::extract::ws::Utf8Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::broadcast;

/// Changes that a slow reader may be behind.
const BACKLOG: usize = 4096;
/// An unchanged decision is sent again after this long: its age says that its data are still coming in.
const REFRESH_MS: i64 = 10_000;

/// All decisions.
#[derive(Debug)]
pub struct Decisions {
    known: Mutex<BTreeMap<Key, Known>>,
    changes: broadcast::Sender<Utf8Bytes>,
}

#[derive(Debug)]
struct Known {
    newest: Decision,
    sent: Decision,
}

// === impl Decisions ===

impl Default for Decisions {
    fn default() -> Self {
        Self { known: Mutex::default(), changes: broadcast::Sender::new(BACKLOG) }
    }
}

impl Decisions {
    /// The newest decision on a workload.
    pub fn get(&self, key: &Key) -> Option<Decision> {
        self.look(key, Decision::clone)
    }

    /// Something of the newest decision on a workload.
    pub fn look<T>(&self, key: &Key, look: impl FnOnce(&Decision) -> T) -> Option<T> {
        self.lock().get(key).map(|known| look(&known.newest))
    }

    /// Takes in a decision and sends it if it says something new.
    pub fn publish(&self, decision: Decision) {
        let mut known = self.lock();
        match known.get_mut(&decision.key) {
            Some(entry) if !is_news(&entry.sent, &decision) => entry.newest = decision,
            _ => {
                self.send(&DecisionEvent::Decided(decision.clone()));
                let key = decision.key.clone();
                known.insert(key, Known { newest: decision.clone(), sent: decision });
            }
        }
    }

    /// Without data there is no new decision; but the old one must not go on to say that the workload is idle.
    pub fn correct_idleness(&self, key: &Key, idle_since: Option<i64>) {
        let corrected = self.get(key).map(|newest| Decision { idle_since, ..newest });
        if let Some(decision) = corrected {
            self.publish(decision);
        }
    }

    /// Forgets a workload.
    pub fn remove(&self, key: &Key) {
        let mut known = self.lock();
        if known.remove(key).is_some() {
            self.send(&DecisionEvent::Removed(key.clone()));
        }
    }

    /// Forgets all: another replica decides from now on.
    pub fn clear(&self) {
        let mut known = self.lock();
        if !known.is_empty() {
            known.clear();
            self.send(&DecisionEvent::Snapshot(Vec::new()));
        }
    }

    /// The keys of all decisions.
    pub fn keys(&self) -> Vec<Key> {
        self.lock().keys().cloned().collect()
    }

    /// The first message of a reader, and the messages after it.
    pub fn subscribe(&self) -> (Option<Utf8Bytes>, broadcast::Receiver<Utf8Bytes>) {
        // Under the lock nothing is sent, so nothing is missed or told twice.
        let known = self.lock();
        let all = known.values().map(|known| known.newest.clone()).collect();
        (encode(&DecisionEvent::Snapshot(all)), self.changes.subscribe())
    }

    fn send(&self, event: &DecisionEvent) {
        if let Some(text) = encode(event) {
            // An error means that nobody is listening.
            let _ = self.changes.send(text);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Known>> {
        self.known.lock()
    }
}

fn encode(event: &DecisionEvent) -> Option<Utf8Bytes> {
    match serde_json::to_string(event) {
        Ok(text) => Some(text.into()),
        Err(error) => {
            tracing::error!(%error, ?event, "a decision cannot be written as JSON");
            None
        }
    }
}

/// Whether a reader who knows `sent` learns something from `decision`.
fn is_news(sent: &Decision, decision: &Decision) -> bool {
    !sent.is_like(decision) || decision.decided_at - sent.decided_at >= REFRESH_MS
}

#[cfg(test)]
mod tests {
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
        }
    }

    fn event(text: Utf8Bytes) -> DecisionEvent {
        serde_json::from_str(text.as_str()).unwrap()
    }

    #[test]
    fn readers_get_a_snapshot_and_then_what_is_new() {
        let decisions = Decisions::default();
        decisions.publish(decision(1, 0));
        let (snapshot, mut changes) = decisions.subscribe();
        assert_eq!(event(snapshot.unwrap()), DecisionEvent::Snapshot(vec![decision(1, 0)]));
        decisions.publish(decision(1, 2000));
        assert!(changes.try_recv().is_err(), "nothing new");
        decisions.publish(decision(2, 4000));
        assert_eq!(event(changes.try_recv().unwrap()), DecisionEvent::Decided(decision(2, 4000)));
        decisions.publish(decision(2, 14_000));
        assert_eq!(event(changes.try_recv().unwrap()), DecisionEvent::Decided(decision(2, 14_000)));
        decisions.remove(&Key::new("shop", "web"));
        assert_eq!(event(changes.try_recv().unwrap()), DecisionEvent::Removed(Key::new("shop", "web")));
    }

    #[test]
    fn who_decides_no_longer_takes_its_words_back() {
        let decisions = Decisions::default();
        decisions.publish(decision(1, 0));
        let (_, mut changes) = decisions.subscribe();
        decisions.clear();
        assert_eq!(event(changes.try_recv().unwrap()), DecisionEvent::Snapshot(vec![]));
        assert_eq!(decisions.get(&Key::new("shop", "web")), None);
        decisions.clear();
        assert!(changes.try_recv().is_err(), "there is nothing more to take back");
    }

    #[test]
    fn lost_idleness_is_told_without_a_new_decision() {
        let decisions = Decisions::default();
        decisions.publish(Decision { idle_since: Some(5), ..decision(0, 0) });
        let (_, mut changes) = decisions.subscribe();
        decisions.correct_idleness(&Key::new("shop", "web"), None);
        assert_eq!(event(changes.try_recv().unwrap()), DecisionEvent::Decided(decision(0, 0)));
    }
}
