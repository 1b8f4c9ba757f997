//! Exchange: a request on a stream, until the head of its response.
//!
//! The task of the request also sends its body. Only an upload that outlives the head of the
//! response gets a task of its own.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use h2::client::{ResponseFuture, SendRequest};
use http::{Request, Response};

use super::upload::Upload;
use crate::error::Error;
use crate::http1::ResponseBody;
use crate::late_upload::{self, LateUpload};
use crate::open_stream::OpenStream;
use crate::request_body::RequestBody;
use crate::response::{Http2Body, check_length};

/// A request after its head was sent.
pub(super) struct Exchange<B> {
    response: ResponseFuture,
    /// `None` after the end of the body.
    upload: Option<Upload<B>>,
    stream: Arc<OpenStream>,
}

// === impl Exchange ===

impl<B: RequestBody> Exchange<B> {
    /// Sends the head. `sender` must be ready.
    ///
    /// # Errors
    /// [`Error::Failed`] for a head that HTTP/2 cannot express.
    pub(super) fn begin(
        request: Request<B>,
        sender: &mut SendRequest<Bytes>,
        stream: Arc<OpenStream>,
    ) -> Result<Self, Error> {
        let (head, body) = request.into_parts();
        let has_no_body = body.is_end_stream();
        let (response, to) = sender.send_request(Request::from_parts(head, ()), has_no_body)?;
        let upload = (!has_no_body).then(|| Upload::new(body, to));
        Ok(Self { response, upload, stream })
    }

    /// The response, after its head.
    ///
    /// # Errors
    /// See [`Error`].
    pub(super) async fn response(mut self) -> Result<Response<ResponseBody>, Error> {
        let mut response = poll_fn(|cx| self.poll_head(cx)).await?;
        check_length(response.headers_mut())?;
        let Self { upload, stream, .. } = self;
        let late = upload.map(|upload| continue_upload(upload, stream.clone()));
        let (head, body) = response.into_parts();
        let body = Http2Body::new(&head.headers, body, stream, late);
        Ok(Response::from_parts(head, ResponseBody::http2(body)))
    }

    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response<RecvStream>, Error>> {
        if let Some(upload) = &mut self.upload
            && let Poll::Ready(uploaded) = upload.poll(cx)
        {
            self.upload = None;
            uploaded?;
        }
        Poll::Ready(Ok(ready!(Pin::new(&mut self.response).poll(cx))?))
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
        // Any other cause is an error of the protocol and concerns this request alone.
        let ended = error.is_io();
        let error = std::io::Error::other(error);
        if ended { Self::Unanswered(error) } else { Self::Failed(error) }
    }
}
