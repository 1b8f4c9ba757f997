//! Detects HTTP/2 by its preface, with a timeout for the first bytes.
//!
//! hyper-util can detect it as well, but without a timeout, and it keeps the first bytes of HTTP/1
//! as a buffer of their own: the buffers of such a connection are twice as large from then on.

use std::future::poll_fn;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_client::{ReadAhead, read_buffer};
use tokio::io::AsyncRead;

/// The preface of HTTP/2 (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// HTTP/1.1 or older, or not HTTP.
    Http1,
    /// HTTP/2.
    Http2,
}

// === impl Protocol ===

impl Protocol {
    /// Detects the protocol; returns the stream from its first byte. `None` for one that closes
    /// without a byte.
    pub(super) async fn detect<S: AsyncRead + Unpin>(
        mut stream: S,
        within: Duration,
    ) -> io::Result<Option<(Self, ReadAhead<S>)>> {
        let detected = tokio::time::timeout(within, read_preface(&mut stream)).await??;
        Ok(detected.map(|(protocol, ahead)| (protocol, ReadAhead::new(stream, ahead))))
    }
}

async fn read_preface(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<(Protocol, Bytes)>> {
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
        let (mut client, stream) = duplex(64);
        let write = async {
            for part in parts {
                client.write_all(part).await.unwrap();
                tokio::task::yield_now().await;
            }
            if ends {
                client.shutdown().await.unwrap();
            }
        };
        tokio::join!(Protocol::detect(stream, TIME), write).0
    }

    #[tokio::test(start_paused = true)]
    async fn times_out_on_missing_or_partial_preface() {
        let late: [&[&[u8]]; 3] = [&[], &[b"PRI * HT"], &[b"P", b"RI"]];
        for parts in late {
            assert_eq!(of(parts, false).await.unwrap_err().kind(), io::ErrorKind::TimedOut, "{parts:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn detects_protocol_and_keeps_first_bytes() {
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
