//! ApiError: every error of a request, and its only mapping to a status code.
//!
//! Users read the messages in the events and conditions of `kubectl describe hpa`.

pub(super) mod missing_data;

use component_base::auth::ReviewError;
use http::StatusCode;
use serde::Serialize;

use self::missing_data::MissingData;
use crate::collection::load_recordings::RecordingError;
use crate::external_metrics::leader_forwarder::ForwardError;
use crate::external_metrics::metric_selector::MetricQueryError;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// Neither GET nor HEAD.
    #[error("method {0} is not supported; metrics are read-only")]
    MethodNotAllowed(String),
    /// Impersonation, which only kube-apiserver may evaluate.
    #[error("impersonation headers are not accepted; send the request through kube-apiserver")]
    Impersonation,
    /// A token that the cluster's TokenReview rejected.
    #[error("the bearer token is invalid or expired")]
    Unauthorized,
    /// The cluster's authorizers denied the request.
    #[error("{0}")]
    Forbidden(String),
    /// The API server could not review the token or the access.
    #[error("authorization could not be checked with the API server: {0}")]
    Review(#[from] ReviewError),
    /// The review could not be encoded.
    #[error("the access review could not be encoded: {0}")]
    EncodeReview(#[source] serde_json::Error),
    /// `Accept` excludes JSON.
    #[error("only application/json is supported")]
    NotAcceptable,
    /// The path is not served.
    #[error("the server could not find the requested resource {0}")]
    NoSuchPath(String),
    /// A metric that this server does not have.
    #[error(
        "unknown metric {metric:?} for Service {namespace}/{service}; the metrics are concurrency, \
         requests-per-second (or rps) and desired-replicas"
    )]
    UnknownMetric {
        /// The requested metric.
        metric: String,
        /// The namespace of the request.
        namespace: String,
        /// The requested Service.
        service: String,
    },
    /// The selector does not name one Service.
    #[error("invalid metric selector: {0}; set matchLabels to {{service: <name of the Service>}} only")]
    BadSelector(#[from] MetricQueryError),
    /// A selector on a metric of an object.
    #[error("metrics of objects have no labels; remove the metric selector {0}")]
    UnexpectedSelector(String),
    /// No workload names that Service.
    #[error(
        "no metric {metric} for Service {namespace}/{service}: no PodAutoscaler with a Metric names that \
         Service"
    )]
    NoWorkload {
        /// The requested metric.
        metric: String,
        /// The namespace of the request.
        namespace: String,
        /// The requested Service.
        service: String,
    },
    /// There is no current data.
    #[error("no current {metric} for Service {namespace}/{service}: {missing}")]
    NoData {
        /// The requested metric.
        metric: String,
        /// The namespace of the request.
        namespace: String,
        /// The requested Service.
        service: String,
        missing: MissingData,
    },
    /// No workload has this name.
    #[error("workload {0} not found: no PodAutoscaler of this name has a Metric")]
    UnknownWorkload(String),
    /// A query for a recorded load that is not `recording=NUMBER&from=NUMBER`.
    #[error("invalid query {0:?}; send none to start a recording, and then recording=NUMBER&from=NUMBER")]
    BadTraceQuery(String),
    /// The load cannot be recorded.
    #[error("the load of {workload} cannot be recorded: {source}")]
    Recording {
        workload: String,
        /// The reason.
        source: RecordingError,
    },
    /// No replica is the leader.
    #[error("no replica of the metrics-adapter is the leader; one is elected within seconds")]
    NoLeader,
    /// A follower forwarded a query to a replica that is not the leader any more.
    #[error("this replica of the metrics-adapter is not the leader")]
    NotTheLeader,
    /// The leader did not respond.
    #[error("the leader of the metrics-adapter replicas at {address} did not respond: {source}")]
    LeaderUnreachable {
        /// Address of its stats port.
        address: std::net::SocketAddr,
        source: ForwardError,
    },
    /// Too many concurrent requests.
    #[error("too many concurrent requests, try again later")]
    TooManyRequests,
}

/// A Kubernetes `Status` object.
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
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            Self::Review(_)
            | Self::EncodeReview(_)
            | Self::NoData { .. }
            | Self::NoLeader
            | Self::NotTheLeader
            | Self::LeaderUnreachable { .. } => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
            Self::NotAcceptable => (StatusCode::NOT_ACCEPTABLE, "NotAcceptable"),
            Self::NoSuchPath(_)
            | Self::UnknownMetric { .. }
            | Self::NoWorkload { .. }
            | Self::UnknownWorkload(_) => (StatusCode::NOT_FOUND, "NotFound"),
            Self::BadSelector(_) | Self::UnexpectedSelector(_) | Self::BadTraceQuery(_) => {
                (StatusCode::BAD_REQUEST, "BadRequest")
            }
            Self::TooManyRequests | Self::Recording { source: RecordingError::TooMany, .. } => {
                (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests")
            }
            Self::Recording { source: RecordingError::Ended | RecordingError::Lost, .. } => {
                (StatusCode::GONE, "Gone")
            }
        }
    }
}
