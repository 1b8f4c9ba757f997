//! An HTTP/1.1 connection, and the buffer that it keeps between requests.

use std::io;

use tokio::net::TcpStream;

/// Largest capacity for a request head that an idle connection keeps, in bytes.
const KEPT_CAPACITY: usize = 4 * 1024;

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    /// The head of the request until the response begins. Its capacity is reused by the next
    /// request.
    pub(crate) head: Vec<u8>,
}

// === impl Connection ===

impl Connection {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, head: Vec::new() }
    }

    /// True if nothing can be read: the server has neither closed the connection nor sent bytes
    /// that belong to no request.
    pub(crate) fn is_idle(&self) -> bool {
        // tokio makes a system call only if the socket was reported readable.
        matches!(self.stream.try_read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Frees an oversized buffer before the connection becomes idle.
    pub(crate) fn shrink(&mut self) {
        if self.head.capacity() > KEPT_CAPACITY {
            self.head = Vec::new();
        }
    }
}
