//! Reply: the bytes of one response, their segments, and the end of the connection.

use std::fmt;

use fuzzing::mutate;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

/// Responses that mutations start from.
const SEEDS: &[&[u8]] = &[
    b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\ncontent-length: 5, 5\r\nconnection: close\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n00A;x=\"1\"\r\n0123456789\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: sum\r\n\r\n1\r\nx\r\n0\r\nsum: 7\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n\r\nuntil the connection closes",
    b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nbytes of x",
    b"HTTP/1.1 304 Not Modified\r\ncontent-length: 900\r\netag: \"x\"\r\n\r\n",
    b"HTTP/1.1 999 \xff\r\nset-cookie: a\r\nset-cookie: b\r\ncontent-length: 0\r\n\r\n",
];
/// Tokens with a meaning in a response.
const WORDS: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b" ",
    b"\0",
    b":",
    b",",
    b";",
    b"HTTP/1.1 ",
    b"HTTP/1.0 ",
    b"HTTP/2 ",
    b"100 Continue\r\n\r\n",
    b"101 x\r\n",
    b"204 x\r\n",
    b"0\r\n\r\n",
    b"-1\r\n",
    b"ffffffffffffffff\r\n",
    b"10000000000000000\r\n",
    b"content-length: 3\r\n",
    b"content-length: 18446744073709551616\r\n",
    b"content-length: +5\r\n",
    b"transfer-encoding: chunked\r\n",
    b"transfer-encoding: gzip, chunked\r\n",
    b"connection: close\r\n",
    b"connection: keep-alive\r\n",
];
/// Header lines of a flood: the client accepts 100.
const FLOOD_LINES: usize = 120;
/// Longest line of a flood, in bytes: the client accepts heads of 64 KiB.
const FLOOD_LINE: usize = 80_000;

/// One response as the server writes it.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) segments: Vec<Vec<u8>>,
    pub(crate) closing: Closing,
}

/// How the server ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    Close,
    Reset,
}

// === impl Reply ===

impl Reply {
    /// Splits `bytes` into up to six segments.
    pub(crate) fn split(bytes: &[u8], random: &mut impl Rng) -> Self {
        let mut cuts = vec![0, bytes.len()];
        cuts.extend((0..random.random_range(0..6)).map(|_| random.random_range(0..=bytes.len())));
        cuts.sort_unstable();
        let segments = cuts.windows(2).map(|cut| bytes[cut[0]..cut[1]].to_vec()).collect();
        let closing = if random.random_ratio(1, 8) { Closing::Reset } else { Closing::Close };
        Self { segments, closing }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.segments.concat()
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.segments {
            writeln!(f, "  \"{}\"", segment.escape_ascii())?;
        }
        write!(f, "  {:?}", self.closing)
    }
}

/// A seed with random mutations, sometimes with a flood of header lines or one long line.
pub(crate) fn mutated(random: &mut impl Rng) -> Reply {
    let mut bytes = SEEDS.choose(random).unwrap().to_vec();
    for _ in 0..random.random_range(0..5) {
        let other = SEEDS.choose(random).unwrap();
        mutate(&mut bytes, other, WORDS, random);
    }
    if random.random_ratio(1, 20)
        && let Some(at) = bytes.windows(2).position(|end| end == b"\r\n")
    {
        let flood = if random.random() {
            b"x: y\r\n".repeat(random.random_range(0..FLOOD_LINES))
        } else {
            [b"x: ".as_slice(), &b"y".repeat(random.random_range(0..FLOOD_LINE)), b"\r\n"].concat()
        };
        bytes.splice(at + 2..at + 2, flood);
    }
    Reply::split(&bytes, random)
}

/// A valid response with a body of known end, and its data.
pub(crate) fn well_formed(random: &mut impl Rng) -> (Vec<u8>, Vec<u8>) {
    let mut bytes = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(random.random_range(0..2));
    bytes.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    let data: Vec<u8> = (0..random.random_range(1..2000)).map(|_| random.random()).collect();
    if random.random() {
        bytes.extend_from_slice(format!("content-length: {}\r\n\r\n", data.len()).as_bytes());
        bytes.extend_from_slice(&data);
        return (bytes, data);
    }
    bytes.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
    for chunk in data.chunks(random.random_range(1..500)) {
        bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(if random.random() { b"0\r\n\r\n" } else { b"0\r\nsum: 7\r\n\r\n" });
    (bytes, data)
}
