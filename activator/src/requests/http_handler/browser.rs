//! Requests of browsers to a workload that has a waiting page.
//!
//! ```text
//! navigation ─► held ─► has a slot ──────────────────► forwarded, as any request
//!                  └──► no pod after two seconds ─► the page
//! retry of the page ─► held ─► has a slot ─► answered here, and not forwarded
//! ```
//!
//! Both count and wake as all requests do. The wake continues after the navigation has ended: the
//! size was written for its report, the retry follows at once, and a workload goes to zero only
//! after a whole window without a request.

use std::sync::Arc;

use http::{Request, Response};
use http_body_util::Either;
use proxy::incoming_body::IncomingBody;
use proxy::listener::ConnectionAddresses;
use tokio::time::Instant;

use super::HttpHandler;
use crate::pods::forwarder::Forwarder;
use crate::requests::at_zero::waiting_page::{self, BrowserRequest};
use crate::requests::error_response::RequestError;
use crate::requests::pending_request::{HandlerBody, PendingRequest};

/// Why a browser was not served.
enum NotServed {
    /// It gets the waiting page.
    WaitingPage,
    Failed(RequestError),
}

// === impl HttpHandler ===

impl HttpHandler {
    /// Whether the request concerns the waiting page, if the workload has it.
    pub(super) fn browser_request<B>(&self, request: &Request<B>) -> Option<BrowserRequest> {
        BrowserRequest::of(request).filter(|_| self.workload.settings().waiting_page)
    }

    /// A navigation gets the waiting page if it is held for long. A retry, which the page sends,
    /// gets a response of this process.
    pub(super) async fn serve_browser(
        &self,
        browser: BrowserRequest,
        request: Box<Request<IncomingBody>>,
        addresses: &Arc<ConnectionAddresses>,
        forwarder: &Forwarder,
    ) -> Response<HandlerBody> {
        let result = match self.admit(request, addresses, forwarder.worker()) {
            Ok(mut request) if browser == BrowserRequest::Retry => self.wait_for_pod(&mut request).await,
            Ok(mut request) => match self.hold_browser(&mut request).await {
                Ok(()) => self.serve(request, forwarder).await,
                Err(NotServed::Failed(error)) => Err(error),
                // The page's status 503 is not a failure of the workload, so it is not counted as
                // one.
                Err(NotServed::WaitingPage) => {
                    self.workload.metrics().waiting_page();
                    request.end_with_waiting_page();
                    let last_wake = self.workload.cold_starts().last_wake();
                    let page = self.context.waiting_page.respond(self.workload.key(), last_wake);
                    return page.map(Either::Right);
                }
            },
            Err(error) => Err(error),
        };
        let response = result.unwrap_or_else(|error| {
            let mut response = self.fail(&error);
            if browser == BrowserRequest::Retry {
                waiting_page::mark_failure(&mut response, &error);
            }
            response
        });
        self.workload.metrics().answered(response.status());
        response
    }

    /// Holds a browser until it has a slot, or has no pod for too long.
    async fn hold_browser(&self, request: &mut PendingRequest) -> Result<(), NotServed> {
        let deadline = self.deadline(request);
        let page_at = request.received + self.context.waiting_page.after();
        let slot = tokio::select! {
            biased;
            acquired = self.acquire(request, deadline) => acquired?,
            () = self.without_pod_after(page_at) => return Err(NotServed::WaitingPage),
        };
        request.granted = Some(slot);
        Ok(())
    }

    /// Completes at this time if there is no usable pod, else never: a browser that waits for a
    /// busy pod is held as all clients are.
    async fn without_pod_after(&self, time: Instant) {
        tokio::time::sleep_until(time).await;
        if self.workload.any_pod().is_some() {
            std::future::pending().await
        }
    }

    /// The response to a retry of the waiting page, when a pod could serve it. Its wake is traced
    /// from this retry on, since the request that got the page has ended.
    async fn wait_for_pod(
        &self,
        request: &mut PendingRequest,
    ) -> Result<Response<HandlerBody>, RequestError> {
        let deadline = self.deadline(request);
        let slot = self.acquire(request, deadline).await?;
        request.held = slot.waited();
        let mut response = waiting_page::respond_to_retry().map(Either::Right);
        if let Some(now) = request.begin_forward() {
            self.trace(&mut response, request, &slot, now);
        }
        Ok(response)
    }
}

// === impl NotServed ===

impl From<RequestError> for NotServed {
    fn from(error: RequestError) -> Self {
        Self::Failed(error)
    }
}
