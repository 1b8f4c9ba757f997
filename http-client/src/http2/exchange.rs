//! Exchange: a request on a stream, until the head of its response.
//!
//! The task of the request also sends its body. Only an upload that outlives the head of the
//! response gets a task of its own.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::Body;

use super::upload::Upload;
use crate::error::Error;
use crate::http1::ResponseBody;
use crate::interim;
use crate::late_upload::{self, LateUpload};
use crate::open_stream::OpenStream;
use crate::request_body::RequestBody;
use crate::response::{Http2Body, check_length};
use crate::rewindable_body::RewindableBody;

/// A request after its head was sent.
pub(super) struct Exchange<B> {
    response: ResponseFuture,
    upload: RequestUpload<B>,
    stream: Arc<OpenStream>,
}

/// The body of a request.
enum RequestUpload<B> {
    /// There is none.
    NoBody(RewindableBody<B>),
    Upload {
        upload: Upload<B>,
        /// False after all of it was sent, or if the server reads no more.
        is_running: bool,
    },
}

// === impl Exchange ===

impl<B: RequestBody> Exchange<B> {
    /// Sends the head. `sender` must be ready.
    ///
    /// # Errors
    /// [`Error::Failed`] for a head that HTTP/2 cannot express.
    pub(super) fn begin(
        head: Parts,
        body: RewindableBody<B>,
        sender: &mut SendRequest<Bytes>,
        stream: Arc<OpenStream>,
    ) -> Result<Self, Error> {
        let has_no_body = body.is_end_stream();
        let (response, to) = sender.send_request(Request::from_parts(head, ()), has_no_body)?;
        let upload = match has_no_body {
            true => RequestUpload::NoBody(body),
            false => RequestUpload::Upload { upload: Upload::new(body, to), is_running: true },
        };
        Ok(Self { response, upload, stream })
    }

    /// The head of the response.
    ///
    /// # Errors
    /// See [`Error`].
    pub(super) async fn head(&mut self) -> Result<Response<RecvStream>, Error> {
        poll_fn(|cx| self.poll_head(cx)).await
    }

    /// The response, from its head.
    ///
    /// # Errors
    /// [`Error::InvalidResponse`].
    pub(super) fn into_response(
        self,
        mut head: Response<RecvStream>,
    ) -> Result<Response<ResponseBody>, Error> {
        check_length(head.headers_mut())?;
        let Self { upload, stream, .. } = self;
        let late = match upload {
            RequestUpload::Upload { upload, is_running: true } => {
                Some(continue_upload(upload, stream.clone()))
            }
            RequestUpload::Upload { .. } | RequestUpload::NoBody(_) => None,
        };
        let (head, body) = head.into_parts();
        let body = Http2Body::new(&head, body, stream, late);
        Ok(Response::from_parts(head, ResponseBody::http2(body)))
    }

    /// The body of a request that failed, to be sent again.
    pub(super) fn into_body(self) -> RewindableBody<B> {
        match self.upload {
            RequestUpload::NoBody(body) => body,
            RequestUpload::Upload { upload, .. } => upload.into_body(),
        }
    }

    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response<RecvStream>, Error>> {
        self.upload.poll(cx)?;
        while let Poll::Ready(Some(Ok(response))) = self.response.poll_informational(cx) {
            // A proxy sends its own 100 Continue, as the client of this request.
            if response.status() != StatusCode::CONTINUE {
                interim::receive(response);
            }
        }
        Poll::Ready(Ok(ready!(Pin::new(&mut self.response).poll(cx))?))
    }
}

// === impl RequestUpload ===

impl<B: RequestBody> RequestUpload<B> {
    /// Sends what can be sent.
    fn poll(&mut self, cx: &mut Context<'_>) -> Result<(), Error> {
        let Self::Upload { upload, is_running: is_running @ true } = self else { return Ok(()) };
        match upload.poll(cx) {
            Poll::Pending => Ok(()),
            Poll::Ready(uploaded) => {
                *is_running = false;
                uploaded
            }
        }
    }
}

/// The stream is in use until both the upload and the response have ended.
fn continue_upload<B: RequestBody>(mut upload: Upload<B>, stream: Arc<OpenStream>) -> LateUpload {
    let upload = async move {
        let uploaded = poll_fn(|cx| upload.poll(cx)).await;
        drop(stream);
        uploaded
    };
    LateUpload::start(upload, late_upload::LINGER)
}

// === impl Error ===

impl From<h2::Error> for Error {
    fn from(error: h2::Error) -> Self {
        let (unprocessed, ended) = (is_promise(&error), error.is_io());
        let error = std::io::Error::other(error);
        if unprocessed {
            Self::Unprocessed(error)
        } else if ended {
            Self::Unanswered(error)
        } else {
            // An error of the protocol, which concerns this request alone.
            Self::Failed(error)
        }
    }
}

/// Whether the server promised not to have processed the stream (RFC 9113, 8.7): it is above the
/// last one of GOAWAY, or was refused.
fn is_promise(error: &h2::Error) -> bool {
    let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    error.is_remote() && (error.is_go_away() || is_refused)
}
