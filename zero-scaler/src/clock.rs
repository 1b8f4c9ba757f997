//! The clocks of this process: wall time for objects, monotonic time for everything else.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// The wall clock, for objects.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>);

// === impl Clock ===

impl Clock {
    pub fn system() -> Self {
        Self::by(|| {
            jiff::Timestamp::from_millisecond(component_base::clock::unix_millis()).unwrap_or_default()
        })
    }

    /// A clock that reads `now`, for tests.
    pub fn by(now: impl Fn() -> jiff::Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The current time.
    pub fn now(&self) -> jiff::Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

/// The monotonic clock. Follows tokio's paused time in tests.
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
