//! ReadBuffer: what is read from any connection of a thread comes here first, and is copied to where it has just the room it
//! needs. A copy is cheap beside the kernel's own, and a connection that waits holds no buffer.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};

/// Most that one read takes, in bytes.
pub const READ: usize = 64 * 1024;

thread_local! {
    static READ_BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ].into_boxed_slice());
}

/// Reads what there is, behind what is in `to`; 0 at the end.
pub fn poll_read(
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
