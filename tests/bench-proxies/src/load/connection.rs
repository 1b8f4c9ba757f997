//! One kept-alive connection, and the request that is on it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use crate::response;

/// What a browser or a client library sends at the least.
const REQUEST: &[u8] = b"GET /hello HTTP/1.1\r\n\
    Host: web.shop.example.com\r\n\
    User-Agent: bench-proxies/0.1\r\n\
    Accept: */*\r\n\
    X-Request-Id: 4bf92f3577b34da6a3ce929d0e0e4736\r\n\
    \r\n";

pub(super) struct Connection {
    stream: TcpStream,
    /// When the request that is under way was due.
    due: Option<Instant>,
    /// The start of its response.
    part: Vec<u8>,
}

/// What a look at a readable connection gave.
pub(super) enum Received {
    /// Not the whole response yet.
    Part,
    /// The response to the request that was due then.
    Answer { due: Instant, status: u16 },
    /// The connection is of no more use.
    End,
}

// === impl Connection ===

impl Connection {
    pub(super) fn open(target: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(target)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, due: None, part: Vec::new() })
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// When the request that has no answer yet was due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(super) fn send(&mut self, due: Instant) -> io::Result<()> {
        self.due = Some(due);
        self.stream.write_all(REQUEST)
    }

    /// Reads what is there, by way of a buffer that all connections share.
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
            Some(due) if bytes.len() == response.length => Received::Answer { due, status: response.status },
            // An answer to nothing, or more than an answer.
            due => {
                self.due = due;
                Received::End
            }
        }
    }
}
