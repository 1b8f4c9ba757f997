//! WatchBackoff: the delays between retries of a watch.
//!
//! What surprises: a version that is too old for a watch counts as a failure, and is also an answer
//! of an API server that is back. So the list that follows does not wait as long as after the
//! failures before it.

mod restored_etcd;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, DefaultBackoff};
use tokio::sync::watch;

pub use restored_etcd::watch_revision;

use restored_etcd::restores;

/// client-go's delays, divided by this: from 0.06 s to 2.3 s, or twice that with its jitter. Held
/// requests wait for the watches to continue after an API server was gone, for up to a minute with
/// client-go's own. The price is a handful of refused requests a minute of each watch. The longest
/// delay leaves room in five seconds for the first one, before a list.
const DIVISOR: u32 = 13;

/// Status code of a version that is too old.
const GONE: u16 = 410;

/// The delays of one watch.
#[derive(Default)]
struct WatchBackoff {
    delays: DefaultBackoff,
    /// Whether the API server answered since the last delay.
    is_answered: Arc<AtomicBool>,
}

/// Retries the requests of a watch that fail. `list` begins it, and begins it again after a
/// [restore of etcd](restored_etcd).
pub(super) fn retried<T: Send, S>(
    list: impl Fn() -> S + Send,
) -> impl Stream<Item = Result<T, watcher::Error>> + Send
where
    S: Stream<Item = Result<T, watcher::Error>> + Send,
{
    relisted(restores(), move || with_backoff(list()))
}

/// The items of `list`, which is called again at each of the `restores`.
fn relisted<S: Stream + Send>(
    restores: watch::Receiver<u64>,
    list: impl Fn() -> S + Send,
) -> impl Stream<Item = S::Item> + Send {
    let events = Box::pin(list());
    stream::unfold((restores, list, events), async |(mut restores, list, mut events)| {
        loop {
            tokio::select! {
                biased;
                Ok(()) = restores.changed() => events = Box::pin(list()),
                next = events.next() => return Some((next?, (restores, list, events))),
            }
        }
    })
}

fn with_backoff<T: Send>(
    events: impl Stream<Item = Result<T, watcher::Error>> + Send,
) -> impl Stream<Item = Result<T, watcher::Error>> + Send {
    let backoff = WatchBackoff::default();
    let is_answered = backoff.is_answered.clone();
    let observe = move |event: &Result<T, watcher::Error>| {
        if matches!(event, Err(watcher::Error::WatchError(status)) if status.code == GONE) {
            is_answered.store(true, Ordering::Relaxed);
        }
    };
    events.inspect(observe).backoff(backoff)
}

// === impl WatchBackoff ===

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        if self.is_answered.swap(false, Ordering::Relaxed) {
            self.delays.reset();
        }
        self.delays.next().map(|delay| delay / DIVISOR)
    }
}

impl Backoff for WatchBackoff {
    fn reset(&mut self) {
        self.delays.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn watch_lists_again_after_a_restore_of_etcd() {
        let (restores, receiver) = watch::channel(0);
        let mut events =
            Box::pin(relisted(receiver, || stream::iter(["listed", "applied"]).chain(stream::pending())));
        assert_eq!(events.next().await, Some("listed"));
        restores.send_modify(|count| *count += 1);
        assert_eq!(events.next().await, Some("listed"));
        drop(restores);
        assert_eq!(events.next().await, Some("applied"));
    }

    #[test]
    fn longest_and_first_delay_end_within_five_seconds() {
        let delays: Vec<Duration> = WatchBackoff::default().take(40).collect();
        assert!(delays[0] < Duration::from_millis(300), "{delays:?}");
        assert!(delays.iter().all(|delay| *delay + delays[0] <= Duration::from_secs(5)), "{delays:?}");
        assert!(delays[39] >= Duration::from_millis(2300), "{delays:?}");
    }
}
