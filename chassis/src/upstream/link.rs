//! Link: a connection, and what of it has to be kept from one read or write to the next.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;

/// Most that one read takes, in bytes, and so the most that is held of a response that nobody takes.
const READ: usize = 64 * 1024;
/// Room for a request's head that a resting connection keeps, in bytes.
const KEPT: usize = 4 * 1024;

thread_local! {
    /// What is read comes here first and is copied to where it has just the room it needs: a copy is cheap beside the
    /// kernel's own, and a connection that waits for its answer holds no buffer.
    static READ_BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ].into_boxed_slice());
}

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) stream: TcpStream,
    /// The head of the request, until its response has begun; kept for the next one's.
    pub(super) head: Vec<u8>,
}

// === impl Link ===

impl Link {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, head: Vec::new() }
    }

    /// Whether the other side has neither closed it nor said anything out of turn, as far as is known.
    pub(super) fn is_quiet(&self) -> bool {
        // Costs a system call only if there is something to read.
        matches!(self.stream.try_read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Before a rest.
    pub(super) fn tidy(&mut self) {
        if self.head.capacity() > KEPT {
            self.head = Vec::new();
        }
    }
}

/// Reads what there is, behind what is in `to`; 0 at the end.
pub(super) fn poll_read(
    stream: &mut (impl AsyncRead + Unpin),
    cx: &mut Context<'_>,
    to: &mut Bytes,
) -> Poll<io::Result<usize>> {
    READ_BUFFER.with_borrow_mut(|buffer| {
        let mut buffer = ReadBuf::new(buffer);
        ready!(Pin::new(stream).poll_read(cx, &mut buffer))?;
        let read = buffer.filled();
        // More than one read is only held of what has no meaning before its end: heads, sizes of chunks, trailers.
        *to = if to.is_empty() { Bytes::copy_from_slice(read) } else { [to, read].concat().into() };
        Poll::Ready(Ok(read.len()))
    })
}
