//! TcpRelay: a connection whose bytes nobody here reads, carried both ways, and when it counts as load.
//!
//! ```text
//!  caller ◄──────► relay ◄──────► app           what passes:  ──?────!──────────?─────────────!─────────── time
//!                    │                          it counts:    ├──────────┤      ├─────────────────┤
//!                    └─ count, while bytes flow                       silence      (answer time)  silence
//! ```
//!
//! A database's connection lives for days and is used for moments. So one counts from its caller's first byte until nothing
//! has passed for a while, and again when bytes flow again. After the app's word that while is short. After the caller's it is
//! long, for the app may be at work on an answer: a slow query must not be taken for a rest. What an app says unasked, as many
//! do to greet, counts only a moment after the connection's begin: who knocks and goes away again is no load.
//!
//! Either end may close its side and go on to listen. What is left then ends when it would count no more, or it would last for
//! as long as the other end forgets to close. A buffer is there only while an end takes nothing, so rest costs no memory.
//!
//! Used by both proxies, for apps that do not speak HTTP and for upgraded connections.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// Most that is read at a time, and that waits for an end which takes nothing.
const BUFFER: usize = 16 * 1024;
/// How long an app may greet before that counts.
const GREETING: Duration = Duration::from_secs(1);
/// Between two looks at a connection whose app may speak at any moment.
const SHORTEST_LOOK: Duration = Duration::from_millis(10);

/// How long nothing may pass. A time without end is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleTimeouts {
    /// After the app's word, until the connection counts no more.
    pub after_response: Duration,
    /// After the caller's, likewise.
    pub after_request: Duration,
    /// Until the connection is closed.
    pub close_after: Option<Duration>,
}

/// How one connection is carried.
#[derive(Debug)]
pub struct TcpRelay<F, G> {
    /// Its times.
    pub idle_timeouts: IdleTimeouts,
    /// What it counts as, if it counts already.
    pub counted: Option<G>,
    /// Counts it anew; undone by the drop of what it gives.
    pub count: F,
    /// From then on it ends as soon as it does not count.
    pub stop: CancellationToken,
}

/// What has passed, and when.
#[derive(Debug)]
struct Course {
    began: Instant,
    last: Instant,
    caller_spoke: bool,
    /// Whether the last word was the caller's.
    asked: bool,
    /// Who has ended its side first, if anybody has.
    ended: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Caller,
    App,
}

/// One way through the relay.
#[derive(Debug, Default)]
struct Way {
    /// What was read and is not written yet.
    rest: Vec<u8>,
    /// So much of it is.
    written: usize,
    state: WayState,
    /// Whether anything was read since somebody asked.
    moved: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum WayState {
    #[default]
    Open,
    /// There is nothing more to read, which the other end has to be told.
    Ending,
    Ended,
}

/// The next look at the silence. Late by choice: bytes that pass do not touch it.
#[derive(Debug, Default)]
struct Look {
    timer: Option<Pin<Box<Sleep>>>,
    is_due: bool,
}

// === impl IdleTimeouts ===

impl IdleTimeouts {
    /// It counts as long as it is there, and is closed after `close_after` of silence.
    pub fn close_only(close_after: Option<Duration>) -> Self {
        Self { after_response: Duration::MAX, after_request: Duration::MAX, close_after }
    }
}

// === impl TcpRelay ===

impl<F: FnMut() -> G, G> TcpRelay<F, G> {
    /// Carries the connection until both ends have closed it, one failed, or it was silent for too long.
    ///
    /// # Errors
    /// What an end failed with; `TimedOut` after too long a silence.
    pub async fn run<A, B>(mut self, caller: &mut A, app: &mut B) -> io::Result<()>
    where
        A: AsyncRead + AsyncWrite + Unpin,
        B: AsyncRead + AsyncWrite + Unpin,
    {
        let (mut course, mut look) = (Course::new(Instant::now()), Look::default());
        let (mut up, mut down) = (Way::default(), Way::default());
        let stop = self.stop.clone();
        let mut stop = pin!(stop.cancelled());
        let mut stopped = false;
        poll_fn(|cx| {
            // First what the app says: what the caller says is then not answered yet.
            let down_ended = down.poll(cx, app, caller)?.is_ready();
            let up_ended = up.poll(cx, caller, app)?.is_ready();
            if down_ended && up_ended {
                return Poll::Ready(Ok(()));
            }
            course.ended(up.has_ended(), down.has_ended());
            if course.moved(up.take_moved(), down.take_moved()) && self.counted.is_none() {
                self.counted = Some((self.count)());
                look.disarm();
            }
            stopped = stopped || stop.as_mut().poll(cx).is_ready();
            self.poll_silence(cx, &course, &mut look, stopped)
        })
        .await
    }

    /// Looks whether nothing has passed for too long; ready if the connection ends by that.
    fn poll_silence(
        &mut self,
        cx: &mut Context<'_>,
        course: &Course,
        look: &mut Look,
        stopped: bool,
    ) -> Poll<io::Result<()>> {
        loop {
            if stopped && self.counted.is_none() {
                return Poll::Ready(Ok(()));
            }
            ready!(look.poll(cx, || course.next_look(self.idle_timeouts, self.counted.is_some())));
            let now = Instant::now();
            if let Some(close_after) =
                self.idle_timeouts.close_after.filter(|close_after| course.silent(*close_after, now))
            {
                let error = format!("nothing was sent or received for {close_after:?}");
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, error)));
            }
            if course.is_quiet(self.idle_timeouts, now) {
                self.counted = None;
                if course.ended.is_some() {
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

// === impl Course ===

impl Course {
    fn new(now: Instant) -> Self {
        Self { began: now, last: now, caller_spoke: false, asked: false, ended: None }
    }

    /// Notes what moved just now; whether that counts.
    fn moved(&mut self, up: bool, down: bool) -> bool {
        if !up && !down {
            return false;
        }
        self.last = Instant::now();
        self.asked = up;
        self.caller_spoke |= up;
        self.caller_spoke || self.last.saturating_duration_since(self.began) > GREETING
    }

    /// Notes that an end closed its side.
    fn ended(&mut self, caller: bool, app: bool) {
        if self.ended.is_none() && (caller || app) {
            self.ended = Some(if app { End::App } else { End::Caller });
            self.last = Instant::now();
        }
    }

    /// The silence that is bearable now.
    fn bearable(&self, idle_timeouts: IdleTimeouts) -> Duration {
        let waits_for_app = match self.ended {
            None => self.asked,
            Some(end) => end == End::Caller,
        };
        if waits_for_app { idle_timeouts.after_request } else { idle_timeouts.after_response }
    }

    fn is_quiet(&self, idle_timeouts: IdleTimeouts, now: Instant) -> bool {
        self.silent(self.bearable(idle_timeouts), now)
    }

    fn silent(&self, time: Duration, now: Instant) -> bool {
        now.saturating_duration_since(self.last) >= time
    }

    /// When to look again.
    fn next_look(&self, idle_timeouts: IdleTimeouts, counts: bool) -> Option<Instant> {
        let quiet = (counts || self.ended.is_some()).then(|| {
            let end = self.last.checked_add(self.bearable(idle_timeouts));
            // The app may speak at any moment, and then the shorter silence holds.
            let sooner = Instant::now().checked_add(idle_timeouts.after_response.max(SHORTEST_LOOK));
            end.into_iter().chain(sooner).min()
        });
        let close_after =
            idle_timeouts.close_after.and_then(|close_after| self.last.checked_add(close_after));
        quiet.flatten().into_iter().chain(close_after).min()
    }
}

// === impl Way ===

impl Way {
    /// Passes on what can be passed on. Ready when `from` has ended and `to` knows it.
    fn poll<R, W>(&mut self, cx: &mut Context<'_>, from: &mut R, to: &mut W) -> Poll<io::Result<()>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        loop {
            ready!(self.poll_rest(cx, to))?;
            match self.state {
                WayState::Ended => return Poll::Ready(Ok(())),
                WayState::Ending => {
                    ready!(Pin::new(&mut *to).poll_shutdown(cx))?;
                    self.state = WayState::Ended;
                }
                WayState::Open => {
                    if self.poll_read(cx, from, to)?.is_pending() {
                        // What is written may stand in a buffer of its own.
                        let _ = Pin::new(&mut *to).poll_flush(cx)?;
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    /// Reads once, and writes what it can of it at once.
    fn poll_read<R, W>(&mut self, cx: &mut Context<'_>, from: &mut R, to: &mut W) -> Poll<io::Result<()>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut buffer = ReadBuf::uninit(&mut buffer);
        ready!(Pin::new(from).poll_read(cx, &mut buffer))?;
        let read = buffer.filled();
        if read.is_empty() {
            self.state = WayState::Ending;
            return Poll::Ready(Ok(()));
        }
        self.moved = true;
        let written = match Pin::new(to).poll_write(cx, read)? {
            Poll::Ready(written) => written,
            Poll::Pending => 0,
        };
        self.rest.extend_from_slice(read.get(written..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }

    /// Ready when nothing is left to be written.
    fn poll_rest<W: AsyncWrite + Unpin>(&mut self, cx: &mut Context<'_>, to: &mut W) -> Poll<io::Result<()>> {
        while let Some(rest) = self.rest.get(self.written..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut *to).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
            if self.written == self.rest.len() {
                (self.rest, self.written) = (Vec::new(), 0);
            }
        }
        Poll::Ready(Ok(()))
    }

    fn has_ended(&self) -> bool {
        self.state != WayState::Open
    }

    fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }
}

// === impl Look ===

impl Look {
    /// Ready at what was `next` when the last look was over; never without.
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

    /// There may be something to see sooner.
    fn disarm(&mut self) {
        self.is_due = false;
    }
}

#[cfg(test)]
mod tests;
