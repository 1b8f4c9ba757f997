//! EndedTrace: what the spans of one request are made from.

use std::net::IpAddr;

use autoscaler::Key;
use http::request::Parts;
use http::{Method, StatusCode, Version};
use tokio::time::Instant;

use crate::reports::cold_start::ColdStartTrace;
use crate::traces::trace_ids::TraceIds;

/// Longest path in a span, so that the queue of spans is bounded in bytes.
const MAX_PATH: usize = 512;

/// A trace that has ended, for its spans.
#[derive(Debug)]
pub struct EndedTrace<'a> {
    /// Ids of its spans.
    pub ids: &'a TraceIds,
    pub request: &'a TracedRequest,
    /// Whether the request was held.
    pub held: bool,
    /// When it was sent to a pod; `None` if it ended in the hold.
    pub forwarded: Option<Instant>,
    /// How it ended.
    pub outcome: &'a TraceOutcome,
}

/// What spans have from a request's head.
#[derive(Debug)]
pub struct TracedRequest {
    pub workload: Key,
    /// A method of HTTP; any other is `_OTHER`.
    pub method: &'static str,
    /// The path without a query, which may have secrets.
    pub path: String,
    /// The version of HTTP.
    pub version: &'static str,
    /// The head was read.
    pub received: Instant,
}

/// How a request ended.
#[derive(Debug)]
pub enum TraceOutcome {
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
