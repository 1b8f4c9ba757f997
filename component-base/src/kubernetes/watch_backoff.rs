//! WatchBackoff: the delays between retries of a watch.

use std::time::Duration;

use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;

/// client-go's delays, divided by this: from 0.07 s to 2.5 s, or twice that with its jitter. Held
/// requests wait for the watches to continue after an API server was gone, for up to a minute with
/// client-go's own. The price is a handful of refused requests a minute of each watch.
const DIVISOR: u32 = 12;

/// The delays of one watch.
#[derive(Default)]
pub struct WatchBackoff(DefaultBackoff);

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next().map(|delay| delay / DIVISOR)
    }
}

impl Backoff for WatchBackoff {
    fn reset(&mut self) {
        self.0.reset();
    }
}

impl std::fmt::Debug for WatchBackoff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatchBackoff").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_five_seconds_at_most() {
        let delays: Vec<Duration> = WatchBackoff::default().take(40).collect();
        assert!(delays[0] < Duration::from_millis(300), "{delays:?}");
        assert!(delays.iter().all(|delay| *delay <= Duration::from_secs(5)), "{delays:?}");
        assert!(delays[39] >= Duration::from_millis(2500), "{delays:?}");
    }
}
