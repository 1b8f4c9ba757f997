//! Connection: a connection, and what of it has to be kept from one request to the next.

use std::io;

use tokio::net::TcpStream;

/// Room for a request's head that a resting connection keeps, in bytes.
const KEPT: usize = 4 * 1024;

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    /// The head of the request, until its response has begun; kept for the next one's.
    pub(crate) head: Vec<u8>,
}

// === impl Connection ===

impl Connection {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, head: Vec::new() }
    }

    /// Whether the other side has neither closed it nor said anything out of turn, as far as is known.
    pub(crate) fn is_quiet(&self) -> bool {
        // Costs a system call only if there is something to read.
        matches!(self.stream.try_read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Before a rest.
    pub(crate) fn tidy(&mut self) {
        if self.head.capacity() > KEPT {
            self.head = Vec::new();
        }
    }
}
