//! HeldStream: the response to a request for server-sent events that is kept alive while it is
//! held.
//!
//! ```text
//! held ─► 200 text/event-stream ─► a comment each five seconds ─┬─► the pod's stream
//!                                                               └─► `event: error` ─► cut
//! ```
//!
//! Front doors end a connection that is silent for their idle timeout, while a wake takes minutes.
//! A comment is no event (HTML, 9.2.6), so clients ignore it.
//!
//! The status is sent before there is one. So any other response than a stream, and any failure,
//! becomes an event, and the stream ends without its end: a closed connection in the middle of
//! HTTP/1.1's chunks, or a reset of HTTP/2. Otherwise a client that does not read the event would
//! take what it has for a whole response.
//!
//! The exchange with the pod is a task of its own, which ends with the body: a client that reads
//! nothing keeps the body from being polled, and would hold the slot that it was granted.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, EXPECT, UPGRADE};
use http::response::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::{Body, Frame};
use http_client::BoxError;
use tokio::time::{Interval, MissedTickBehavior, Sleep, interval, sleep};
use tokio_util::task::AbortOnDropHandle;

/// Between two comments: a third of the shortest default of a front door, which is 15 s.
pub const COMMENT_INTERVAL: Duration = Duration::from_secs(5);

const COMMENT: Bytes = Bytes::from_static(b": waiting for a pod\n\n");
const MEDIA_TYPE: &str = "text/event-stream";
/// Makes nginx pass on each comment as it arrives.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// From the error to the cut, which discards what was not sent by then.
const CUT_AFTER: Duration = Duration::from_millis(100);

/// The body of the response. `B` is that of the pod.
#[derive(Debug)]
pub struct HeldStream<B> {
    state: State<B>,
}

#[derive(Debug)]
enum State<B> {
    Held(Exchange<B>),
    Streams(B),
    /// The error was sent.
    Failed(Pin<Box<Sleep>>),
}

#[derive(Debug)]
struct Exchange<B> {
    response: AbortOnDropHandle<Result<B, ErrorEvent>>,
    comments: Interval,
}

/// Why there is no stream of a pod: an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorEvent(Bytes);

/// The stream has no end, because the request failed.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the request failed after the head of its response was sent")]
struct Cut;

/// Whether a request can be kept alive, and accepts server-sent events alone: with any other media
/// type, its app may choose that one. HTTP/1.0 cannot show that a response was cut, and a client
/// that waits for 100 Continue does not get it behind a head.
pub fn is_requested<B>(request: &Request<B>) -> bool {
    let headers = request.headers();
    request.version() >= Version::HTTP_11
        && !matches!(*request.method(), Method::HEAD | Method::CONNECT)
        && ![UPGRADE, EXPECT].iter().any(|name| headers.contains_key(name))
        && accepts_events_alone(headers)
}

fn accepts_events_alone(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(ACCEPT).iter().flat_map(|value| value.as_bytes().split(|b| *b == b','));
    headers.contains_key(ACCEPT) && types.all(is_event_stream)
}

fn is_event_stream(media_type: &[u8]) -> bool {
    let essence = media_type.split(|b| *b == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(MEDIA_TYPE.as_bytes())
}

/// Whether a response of a pod can follow the head that was sent.
pub fn is_stream(head: &Parts) -> bool {
    let is_plain = |coding: &HeaderValue| coding == "identity";
    head.status == StatusCode::OK
        && head.headers.get(CONTENT_TYPE).is_some_and(|value| is_event_stream(value.as_bytes()))
        && head.headers.get(CONTENT_ENCODING).is_none_or(is_plain)
}

/// The response while `exchange`, which begins now, has no result.
pub fn respond<B: Send + 'static>(
    exchange: impl Future<Output = Result<B, ErrorEvent>> + Send + 'static,
) -> Response<Box<HeldStream<B>>> {
    let mut comments = interval(COMMENT_INTERVAL);
    comments.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let response = AbortOnDropHandle::new(tokio::spawn(exchange));
    let state = State::Held(Exchange { response, comments });
    let mut response = Response::new(Box::new(HeldStream { state }));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}

// === impl HeldStream ===

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> Body for HeldStream<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            match &mut self.state {
                State::Held(exchange) => match Pin::new(&mut exchange.response).poll(cx) {
                    Poll::Ready(Ok(Ok(body))) => self.state = State::Streams(body),
                    Poll::Ready(Ok(Err(ErrorEvent(event)))) => {
                        self.state = State::Failed(Box::pin(sleep(CUT_AFTER)));
                        return Poll::Ready(Some(Ok(Frame::data(event))));
                    }
                    // It panicked.
                    Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                    Poll::Pending => {
                        ready!(exchange.comments.poll_tick(cx));
                        return Poll::Ready(Some(Ok(Frame::data(COMMENT))));
                    }
                },
                State::Streams(body) => {
                    return Pin::new(body).poll_frame(cx).map_err(Into::into);
                }
                State::Failed(cut) => {
                    ready!(cut.as_mut().poll(cx));
                    return Poll::Ready(Some(Err(Cut.into())));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.state, State::Streams(body) if body.is_end_stream())
    }
}

// === impl ErrorEvent ===

impl ErrorEvent {
    /// With the status that the client would have got. Clients of model servers know this form.
    pub fn new(status: StatusCode, reason: &str, message: &str) -> Self {
        let error = serde_json::json!({"code": status.as_u16(), "type": reason, "message": message});
        // A value of JSON has no line break, which would end the field.
        let event = format!("event: error\ndata: {}\n\n", serde_json::json!({ "error": error }));
        Self(event.into())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http_body_util::{BodyExt, Full};
    use tokio::sync::oneshot;
    use tokio::time::Instant;

    use super::*;

    type Sender = oneshot::Sender<Result<Full<Bytes>, ErrorEvent>>;

    /// A stream, and what ends its hold.
    fn held() -> (Sender, Box<HeldStream<Full<Bytes>>>) {
        let (sender, receiver) = oneshot::channel();
        (sender, respond(async move { receiver.await.unwrap() }).into_body())
    }

    async fn next(stream: &mut HeldStream<Full<Bytes>>) -> Bytes {
        stream.frame().await.unwrap().unwrap().into_data().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn wake_of_minutes_is_never_silent_for_longer_than_a_front_door_waits() {
        let (pod, mut stream) = held();
        let start = Instant::now();
        for number in 0..60 {
            assert_eq!(next(&mut stream).await, COMMENT);
            assert_eq!(start.elapsed().as_secs() / COMMENT_INTERVAL.as_secs(), number);
        }
        pod.send(Ok("data: token\n\n".into())).unwrap();
        assert_eq!(next(&mut stream).await, "data: token\n\n");
        assert!(stream.is_end_stream() && stream.frame().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn failure_is_an_event_and_the_stream_has_no_end() {
        let (pod, mut stream) = held();
        next(&mut stream).await;
        let event = ErrorEvent::new(StatusCode::GATEWAY_TIMEOUT, "WakeTimeout", "two\nlines");
        pod.send(Err(event)).unwrap();
        let event = next(&mut stream).await;
        let text = r#"{"error":{"code":504,"message":"two\nlines","type":"WakeTimeout"}}"#;
        assert_eq!(event, format!("event: error\ndata: {text}\n\n"));
        assert!(!stream.is_end_stream(), "it is complete nowhere");
        assert!(stream.frame().await.unwrap().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_leaves_ends_its_exchange() {
        let exchange = Arc::new(());
        let in_task = exchange.clone();
        let mut stream = respond(async move {
            let _in_task = in_task;
            std::future::pending::<Result<Full<Bytes>, _>>().await
        })
        .into_body();
        next(&mut stream).await;
        assert_eq!(Arc::strong_count(&exchange), 2);
        drop(stream);
        tokio::task::yield_now().await;
        assert_eq!(Arc::strong_count(&exchange), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_reads_nothing_does_not_stop_its_exchange() {
        let (done, ended) = oneshot::channel();
        let _stream = respond(async move {
            sleep(COMMENT_INTERVAL).await;
            done.send(()).unwrap();
            Ok(Full::<Bytes>::default())
        });
        ended.await.unwrap();
    }

    #[test]
    fn only_requests_for_events_alone_are_kept_alive() {
        let accepts = |accept: &str, method: Method| {
            let request = Request::builder().method(method).header(ACCEPT, accept);
            is_requested(&request.body(()).unwrap())
        };
        for accept in ["text/event-stream", "Text/Event-Stream; charset=utf-8", "text/event-stream;q=1 "] {
            assert!(accepts(accept, Method::GET) && accepts(accept, Method::POST), "{accept}");
            assert!(!accepts(accept, Method::HEAD), "{accept}");
        }
        for accept in ["*/*", "", "application/json, text/event-stream", "text/event-stream, text/html"] {
            assert!(!accepts(accept, Method::GET), "{accept}");
        }
        let events = || Request::post("/").header(ACCEPT, MEDIA_TYPE);
        assert!(!is_requested(&Request::post("/").body(()).unwrap()));
        assert!(!is_requested(&events().version(Version::HTTP_10).body(()).unwrap()));
        assert!(!is_requested(&events().header(UPGRADE, "websocket").body(()).unwrap()));
        assert!(!is_requested(&events().header(EXPECT, "100-continue").body(()).unwrap()));
    }

    #[test]
    fn only_a_stream_without_coding_follows_the_head() {
        let is_stream = |status: u16, headers: &[(&str, &str)]| {
            let mut response = Response::builder().status(status);
            for (name, value) in headers {
                response = response.header(*name, *value);
            }
            is_stream(&response.body(()).unwrap().into_parts().0)
        };
        let events = ("content-type", "text/event-stream; charset=utf-8");
        assert!(is_stream(200, &[events]));
        assert!(is_stream(200, &[events, ("content-encoding", "identity")]));
        assert!(!is_stream(200, &[events, ("content-encoding", "gzip")]));
        assert!(!is_stream(201, &[events]));
        assert!(!is_stream(200, &[("content-type", "application/json")]));
        assert!(!is_stream(200, &[]));
    }
}
