//! RequestBody: a client's request body on its way to the app.
//!
//! Each received frame is reported to the request's timer, because an upload is not idle.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::incoming_body::{IncomingBody, IncomingBodyError};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::request_timer::LastActivity;

/// The body, and the last activity that its frames update.
#[derive(Debug)]
pub struct RequestBody {
    inner: IncomingBody,
    /// `None` without an idle timeout.
    activity: Option<Arc<LastActivity>>,
}

// === impl RequestBody ===

impl RequestBody {
    /// Reports each frame to `activity` from now on.
    pub fn report_to(&mut self, activity: Option<Arc<LastActivity>>) {
        self.activity = activity;
    }
}

impl From<IncomingBody> for RequestBody {
    fn from(inner: IncomingBody) -> Self {
        Self { inner, activity: None }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = IncomingBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, IncomingBodyError>>> {
        let frame = Pin::new(&mut self.inner).poll_frame(cx);
        if frame.is_ready()
            && let Some(activity) = &self.activity
        {
            activity.touch();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
