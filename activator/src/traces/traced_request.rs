//! TracedRequest: what spans have from the head of a request, and how it ended.

use std::net::IpAddr;

use autoscaler::Key;
use http::request::Parts;
use http::{Method, StatusCode, Version};
use tokio::time::Instant;

use crate::reports::cold_start::ColdStartTrace;

/// Longest path in a span, so that the queue of spans is bounded in bytes.
const MAX_PATH: usize = 512;

/// What spans have from a request's head.
#[derive(Debug)]
pub(super) struct TracedRequest {
    pub(super) workload: Key,
    /// A method of HTTP; any other is `_OTHER`.
    pub(super) method: &'static str,
    /// The path without a query, which may have secrets.
    pub(super) path: String,
    /// The version of HTTP.
    pub(super) version: &'static str,
    /// The head was read.
    pub(super) received: Instant,
}

/// How a request ended.
#[derive(Debug)]
pub(super) enum TraceOutcome {
    /// Its client disconnected before there was a response.
    Cancelled,
    /// It got a response of this process.
    Failed {
        /// Status of the response.
        status: StatusCode,
        /// Reason in its problem document.
        reason: &'static str,
    },
    /// A pod responded.
    Answered {
        /// Status of the response.
        status: StatusCode,
        /// Address of the pod.
        pod: IpAddr,
        /// What the request waited for.
        phases: ColdStartTrace,
    },
}

// === impl TracedRequest ===

impl TracedRequest {
    /// The request with this head.
    pub(super) fn of(head: &Parts, workload: &Key, received: Instant) -> Self {
        let path = head.uri.path();
        // Valid paths are ASCII; others end before the character.
        let path = path.get(..path.floor_char_boundary(MAX_PATH)).unwrap_or_default();
        Self {
            workload: workload.clone(),
            method: method_name(&head.method),
            path: path.to_owned(),
            version: version_name(head.version),
            received,
        }
    }
}

/// Clients may send any method, and names of spans are few.
fn method_name(method: &Method) -> &'static str {
    const KNOWN: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"];
    KNOWN.into_iter().find(|known| method.as_str() == *known).unwrap_or("_OTHER")
}

fn version_name(version: Version) -> &'static str {
    match version {
        Version::HTTP_2 => "2",
        Version::HTTP_10 => "1.0",
        _ => "1.1",
    }
}
