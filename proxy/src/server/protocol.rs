//! Protocol: what a connection speaks, by its first bytes, which have to come within some time.
//!
//! The library can tell, too, but would wait for ever, and takes the first bytes of HTTP/1 for a head of their own: the
//! buffer of such a connection is twice as large from then on.

use std::future::poll_fn;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_client::{ReadAhead, read_buffer};
use tokio::io::AsyncRead;

/// What every connection of HTTP/2 begins with (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// 1.1 or older, or something else altogether.
    Http1,
    /// 2, as its preface says.
    Http2,
}

// === impl Protocol ===

impl Protocol {
    /// What `stream` speaks, and the stream from its first byte. Nothing for one that ends without any.
    pub(super) async fn of<S: AsyncRead + Unpin>(
        mut stream: S,
        within: Duration,
    ) -> io::Result<Option<(Self, ReadAhead<S>)>> {
        let recognized = tokio::time::timeout(within, recognize(&mut stream)).await??;
        Ok(recognized.map(|(protocol, ahead)| (protocol, ReadAhead::new(stream, ahead))))
    }
}

async fn recognize(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<(Protocol, Bytes)>> {
    let mut first = Bytes::new();
    loop {
        let read = poll_fn(|cx| read_buffer::poll_read(stream, cx, &mut first)).await?;
        if first.starts_with(PREFACE) {
            return Ok(Some((Protocol::Http2, first)));
        }
        if !PREFACE.starts_with(&first) || read == 0 {
            return Ok((!first.is_empty()).then_some((Protocol::Http1, first)));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    const TIME: Duration = Duration::from_secs(30);

    async fn of(parts: &[&[u8]], ends: bool) -> io::Result<Option<(Protocol, ReadAhead<DuplexStream>)>> {
        let (mut caller, stream) = duplex(64);
        let write = async {
            for part in parts {
                caller.write_all(part).await.unwrap();
                tokio::task::yield_now().await;
            }
            if ends {
                caller.shutdown().await.unwrap();
            }
        };
        tokio::join!(Protocol::of(stream, TIME), write).0
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_and_half_a_preface_time_out() {
        let late: [&[&[u8]]; 3] = [&[], &[b"PRI * HT"], &[b"P", b"RI"]];
        for parts in late {
            assert_eq!(of(parts, false).await.unwrap_err().kind(), io::ErrorKind::TimedOut, "{parts:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn first_bytes_tell_and_are_not_lost() {
        let cases: [(&[&[u8]], Protocol); 5] = [
            (&[PREFACE, b"more"], Protocol::Http2),
            (&[b"PRI * ", b"HTTP/2.0\r\n\r\nSM\r\n\r\n"], Protocol::Http2),
            (&[b"GET / HTTP/1.1\r\n"], Protocol::Http1),
            (&[b"P", b"OST / HTTP/1.1\r\n"], Protocol::Http1),
            (&[b"PRI * HTTP"], Protocol::Http1),
        ];
        for (parts, expected) in cases {
            let (protocol, mut stream) = of(parts, true).await.unwrap().unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).await.unwrap();
            assert_eq!((protocol, all), (expected, parts.concat()), "{parts:?}");
        }
        assert!(of(&[], true).await.unwrap().is_none());
    }
}
