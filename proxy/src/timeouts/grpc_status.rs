//! gRPC status: whether a call failed in the server.
//!
//! The HTTP status of a failed call is 200. The gRPC status is in the trailers, or in the head of a
//! response without a body. Only these two are read, so other responses cost nothing. The
//! content type is not: no other protocol has this field.

use http::HeaderMap;
use http::header::HeaderValue;

use crate::gateway::grpc::GRPC_STATUS;

/// Whether the trailers, or the head of a response without a body, have the status of a call that
/// failed in the server. Other failures are the caller's, as those with an HTTP status of 4xx.
pub(super) fn is_server_failure(fields: &HeaderMap) -> bool {
    match fields.get(GRPC_STATUS).map(HeaderValue::as_bytes) {
        // UNKNOWN, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, INTERNAL, UNAVAILABLE and DATA_LOSS.
        Some(b"2" | b"4" | b"8" | b"13" | b"14" | b"15") => true,
        Some(_) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_failures_of_the_server_count() {
        let failing = |status: &str| {
            let fields = HeaderMap::from_iter([(GRPC_STATUS, HeaderValue::from_str(status).unwrap())]);
            is_server_failure(&fields)
        };
        let failures: Vec<_> = (0..20).filter(|status| failing(&status.to_string())).collect();
        assert_eq!(failures, [2, 4, 8, 13, 14, 15]);
        assert!(!failing("") && !failing("x") && !failing("132"));
        assert!(!is_server_failure(&HeaderMap::new()));
    }
}
