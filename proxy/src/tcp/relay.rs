//! Relays the bytes of a connection both ways, and decides when it counts as load.
//!
//! ```text
//!  client ◄──────► relay ◄──────► app     bytes:     ──?────!──────────?─────────────!─────── time
//!                    │                    it counts:   ├──────────┤      ├─────────────────┤
//!                    └─ counts while bytes flow       idle          (response time)    idle
//! ```
//!
//! A database connection lives for days and is used for moments. So it counts from the client's
//! first byte until no byte has passed for a while, and again when bytes flow again. Behind bytes
//! of the app that while is short. Behind bytes of the client it is long, because the app may be
//! working on a response: a slow query is not idle. Greetings that an app sends by itself do not
//! count in the first second, so port scans and TCP checks do not count either.
//!
//! Either end may close its side and go on reading. The connection then ends when it would stop
//! counting. Otherwise it would last until the other end closes, which may be never. A buffer
//! exists only while an end does not take bytes, so an idle connection holds none.
//!
//! While the app does not take the client's bytes, or the client has closed its side, nothing reads
//! from the client. Then a check finds out that it has left. The end of a client is behind its last
//! bytes, which are read ahead for that, within bounds.
//!
//! Used by both proxies for apps that are not HTTP, and for upgraded connections.

mod direction;
mod ends;

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use self::direction::Direction;
use self::ends::Ends;
use crate::client_stream::abort::Abort;
use crate::client_stream::peer_closed::PeerClosed;

/// Bytes of the app within this time of the connection's begin are a greeting and do not count.
const GREETING_TIME: Duration = Duration::from_secs(1);
/// Shortest interval between two checks of a connection whose app may send at any moment.
const MIN_CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Time between two checks of a client from which nothing is read.
const DEPARTURE_INTERVAL: Duration = Duration::from_secs(1);
/// The same while more of its bytes arrive.
const FILL_INTERVAL: Duration = Duration::from_millis(50);

/// How long a connection may be idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleTimeouts {
    /// Behind bytes of the app, until the connection stops counting.
    pub after_response: Duration,
    /// Behind bytes of the client, until the connection stops counting.
    pub after_request: Duration,
    /// Behind the end of one side, until the connection ends; the one above if that is shorter.
    pub half_closed: Duration,
    /// Until the connection is closed; `None` never.
    pub close_after: Option<Duration>,
}

/// Settings and accounting of one relayed connection.
#[derive(Debug)]
pub struct TcpRelay<F, G> {
    pub idle_timeouts: IdleTimeouts,
    /// The guard of its count, if it counts already.
    pub counted: Option<G>,
    /// Counts it again; the count ends with the drop of the guard.
    pub count: F,
    /// After this the connection ends as soon as it does not count.
    pub stop: CancellationToken,
}

/// What was relayed last, and when.
#[derive(Debug)]
struct Activity {
    began: Instant,
    last: Instant,
    client_sent: bool,
    /// Whether the last bytes were the client's.
    client_was_last: bool,
    /// The end that closed its side first.
    ended: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Client,
    App,
}

/// The timer of the next idle check. Relayed bytes do not reset it: it checks late rather than
/// often.
#[derive(Debug, Default)]
struct IdleTimer {
    timer: Option<Pin<Box<Sleep>>>,
    is_due: bool,
}

// === impl IdleTimeouts ===

impl IdleTimeouts {
    /// Counts as long as the connection is open, and closes it after `close_after`.
    pub(super) fn close_only(close_after: Option<Duration>) -> Self {
        let (after_response, after_request) = (Duration::MAX, Duration::MAX);
        Self { after_response, after_request, half_closed: Duration::MAX, close_after }
    }
}

// === impl TcpRelay ===

impl<F: FnMut() -> G, G> TcpRelay<F, G> {
    /// Relays until both ends have closed, one failed, or the connection was idle for too long. A
    /// reset of one end resets the other. Both are reset after `close_after`, and if this future is
    /// dropped, as at the end of the process.
    ///
    /// # Errors
    /// The error of an end; `TimedOut` after `close_after` of idleness.
    pub async fn run<A, B>(mut self, client: &mut A, app: &mut B) -> io::Result<()>
    where
        A: AsyncRead + AsyncWrite + Abort + PeerClosed + Unpin,
        B: AsyncRead + AsyncWrite + Abort + Unpin,
    {
        let mut ends = Ends { client, app, must_abort: true };
        let ended = self.relay(ends.client, ends.app).await;
        // An end is gone, or bytes of it may be missing.
        ends.must_abort = ended.is_err();
        ended
    }

    async fn relay<A, B>(&mut self, client: &mut A, app: &mut B) -> io::Result<()>
    where
        A: AsyncRead + AsyncWrite + PeerClosed + Unpin,
        B: AsyncRead + AsyncWrite + Unpin,
    {
        let (mut activity, mut idle_timer) = (Activity::new(Instant::now()), IdleTimer::default());
        let (mut departure_timer, mut interval) = (IdleTimer::default(), DEPARTURE_INTERVAL);
        let (mut has_moved, mut is_stuck, mut has_left) = (false, false, false);
        let (mut up, mut down) = (Direction::default(), Direction::default());
        let stop = self.stop.clone();
        let mut stop = pin!(stop.cancelled());
        let mut stopped = false;
        poll_fn(|cx| {
            // The app's direction first: bytes of the client that are read in the same poll are
            // then not yet answered.
            let down_ended = down.poll(cx, app, client)?.is_ready();
            let up_ended = up.poll(cx, client, app)?.is_ready();
            if down_ended && up_ended {
                return Poll::Ready(Ok(()));
            }
            let (up_moved, down_moved) = (up.take_moved(), down.take_moved());
            has_moved |= up_moved;
            while departure_timer.poll(cx, || up.next_check(interval)).is_ready() {
                let was_stuck = std::mem::replace(&mut is_stuck, !std::mem::take(&mut has_moved));
                // After two intervals: a client that goes on would fill what its end needs.
                let arrives = was_stuck && is_stuck && up.read_ahead(cx, client)?;
                interval = if arrives { FILL_INTERVAL } else { DEPARTURE_INTERVAL };
                has_left = client.is_peer_closed()?;
            }
            if activity.ended(has_left || up.has_ended(), down.has_ended()) {
                idle_timer.disarm();
            }
            if activity.moved(up_moved, down_moved) && self.counted.is_none() {
                self.counted = Some((self.count)());
                idle_timer.disarm();
            }
            stopped = stopped || stop.as_mut().poll(cx).is_ready();
            let ended = ready!(self.poll_idle(cx, &activity, &mut idle_timer, stopped));
            // What was not passed on is lost, which must not look like the end.
            let is_cut = up.has_rest() || down.has_rest();
            Poll::Ready(if is_cut { Err(io::ErrorKind::ConnectionAborted.into()) } else { ended })
        })
        .await
    }

    /// Checks the idle timeouts; ready if the connection ends by one.
    fn poll_idle(
        &mut self,
        cx: &mut Context<'_>,
        activity: &Activity,
        idle_timer: &mut IdleTimer,
        stopped: bool,
    ) -> Poll<io::Result<()>> {
        loop {
            if stopped && self.counted.is_none() {
                return Poll::Ready(Ok(()));
            }
            ready!(idle_timer.poll(cx, || activity.next_check(self.idle_timeouts, self.counted.is_some())));
            let now = Instant::now();
            if let Some(close_after) =
                self.idle_timeouts.close_after.filter(|close_after| activity.idle_for(*close_after, now))
            {
                let error = format!("idle for {close_after:?}");
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, error)));
            }
            if activity.is_idle(self.idle_timeouts, now) {
                self.counted = None;
                if activity.ended.is_some() {
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

// === impl Activity ===

impl Activity {
    fn new(now: Instant) -> Self {
        Self { began: now, last: now, client_sent: false, client_was_last: false, ended: None }
    }

    /// Records which directions moved; true if that counts.
    fn moved(&mut self, up: bool, down: bool) -> bool {
        if !up && !down {
            return false;
        }
        self.last = Instant::now();
        self.client_was_last = up;
        self.client_sent |= up;
        self.client_sent || self.last.saturating_duration_since(self.began) > GREETING_TIME
    }

    /// Records that an end closed its side; true for the first one.
    fn ended(&mut self, client: bool, app: bool) -> bool {
        let is_first = self.ended.is_none() && (client || app);
        if is_first {
            self.ended = Some(if app { End::App } else { End::Client });
            self.last = Instant::now();
        }
        is_first
    }

    /// The idle timeout that applies now.
    fn idle_timeout(&self, idle_timeouts: IdleTimeouts) -> Duration {
        let waits_for_app = match self.ended {
            None => self.client_was_last,
            Some(end) => end == End::Client,
        };
        let idle = if waits_for_app { idle_timeouts.after_request } else { idle_timeouts.after_response };
        if self.ended.is_some() { idle.min(idle_timeouts.half_closed) } else { idle }
    }

    fn is_idle(&self, idle_timeouts: IdleTimeouts, now: Instant) -> bool {
        self.idle_for(self.idle_timeout(idle_timeouts), now)
    }

    fn idle_for(&self, time: Duration, now: Instant) -> bool {
        now.saturating_duration_since(self.last) >= time
    }

    /// When to check again.
    fn next_check(&self, idle_timeouts: IdleTimeouts, counts: bool) -> Option<Instant> {
        let idle = (counts || self.ended.is_some()).then(|| {
            let end = self.last.checked_add(self.idle_timeout(idle_timeouts));
            // The app may send at any moment, and then the shorter timeout applies.
            let sooner = Instant::now().checked_add(idle_timeouts.after_response.max(MIN_CHECK_INTERVAL));
            end.into_iter().chain(sooner).min()
        });
        let close_after =
            idle_timeouts.close_after.and_then(|close_after| self.last.checked_add(close_after));
        idle.flatten().into_iter().chain(close_after).min()
    }
}

// === impl IdleTimer ===

impl IdleTimer {
    /// Ready at the instant that `next` gave when the timer was armed; pending without one.
    fn poll(&mut self, cx: &mut Context<'_>, next: impl FnOnce() -> Option<Instant>) -> Poll<()> {
        if !self.is_due {
            let Some(next) = next() else { return Poll::Pending };
            match &mut self.timer {
                Some(timer) => timer.as_mut().reset(next),
                None => self.timer = Some(Box::pin(sleep_until(next))),
            }
            self.is_due = true;
        }
        let Some(timer) = &mut self.timer else { return Poll::Pending };
        ready!(timer.as_mut().poll(cx));
        self.is_due = false;
        Poll::Ready(())
    }

    /// Has the next poll compute the instant anew: it may be sooner.
    fn disarm(&mut self) {
        self.is_due = false;
    }
}

#[cfg(test)]
mod tests;
