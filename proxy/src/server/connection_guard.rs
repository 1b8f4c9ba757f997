//! ConnectionGuard: what the owner of a listener ties to each connection.

use std::future::{Future, pending};

use bytes::Bytes;
use http::Response;
use http_body_util::Full;

/// Held by an open connection until its end.
pub trait ConnectionGuard: Send + Sync + 'static {
    /// A part of the memory budget, until dropped.
    type Permit: Send + 'static;

    /// Takes memory for data of uploads that nothing reads.
    ///
    /// # Errors
    /// The response to an upload, if there is no more.
    fn take_memory(&self, bytes: u64) -> Result<Self::Permit, Box<Response<Full<Bytes>>>>;

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

impl ConnectionGuard for () {
    type Permit = ();

    fn take_memory(&self, _: u64) -> Result<(), Box<Response<Full<Bytes>>>> {
        Ok(())
    }
}
