//! RequestProgress: how far a request is in the app, and so what its end means for a learned
//! target.
//!
//! Input: the events of one request, from a queue-proxy or from an activator that observes pods
//! without a sidecar. Output: the [`RequestEnd`] of a request that ends now, for
//! [`EndedRequests`](super::EndedRequests).
//!
//! What surprises: a request that ends before its response began has a time, because its client
//! gave up after that time at the earliest. One that ends during its response has none: clients of
//! event streams leave when they like.

use std::time::Duration;

use super::RequestEnd;

/// How far a request is in the app.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestProgress {
    /// The app did not receive the request, or the rest is not a response: no end is counted.
    #[default]
    Untimed,
    /// The app has the request, and has not responded yet.
    Sent,
    /// The response is not complete.
    Responding,
    /// The response is complete.
    Complete,
    /// The app failed.
    Failed,
}

// === impl RequestProgress ===

impl RequestProgress {
    /// The response begins. `failed` is whether its status is one of a failure in the server.
    pub fn respond(&mut self, failed: bool) {
        if *self != Self::Untimed {
            *self = if failed { Self::Failed } else { Self::Responding };
        }
    }

    /// The app completed its response, or `failed` to.
    pub fn complete(&mut self, failed: bool) {
        match self {
            Self::Untimed => {}
            _ if failed => *self = Self::Failed,
            Self::Responding => *self = Self::Complete,
            Self::Sent | Self::Complete | Self::Failed => {}
        }
    }

    /// How the request ends for the app after this time in it; `None` if it has no end there.
    pub fn end(self, time: Duration) -> Option<RequestEnd> {
        match self {
            Self::Untimed => None,
            Self::Sent | Self::Complete => Some(RequestEnd::Timed(time)),
            Self::Responding => Some(RequestEnd::Untimed),
            Self::Failed => Some(RequestEnd::Failed(time)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_millis(300);

    /// The end of a request whose response began with this status, and whose body was completed or
    /// not, if the app received it.
    fn end(received: bool, server_error: Option<bool>, body_failed: Option<bool>) -> Option<RequestEnd> {
        let mut progress = if received { RequestProgress::Sent } else { RequestProgress::default() };
        if let Some(failed) = server_error {
            progress.respond(failed);
        }
        if let Some(failed) = body_failed {
            progress.complete(failed);
        }
        progress.end(TIME)
    }

    #[test]
    fn end_follows_from_how_far_the_request_was() {
        let (timed, failed) = (Some(RequestEnd::Timed(TIME)), Some(RequestEnd::Failed(TIME)));
        for (name, server_error, body_failed, expected) in [
            ("complete", Some(false), Some(false), timed),
            ("server error", Some(true), Some(false), failed),
            ("server error without a body", Some(true), None, failed),
            ("cut response", Some(false), Some(true), failed),
            ("cancelled before the response", None, None, timed),
            ("cancelled in the response", Some(false), None, Some(RequestEnd::Untimed)),
        ] {
            assert_eq!(end(true, server_error, body_failed), expected, "{name}");
            assert_eq!(end(false, server_error, body_failed), None, "{name}, not received");
        }
    }
}
