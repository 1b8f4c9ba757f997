//! The API `external.metrics.k8s.io/v1beta1`: what the HPA reads, through the aggregation layer of kube-apiserver.
//!
//! ```text
//! request ─► method ─► who is it? ─► may they? ─► route ─► discovery | value ─► JSON
//!                      auth           auth                            └─► ApiError ─► Status JSON
//! ```
//!
//! Values come from the collector and from decisions, in memory; a replica that follows asks the one that leads. Otherwise
//! nothing here waits for anything but reviews, which are cached. What surprises: missing data is an error and never 0, because the HPA would act on a 0; and no answer carries
//! `Retry-After`, for the HPA would sleep on it.

pub mod auth;
mod discovery;
mod error;
mod object_metrics;
mod openapi;
mod route;
mod value;
mod why;

use std::sync::Arc;

use autoscaler::contract::METRIC_DESIRED;
use bytes::Bytes;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header};
use http_body_util::Full;
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReviewSpec,
};
use runtime::auth::User;
use runtime::readiness::Readiness;
use serde::Serialize;
use tokio::sync::Semaphore;

use auth::{Auth, PeerCertificates};
use discovery::Group;
pub use error::ApiError;
use object_metrics::MetricValueList;
use route::{Probe, Route};
pub use value::Values;
use why::{Why, wants_text};

use crate::metrics::Metrics;
use crate::relay::{Place, Relay};

/// API group served.
pub const GROUP: &str = "external.metrics.k8s.io";
/// Version served.
pub const VERSION: &str = "v1beta1";
/// Requests worked on at a time, as many as kube-apiserver would.
const MAX_IN_FLIGHT: usize = 400;
/// Whoever is in this group may do everything.
const MASTERS: &str = "system:masters";

/// An answer.
pub type Answer = Response<Full<Bytes>>;

/// The API.
#[derive(Debug)]
pub struct Api {
    values: Values,
    relay: Relay,
    auth: Auth,
    readiness: Readiness,
    in_flight: Semaphore,
    metrics: Metrics,
    groups: &'static [Group],
}

// === impl Api ===

impl Api {
    /// An API over these values, or over those of whom `relay` asks. With `custom`, custom.metrics.k8s.io is served as well.
    pub fn new(
        values: Values,
        relay: Relay,
        auth: Auth,
        readiness: Readiness,
        metrics: Metrics,
        custom: bool,
    ) -> Arc<Self> {
        let groups = Group::served(custom);
        let in_flight = Semaphore::new(MAX_IN_FLIGHT);
        Arc::new(Self { values, relay, auth, readiness, in_flight, metrics, groups })
    }

    /// Answers one of our own replicas, which has seen to who asks.
    pub fn answer_follower(&self, uri: &Uri, headers: &HeaderMap) -> Answer {
        let answer = match self.relay.place() {
            Place::Here => self.read(&Route::parse(uri.path()), uri, headers),
            Place::There(_) | Place::Nowhere => Err(ApiError::NotTheLeader),
        };
        answer.unwrap_or_else(|error| match error {
            // Told from what the leader may say itself.
            ApiError::NotTheLeader => json(StatusCode::MISDIRECTED_REQUEST, &error.status()),
            _ => json(error.code(), &error.status()),
        })
    }

    /// Answers one request; its body is of no interest.
    pub async fn answer(&self, request: &Parts, peer: &PeerCertificates) -> Answer {
        let answer = match self.try_answer(request, peer).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::debug!(method = %request.method, uri = %request.uri, %error, "refused");
                json(error.code(), &error.status())
            }
        };
        self.metrics.api_responses.with_label_values(&[answer.status().as_str()]).inc();
        answer
    }

    async fn try_answer(&self, request: &Parts, peer: &PeerCertificates) -> Result<Answer, ApiError> {
        let route = Route::parse(request.uri.path());
        if let Route::Probe(probe) = route {
            return Ok(self.probe(probe));
        }
        let _slot = self.in_flight.try_acquire().map_err(|_| ApiError::TooManyRequests)?;
        if request.method != Method::GET && request.method != Method::HEAD {
            return Err(ApiError::MethodNotAllowed(request.method.to_string()));
        }
        if request.headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
            return Err(ApiError::Impersonation);
        }
        if route.is_custom() && self.groups.len() < 2 {
            return Err(ApiError::NoSuchPath(request.uri.path().to_owned()));
        }
        let user = self.auth.authenticate(&request.headers, peer).await?;
        self.authorize(&user, &route, request).await?;
        if !(matches!(route, Route::Why { .. }) && wants_text(&request.uri, &request.headers)) {
            accepts_json(&request.headers)?;
        }
        if !route.is_of_a_workload() {
            return self.dispatch(&route, request);
        }
        let place = self.relay.settled().await;
        match self.ask(&place, &route, request).await {
            // It does not lead any more, or has gone: another one may be about to.
            Err(ApiError::NotTheLeader | ApiError::Leader { .. }) => {
                let place = self.relay.moved(&place).await;
                self.ask(&place, &route, request).await
            }
            answer => answer,
        }
    }

    /// What the leader says.
    async fn ask(&self, place: &Place, route: &Route<'_>, request: &Parts) -> Result<Answer, ApiError> {
        let (uri, headers) = (&request.uri, &request.headers);
        let leader = match place {
            Place::Here => return self.read(route, uri, headers),
            Place::Nowhere => return Err(ApiError::NoLeader),
            Place::There(leader) => *leader,
        };
        let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        match self.relay.ask(leader, path, headers.get(header::ACCEPT)).await {
            Ok(relayed) if relayed.status == StatusCode::MISDIRECTED_REQUEST => Err(ApiError::NotTheLeader),
            Ok(relayed) => Ok(answer(relayed.status, relayed.content_type, relayed.body)),
            Err(error) => Err(ApiError::Leader { address: leader, reason: error.to_string() }),
        }
    }

    /// What is known of a workload here.
    fn read(&self, route: &Route<'_>, uri: &Uri, headers: &HeaderMap) -> Result<Answer, ApiError> {
        match route {
            Route::Metric { namespace, metric } => {
                let service = value::service_of(uri)?;
                Ok(json(StatusCode::OK, &self.values.list(namespace, metric, &service)?))
            }
            Route::ObjectMetric { namespace, described, name, metric } => {
                value::selects_nothing(uri)?;
                let list = MetricValueList::of(&self.values, namespace, *described, name, metric)?;
                Ok(json(StatusCode::OK, &list))
            }
            Route::Why { namespace, name } => {
                let why = Why::of(&self.values, namespace, name)?;
                let as_text = wants_text(uri, headers);
                Ok(if as_text { text(StatusCode::OK, why.text()) } else { json(StatusCode::OK, &why.json()) })
            }
            _ => Err(ApiError::NoSuchPath(uri.path().to_owned())),
        }
    }

    async fn authorize(&self, user: &User, route: &Route<'_>, request: &Parts) -> Result<(), ApiError> {
        if user.groups.iter().any(|group| group == MASTERS) {
            return Ok(());
        }
        self.auth.authorize(review(user, route, request)).await
    }

    fn dispatch(&self, route: &Route<'_>, request: &Parts) -> Result<Answer, ApiError> {
        match route {
            Route::Groups if discovery::wants_aggregated(&request.headers) => {
                Ok(discovery::aggregated(self.groups, &request.headers))
            }
            Route::Groups => Ok(with_vary(json(StatusCode::OK, &discovery::groups(self.groups)))),
            Route::Group => Ok(json(StatusCode::OK, &Group::External.group())),
            Route::Resources => Ok(json(StatusCode::OK, &Group::External.resource_list())),
            Route::ObjectGroup => Ok(json(StatusCode::OK, &Group::Object.group())),
            Route::ObjectResources => Ok(json(StatusCode::OK, &Group::Object.resource_list())),
            Route::OpenApi => Ok(openapi::index(self.groups)),
            Route::OpenApiOf(group) => Ok(json(StatusCode::OK, &openapi::document(*group))),
            Route::OpenApi2 => Ok(json(StatusCode::OK, &openapi::version_2(self.groups))),
            Route::Metric { .. }
            | Route::ObjectMetric { .. }
            | Route::Why { .. }
            | Route::Probe(_)
            | Route::Other => Err(ApiError::NoSuchPath(request.uri.path().to_owned())),
        }
    }

    fn probe(&self, probe: Probe) -> Answer {
        let awaited = self.readiness.pending();
        match probe {
            Probe::Ready if !awaited.is_empty() => {
                text(StatusCode::INTERNAL_SERVER_ERROR, format!("awaiting {}\n", awaited.join(", ")))
            }
            Probe::Ready | Probe::Live => text(StatusCode::OK, "ok".to_owned()),
        }
    }
}

/// What the cluster's authorizers are asked.
fn review(user: &User, route: &Route<'_>, request: &Parts) -> SubjectAccessReviewSpec {
    let (resource_attributes, non_resource_attributes) = match route {
        Route::Metric { namespace, .. } | Route::Why { namespace, .. } => {
            // Whoever may read what was decided may know why.
            let metric = if let Route::Metric { metric, .. } = route { metric } else { METRIC_DESIRED };
            let attributes = ResourceAttributes {
                group: Some(GROUP.to_owned()),
                version: Some(VERSION.to_owned()),
                resource: Some(metric.to_owned()),
                namespace: Some((*namespace).to_owned()),
                verb: Some("list".to_owned()),
                ..ResourceAttributes::default()
            };
            (Some(attributes), None)
        }
        Route::ObjectMetric { namespace, described, name, metric } => {
            let attributes = ResourceAttributes {
                group: Some(object_metrics::GROUP.to_owned()),
                version: Some(object_metrics::VERSION.to_owned()),
                resource: Some(described.resource().to_owned()),
                subresource: Some((*metric).to_owned()),
                name: Some((*name).to_owned()),
                namespace: Some((*namespace).to_owned()),
                verb: Some("get".to_owned()),
                ..ResourceAttributes::default()
            };
            (Some(attributes), None)
        }
        _ => {
            let attributes = NonResourceAttributes {
                path: Some(request.uri.path().to_owned()),
                verb: Some(request.method.as_str().to_ascii_lowercase()),
            };
            (None, Some(attributes))
        }
    };
    SubjectAccessReviewSpec {
        user: Some(user.name.clone()),
        uid: user.uid.clone(),
        groups: Some(user.groups.clone()),
        extra: (!user.extra.is_empty()).then(|| user.extra.clone()),
        resource_attributes,
        non_resource_attributes,
    }
}

/// JSON is all there is.
fn accepts_json(headers: &HeaderMap) -> Result<(), ApiError> {
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

fn json(status: StatusCode, body: &impl Serialize) -> Answer {
    match serde_json::to_vec(body) {
        Ok(body) => answer(status, HeaderValue::from_static("application/json"), Bytes::from(body)),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

fn text(status: StatusCode, body: String) -> Answer {
    answer(status, HeaderValue::from_static("text/plain; charset=utf-8"), Bytes::from(body))
}

fn answer(status: StatusCode, content_type: HeaderValue, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    answer
}

fn with_vary(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    answer
}

#[cfg(test)]
mod tests;
