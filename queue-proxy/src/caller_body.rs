//! CallerBody: a request's body on its way to the app. An upload keeps its request from being idle.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use crate::timeouts::Activity;

/// The body as it comes, and where its coming is noted, if anybody wants to know.
#[derive(Debug)]
pub(crate) struct CallerBody {
    inner: Incoming,
    activity: Option<Arc<Activity>>,
}

// === impl CallerBody ===

impl CallerBody {
    /// Notes what comes from now on.
    pub(crate) fn watch(&mut self, activity: Option<Arc<Activity>>) {
        self.activity = activity;
    }
}

impl From<Incoming> for CallerBody {
    /// A body whose coming nobody notes.
    fn from(inner: Incoming) -> Self {
        Self { inner, activity: None }
    }
}

impl Body for CallerBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.inner).poll_frame(cx);
        if frame.is_ready()
            && let Some(activity) = &self.activity
        {
            activity.note();
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
