//! Bytes that connections and requests take of the [`budget`](super::budget).
//!
//! A connection takes its bytes with its accept, an HTTP/2 stream with its head, and a held request
//! takes those that it brings. They are estimates of what stays in memory. Data of HTTP/2 that
//! nothing reads takes what it keeps (`server::http2`). Other bytes that running requests buffer
//! have no permit: they are a reason why the budget is a part of the memory limit.

use http::Version;
use http::request::Parts;

/// An open connection with one request of HTTP/1.1: 11 KiB of buffers, tasks and futures (`make
/// bench-held`), and 4 KiB of its socket in the kernel, which a cgroup accounts as well (growth of
/// /proc/slabinfo for 6,000 connections). In a sidecar it takes 14 KiB with its connection to
/// the app, and 22 KiB with half of a head (growth of the cgroup's usage for 4,000 connections).
pub const CONNECTION_BYTES: u64 = 16 << 10;
/// A connection of HTTP/2 without streams, beside the above, from its preface to its end. It takes
/// the socket and 16 KiB before its first request, 26 KiB after it, and 34 KiB after ten requests
/// at a time (growth of the resident memory for 2,000 connections): buffers and the places of
/// streams stay for the next requests. After a hundred at a time it takes 84 KiB, which this does
/// not cover.
pub const HTTP2_BYTES: u64 = 24 << 10;
/// A stream of HTTP/2 beside its connection: 7.4 KiB while it is held (growth of the resident
/// memory for 20,000 streams on 200 connections), and 4.4 KiB in a sidecar (16,000 streams on 16).
pub const STREAM_BYTES: u64 = 8 << 10;
/// A request's head that a connection and a stream have room for.
const HEAD_BYTES: usize = 4 << 10;
/// Bytes of a body that are read while its request waits, at most: one read of HTTP/1.1, or a
/// stream's window of HTTP/2.
pub const BODY_READ_AHEAD: u32 = 64 << 10;

/// What a request takes from its head to the end of its response, beside its connection.
pub fn request_bytes(version: Version, upgrades: bool) -> u64 {
    match version {
        Version::HTTP_2 => STREAM_BYTES,
        // Its connection ends for the server, and goes on as a tunnel.
        _ if upgrades => CONNECTION_BYTES,
        _ => 0,
    }
}

/// What a request takes more while it is held: a large head, and what is read of its body ahead.
/// `body` is the upper bound of the body's size, if it has one. Uploads of HTTP/2 take what has
/// arrived, held or not.
pub fn held_bytes(head: &Parts, body: Option<u64>) -> u64 {
    let version = head.version;
    let fields = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len());
    let path = head.uri.path_and_query().map_or(0, |path| path.as_str().len());
    let head = (fields.sum::<usize>() + path).saturating_sub(HEAD_BYTES) as u64;
    let read_ahead = match version {
        Version::HTTP_2 => 0,
        _ => u64::from(BODY_READ_AHEAD),
    };
    head.saturating_add(body.unwrap_or(read_ahead).min(read_ahead))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn held_request_takes_its_large_head_and_body_read_ahead() {
        let value = "a".repeat(5000);
        let head = |value: &str| Request::get("/abcd").header("name", value).body(()).unwrap().into_parts().0;
        assert_eq!(held_bytes(&head("value"), Some(0)), 0);
        assert_eq!(held_bytes(&head(&value), Some(10)), 5009 - 4096 + 10);
        assert_eq!(held_bytes(&head("value"), Some(1 << 30)), 64 << 10);
        assert_eq!(held_bytes(&head("value"), None), 64 << 10);
        let mut http2 = head(&value);
        http2.version = Version::HTTP_2;
        assert_eq!(held_bytes(&http2, None), 5009 - 4096);
    }

    #[test]
    fn single_request_of_a_connection_takes_nothing_more() {
        assert_eq!(request_bytes(Version::HTTP_11, false), 0);
        assert_eq!(request_bytes(Version::HTTP_11, true), CONNECTION_BYTES);
        assert_eq!(request_bytes(Version::HTTP_2, false), STREAM_BYTES);
    }
}
