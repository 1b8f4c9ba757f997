//! Abort: ends a connection with a reset.
//!
//! Where a message has no end of its own, an orderly end (FIN) would make the part that was relayed
//! look complete. A socket with a linger time of zero sends RST when it is closed.

use std::time::Duration;

use http_client::ReadAhead;
use socket2::SockRef;
use tokio::net::TcpStream;

/// A connection that can be reset.
pub trait Abort {
    /// Makes the close of the connection a reset.
    fn abort(&self);
}

impl Abort for TcpStream {
    fn abort(&self) {
        if let Err(error) = SockRef::from(self).set_linger(Some(Duration::ZERO)) {
            tracing::debug!(%error, "connection is closed instead of reset");
        }
    }
}

impl<S: Abort> Abort for ReadAhead<S> {
    fn abort(&self) {
        self.get_ref().abort();
    }
}

#[cfg(test)]
impl Abort for tokio::io::DuplexStream {
    fn abort(&self) {}
}
