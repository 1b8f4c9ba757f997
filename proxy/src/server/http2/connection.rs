//! Connection: drives the frames of a connection, its streams and its timers in one task.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use h2::server::{self, SendResponse};
use h2::{Reason, RecvStream};
use http::{Method, Request};
use http_client::BoxError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout};

use super::exchange::{ConnectionSignals, Exchange};
use super::lifetime::{Lifetime, LifetimeEvent};
use super::ready_list::ReadyList;
use super::stream_set::StreamSet;
use super::unread_data::UnreadData;
use super::unsent_data::UnsentData;
use crate::gateway::grpc::Call;
use crate::incoming_body::IncomingBody;
use crate::listener::ConnectionAddresses;
use crate::server::connection_guard::ConnectionGuard;
use crate::server::request_handler::RequestHandler;

/// How often the woken parts are polled before other connections of the thread have their turn.
const ROUNDS: usize = 4;
/// Time for GOAWAY to be sent on a connection that its guard closes.
const GOAWAY_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection after its handshake.
pub(super) struct Connection<'a, I, H: RequestHandler, S: Future, C, G: ConnectionGuard> {
    frames: server::Connection<I, UnsentData>,
    handler: H,
    addresses: Arc<ConnectionAddresses>,
    streams: StreamSet<Exchange<H::Response, H::Body>>,
    unread: UnreadData<'a, G>,
    lifetime: Pin<Box<Lifetime<S, C>>>,
    idle_timeout: Duration,
    /// Time for the client to acknowledge GOAWAY on an idle connection.
    goaway_timeout: Duration,
    /// It was idle, and the client got GOAWAY.
    was_idle: bool,
    signals: Arc<ConnectionSignals>,
    ready: Arc<ReadyList>,
    woken_streams: Vec<usize>,
    frames_waker: Waker,
    lifetime_waker: Waker,
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// By the client, a drain or a timeout.
    Finished,
    /// The guard closed it.
    Closed,
}

type End = Result<Ended, BoxError>;

// === impl Connection ===

impl<'a, I, H, S, C, G> Connection<'a, I, H, S, C, G>
where
    I: AsyncRead + AsyncWrite + Unpin,
    H: RequestHandler,
    S: Future,
    C: Future<Output = ()>,
    G: ConnectionGuard,
{
    /// Without requests for `idle_timeout`, the client gets GOAWAY, and no request is lost. A
    /// client that does not acknowledge that is disconnected after `goaway_timeout`.
    pub(super) fn new(
        frames: server::Connection<I, UnsentData>,
        handler: H,
        addresses: Arc<ConnectionAddresses>,
        lifetime: Lifetime<S, C>,
        unread: UnreadData<'a, G>,
        signals: Arc<ConnectionSignals>,
        (idle_timeout, goaway_timeout): (Duration, Duration),
    ) -> Self {
        let ready = ReadyList::new();
        let (frames_waker, lifetime_waker) = (ready.frames_waker(), ready.lifetime_waker());
        Self {
            frames,
            handler,
            addresses,
            streams: StreamSet::new(ready.clone()),
            unread,
            lifetime: Box::pin(lifetime),
            idle_timeout,
            goaway_timeout,
            was_idle: false,
            signals,
            ready,
            woken_streams: Vec::new(),
            frames_waker,
            lifetime_waker,
        }
    }

    /// Drives the connection to its end. Streams that are open then are cancelled.
    pub(super) async fn run(mut self) -> Result<(), BoxError> {
        if poll_fn(|cx| self.poll(cx)).await? == Ended::Closed {
            self.refuse().await;
        }
        Ok(())
    }

    /// Refuses the requests that arrived since the guard closed the connection, and sends GOAWAY.
    /// Clients may send all requests that were refused, or are behind GOAWAY's last stream, on
    /// another connection, also those that are not idempotent (RFC 9113, 6.8 and 8.7).
    async fn refuse(&mut self) {
        self.signals.refuses.store(true, Ordering::Relaxed);
        // Its place is given to another connection, so its descriptor must not stay taken.
        self.signals.closes_at_once.store(self.streams.idle_since().is_some(), Ordering::Relaxed);
        self.streams.poll_all();
        let refused = async {
            // Before GOAWAY, which drops what streams have not sent yet.
            poll_fn(|cx| self.poll_refusing(cx)).await;
            self.frames.abrupt_shutdown(Reason::NO_ERROR);
            // Writes it and closes the sending side.
            let _ = poll_fn(|cx| self.frames.poll_closed(cx)).await;
        };
        // A client that does not read gets nothing.
        let _ = timeout(GOAWAY_TIMEOUT, refused).await;
    }

    /// Sends what streams have sent so far, and refuses those that arrive meanwhile.
    fn poll_refusing(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Poll::Ready(Some(Ok((_, mut respond)))) = self.frames.poll_accept(cx) {
            respond.send_reset(Reason::REFUSED_STREAM);
        }
        Poll::Ready(())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        for _ in 0..ROUNDS {
            let Some(woken) = self.ready.take(&mut self.woken_streams, cx) else { return Poll::Pending };
            if woken.lifetime
                && let Poll::Ready(end) = self.poll_lifetime()
            {
                return Poll::Ready(end);
            }
            for index in self.woken_streams.drain(..) {
                self.streams.poll(index);
            }
            // After the streams, so that all that they send leaves with one write.
            if self.ready.take_frames() || woken.frames {
                let ended = self.poll_frames();
                if ended.is_ready() {
                    return ended;
                }
            }
            if let Err(full) = self.unread.account(&mut self.streams, &self.signals.unsent) {
                self.frames.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                let _ = self.frames.poll_closed(cx);
                return Poll::Ready(Err(full.into()));
            }
            self.adjust_window();
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll_frames(&mut self) -> Poll<End> {
        if self.signals.drains.swap(false, Ordering::Relaxed) {
            self.frames.graceful_shutdown();
        }
        let waker = self.frames_waker.clone();
        let mut cx = Context::from_waker(&waker);
        loop {
            match ready!(self.frames.poll_accept(&mut cx)) {
                Some(Ok((request, mut respond))) => {
                    // If its client has reset it, the app would receive it in vain, and may end the
                    // connection of all clients after some resets.
                    if respond.poll_reset(&mut cx).is_pending() {
                        self.begin_exchange(request, respond);
                    }
                }
                Some(Err(error)) => return Poll::Ready(Err(error.into())),
                None => return Poll::Ready(Ok(Ended::Finished)),
            }
        }
    }

    fn begin_exchange(&mut self, request: Request<RecvStream>, respond: SendResponse<UnsentData>) {
        let (head, body) = request.into_parts();
        let upload = (!body.is_end_stream()).then(|| body.stream_id().as_u32());
        if let Some(stream) = upload {
            self.unread.memory().accept(stream);
        }
        let is_head = head.method == Method::HEAD;
        let body = IncomingBody::http2(&head.headers, body, self.unread.memory());
        let request = Request::from_parts(head, body);
        let call = Call::of(&request);
        let response = self.handler.handle(request, &self.addresses);
        let exchange = Exchange::new(response, respond, is_head, call, self.signals.clone());
        self.streams.insert(exchange, upload);
    }

    /// Has the client send less of each upload while many bytes are unread.
    fn adjust_window(&mut self) {
        // Fails while the client has not acknowledged an earlier one.
        if let Some(window) = self.unread.new_window()
            && self.frames.set_initial_window_size(window).is_ok()
        {
            self.unread.announce(window);
            self.frames_waker.wake_by_ref();
        }
    }

    /// Ready if the connection ends at once.
    fn poll_lifetime(&mut self) -> Poll<End> {
        let waker = self.lifetime_waker.clone();
        let mut cx = Context::from_waker(&waker);
        loop {
            match ready!(self.lifetime.as_mut().poll_event(&mut cx)) {
                LifetimeEvent::Stopped => self.drain(),
                LifetimeEvent::Closed => return Poll::Ready(Ok(Ended::Closed)),
                LifetimeEvent::IdleTimer => {
                    if self.is_expired() {
                        return Poll::Ready(Ok(Ended::Finished));
                    }
                }
                LifetimeEvent::Lost => {
                    self.frames.abrupt_shutdown(Reason::NO_ERROR);
                    // Writes GOAWAY, if the peer still reads.
                    let _ = self.frames.poll_closed(&mut cx);
                    return Poll::Ready(Err(io::Error::from(io::ErrorKind::TimedOut).into()));
                }
            }
        }
    }

    /// Called by the idle timer. True if the client has not ended an idle connection in time.
    fn is_expired(&mut self) -> bool {
        let now = Instant::now();
        let expiry = self.streams.idle_since().unwrap_or(now) + self.idle_timeout;
        let next = if expiry > now {
            expiry
        } else if self.was_idle {
            return true;
        } else {
            self.was_idle = true;
            self.streams.shrink(0);
            self.drain();
            now + self.goaway_timeout
        };
        self.lifetime.as_mut().reset_idle_timer(next);
        false
    }

    /// Accepts no more requests, and ends after the running ones.
    fn drain(&mut self) {
        self.signals.drains.store(true, Ordering::Relaxed);
        self.frames_waker.wake_by_ref();
    }
}
