//! The journal of a run: what happened, with its virtual time. Printed for a seed that fails.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The events of one run. Clones share them.
#[derive(Clone, Debug)]
pub struct Journal {
    began: Instant,
    events: Arc<Mutex<Vec<String>>>,
}

// === impl Journal ===

impl Journal {
    /// Begins now.
    pub fn new() -> Self {
        Self { began: Instant::now(), events: Arc::default() }
    }

    /// Adds an event.
    pub fn note(&self, event: impl AsRef<str>) {
        let at = self.began.elapsed().as_secs_f64();
        self.events.lock().push(format!("{at:9.2} s  {}", event.as_ref()));
    }

    /// All events so far.
    pub fn events(&self) -> Vec<String> {
        self.events.lock().clone()
    }
}

impl Default for Journal {
    fn default() -> Self {
        Self::new()
    }
}
