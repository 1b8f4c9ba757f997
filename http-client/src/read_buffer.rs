//! One read buffer per thread. A read goes into it and is then copied into an allocation of its
//! exact size. A copy is cheap beside the system call, and a connection that waits holds no buffer.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, ReadBuf};

/// Largest read, in bytes. A response keeps what is not decoded while its client does not read;
/// reads of 64 KiB took no less CPU time for bodies of 1 MB.
pub const MAX_READ: usize = 16 * 1024;

thread_local! {
    static READ_BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; MAX_READ].into_boxed_slice());
}

/// Reads once and appends to `to`. Returns the number of bytes, 0 at the end of the stream.
pub fn poll_read(
    stream: &mut (impl AsyncRead + Unpin),
    cx: &mut Context<'_>,
    to: &mut Bytes,
) -> Poll<io::Result<usize>> {
    READ_BUFFER.with_borrow_mut(|buffer| {
        let mut buffer = ReadBuf::new(buffer);
        ready!(Pin::new(stream).poll_read(cx, &mut buffer))?;
        let read = buffer.filled();
        // Only heads, chunk sizes and trailers need more than one read.
        *to = if to.is_empty() { Bytes::copy_from_slice(read) } else { append(std::mem::take(to), read) };
        Poll::Ready(Ok(read.len()))
    })
}

/// Grows the allocation by doubling: a peer may send a head byte by byte, and a copy of the whole
/// head for each byte would take time that grows with its square.
fn append(before: Bytes, read: &[u8]) -> Bytes {
    let mut all = before.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
    all.extend_from_slice(read);
    all.freeze()
}
