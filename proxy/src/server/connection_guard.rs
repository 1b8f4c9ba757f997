//! ConnectionGuard: what the owner of a listener ties to each connection.

use std::future::{Future, pending};

/// Held by an open connection until its end.
pub trait ConnectionGuard: Send + Sync + 'static {
    /// Called when the connection begins HTTP/2, which takes more memory; false closes it.
    fn admits_http2(&self) -> bool {
        true
    }

    /// Completes when the connection must close at once. Its owner calls for that only while no
    /// request runs on it. HTTP/2 clients get GOAWAY; requests that the handler got later are
    /// refused.
    fn closed(&self) -> impl Future<Output = ()> + Send {
        pending()
    }
}

impl ConnectionGuard for () {}
