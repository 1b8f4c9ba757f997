use std::sync::Arc;

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::direction::BUFFER;
use super::*;

const AFTER_RESPONSE: Duration = Duration::from_secs(5);
const AFTER_REQUEST: Duration = Duration::from_secs(900);
/// Small, so that back pressure of an end shows soon.
const PIPE: usize = 64;
const TICK: Duration = Duration::from_millis(20);
const DEADLINE: Duration = Duration::from_secs(20);

/// Both ends of a running relay.
struct Relayed {
    client: DuplexStream,
    app: DuplexStream,
    counted: Arc<()>,
    stop: CancellationToken,
    relay: JoinHandle<io::Result<()>>,
}

impl Relayed {
    fn new(close_after: Option<Duration>) -> Self {
        let (client, mut near_client) = duplex(PIPE);
        let (app, mut near_app) = duplex(PIPE);
        let (counted, stop) = (Arc::new(()), CancellationToken::new());
        let relay = TcpRelay {
            idle_timeouts: IdleTimeouts {
                after_response: AFTER_RESPONSE,
                after_request: AFTER_REQUEST,
                half_closed: Duration::MAX,
                close_after,
            },
            counted: None,
            count: {
                let counted = counted.clone();
                move || counted.clone()
            },
            stop: stop.clone(),
        };
        let relay = tokio::spawn(async move { relay.run(&mut near_client, &mut near_app).await });
        Self { client, app, counted, stop, relay }
    }

    /// True if the connection counts. References: the test's own, and the relay's two while it
    /// counts.
    async fn counts(&self) -> bool {
        sleep(TICK).await;
        assert!(!self.relay.is_finished());
        Arc::strong_count(&self.counted) == 3
    }

    async fn client_sends(&mut self, bytes: &[u8]) {
        pass(&mut self.client, &mut self.app, bytes).await;
    }

    async fn app_sends(&mut self, bytes: &[u8]) {
        pass(&mut self.app, &mut self.client, bytes).await;
    }
}

async fn pass(from: &mut DuplexStream, to: &mut DuplexStream, bytes: &[u8]) {
    from.write_all(bytes).await.unwrap();
    let mut passed = vec![0; bytes.len()];
    to.read_exact(&mut passed).await.unwrap();
    assert_eq!(passed, bytes);
}

#[tokio::test(start_paused = true)]
async fn counts_while_bytes_flow_and_again_after_idleness() {
    let mut relayed = Relayed::new(None);
    assert!(!relayed.counts().await, "no byte was sent");
    for _ in 0..2 {
        relayed.client_sends(b"GET a").await;
        assert!(relayed.counts().await);
        relayed.app_sends(b"1").await;
        sleep(AFTER_RESPONSE - 3 * TICK).await;
        assert!(relayed.counts().await);
        sleep(3 * TICK).await;
        assert!(!relayed.counts().await);
        sleep(Duration::from_secs(3600)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn counts_while_app_works_on_response() {
    let mut relayed = Relayed::new(None);
    relayed.client_sends(b"SELECT everything").await;
    sleep(AFTER_REQUEST - AFTER_RESPONSE).await;
    assert!(relayed.counts().await);
    relayed.app_sends(b"here it is").await;
    sleep(AFTER_RESPONSE).await;
    assert!(!relayed.counts().await, "the response has come");
    relayed.client_sends(b"a request without a response").await;
    sleep(AFTER_REQUEST + AFTER_RESPONSE).await;
    assert!(!relayed.counts().await);
}

#[tokio::test(start_paused = true)]
async fn greeting_does_not_count_and_later_bytes_of_the_app_do() {
    let mut relayed = Relayed::new(None);
    relayed.app_sends(b"220 smtp.example ready").await;
    assert!(!relayed.counts().await);
    sleep(GREETING_TIME).await;
    relayed.app_sends(b"tick").await;
    assert!(relayed.counts().await);
}

#[tokio::test(start_paused = true)]
async fn half_closed_connection_still_receives() {
    let mut relayed = Relayed::new(None);
    relayed.client_sends(b"PING").await;
    relayed.client.shutdown().await.unwrap();
    assert_eq!(relayed.app.read(&mut [0; 1]).await.unwrap(), 0);
    sleep(AFTER_REQUEST / 2).await;
    relayed.app_sends(b"PONG").await;
    relayed.app.shutdown().await.unwrap();
    assert_eq!(relayed.client.read(&mut [0; 1]).await.unwrap(), 0);
    relayed.relay.await.unwrap().unwrap();
    assert_eq!(Arc::strong_count(&relayed.counted), 1);
}

#[tokio::test(start_paused = true)]
async fn closes_after_app_closed_though_client_did_not() {
    let mut relayed = Relayed::new(None);
    relayed.app.shutdown().await.unwrap();
    assert_eq!(relayed.client.read(&mut [0; 1]).await.unwrap(), 0);
    timeout(2 * AFTER_RESPONSE, relayed.relay).await.unwrap().unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn closes_with_timeout_when_idle_for_too_long() {
    let close_after = Duration::from_secs(60);
    let mut relayed = Relayed::new(Some(close_after));
    for _ in 0..5 {
        relayed.client_sends(b"PING").await;
        sleep(close_after - TICK).await;
        assert!(!relayed.relay.is_finished());
    }
    let ended = timeout(2 * TICK, relayed.relay).await.unwrap().unwrap();
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn stop_closes_idle_connection_at_once_and_busy_one_when_idle() {
    let resting = Relayed::new(None);
    sleep(TICK).await;
    resting.stop.cancel();
    timeout(TICK, resting.relay).await.unwrap().unwrap().unwrap();

    let mut running = Relayed::new(None);
    running.client_sends(b"SELECT").await;
    running.stop.cancel();
    sleep(AFTER_REQUEST / 2).await;
    running.app_sends(b"1").await;
    assert!(running.counts().await);
    timeout(AFTER_RESPONSE, running.relay).await.unwrap().unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn back_pressure_holds_sender_and_loses_no_byte() {
    let mut relayed = Relayed::new(None);
    let sent: Vec<u8> = (0..200_000_u32).map(|i| (i % 251) as u8).collect();
    let mut taken = 0;
    while let Ok(written) = timeout(TICK, relayed.client.write(&sent[taken..])).await {
        taken += written.unwrap();
    }
    assert!(taken <= BUFFER + 3 * PIPE, "{taken} bytes are buffered for an app that reads none");
    let (mut client, mut app) = (relayed.client, relayed.app);
    let rest = sent[taken..].to_vec();
    tokio::spawn(async move {
        client.write_all(&rest).await.unwrap();
        client.shutdown().await.unwrap();
        client.read_to_end(&mut Vec::new()).await.unwrap();
    });
    let mut received = Vec::new();
    app.read_to_end(&mut received).await.unwrap();
    assert!(received == sent, "{} bytes received, or different ones", received.len());
    drop(app);
    relayed.relay.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn error_of_one_end_closes_the_other() {
    let mut relayed = Relayed::new(None);
    relayed.client_sends(b"SELECT").await;
    drop(relayed.app);
    relayed.client.write_all(b"more").await.unwrap();
    assert!(timeout(TICK, relayed.relay).await.unwrap().unwrap().is_err());
    assert_eq!(relayed.client.read(&mut [0; 1]).await.unwrap(), 0);
    assert_eq!(Arc::strong_count(&relayed.counted), 1);
}

#[tokio::test(start_paused = true)]
async fn without_idle_timeouts_counts_until_closed() {
    let (_caller, mut near_client) = duplex(PIPE);
    let (_app, mut near_app) = duplex(PIPE);
    let relay = TcpRelay {
        idle_timeouts: IdleTimeouts::close_only(None),
        counted: Some(()),
        count: || (),
        stop: CancellationToken::new(),
    };
    let relayed = relay.run(&mut near_client, &mut near_app);
    assert!(timeout(Duration::from_secs(1_000_000), relayed).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn websocket_ends_soon_after_one_side_has_closed() {
    for client_closes in [true, false] {
        let (client, mut near_client) = duplex(PIPE);
        let (app, mut near_app) = duplex(PIPE);
        let half_closed = Duration::from_secs(5);
        let close_after = Some(Duration::from_secs(300));
        let relay = TcpRelay {
            idle_timeouts: IdleTimeouts { half_closed, ..IdleTimeouts::close_only(close_after) },
            counted: Some(()),
            count: || (),
            stop: CancellationToken::new(),
        };
        let relayed = tokio::spawn(async move { relay.run(&mut near_client, &mut near_app).await });
        let (mut closes, _stays) = if client_closes { (client, app) } else { (app, client) };
        sleep(Duration::from_secs(100)).await;
        closes.shutdown().await.unwrap();
        timeout(half_closed + TICK, relayed).await.unwrap().unwrap().unwrap();
    }
}

async fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (near, far) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
    (near.unwrap(), far.unwrap().0)
}

/// A client and an app, and the relay between them. The app's connection takes few bytes.
async fn relayed(half_closed: Duration) -> (TcpStream, TcpStream, JoinHandle<io::Result<()>>) {
    relayed_with(IdleTimeouts { half_closed, ..IdleTimeouts::close_only(None) }).await
}

async fn relayed_with(idle_timeouts: IdleTimeouts) -> (TcpStream, TcpStream, JoinHandle<io::Result<()>>) {
    let (client, mut near_client) = connected().await;
    let (app, mut near_app) = connected().await;
    SockRef::from(&near_app).set_send_buffer_size(4096).unwrap();
    SockRef::from(&app).set_recv_buffer_size(4096).unwrap();
    let relay = TcpRelay { idle_timeouts, counted: Some(()), count: || (), stop: CancellationToken::new() };
    (client, app, tokio::spawn(async move { relay.run(&mut near_client, &mut near_app).await }))
}

/// Sends until nothing takes more bytes.
async fn fill(stream: &mut TcpStream) {
    while timeout(10 * TICK, stream.write(&[0; 16 << 10])).await.is_ok() {}
}

#[tokio::test]
async fn reset_of_one_end_resets_the_other() {
    for client_resets in [true, false] {
        let (client, app, relay) = relayed(Duration::MAX).await;
        let (mut resets, mut other) = if client_resets { (client, app) } else { (app, client) };
        resets.write_all(b"half").await.unwrap();
        let mut read = [0; 4];
        other.read_exact(&mut read).await.unwrap();
        resets.abort();
        drop(resets);
        let ended = timeout(DEADLINE, other.read(&mut read)).await.unwrap();
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::ConnectionReset, "{client_resets}");
        relay.await.unwrap().unwrap_err();
    }
}

#[tokio::test]
async fn client_resets_while_nothing_reads_from_it() {
    for has_closed_its_side in [true, false] {
        let (mut client, mut app, relay) = relayed(Duration::MAX).await;
        if has_closed_its_side {
            client.shutdown().await.unwrap();
            assert_eq!(app.read(&mut [0]).await.unwrap(), 0);
        } else {
            fill(&mut client).await;
        }
        client.abort();
        drop(client);
        timeout(DEADLINE, relay).await.unwrap().unwrap().unwrap_err();
        app.is_peer_closed().unwrap_err();
    }
}

#[tokio::test]
async fn client_closes_while_the_app_does_not_read() {
    let (mut client, app, relay) = relayed(TICK).await;
    // More than all buffers behind the client's own connection.
    client.write_all(&[0; 64 << 10]).await.unwrap();
    client.shutdown().await.unwrap();
    timeout(DEADLINE, relay).await.unwrap().unwrap().unwrap_err();
    assert!(app.is_peer_closed().is_err(), "bytes are lost");
}

#[tokio::test]
async fn client_closes_behind_more_bytes_than_its_connection_takes() {
    let (mut client, app, relay) = relayed(TICK).await;
    fill(&mut client).await;
    client.shutdown().await.unwrap();
    timeout(DEADLINE, relay).await.unwrap().unwrap().unwrap_err();
    assert!(app.is_peer_closed().is_err(), "bytes are lost");
}

#[tokio::test]
async fn response_that_its_client_does_not_take_is_not_ended() {
    let (mut client, mut app, relay) = relayed(20 * TICK).await;
    client.shutdown().await.unwrap();
    fill(&mut app).await;
    timeout(DEADLINE, relay).await.unwrap().unwrap().unwrap_err();
    let mut part = [0; 16 << 10];
    let ended = loop {
        match timeout(DEADLINE, client.read(&mut part)).await.unwrap() {
            Ok(0) => break Ok(()),
            Ok(_) => {}
            Err(error) => break Err(error.kind()),
        }
    };
    assert_eq!(ended, Err(io::ErrorKind::ConnectionReset), "it looks complete");
}

#[tokio::test]
async fn bytes_that_were_read_ahead_reach_the_app() {
    let (mut client, mut app, relay) = relayed(DEADLINE).await;
    let sent: Vec<u8> = (0..300_000_u32).map(|i| (i % 251) as u8).collect();
    client.write_all(&sent).await.unwrap();
    client.shutdown().await.unwrap();
    let (mut received, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let read = timeout(DEADLINE, app.read(&mut part)).await.unwrap().unwrap();
        received.extend_from_slice(&part[..read]);
        if read == 0 {
            break;
        }
    }
    assert!(received == sent);
    drop(app);
    timeout(DEADLINE, relay).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn idle_timeout_resets_both_ends() {
    let (client, mut app, relay) = relayed_with(IdleTimeouts::close_only(Some(10 * TICK))).await;
    app.write_all(b"half").await.unwrap();
    timeout(DEADLINE, relay).await.unwrap().unwrap().unwrap_err();
    for end in [&client, &app] {
        end.is_peer_closed().unwrap_err();
    }
}

#[tokio::test]
async fn relay_that_is_dropped_resets_both_ends() {
    let (mut client, mut app, relay) = relayed(Duration::MAX).await;
    client.write_all(b"half").await.unwrap();
    app.read_exact(&mut [0; 4]).await.unwrap();
    relay.abort();
    relay.await.unwrap_err();
    for end in [&client, &app] {
        end.is_peer_closed().unwrap_err();
    }
}
