//! Frames of HTTP/2, well-formed or not. Header blocks are literals without compression, so that
//! they can have any content.

/// The client preface.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Error codes (RFC 9113, 7).
pub mod code {
    #![allow(missing_docs, reason = "they have the RFC's names")]
    pub const NO_ERROR: u32 = 0;
    pub const PROTOCOL_ERROR: u32 = 1;
    pub const INTERNAL_ERROR: u32 = 2;
    pub const FLOW_CONTROL_ERROR: u32 = 3;
    pub const STREAM_CLOSED: u32 = 5;
    pub const FRAME_SIZE_ERROR: u32 = 6;
    pub const REFUSED_STREAM: u32 = 7;
    pub const CANCEL: u32 = 8;
    pub const COMPRESSION_ERROR: u32 = 9;
    pub const ENHANCE_YOUR_CALM: u32 = 11;
}

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

/// Initial flow-control window (RFC 9113, 6.9.2).
pub(super) const DEFAULT_WINDOW: u64 = 65_535;

pub(super) const END_STREAM: u8 = 0x1;
pub(super) const ACK: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;
pub(super) const PADDED: u8 = 0x8;

/// Longest payload that a test peer reads; the proxies send much shorter ones.
pub(super) const MAX_FRAME: usize = 1 << 14;

/// A frame, which may be invalid.
#[derive(Clone, Debug)]
pub struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

/// HEADERS with these fields, in this order.
pub fn headers(stream: u32, fields: &[(&str, &str)]) -> Frame {
    let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    block(stream, &fields)
}

/// A header's name and value as bytes.
pub type Field<'a> = (&'a [u8], &'a [u8]);

/// HEADERS with fields of arbitrary bytes.
pub fn block(stream: u32, fields: &[Field<'_>]) -> Frame {
    let mut payload = Vec::new();
    for (name, value) in fields {
        payload.push(0);
        literal(&mut payload, name);
        literal(&mut payload, value);
    }
    Frame { kind: HEADERS, flags: END_HEADERS, stream, payload }
}

/// A well-formed request's HEADERS, with more fields.
pub fn request(stream: u32, method: &str, path: &str, more: &[(&str, &str)]) -> Frame {
    let mut fields = vec![(":method", method), (":scheme", "http"), (":authority", "a"), (":path", path)];
    fields.extend(more);
    headers(stream, &fields)
}

/// A whole GET.
pub fn get(stream: u32, path: &str) -> Frame {
    request(stream, "GET", path, &[]).ending()
}

/// DATA.
pub fn data(stream: u32, bytes: impl AsRef<[u8]>) -> Frame {
    frame(DATA, 0, stream, bytes)
}

/// RST_STREAM.
pub fn reset(stream: u32, code: u32) -> Frame {
    frame(RST_STREAM, 0, stream, code.to_be_bytes())
}

/// GOAWAY after stream `last`.
pub fn goaway(last: u32, code: u32) -> Frame {
    frame(GOAWAY, 0, 0, [last.to_be_bytes(), code.to_be_bytes()].concat())
}

/// SETTINGS with one value.
pub fn setting(identifier: u16, value: u32) -> Frame {
    frame(SETTINGS, 0, 0, [identifier.to_be_bytes().as_slice(), &value.to_be_bytes()].concat())
}

/// WINDOW_UPDATE.
pub fn window_update(stream: u32, by: u32) -> Frame {
    frame(WINDOW_UPDATE, 0, stream, by.to_be_bytes())
}

/// CONTINUATION with part of a header block.
pub fn continuation(stream: u32, part: impl AsRef<[u8]>) -> Frame {
    frame(CONTINUATION, 0, stream, part)
}

/// Any frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: impl AsRef<[u8]>) -> Frame {
    Frame { kind, flags, stream, payload: payload.as_ref().to_vec() }
}

// === impl Frame ===

impl Frame {
    /// With END_STREAM.
    pub fn ending(mut self) -> Self {
        self.flags |= END_STREAM;
        self
    }

    /// Without END_HEADERS, and with only the first `length` bytes of its block; the rest in
    /// CONTINUATIONs of the same size.
    pub fn split(mut self, length: usize) -> Vec<Self> {
        let rest = self.payload.split_off(length.min(self.payload.len()));
        self.flags &= !END_HEADERS;
        let stream = self.stream;
        let mut frames = vec![self];
        frames.extend(rest.chunks(length).map(|part| continuation(stream, part)));
        if let Some(last) = frames.last_mut() {
            last.flags |= END_HEADERS;
        }
        frames
    }

    /// Moves a frame of stream 1 to `stream`.
    pub(crate) fn on(mut self, stream: u32) -> Self {
        if self.stream == 1 {
            self.stream = stream;
        }
        self
    }

    /// The encoded frame.
    pub fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.payload.len()).unwrap_or(u32::MAX).to_be_bytes();
        let mut bytes = length.iter().skip(1).copied().collect::<Vec<_>>();
        bytes.extend([self.kind, self.flags]);
        bytes.extend(self.stream.to_be_bytes());
        bytes.extend(&self.payload);
        bytes
    }
}

fn literal(block: &mut Vec<u8>, text: &[u8]) {
    // An integer with a prefix of 7 bits (RFC 7541, 5.1), and no Huffman code.
    let mut rest = text.len();
    if rest < 127 {
        block.push(u8::try_from(rest).unwrap_or_default());
    } else {
        block.push(127);
        rest -= 127;
        while rest >= 128 {
            block.push(u8::try_from(rest % 128).unwrap_or_default() | 128);
            rest /= 128;
        }
        block.push(u8::try_from(rest).unwrap_or_default());
    }
    block.extend(text);
}
