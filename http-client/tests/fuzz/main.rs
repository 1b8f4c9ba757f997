//! Fuzz tests of the HTTP/1.1 client against a loopback server that writes random responses.
//!
//! No response may panic, hang or use unbounded memory. A body that was cut must end with an error,
//! and the pool must serve the next request. See [`fuzzing`] for the duration and the seeds.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests"
)]

mod reply;
mod server;

use fuzzing::{Campaign, Panics};
use http::Method;
use rand::RngExt;
use rand::seq::IndexedRandom;

use crate::reply::{Closing, Reply, mutated, well_formed};
use crate::server::{Server, TIMEOUT};

/// More than the send and receive buffers of a loopback connection hold.
const FLOOD: usize = 64 << 20;
/// What a client that stops reading leaves in those buffers, in bytes.
const MAX_FLOOD: usize = 24 << 20;

#[tokio::test]
async fn malformed_responses_never_break_the_client() {
    let (campaign, panics, server) = (Campaign::from_environment(), Panics::count(), Server::start().await);
    let mut random = campaign.random(0);
    let mut inputs = 0;
    while !campaign.is_over() {
        let reply = mutated(&mut random);
        let method = [Method::GET, Method::HEAD, Method::POST].choose(&mut random).unwrap().clone();
        let context = format!("with seed {}, {method}, after\n{reply}", campaign.seed);
        let received = server.exchange(method.clone(), &reply).await.expect(&context);
        if let Ok(received) = received {
            assert!(received.data.len() <= reply.bytes().len(), "{context}");
            let has_body = method != Method::HEAD && !matches!(received.status.as_u16(), 101 | 204 | 304);
            if let Some(length) = received.content_length.filter(|_| has_body) {
                assert_eq!(received.data.len() as u64, length, "{context}");
            }
        }
        assert_eq!(panics.so_far(), 0, "{context}");
        inputs += 1;
    }
    println!("{inputs} malformed responses");
    assert!(inputs > 100, "only {inputs} inputs");
}

#[tokio::test]
async fn cut_bodies_end_with_an_error() {
    let (campaign, server) = (Campaign::from_environment(), Server::start().await);
    let mut random = campaign.random(1);
    let mut inputs = 0;
    while !campaign.is_over() {
        let (mut bytes, data) = well_formed(&mut random);
        let length = bytes.len();
        if random.random_ratio(2, 3) {
            bytes.truncate(random.random_range(0..length));
        }
        let reply = Reply::split(&bytes, &mut random);
        let context = format!("with seed {}, {} of {length} bytes\n{reply}", campaign.seed, bytes.len());
        match server.exchange(Method::GET, &reply).await.expect(&context) {
            Ok(received) => assert!(bytes.len() == length && received.data == data, "{context}"),
            // A reset may drop bytes that the client has not read.
            Err(error) => {
                assert!(bytes.len() < length || reply.closing == Closing::Reset, "{error}, {context}")
            }
        }
        inputs += 1;
    }
    println!("{inputs} cut or complete responses");
    assert!(inputs > 100, "only {inputs} inputs");
}

#[tokio::test]
async fn endless_heads_chunk_sizes_and_trailers_are_bounded() {
    let server = Server::start().await;
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for (start, repeated) in [
        ("HTTP/1.1 200 ", "OK"),
        ("HTTP/1.1 200 OK\r\n", "a: b\r\n"),
        ("HTTP/1.1 200 OK\r\na: ", "b"),
        (chunked, "0"),
        (&format!("{chunked}1;"), "a"),
        (&format!("{chunked}0\r\n"), "a: b\r\n"),
        (&format!("{chunked}0\r\na: "), "b"),
    ] {
        let flood = server.flood(start.as_bytes(), repeated.as_bytes(), FLOOD);
        let (written, received) = tokio::time::timeout(TIMEOUT, flood).await.expect(repeated);
        assert!(received.is_err(), "{start:?} {repeated:?}");
        assert!(written < MAX_FLOOD, "{written} bytes of {start:?} {repeated:?} were read");
    }
}
