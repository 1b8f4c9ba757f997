//! Websocket frames on the stats port, on the connection of an activator.

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
/// Connections between two checks of the server.
const CONNECTIONS: usize = 50;
const CHECK_TIMEOUT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn invalid_frames_never_break_the_server() {
    let (campaign, panics) = (Campaign::from_environment(), Panics::count());
    let corpus = crate::corpus("frames", WORDS);
    let adapter = Adapter::start(Setup::alone().await);
    let mut random = campaign.random(0);
    let mut inputs = 0;
    for seed in corpus.seeds() {
        send(&adapter, seed).await;
    }
    while !campaign.is_over() {
        for _ in 0..CONNECTIONS {
            send(&adapter, &corpus.input(&mut random)).await;
            inputs += 1;
        }
        check_server(&adapter).await;
        // Panics of the other targets count too; those print their input.
        assert_eq!(panics.so_far(), 0, "with seed {}, within {inputs} inputs", campaign.seed);
    }
    println!("{inputs} connections");
}

/// Sends these bytes on a new connection after the handshake, then waits until the server closes
/// it.
async fn send(adapter: &Adapter, bytes: &[u8]) {
    let MaybeTlsStream::Plain(mut stream) = adapter.connect("/push").await.into_inner() else {
        unreachable!()
    };
    // The server may close before all bytes are written.
    if stream.write_all(bytes).await.is_ok() && stream.shutdown().await.is_ok() {
        let mut response = Vec::new();
        let read = stream.read_to_end(&mut response);
        let _ = tokio::time::timeout(CHECK_TIMEOUT, read)
            .await
            .expect("the server closes a connection that the client ended");
    }
}

/// Checks that a valid push is still recorded, and that all other connections are closed.
async fn check_server(adapter: &Adapter) {
    let frames = adapter.metrics.pushes.frames.get();
    let mut socket = adapter.connect("/push").await;
    socket.send(push(1.0)).await.unwrap();
    let end = Instant::now() + CHECK_TIMEOUT;
    while adapter.metrics.pushes.frames.get() == frames || adapter.metrics.pushes.connections.get() > 1 {
        assert!(Instant::now() < end, "{} connections are left", adapter.metrics.pushes.connections.get());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    socket.close(None).await.unwrap();
}
