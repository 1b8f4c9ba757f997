//! Api: every request to the metrics API, from authentication to the response.
//!
//! The leader reads values in memory. A follower forwards queries for a workload to the leader, and
//! retries once if leadership moves meanwhile. Everything else every replica serves itself.

use std::sync::Arc;

use autoscaler::Key;
use component_base::auth::{ALL_CLIENTS, User};
use component_base::readiness::Readiness;
use component_base::server::ClientAddress;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, StatusCode, Uri, header};
use tokio::sync::Semaphore;

use crate::external_metrics::auth::access_review::access_review;
use crate::external_metrics::auth::{Auth, PeerCertificates};
use crate::external_metrics::discovery::{self, ApiGroup, openapi};
use crate::external_metrics::error::ApiError;
use crate::external_metrics::history;
use crate::external_metrics::leader_forwarder::{LeaderForwarder, LeaderLocation};
use crate::external_metrics::metric_selector::{metric_selector, service_of};
use crate::external_metrics::response::{ApiResponse, json, response, text, with_vary};
use crate::external_metrics::route::{Probe, Route};
use crate::external_metrics::trace;
use crate::external_metrics::value::MetricValues;
use crate::external_metrics::value::object_metrics::{DescribedResource, MetricValueList};
use crate::external_metrics::why::{WhyReport, wants_text};
use crate::metrics::Metrics;

/// Concurrent requests; kube-apiserver has the same limit by default.
const MAX_IN_FLIGHT: usize = 400;
/// Members of this group need no access review.
const MASTERS: &str = "system:masters";

/// The metrics API.
#[derive(Debug)]
pub struct Api {
    values: MetricValues,
    forwarder: LeaderForwarder,
    auth: Auth,
    readiness: Readiness,
    in_flight: Semaphore,
    /// Of clients other than the front proxy, which any pod can be.
    direct_in_flight: Semaphore,
    metrics: Metrics,
    groups: &'static [ApiGroup],
}

// === impl Api ===

impl Api {
    /// An API over these values, or over the leader's values. With `custom`, it also serves
    /// custom.metrics.k8s.io.
    pub fn new(
        values: MetricValues,
        forwarder: LeaderForwarder,
        auth: Auth,
        readiness: Readiness,
        metrics: Metrics,
        custom: bool,
    ) -> Arc<Self> {
        let groups = ApiGroup::served(custom);
        let (in_flight, direct_in_flight) = (Semaphore::new(MAX_IN_FLIGHT), Semaphore::new(MAX_IN_FLIGHT));
        Arc::new(Self { values, forwarder, auth, readiness, in_flight, direct_in_flight, metrics, groups })
    }

    /// Serves a query that a follower has authenticated, authorized and forwarded.
    pub fn serve_forwarded(&self, uri: &Uri, headers: &HeaderMap) -> ApiResponse {
        let result = match self.forwarder.location() {
            LeaderLocation::Local => self.read(&Route::parse(uri.path()), uri, headers),
            LeaderLocation::Remote(_) | LeaderLocation::Unelected => Err(ApiError::NotTheLeader),
        };
        result.unwrap_or_else(|error| match error {
            // A status that no error of the leader itself has.
            ApiError::NotTheLeader => json(StatusCode::MISDIRECTED_REQUEST, &error.status()),
            _ => json(error.code(), &error.status()),
        })
    }

    /// Serves one request. No request needs a body.
    pub async fn serve(&self, request: &Parts, peer: &PeerCertificates) -> ApiResponse {
        let response = match self.try_serve(request, peer).await {
            Ok(response) => response,
            Err(error) => {
                tracing::debug!(method = %request.method, uri = %request.uri, %error, "request failed");
                json(error.code(), &error.status())
            }
        };
        self.metrics.api_responses.with_label_values(&[response.status().as_str()]).inc();
        response
    }

    async fn try_serve(&self, request: &Parts, peer: &PeerCertificates) -> Result<ApiResponse, ApiError> {
        let route = Route::parse(request.uri.path());
        if let Route::Probe(probe) = route {
            return Ok(self.probe(probe));
        }
        let in_flight = if self.auth.trusts(peer) { &self.in_flight } else { &self.direct_in_flight };
        let _permit = in_flight.try_acquire().map_err(|_| ApiError::TooManyRequests)?;
        if request.method != Method::GET && request.method != Method::HEAD {
            return Err(ApiError::MethodNotAllowed(request.method.to_string()));
        }
        if request.headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
            return Err(ApiError::Impersonation);
        }
        if route.is_custom() && self.groups.len() < 2 {
            return Err(ApiError::NoSuchPath(request.uri.path().to_owned()));
        }
        let client = request.extensions.get().map_or(ALL_CLIENTS, |ClientAddress(client)| *client);
        let user = self.auth.authenticate(&request.headers, peer, client).await?;
        self.authorize(&user, &route, request).await?;
        if !(matches!(route, Route::Why { .. }) && wants_text(&request.uri, &request.headers)) {
            require_json(&request.headers)?;
        }
        if !route.needs_leader() {
            return self.respond_static(&route, request);
        }
        let location = self.forwarder.settled_location().await;
        match self.read_from(&location, &route, request).await {
            Err(ApiError::NotTheLeader | ApiError::LeaderUnreachable { .. }) => {
                // The lease may be changing hands: retry once with the next leader.
                let location = self.forwarder.location_after(&location).await;
                self.read_from(&location, &route, request).await
            }
            result => result,
        }
    }

    /// Reads from the leader: this replica or another one.
    async fn read_from(
        &self,
        location: &LeaderLocation,
        route: &Route<'_>,
        request: &Parts,
    ) -> Result<ApiResponse, ApiError> {
        let (uri, headers) = (&request.uri, &request.headers);
        let leader = match location {
            LeaderLocation::Local => return self.read(route, uri, headers),
            LeaderLocation::Unelected => return Err(ApiError::NoLeader),
            LeaderLocation::Remote(leader) => *leader,
        };
        let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        match self.forwarder.forward(leader, path, headers.get(header::ACCEPT)).await {
            Ok(forwarded) if forwarded.status == StatusCode::MISDIRECTED_REQUEST => {
                Err(ApiError::NotTheLeader)
            }
            Ok(forwarded) => Ok(response(forwarded.status, forwarded.content_type, forwarded.body)),
            Err(source) => Err(ApiError::LeaderUnreachable { address: leader, source }),
        }
    }

    /// Reads from this replica's memory.
    fn read(&self, route: &Route<'_>, uri: &Uri, headers: &HeaderMap) -> Result<ApiResponse, ApiError> {
        match route {
            Route::Metric { namespace, metric } => {
                let service = service_of(uri)?;
                self.observe_query(self.values.key_of_service(namespace, &service));
                Ok(json(StatusCode::OK, &self.values.list(namespace, metric, &service)?))
            }
            Route::ObjectMetric { namespace, described, name, metric } => {
                if let Some(selector) = metric_selector(uri)? {
                    return Err(ApiError::UnexpectedSelector(selector));
                }
                self.observe_query(match described {
                    DescribedResource::Service => self.values.key_of_service(namespace, name),
                    DescribedResource::PodAutoscaler => Some(Key::new(*namespace, *name)),
                });
                let list = MetricValueList::new(&self.values, namespace, *described, name, metric)?;
                Ok(json(StatusCode::OK, &list))
            }
            Route::Why { namespace, name } => {
                let why = WhyReport::new(&self.values, namespace, name)?;
                let as_text = wants_text(uri, headers);
                Ok(if as_text { text(StatusCode::OK, why.text()) } else { json(StatusCode::OK, &why.json()) })
            }
            Route::Trace { namespace, name } => {
                Ok(json(StatusCode::OK, &trace::read(&self.values, namespace, name, uri)?))
            }
            Route::History { namespace, name } => {
                let now = component_base::clock::unix_millis();
                Ok(json(StatusCode::OK, &history::report(&self.values, namespace, name, now)?))
            }
            Route::HistoryList { namespace } => {
                let now = component_base::clock::unix_millis();
                Ok(json(StatusCode::OK, &history::current(&self.values, *namespace, now)))
            }
            _ => Err(ApiError::NoSuchPath(uri.path().to_owned())),
        }
    }

    /// Clients other than the HPA controller shorten an interval, which hides a lag and shows none.
    fn observe_query(&self, key: Option<Key>) {
        let now = component_base::clock::unix_millis();
        if let Some(interval) = key.and_then(|key| self.values.history.record_query(&key, now)) {
            self.metrics.hpa_query_interval.observe(interval as f64 / 1000.0);
        }
    }

    async fn authorize(&self, user: &User, route: &Route<'_>, request: &Parts) -> Result<(), ApiError> {
        if user.groups.iter().any(|group| group == MASTERS) {
            return Ok(());
        }
        self.auth.authorize(access_review(user, route, request)).await
    }

    fn respond_static(&self, route: &Route<'_>, request: &Parts) -> Result<ApiResponse, ApiError> {
        match route {
            Route::Groups if discovery::wants_aggregated(&request.headers) => {
                Ok(discovery::aggregated(self.groups, &request.headers))
            }
            Route::Groups => Ok(with_vary(json(StatusCode::OK, &discovery::groups(self.groups)))),
            Route::Group => Ok(json(StatusCode::OK, &ApiGroup::External.group())),
            Route::Resources => Ok(json(StatusCode::OK, &ApiGroup::External.resource_list())),
            Route::ObjectGroup => Ok(json(StatusCode::OK, &ApiGroup::Object.group())),
            Route::ObjectResources => Ok(json(StatusCode::OK, &ApiGroup::Object.resource_list())),
            Route::OpenApi => Ok(openapi::index(self.groups)),
            Route::OpenApiOf(group) => Ok(json(StatusCode::OK, &openapi::document(*group))),
            Route::OpenApi2 => Ok(json(StatusCode::OK, &openapi::version_2(self.groups))),
            Route::Metric { .. }
            | Route::ObjectMetric { .. }
            | Route::Why { .. }
            | Route::Trace { .. }
            | Route::History { .. }
            | Route::HistoryList { .. }
            | Route::Probe(_)
            | Route::Other => Err(ApiError::NoSuchPath(request.uri.path().to_owned())),
        }
    }

    fn probe(&self, probe: Probe) -> ApiResponse {
        let awaited = self.readiness.pending();
        match probe {
            Probe::Ready if !awaited.is_empty() => {
                text(StatusCode::INTERNAL_SERVER_ERROR, format!("awaiting {}\n", awaited.join(", ")))
            }
            Probe::Ready | Probe::Live => text(StatusCode::OK, "ok".to_owned()),
        }
    }
}

/// Rejects a request whose `Accept` excludes JSON.
fn require_json(headers: &HeaderMap) -> Result<(), ApiError> {
    let mut accepts = headers.get_all(header::ACCEPT).iter().peekable();
    if accepts.peek().is_none() {
        return Ok(());
    }
    let fits = |range: &str| {
        let media = range.split(';').next().unwrap_or_default().trim();
        matches!(media, "" | "*/*" | "application/*" | "application/json")
    };
    let any = accepts.filter_map(|value| value.to_str().ok()).any(|value| value.split(',').any(fits));
    if any { Ok(()) } else { Err(ApiError::NotAcceptable) }
}
