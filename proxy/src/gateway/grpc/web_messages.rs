//! WebMessages: the place in a body of gRPC-Web, as bytes or in base64.
//!
//! A body may end with a frame of trailers between two messages only. In base64 it may do so behind
//! a group of four characters, which servers pad at the end of each message, or at the end of all.

use bytes::{BufMut, Bytes, BytesMut};

/// Bytes of the head of a message: flags, and a length.
pub(super) const HEAD: usize = 5;
/// Flag of the frame with the trailers.
pub(super) const TRAILERS: u8 = 0x80;
/// Characters that are decoded together.
const GROUP: u8 = 4;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The place in a body of gRPC-Web.
#[derive(Debug, Default)]
pub struct WebMessages {
    head: [u8; HEAD],
    /// Bytes of the head that were read.
    head_read: usize,
    /// Bytes of the message that are missing.
    left: u32,
    has_trailers: bool,
}

/// The place in such a body in base64.
#[derive(Debug, Default)]
pub struct WebText {
    messages: WebMessages,
    /// Bits of a group, of which some characters were read.
    bits: u32,
    read: u8,
    padding: u8,
    is_invalid: bool,
}

// === impl WebMessages ===

impl WebMessages {
    pub(super) fn record(&mut self, mut data: &[u8]) {
        while let Some((first, rest)) = data.split_first() {
            if self.left > 0 {
                let read = data.len().min(self.left as usize);
                self.left -= u32::try_from(read).unwrap_or(self.left);
                data = data.get(read..).unwrap_or_default();
                continue;
            }
            if let Some(byte) = self.head.get_mut(self.head_read) {
                *byte = *first;
            }
            self.head_read += 1;
            if self.head_read == HEAD {
                let [flags, length @ ..] = self.head;
                (self.head_read, self.left) = (0, u32::from_be_bytes(length));
                self.has_trailers |= flags & TRAILERS != 0;
            }
            data = rest;
        }
    }

    pub(super) fn may_end(&self) -> bool {
        self.left == 0 && self.head_read == 0 && !self.has_trailers
    }
}

// === impl WebText ===

impl WebText {
    pub(super) fn record(&mut self, text: &[u8]) {
        for character in text {
            let value = match character {
                b'A'..=b'Z' => character - b'A',
                b'a'..=b'z' => character - b'a' + 26,
                b'0'..=b'9' => character - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                b'=' => 0,
                _ => {
                    self.is_invalid = true;
                    return;
                }
            };
            self.padding += u8::from(*character == b'=');
            self.bits = (self.bits << 6) | u32::from(value);
            self.read += 1;
            if self.read == GROUP {
                let [_, bytes @ ..] = self.bits.to_be_bytes();
                let length = bytes.len().saturating_sub(usize::from(self.padding));
                self.messages.record(bytes.get(..length).unwrap_or_default());
                (self.bits, self.read, self.padding) = (0, 0, 0);
            }
        }
    }

    pub(super) fn may_end(&self) -> bool {
        !self.is_invalid && self.read == 0 && self.messages.may_end()
    }
}

/// Base64 with padding.
pub(super) fn base64(data: &[u8]) -> Bytes {
    let mut text = BytesMut::with_capacity(data.len().div_ceil(3) * usize::from(GROUP));
    for group in data.chunks(3) {
        let bytes = [0, 1, 2].map(|at| group.get(at).copied().unwrap_or_default());
        let bits = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]);
        for at in 0..=3 {
            let value = (bits >> (18 - 6 * at)) & 63;
            let character = ALPHABET.get(value as usize).filter(|_| at <= group.len());
            text.put_u8(character.copied().unwrap_or(b'='));
        }
    }
    text.freeze()
}
