//! Frames of HTTP/2, encoded by hand: libraries do not send what an attacker sends.

use tokio::io::{AsyncRead, AsyncReadExt};

pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const ACK: u8 = 1;
pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// `:method GET`, `:scheme http`, `:path /` of the static table, and `:authority hostile` as a
/// literal.
pub(super) const GET: &[u8] = b"\x82\x86\x84\x01\x07hostile";
/// The same with `:method POST`.
pub(super) const POST: &[u8] = b"\x83\x86\x84\x01\x07hostile";

/// Longer payloads are an error of the server, because no attack allows them.
const MAX_PAYLOAD: usize = 1 << 14;

/// A frame that was read.
pub(super) struct ReceivedFrame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) payload: Vec<u8>,
}

/// Appends a frame.
pub(super) fn append(to: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    to.extend(length.iter().skip(1));
    to.extend([kind, flags]);
    to.extend(stream.to_be_bytes());
    to.extend(payload);
}

/// The next frame; `None` at the end of the connection.
pub(super) async fn read(from: &mut (impl AsyncRead + Unpin)) -> Option<ReceivedFrame> {
    let mut head = [0; 9];
    from.read_exact(&mut head).await.ok()?;
    let [a, b, c, kind, flags, _, _, _, _] = head;
    let length = u32::from_be_bytes([0, a, b, c]) as usize;
    if length > MAX_PAYLOAD {
        return None;
    }
    let mut payload = vec![0; length];
    from.read_exact(&mut payload).await.ok()?;
    Some(ReceivedFrame { kind, flags, payload })
}
