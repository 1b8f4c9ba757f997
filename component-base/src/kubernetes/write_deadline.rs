//! WriteDeadline: bounds the wait for the response to a write.
//!
//! A reconcile that waits for a write keeps one of a bounded number of places, so an API server
//! that never responds would stop the reconciles of all other objects. Watches and lists are not
//! bounded here: their responses may begin late, and they have retries of their own.

use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request};
use tokio::time::timeout;
use tower::{BoxError, Service};

/// Just more than the API server takes for a write: it ends each after 34 s. A call of an admission
/// webhook may take 30 s of that, and a client that closes its request earlier ends the write,
/// also where the webhook's failurePolicy is Ignore.
const WRITE_DEADLINE: Duration = Duration::from_secs(35);

/// The API server did not respond to a write in time. It may have been carried out.
#[derive(Debug, thiserror::Error)]
#[error("no response to a write within {WRITE_DEADLINE:?}")]
struct WriteTimeout;

/// A client with the deadline.
#[derive(Clone, Debug)]
pub(super) struct WriteDeadline<S>(pub(super) S);

// === impl WriteDeadline ===

impl<S, B> Service<Request<B>> for WriteDeadline<S>
where
    S: Service<Request<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    S::Response: 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let is_write = request.method() != Method::GET;
        let response = self.0.call(request).map(|response| response.map_err(Into::into));
        if is_write {
            timeout(WRITE_DEADLINE, response)
                .map(|response| response.unwrap_or_else(|_| Err(WriteTimeout.into())))
                .boxed()
        } else {
            response.boxed()
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;
    use tower::{ServiceExt, service_fn};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn write_without_response_fails_and_watch_goes_on() {
        let hangs = || {
            let service = service_fn(|_: Request<()>| std::future::pending::<Result<(), BoxError>>());
            WriteDeadline(service)
        };
        let request = |method| Request::builder().method(method).body(()).unwrap();
        let began = Instant::now();
        for method in [Method::PUT, Method::PATCH, Method::POST] {
            hangs().oneshot(request(method)).await.unwrap_err();
        }
        assert_eq!(began.elapsed(), 3 * WRITE_DEADLINE);
        let behind_webhook = service_fn(|_: Request<()>| async {
            tokio::time::sleep(Duration::from_secs(30)).await;
            Ok::<(), BoxError>(())
        });
        WriteDeadline(behind_webhook).oneshot(request(Method::PUT)).await.unwrap();
        let watch = timeout(10 * WRITE_DEADLINE, hangs().oneshot(request(Method::GET))).await;
        assert!(watch.is_err(), "a watch may be silent for hours");
    }
}
