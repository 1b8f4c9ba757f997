use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::*;

const AFTER_ANSWER: Duration = Duration::from_secs(5);
const AFTER_QUESTION: Duration = Duration::from_secs(900);
/// Small, so that an end which takes nothing is felt soon.
const PIPE: usize = 64;
const TICK: Duration = Duration::from_millis(20);

/// Both ends of a relay that runs.
struct Carried {
    caller: DuplexStream,
    app: DuplexStream,
    counted: Arc<()>,
    stop: CancellationToken,
    relay: JoinHandle<io::Result<()>>,
}

impl Carried {
    fn new(close_after: Option<Duration>) -> Self {
        let (caller, mut near_caller) = duplex(PIPE);
        let (app, mut near_app) = duplex(PIPE);
        let (counted, stop) = (Arc::new(()), CancellationToken::new());
        let relay = TcpRelay {
            idle_timeouts: IdleTimeouts {
                after_response: AFTER_ANSWER,
                after_request: AFTER_QUESTION,
                close_after,
            },
            counted: None,
            count: {
                let counted = counted.clone();
                move || counted.clone()
            },
            stop: stop.clone(),
        };
        let relay = tokio::spawn(async move { relay.run(&mut near_caller, &mut near_app).await });
        Self { caller, app, counted, stop, relay }
    }

    /// Whether it counts. The test's own hold on the count and the relay's two, once it runs.
    async fn counts(&self) -> bool {
        sleep(TICK).await;
        assert!(!self.relay.is_finished());
        Arc::strong_count(&self.counted) == 3
    }

    async fn asks(&mut self, question: &[u8]) {
        pass(&mut self.caller, &mut self.app, question).await;
    }

    async fn answers(&mut self, answer: &[u8]) {
        pass(&mut self.app, &mut self.caller, answer).await;
    }
}

async fn pass(from: &mut DuplexStream, to: &mut DuplexStream, bytes: &[u8]) {
    from.write_all(bytes).await.unwrap();
    let mut passed = vec![0; bytes.len()];
    to.read_exact(&mut passed).await.unwrap();
    assert_eq!(passed, bytes);
}

#[tokio::test(start_paused = true)]
async fn counts_while_bytes_flow_and_again_when_they_flow_again() {
    let mut carried = Carried::new(None);
    assert!(!carried.counts().await, "nobody has said anything");
    for _ in 0..2 {
        carried.asks(b"GET a").await;
        assert!(carried.counts().await);
        carried.answers(b"1").await;
        sleep(AFTER_ANSWER - 3 * TICK).await;
        assert!(carried.counts().await);
        sleep(3 * TICK).await;
        assert!(!carried.counts().await);
        sleep(Duration::from_secs(3600)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_is_no_rest() {
    let mut carried = Carried::new(None);
    carried.asks(b"SELECT everything").await;
    sleep(AFTER_QUESTION - AFTER_ANSWER).await;
    assert!(carried.counts().await);
    carried.answers(b"here it is").await;
    sleep(AFTER_ANSWER).await;
    assert!(!carried.counts().await, "it is answered");
    carried.asks(b"a question that nobody answers").await;
    sleep(AFTER_QUESTION + AFTER_ANSWER).await;
    assert!(!carried.counts().await);
}

#[tokio::test(start_paused = true)]
async fn who_only_hears_the_greeting_is_no_load_and_who_goes_on_to_listen_is() {
    let mut carried = Carried::new(None);
    carried.answers(b"220 smtp.example ready").await;
    assert!(!carried.counts().await);
    sleep(GREETING).await;
    carried.answers(b"tick").await;
    assert!(carried.counts().await);
}

#[tokio::test(start_paused = true)]
async fn a_side_that_has_ended_still_hears_the_other() {
    let mut carried = Carried::new(None);
    carried.asks(b"PING").await;
    carried.caller.shutdown().await.unwrap();
    assert_eq!(carried.app.read(&mut [0; 1]).await.unwrap(), 0);
    sleep(AFTER_QUESTION / 2).await;
    carried.answers(b"PONG").await;
    carried.app.shutdown().await.unwrap();
    assert_eq!(carried.caller.read(&mut [0; 1]).await.unwrap(), 0);
    carried.relay.await.unwrap().unwrap();
    assert_eq!(Arc::strong_count(&carried.counted), 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_forgets_to_close_does_not_keep_the_connection() {
    let mut carried = Carried::new(None);
    carried.app.shutdown().await.unwrap();
    assert_eq!(carried.caller.read(&mut [0; 1]).await.unwrap(), 0);
    timeout(2 * AFTER_ANSWER, carried.relay).await.unwrap().unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn too_long_a_silence_ends_it() {
    let close_after = Duration::from_secs(60);
    let mut carried = Carried::new(Some(close_after));
    for _ in 0..5 {
        carried.asks(b"PING").await;
        sleep(close_after - TICK).await;
        assert!(!carried.relay.is_finished());
    }
    let ended = timeout(2 * TICK, carried.relay).await.unwrap().unwrap();
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_what_rests_at_once_and_what_runs_when_it_rests() {
    let resting = Carried::new(None);
    sleep(TICK).await;
    resting.stop.cancel();
    timeout(TICK, resting.relay).await.unwrap().unwrap().unwrap();

    let mut running = Carried::new(None);
    running.asks(b"SELECT").await;
    running.stop.cancel();
    sleep(AFTER_QUESTION / 2).await;
    running.answers(b"1").await;
    assert!(running.counts().await);
    timeout(AFTER_ANSWER, running.relay).await.unwrap().unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_end_that_takes_nothing_is_waited_for_and_then_gets_all() {
    let mut carried = Carried::new(None);
    let sent: Vec<u8> = (0..200_000_u32).map(|i| (i % 251) as u8).collect();
    let mut taken = 0;
    while let Ok(written) = timeout(TICK, carried.caller.write(&sent[taken..])).await {
        taken += written.unwrap();
    }
    assert!(taken <= BUFFER + 3 * PIPE, "{taken} bytes are held for an app that takes none");
    let (mut caller, mut app) = (carried.caller, carried.app);
    let rest = sent[taken..].to_vec();
    tokio::spawn(async move {
        caller.write_all(&rest).await.unwrap();
        caller.shutdown().await.unwrap();
        caller.read_to_end(&mut Vec::new()).await.unwrap();
    });
    let mut received = Vec::new();
    app.read_to_end(&mut received).await.unwrap();
    assert!(received == sent, "{} bytes came through, or others", received.len());
    drop(app);
    carried.relay.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_end_that_fails_ends_the_other() {
    let mut carried = Carried::new(None);
    carried.asks(b"SELECT").await;
    drop(carried.app);
    carried.caller.write_all(b"more").await.unwrap();
    assert!(timeout(TICK, carried.relay).await.unwrap().unwrap().is_err());
    assert_eq!(carried.caller.read(&mut [0; 1]).await.unwrap(), 0);
    assert_eq!(Arc::strong_count(&carried.counted), 1);
}

#[tokio::test(start_paused = true)]
async fn without_silences_it_counts_as_long_as_it_is_there() {
    let (_caller, mut near_caller) = duplex(PIPE);
    let (_app, mut near_app) = duplex(PIPE);
    let relay = TcpRelay {
        idle_timeouts: IdleTimeouts::close_only(None),
        counted: Some(()),
        count: || (),
        stop: CancellationToken::new(),
    };
    let carried = relay.run(&mut near_caller, &mut near_app);
    assert!(timeout(Duration::from_secs(1_000_000), carried).await.is_err());
}
