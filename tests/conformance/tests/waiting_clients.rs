//! Clients in the middle of an upload, while their request is held by an activator or queued by a
//! sidecar: those that leave give back their place, and those that wait for 100 Continue get it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests"
)]
#![allow(dead_code, reason = "a part of what the other tests need")]

mod support;

use std::net::SocketAddr;
use std::time::Duration;

use conformance::http2::{Frame, code, data, frame, request, reset};
use conformance::runner::ProxySettings;
use conformance::wire::Wire;
use support::QueueProxy;
use support::workload_at_zero::WorkloadAtZero;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Longer than any test takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: u8 = 4;

/// How a client leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Departure {
    /// It closes an HTTP/1.1 connection.
    Fin,
    /// It resets an HTTP/1.1 connection.
    Reset,
    /// It resets its stream of HTTP/2, and the connection stays.
    StreamReset,
}

/// The state of a proxy that the departures must restore.
trait Waiting {
    /// Number of waiting requests.
    async fn waiting(&self) -> usize;
}

impl Waiting for WorkloadAtZero {
    async fn waiting(&self) -> usize {
        self.held() as usize
    }
}

impl Waiting for QueueProxy {
    async fn waiting(&self) -> usize {
        self.metric("rouse_queue_proxy_queue_depth").await as usize
    }
}

/// All ways to leave, with uploads that fit in the buffers of the kernel and with larger ones.
const DEPARTURES: [(Departure, usize); 6] = [
    (Departure::Fin, 0),
    (Departure::Fin, 10_000),
    (Departure::Fin, 300_000),
    (Departure::Reset, 0),
    (Departure::Reset, 300_000),
    (Departure::StreamReset, 10_000),
];

/// `accept` is what the client wants.
async fn upload(to: SocketAddr, accept: &str, departure: Departure, sent: usize) -> TcpStream {
    let mut client = TcpStream::connect(to).await.unwrap();
    if departure == Departure::StreamReset {
        let frames = [
            frame(SETTINGS, 0, 0, []),
            request(1, "POST", "/", &[("accept", accept)]),
            data(1, vec![0; sent]),
        ];
        client.write_all(&[PREFACE.to_vec(), frames.iter().flat_map(Frame::bytes).collect()].concat()).await
    } else {
        let head =
            format!("POST / HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\nContent-Length: 1000000\r\n\r\n");
        client.write_all(&[head.into_bytes(), vec![0; sent]].concat()).await
    }
    .unwrap();
    client
}

/// What is left of the connection.
async fn leave(mut client: TcpStream, departure: Departure) -> Option<TcpStream> {
    match departure {
        Departure::Fin => None,
        Departure::Reset => {
            Wire::new(client).set_reset().unwrap();
            None
        }
        Departure::StreamReset => {
            client.write_all(&reset(1, code::CANCEL).bytes()).await.unwrap();
            Some(client)
        }
    }
}

async fn until_waiting(proxy: &impl Waiting, count: usize) {
    let reached = timeout(DEADLINE, async {
        while proxy.waiting().await != count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(reached.await.is_ok(), "{} requests wait instead of {count}", proxy.waiting().await);
}

async fn all_leave(proxy: &impl Waiting, address: SocketAddr, accept: &str) {
    let mut clients = Vec::new();
    for (departure, sent) in DEPARTURES {
        clients.push((upload(address, accept, departure, sent).await, departure));
    }
    until_waiting(proxy, DEPARTURES.len()).await;
    let mut open = Vec::new();
    for (client, departure) in clients {
        open.push(leave(client, departure).await);
    }
    until_waiting(proxy, 0).await;
}

/// An app that accepts connections and responds to no request.
async fn silent_app() -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = Vec::new();
        while let Ok((connection, _)) = listener.accept().await {
            connections.push(connection);
        }
    });
    (address, tasks)
}

#[tokio::test]
async fn uploads_whose_clients_leave_an_activator_are_not_held() {
    let (app, _app) = silent_app().await;
    let path = WorkloadAtZero::start_without_sidecar(app).await;
    all_leave(&path, path.address, "*/*").await;
}

#[tokio::test]
async fn uploads_whose_clients_leave_a_stream_that_is_kept_alive_are_not_held() {
    let (app, _app) = silent_app().await;
    let path = WorkloadAtZero::start_without_sidecar(app).await;
    all_leave(&path, path.address, "text/event-stream").await;
}

#[tokio::test]
async fn uploads_whose_clients_leave_a_sidecar_are_not_queued() {
    let (app, _app) = silent_app().await;
    let settings = ProxySettings { app, header_timeout: DEADLINE, idle_timeout: DEADLINE };
    let sidecar = QueueProxy::start(settings, &["--container-concurrency", "1"]).await;
    let mut in_app = TcpStream::connect(sidecar.traffic).await.unwrap();
    in_app.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    while sidecar.metric("rouse_queue_proxy_requests_in_flight").await != 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    all_leave(&sidecar, sidecar.traffic, "*/*").await;
}

/// Over HTTP/2 only an interim response has a head while the request is held.
#[tokio::test]
async fn held_client_of_http2_that_waits_for_100_continue_gets_it() {
    const HEADERS: u8 = 1;
    let (app, _app) = silent_app().await;
    let path = WorkloadAtZero::start_without_sidecar(app).await;
    let mut client = TcpStream::connect(path.address).await.unwrap();
    let frames = [frame(SETTINGS, 0, 0, []), request(1, "POST", "/", &[("expect", "100-continue")])];
    let frames: Vec<u8> = frames.iter().flat_map(Frame::bytes).collect();
    client.write_all(&[PREFACE.to_vec(), frames].concat()).await.unwrap();
    let interim = async {
        loop {
            let mut head = [0; 9];
            client.read_exact(&mut head).await.unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            client.read_exact(&mut vec![0; length]).await.unwrap();
            if head[3] == HEADERS {
                return;
            }
        }
    };
    timeout(DEADLINE, interim).await.unwrap();
    path.wait_until_held().await;
}

#[tokio::test]
async fn held_client_that_waits_for_100_continue_gets_it() {
    let (app, _app) = silent_app().await;
    let path = WorkloadAtZero::start_without_sidecar(app).await;
    let mut client = TcpStream::connect(path.address).await.unwrap();
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    client.write_all(head).await.unwrap();
    let interim = timeout(DEADLINE, Wire::new(client).head()).await.unwrap().unwrap().unwrap();
    assert_eq!(interim.start, "HTTP/1.1 100 Continue");
    path.wait_until_held().await;
}
