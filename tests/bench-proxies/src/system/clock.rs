//! The monotonic clock that everything here is measured by.

use std::time::Instant;

/// Now.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub fn now() -> Instant {
    Instant::now()
}
