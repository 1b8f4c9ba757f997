//! ApiError: everything that can go wrong with a request, and the one place where it becomes a status code.
//!
//! The sentences are what users read in `kubectl describe hpa`.

use http::StatusCode;
use serde::Serialize;

/// Why a request was refused.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// Neither GET nor HEAD.
    #[error("metrics can be read and nothing else: {0} is not supported")]
    MethodNotAllowed(String),
    /// Acting for somebody else is kube-apiserver's business.
    #[error("impersonation headers are not accepted here: ask through kube-apiserver")]
    Impersonation,
    /// A token that the cluster does not know.
    #[error("the bearer token is not accepted: {0}")]
    Unauthorized(String),
    /// The cluster's authorizers say no.
    #[error("{0}")]
    Forbidden(String),
    /// Nobody could be asked.
    #[error("the cluster could not be asked whether this is allowed: {0}")]
    Review(String),
    /// No JSON wanted.
    #[error("only application/json is served")]
    NotAcceptable,
    /// Nothing there.
    #[error("there is nothing at {0}")]
    NoSuchPath(String),
    /// A metric that is not ours.
    #[error(
        "there is no metric {metric:?}: this server has concurrency, requests-per-second and desired-replicas \
         (asked for in namespace {namespace}, Service {service})"
    )]
    UnknownMetric {
        /// What was asked for.
        metric: String,
        /// The namespace asked in.
        namespace: String,
        /// The Service asked for.
        service: String,
    },
    /// The selector does not name one Service.
    #[error("the metric selector must be exactly service=<name of the Service>, but {0}")]
    BadSelector(String),
    /// A selector where none can be.
    #[error("a metric of an object is one of its name: leave out its selector {0}")]
    NothingToSelect(String),
    /// Nothing scales on that Service.
    #[error(
        "no {metric} for Service {namespace}/{service}: no workload scales on that Service \
         (there is no PodAutoscaler with its Metric that names it)"
    )]
    NoWorkload {
        /// The metric asked for.
        metric: String,
        /// The namespace asked in.
        namespace: String,
        /// The Service asked for.
        service: String,
    },
    /// More than one workload scales on that Service.
    #[error("no {metric} for Service {namespace}/{service}: {workloads} scale on it, but only one may")]
    Ambiguous {
        /// The metric asked for.
        metric: String,
        /// The namespace asked in.
        namespace: String,
        /// The Service asked for.
        service: String,
        /// The workloads.
        workloads: String,
    },
    /// Nobody reported.
    #[error("no fresh {metric} for Service {namespace}/{service}: {missing}")]
    NoData {
        /// The metric asked for.
        metric: String,
        /// The namespace asked in.
        namespace: String,
        /// The Service asked for.
        service: String,
        /// What is missing.
        missing: String,
    },
    /// No such workload.
    #[error("there is no workload {0}: no PodAutoscaler of that name with its Metric")]
    UnknownWorkload(String),
    /// Nobody decides.
    #[error(
        "no replica of the metrics-adapter leads at the moment, so nobody has numbers; a new one is elected within seconds"
    )]
    NoLeader,
    /// A follower asked, and this one does not lead any more.
    #[error("this replica of the metrics-adapter does not lead")]
    NotTheLeader,
    /// The one who decides says nothing.
    #[error("the replica of the metrics-adapter that leads, at {address}, did not answer: {reason}")]
    Leader {
        /// Where it should be.
        address: std::net::SocketAddr,
        /// What came instead.
        reason: String,
    },
    /// Too many at a time.
    #[error("too many requests are being worked on")]
    TooManyRequests,
}

/// `Status` of Kubernetes' API.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    kind: &'static str,
    api_version: &'static str,
    metadata: serde_json::Map<String, serde_json::Value>,
    status: &'static str,
    message: String,
    reason: &'static str,
    code: u16,
}

// === impl ApiError ===

impl ApiError {
    /// The status code.
    pub fn code(&self) -> StatusCode {
        self.code_and_reason().0
    }

    /// The body.
    pub(super) fn status(&self) -> Status {
        let (code, reason) = self.code_and_reason();
        Status {
            kind: "Status",
            api_version: "v1",
            metadata: serde_json::Map::new(),
            status: "Failure",
            message: self.to_string(),
            reason,
            code: code.as_u16(),
        }
    }

    fn code_and_reason(&self) -> (StatusCode, &'static str) {
        match self {
            Self::MethodNotAllowed(_) => (StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
            Self::Impersonation | Self::Forbidden(_) => (StatusCode::FORBIDDEN, "Forbidden"),
            Self::Unauthorized(_) => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            Self::Review(_)
            | Self::NoData { .. }
            | Self::NoLeader
            | Self::NotTheLeader
            | Self::Leader { .. } => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
            Self::NotAcceptable => (StatusCode::NOT_ACCEPTABLE, "NotAcceptable"),
            Self::NoSuchPath(_)
            | Self::UnknownMetric { .. }
            | Self::NoWorkload { .. }
            | Self::UnknownWorkload(_) => (StatusCode::NOT_FOUND, "NotFound"),
            Self::BadSelector(_) | Self::NothingToSelect(_) => (StatusCode::BAD_REQUEST, "BadRequest"),
            Self::Ambiguous { .. } => (StatusCode::CONFLICT, "Conflict"),
            Self::TooManyRequests => (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
        }
    }
}
