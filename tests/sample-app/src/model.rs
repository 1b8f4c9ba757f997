//! A fake model server: requests of its path get tokens as server-sent events, each after the
//! request's work, and then the end that clients of model servers expect. `--start-delay-ms` is the
//! time in which it loads.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use http::HeaderMap;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Uri};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};

const PATH: &str = "/v1/chat/completions";
const END: &str = "data: [DONE]\n\n";
/// Tokens of a request that sets no number, and most of any.
pub(crate) const DEFAULT_TOKENS: usize = 16;
const MAX_TOKENS: usize = 100_000;

/// Whether a request is one for tokens.
pub(crate) fn is_request(uri: &Uri) -> bool {
    uri.path() == PATH
}

/// Adds the headers of a stream.
pub(crate) fn add_headers(headers: &mut HeaderMap) {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
}

/// A stream of so many tokens, each after this work. `running` ends with it.
pub(crate) fn response(
    tokens: usize,
    work: Duration,
    running: impl Send + 'static,
) -> UnsyncBoxBody<Bytes, Infallible> {
    let tokens = stream::iter(0..tokens.min(MAX_TOKENS)).then(move |number| async move {
        tokio::time::sleep(work).await;
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"token {number} \"}}}}]}}\n\n")
    });
    let end = stream::once(async move {
        drop(running);
        END.to_owned()
    });
    let events = tokens.chain(end).map(|event| Ok(Frame::data(Bytes::from(event))));
    StreamBody::new(events).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn tokens_follow_their_work_and_the_end_follows_them() {
        let (start, running) = (Instant::now(), Arc::new(()));
        let mut body = response(3, Duration::from_secs(1), running.clone());
        for number in 0..3 {
            assert_eq!(Arc::strong_count(&running), 2);
            let event = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(event.ends_with(format!("\"token {number} \"}}}}]}}\n\n").as_bytes()), "{event:?}");
            assert_eq!(start.elapsed().as_secs(), number + 1);
        }
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), END);
        assert_eq!(Arc::strong_count(&running), 1);
        assert!(body.frame().await.is_none());
    }
}
