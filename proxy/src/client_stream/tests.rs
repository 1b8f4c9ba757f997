use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::{Duration, Instant, advance, timeout};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A connection whose client may have closed behind unread bytes.
#[derive(Debug)]
struct Closable {
    stream: DuplexStream,
    is_closed: Arc<AtomicBool>,
    is_aborted: Arc<AtomicBool>,
}

impl Abort for Closable {
    fn abort(&self) {
        self.is_aborted.store(true, Ordering::Relaxed);
    }
}

impl PeerClosed for Closable {
    fn is_peer_closed(&self) -> io::Result<bool> {
        Ok(self.is_closed.load(Ordering::Relaxed))
    }
}

impl AsyncRead for Closable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, to)
    }
}

impl AsyncWrite for Closable {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A server's connection in the middle of a request, and what reports that its client has closed.
fn in_request(pipe: usize) -> (DuplexStream, ClientStream<Closable>, Arc<AtomicBool>) {
    let (client, stream) = duplex(pipe);
    let (signals, is_closed) = (ClientSignals::default(), Arc::new(AtomicBool::new(false)));
    signals.begin_request(false);
    let stream = Closable { stream, is_closed: is_closed.clone(), is_aborted: Arc::default() };
    (client, ClientStream::new(stream, signals), is_closed)
}

/// As an HTTP server that waits for the app: it flushes whenever it is woken.
async fn serve_until_error(server: &mut ClientStream<Closable>) -> io::Error {
    std::future::poll_fn(|cx| match Pin::new(&mut *server).poll_flush(cx) {
        Poll::Ready(Err(error)) => Poll::Ready(error),
        Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn client_in_the_middle_of_an_upload_reads_the_response() {
    let (mut client, mut server, _) = in_request(16);
    server.signals.cut_upload();
    server.write_all(b"413").await.unwrap();
    let closed = tokio::spawn(async move { server.shutdown().await });
    client.write_all(&[0; 10_000]).await.unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).await.unwrap();
    assert_eq!(response, "413");
    assert!(!closed.is_finished());
    drop(client);
    closed.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn lingering_close_has_an_end() {
    let (_silent, mut server, _) = in_request(16);
    server.signals.cut_upload();
    let begin = Instant::now();
    server.shutdown().await.unwrap();
    assert_eq!(begin.elapsed(), 5 * SECOND);

    let (mut client, mut server, _) = in_request(16);
    server.signals.cut_upload();
    let trickle = tokio::spawn(async move {
        while client.write_all(b"x").await.is_ok() {
            tokio::time::sleep(SECOND).await;
        }
    });
    let begin = Instant::now();
    server.shutdown().await.unwrap();
    assert_eq!(begin.elapsed(), 30 * SECOND);
    drop(server);
    trickle.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn complete_requests_close_at_once_and_rejected_heads_linger() {
    let (_client, mut server, _) = in_request(16);
    timeout(SECOND, server.shutdown()).await.unwrap().unwrap();

    let (mut client, mut server, _) = in_request(16);
    server.signals.begin_head();
    client.write_all(b"GET").await.unwrap();
    server.read_exact(&mut [0; 3]).await.unwrap();
    assert!(timeout(SECOND, server.shutdown()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn client_that_left_behind_unread_bytes_is_detected_in_two_seconds() {
    let (mut client, mut server, is_closed) = in_request(1000);
    client.write_all(b"upload").await.unwrap();
    assert!(timeout(100 * SECOND, serve_until_error(&mut server)).await.is_err(), "it waits");
    is_closed.store(true, Ordering::Relaxed);
    let error = timeout(2 * SECOND, serve_until_error(&mut server)).await.unwrap();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
}

#[tokio::test(start_paused = true)]
async fn closed_client_is_served_while_its_upload_is_read() {
    let (mut client, mut server, is_closed) = in_request(1000);
    client.write_all(&[7; 100]).await.unwrap();
    is_closed.store(true, Ordering::Relaxed);
    for _ in 0..10 {
        let left = timeout(SECOND / 2, serve_until_error(&mut server)).await;
        assert!(left.is_err());
        server.read_exact(&mut [0; 10]).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_read_ahead_are_bounded_and_lose_no_byte() {
    let (mut client, mut server, _) = in_request(64 << 10);
    let sent: Vec<u8> = (0..8_000_000_u32).map(|n| (n % 251) as u8).collect();
    let upload = sent.clone();
    let writing = tokio::spawn(async move {
        client.write_all(&upload).await.unwrap();
    });
    assert!(timeout(100 * SECOND, serve_until_error(&mut server)).await.is_err());
    assert!(!writing.is_finished(), "the client waits");
    let mut received = vec![0; sent.len()];
    server.read_exact(&mut received).await.unwrap();
    assert!(received == sent);
    writing.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn tunnel_does_not_end_with_its_clients_side() {
    let (mut client, mut server, is_closed) = in_request(1000);
    server.switch_protocol();
    client.write_all(b"last word").await.unwrap();
    is_closed.store(true, Ordering::Relaxed);
    assert!(timeout(100 * SECOND, serve_until_error(&mut server)).await.is_err());
    advance(SECOND).await;
    server.read_exact(&mut [0; 9]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn tunnel_closes_its_sending_side_and_discards_nothing() {
    let (mut client, mut server, _) = in_request(1000);
    server.switch_protocol();
    client.write_all(b"one").await.unwrap();
    server.read_exact(&mut [0; 3]).await.unwrap();
    client.write_all(b"more").await.unwrap();
    timeout(SECOND, server.shutdown()).await.unwrap().unwrap();
    let mut more = [0; 4];
    server.read_exact(&mut more).await.unwrap();
    assert_eq!(&more, b"more");
}

#[tokio::test(start_paused = true)]
async fn drop_within_a_response_that_ends_with_the_connection_is_a_reset() {
    for (reads_until_close, shuts_down, resets) in
        [(true, false, true), (true, true, false), (false, false, false)]
    {
        let (_client, mut server, _) = in_request(16);
        let is_aborted = server.stream.is_aborted.clone();
        server.signals.begin_request(reads_until_close);
        server.write_all(b"half").await.unwrap();
        if shuts_down {
            server.shutdown().await.unwrap();
        }
        drop(server);
        assert_eq!(is_aborted.load(Ordering::Relaxed), resets, "{reads_until_close} {shuts_down}");
    }
}
