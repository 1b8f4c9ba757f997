//! Frames of websockets, as an activator's connection brings them to the stats port.

use std::time::Duration;

use futures::SinkExt;
use fuzzing::{Campaign, Panics};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;
use tokio_tungstenite::MaybeTlsStream;

use crate::support::{Adapter, Setup, push};

const WORDS: &[&[u8]] = &[
    b"\x81",
    b"\x01",
    b"\x80",
    b"\x88\x80\0\0\0\0",
    b"\x89\x80\0\0\0\0",
    b"\x8a\x80\0\0\0\0",
    b"\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0",
    b"\x81\xfe\xff\xff\0\0\0\0",
    b"\xf1",
    b"{\"activator\":\"a\",\"messages\":[]}",
    b"\xc0\x80",
    b"1e999",
];
/// After so many connections it is seen whether all is well.
const CONNECTIONS: usize = 50;
/// Longest time for that.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn no_frames_do_any_harm() {
    let (campaign, panics) = (Campaign::from_environment(), Panics::count());
    let corpus = crate::corpus("frames", WORDS);
    let adapter = Adapter::start(Setup::alone(0).await);
    let mut random = campaign.random(0);
    let mut played = 0;
    for seed in corpus.seeds() {
        send(&adapter, seed).await;
    }
    while !campaign.is_over() {
        for _ in 0..CONNECTIONS {
            send(&adapter, &corpus.input(&mut random)).await;
            played += 1;
        }
        is_well(&adapter).await;
        // An answer that panicked is another test's, too, which then prints its input.
        assert_eq!(panics.so_far(), 0, "with seed {}, within {played} inputs", campaign.seed);
    }
    println!("{played} connections");
}

/// One connection on which these bytes come after the handshake, until the other end has had enough of them.
async fn send(adapter: &Adapter, bytes: &[u8]) {
    let MaybeTlsStream::Plain(mut stream) = adapter.connect("/push").await.into_inner() else {
        unreachable!()
    };
    // It may be closed before all was written.
    if stream.write_all(bytes).await.is_ok() && stream.shutdown().await.is_ok() {
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        let _ =
            tokio::time::timeout(PATIENCE, read).await.expect("a connection that its caller ended is ended");
    }
}

/// Whether a good push is still taken, and every other connection was let go.
async fn is_well(adapter: &Adapter) {
    let frames = adapter.metrics.pushes.frames.get();
    let mut socket = adapter.connect("/push").await;
    socket.send(push(1.0)).await.unwrap();
    let end = Instant::now() + PATIENCE;
    while adapter.metrics.pushes.frames.get() == frames || adapter.metrics.pushes.connections.get() > 1 {
        assert!(Instant::now() < end, "{} connections are left", adapter.metrics.pushes.connections.get());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    socket.close(None).await.unwrap();
}
