//! Panics: counts panics, including panics of tasks, which would otherwise go unnoticed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of panics in this process.
#[derive(Clone, Debug, Default)]
pub struct Panics(Arc<AtomicUsize>);

// === impl Panics ===

impl Panics {
    /// Counts panics from now on.
    pub fn count() -> Self {
        let panics = Self::default();
        let (print, counter) = (std::panic::take_hook(), panics.clone());
        std::panic::set_hook(Box::new(move |panic| {
            counter.0.fetch_add(1, Ordering::Relaxed);
            print(panic);
        }));
        panics
    }

    /// Panics so far.
    pub fn so_far(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
