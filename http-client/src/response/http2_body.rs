//! Http2Body: the body of an HTTP/2 response.
//!
//! The server's window grows as the body is polled, so a slow client holds back the server.
//!
//! Only END_STREAM ends a body. A reset before it, with any code, is an error. A reset behind it
//! concerns the request alone (RFC 9113, 8.1); h2 keeps the two apart.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use http::header::CONTENT_LENGTH;
use http::response::Parts;
use http::{HeaderMap, StatusCode};
use http_body::{Frame, SizeHint};

use crate::error::BodyError;
use crate::late_upload::LateUpload;
use crate::open_stream::OpenStream;

/// A body and the stream on which it comes.
#[derive(Debug)]
pub(crate) struct Http2Body {
    frames: RecvStream,
    /// Bytes that are missing, if the head named a length.
    left: Option<u64>,
    /// Whether the last frame was polled. Kept here, because h2 takes a lock to find it out.
    has_ended: bool,
    /// The stream is free when the body is dropped.
    _stream: Arc<OpenStream>,
    _upload: Option<LateUpload>,
}

// === impl Http2Body ===

impl Http2Body {
    pub(crate) fn new(
        head: &Parts,
        frames: RecvStream,
        stream: Arc<OpenStream>,
        upload: Option<LateUpload>,
    ) -> Self {
        let length = length(&head.headers);
        // The length of 304 is not its own. h2 takes an empty last frame for a body that is cut.
        let has_ended =
            frames.is_end_stream() || (head.status == StatusCode::NOT_MODIFIED && length.is_some());
        // A response to HEAD has a length and no body.
        let left = if has_ended { Some(0) } else { length };
        Self { frames, left, has_ended, _stream: stream, _upload: upload }
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match ready!(self.frames.poll_data(cx)) {
            Some(Ok(data)) => Poll::Ready(Some(self.receive(data).map(Frame::data))),
            Some(Err(error)) => Poll::Ready(Some(Err(BodyError::Http2(error)))),
            None => match ready!(self.frames.poll_trailers(cx)) {
                Ok(trailers) => {
                    self.has_ended = true;
                    Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
                }
                Err(error) => Poll::Ready(Some(Err(BodyError::Http2(error)))),
            },
        }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.has_ended
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }

    fn receive(&mut self, data: Bytes) -> Result<Bytes, BodyError> {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(data.len() as u64);
        }
        self.has_ended = self.frames.is_end_stream();
        // The windows of the last frame are released with the stream.
        if !self.has_ended {
            self.frames.flow_control().release_capacity(data.len()).map_err(BodyError::Http2)?;
        }
        Ok(data)
    }
}

fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
