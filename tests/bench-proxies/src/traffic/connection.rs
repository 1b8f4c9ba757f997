//! One keep-alive connection of the load generator, with at most one request in flight.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use super::response;

/// The headers that client libraries send at least.
const REQUEST: &[u8] = b"GET /hello HTTP/1.1\r\n\
    Host: web.shop.example.com\r\n\
    User-Agent: bench-proxies/0.1\r\n\
    Accept: */*\r\n\
    X-Request-Id: 4bf92f3577b34da6a3ce929d0e0e4736\r\n\
    \r\n";

pub(super) struct Connection {
    target: SocketAddr,
    stream: TcpStream,
    /// Due time of the request in flight.
    due: Option<Instant>,
    /// The received part of its response.
    part: Vec<u8>,
}

/// Result of a read.
pub(super) enum Received {
    /// The response is incomplete.
    Part,
    /// A whole response; `due` is the due time of its request.
    Response { due: Instant, status: u16 },
    /// The connection was closed or broke the protocol.
    End,
}

// === impl Connection ===

impl Connection {
    pub(super) fn open(target: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(target)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self { target, stream, due: None, part: Vec::new() })
    }

    pub(super) fn target(&self) -> SocketAddr {
        self.target
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// Due time of the request in flight.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(super) fn send(&mut self, due: Instant) -> io::Result<()> {
        self.due = Some(due);
        self.stream.write_all(REQUEST)
    }

    /// Reads once, into a buffer that all connections share.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> Received {
        let count = match self.stream.read(buffer) {
            Ok(0) => return Received::End,
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Received::Part;
            }
            Err(_) => return Received::End,
        };
        let read = buffer.get(..count).unwrap_or_default();
        if self.part.is_empty() {
            return self.take(read);
        }
        let mut whole = std::mem::take(&mut self.part);
        whole.extend_from_slice(read);
        self.take(&whole)
    }

    fn take(&mut self, bytes: &[u8]) -> Received {
        let response = match response::parse(bytes) {
            Ok(Some(response)) if bytes.len() >= response.length => response,
            Ok(_) => {
                self.part = bytes.to_vec();
                return Received::Part;
            }
            Err(response::Malformed) => return Received::End,
        };
        match self.due.take() {
            Some(due) if bytes.len() == response.length => {
                Received::Response { due, status: response.status }
            }
            // A response without a request, or bytes after the response.
            due => {
                self.due = due;
                Received::End
            }
        }
    }
}
