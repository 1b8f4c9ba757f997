//! IncomingBody: the body of a client's request, of either version of HTTP.
//!
//! Over HTTP/2 the client's window grows as the body is polled, so a slow app holds back the
//! client. Only END_STREAM ends a body: a reset before it, with any code, is an error. Over HTTP/1
//! a body that is dropped before its end closes the connection.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use h2::RecvStream;
use http::header::{CONTENT_LENGTH, EXPECT};
use http::{HeaderMap, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_client::headers::lists;
use http_client::interim;
use hyper::body::Incoming;

use crate::client_stream::ClientSignals;
use crate::memory::upload_memory::UploadMemory;

/// A request body that the server receives.
#[derive(Debug)]
pub struct IncomingBody(Source);

/// The client disconnected, reset the stream, or violated the protocol.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum IncomingBodyError {
    /// Over HTTP/1.1.
    Http1(hyper::Error),
    /// Over HTTP/2.
    Http2(h2::Error),
}

#[derive(Debug)]
enum Source {
    Http1(Http1Body),
    Http2(Http2Body),
}

#[derive(Debug)]
struct Http1Body {
    body: Incoming,
    /// `None` for an empty body.
    signals: Option<ClientSignals>,
    /// Bytes of the last frame.
    last: usize,
}

#[derive(Debug)]
struct Http2Body {
    frames: RecvStream,
    memory: Option<Arc<UploadMemory>>,
    /// Bytes that are missing, if the head named a length; h2 checks it.
    left: Option<u64>,
    /// Only trailers may follow.
    has_all_data: bool,
    /// The client waits for 100 Continue, which it gets when the body is read.
    expects_continue: bool,
    /// Whether the last frame was polled. Kept here, because h2 takes a lock to find it out.
    has_ended: bool,
}

type FramePoll = Poll<Option<Result<Frame<Bytes>, IncomingBodyError>>>;

// === impl IncomingBody ===

impl IncomingBody {
    pub(crate) fn http1(body: Incoming, signals: &ClientSignals) -> Self {
        let signals = (!body.is_end_stream()).then(|| signals.clone());
        Self(Source::Http1(Http1Body { body, signals, last: 0 }))
    }

    /// Reports to the connection's `memory` what is read of an upload.
    pub(crate) fn http2(headers: &HeaderMap, frames: RecvStream, memory: &Arc<UploadMemory>) -> Self {
        let has_ended = frames.is_end_stream();
        let left = if has_ended { Some(0) } else { content_length(headers) };
        let expects_continue = !has_ended && lists(headers, EXPECT, "100-continue");
        let memory = (!has_ended).then(|| memory.clone());
        Self(Source::Http2(Http2Body {
            frames,
            memory,
            left,
            expects_continue,
            has_all_data: false,
            has_ended,
        }))
    }
}

impl Body for IncomingBody {
    type Data = Bytes;
    type Error = IncomingBodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> FramePoll {
        match &mut self.0 {
            Source::Http1(body) => body.poll_frame(cx),
            Source::Http2(body) => body.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Source::Http1(body) => body.body.is_end_stream(),
            Source::Http2(body) => body.has_ended,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Source::Http1(body) => body.body.size_hint(),
            Source::Http2(body) => body.left.map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}

// === impl Http1Body ===

impl Http1Body {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> FramePoll {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Some(signals) = &self.signals {
            // The reader has sent a frame on before it polls for the next one.
            let sent = mem::take(&mut self.last);
            match &frame {
                Poll::Ready(Some(Ok(frame))) => {
                    self.last = frame.data_ref().map_or(0, Bytes::len);
                    signals.upload().send_on(sent);
                }
                Poll::Ready(Some(Err(_))) => signals.cut_upload(),
                Poll::Ready(None) => signals.upload().end(),
                Poll::Pending => signals.upload().send_on_all(),
            }
        }
        Poll::Ready(ready!(frame).map(|frame| frame.map_err(IncomingBodyError::Http1)))
    }
}

impl Drop for Http1Body {
    /// What the server has read is discarded, so that a small body leaves the connection open.
    fn drop(&mut self) {
        let Some(signals) = self.signals.take() else { return };
        signals.upload().end();
        let mut cx = Context::from_waker(Waker::noop());
        while !self.body.is_end_stream() {
            match self.poll_frame(&mut cx) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(None) => return,
                Poll::Ready(Some(Err(_))) | Poll::Pending => return signals.cut_upload(),
            }
        }
    }
}

// === impl Http2Body ===

impl Http2Body {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> FramePoll {
        if !self.has_all_data {
            let data = self.frames.poll_data(cx);
            if mem::take(&mut self.expects_continue) && data.is_pending() {
                let mut response = Response::new(());
                *response.status_mut() = StatusCode::CONTINUE;
                interim::receive(response);
            }
            match ready!(data) {
                Some(Ok(data)) => return Poll::Ready(Some(self.receive(data).map(Frame::data))),
                Some(Err(error)) => return Poll::Ready(Some(Err(IncomingBodyError::Http2(error)))),
                None => self.has_all_data = true,
            }
        }
        match ready!(self.frames.poll_trailers(cx)) {
            Ok(trailers) => {
                self.has_ended = true;
                Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
            }
            Err(error) => Poll::Ready(Some(Err(IncomingBodyError::Http2(error)))),
        }
    }

    fn receive(&mut self, data: Bytes) -> Result<Bytes, IncomingBodyError> {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(data.len() as u64);
        }
        self.frames.flow_control().release_capacity(data.len()).map_err(IncomingBodyError::Http2)?;
        self.has_ended = self.frames.is_end_stream();
        if let Some(memory) = &self.memory {
            memory.read(self.frames.stream_id().as_u32());
        }
        Ok(data)
    }
}

impl Drop for Http2Body {
    fn drop(&mut self) {
        if let Some(memory) = &self.memory {
            memory.end(self.frames.stream_id().as_u32());
        }
    }
}

/// The length of a body; `None` without one, and if lines differ.
fn content_length(headers: &HeaderMap) -> Option<u64> {
    let mut lines = headers.get_all(CONTENT_LENGTH).into_iter();
    let first = lines.next()?;
    let length = first.to_str().ok()?.parse().ok()?;
    lines.all(|line| line == first).then_some(length)
}
