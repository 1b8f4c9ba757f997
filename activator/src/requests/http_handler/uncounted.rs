//! Requests that are not load: health checks, scrapes, and requests of `no-wake` rules.

use std::pin::pin;
use std::sync::Arc;

use http::{Request, Response};
use http_body_util::Either;
use proxy::gateway;
use proxy::incoming_body::IncomingBody;
use proxy::listener::ConnectionAddresses;
use tokio::time::Instant;

use super::{HttpHandler, prepare_for_pod};
use crate::pods::forwarder::{ForwardError, Forwarder};
use crate::pods::pod_tracker::UncountedOnPod;
use crate::requests::at_zero::UncountedRequest;
use crate::requests::error_response::RequestError;
use crate::requests::pending_request::{self, HandlerBody, ResponseGuard, held_body};
use crate::requests::upgrade::Upgrade;

impl HttpHandler {
    /// Why the request is not load, and its place on a pod if there is one. `None` if it counts,
    /// also for lack of a place.
    pub(super) fn enter_uncounted<B>(
        &self,
        request: &Request<B>,
    ) -> Option<(UncountedRequest, Option<UncountedOnPod>)> {
        let uncounted = self.uncounted(request)?;
        Some((uncounted, self.workload.enter_uncounted().ok()?))
    }

    fn uncounted<B>(&self, request: &Request<B>) -> Option<UncountedRequest> {
        let settings = self.workload.settings();
        UncountedRequest::of(request, &self.context.health_checks, settings.no_wake.as_ref())
    }

    /// Neither counts nor holds the request. If there is a pod, the request is forwarded without a
    /// slot; a queue-proxy recognizes these requests as well.
    pub(super) async fn serve_uncounted(
        &self,
        mut request: Box<Request<IncomingBody>>,
        uncounted: UncountedRequest,
        pod: Option<UncountedOnPod>,
        addresses: &Arc<ConnectionAddresses>,
        forwarder: &Forwarder,
    ) -> Result<Response<HandlerBody>, RequestError> {
        self.workload.check_admission()?;
        let at_zero = uncounted.respond(&*request).map(Either::Right);
        let Some(place) = pod else { return Ok(at_zero) };
        let pod = place.pod().clone();
        let upgrade = Upgrade::of(&mut *request);
        let memory = self.take_memory(request.version(), upgrade.is_some())?;
        prepare_for_pod(&mut *request, addresses);
        pod.mark(request.headers_mut());
        let (head, body) = (*request).into_parts();
        let mut timer = self.workload.start_timer(forwarder.worker(), Instant::now());
        let (to, body) = (self.address(&pod)?, held_body(body, &timer));
        match timer.within(pin!(forwarder.send(&pod, to, &head, &body, &addresses.bound))).await {
            Ok(mut response) => {
                gateway::prepare_response(&mut response, upgrade.is_some()).map_err(ForwardError::from)?;
                let guard = ResponseGuard::Uncounted(memory, place);
                Ok(pending_request::into_response(response, upgrade, guard, timer))
            }
            // Any other request would be held.
            Err(ForwardError::Unreachable(_) | ForwardError::Unanswered(_) | ForwardError::OtherPod) => {
                Ok(at_zero)
            }
            Err(error) => Err(error.into()),
        }
    }
}
