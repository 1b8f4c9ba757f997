//! Pods: all addresses of the loopback network, on one port; whoever is asked there has some requests.

use std::convert::Infallible;
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use autoscaler::stats::Stat;
use autoscaler::stats::datagram::{Answer, LENGTH, Question};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use rand::RngExt;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Requests that one has on average.
pub(crate) const MEAN_LOAD: f64 = 5.0;
/// And how far from it, at most.
const SPREAD: f64 = 3.0;
/// All pods share the room that each of them would have, in bytes. The kernel gives what it allows.
const RECEIVE_BUFFER: usize = 4 << 20;
/// About as long as questions are on the way.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// What answers for all pods.
pub(crate) struct Pods {
    pub(crate) port: u16,
    asked: Arc<AtomicU64>,
}

// === impl Pods ===

impl Pods {
    /// Answers until the runtime ends; by HTTP alone if told so.
    pub(crate) async fn start(http: bool) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
        let port = listener.local_addr()?.port();
        let asked = Arc::new(AtomicU64::new(0));
        if !http {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))?;
            let many = UdpSocketState::new(UdpSockRef::from(&socket))?;
            many.set_recv_buffer_size(UdpSockRef::from(&socket), RECEIVE_BUFFER)?;
            let counter = asked.clone();
            std::thread::spawn(move || answer_datagrams(&socket, &many, &counter));
        }
        let counter = asked.clone();
        let service = move |_: Request<Incoming>, _: &_| {
            counter.fetch_add(1, Ordering::Relaxed);
            let json = serde_json::to_vec(&stat()).unwrap_or_default();
            std::future::ready(Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(json)))))
        };
        let options = proxy::server::ServerOptions::default();
        tokio::spawn(proxy::server::serve(listener, service, options, CancellationToken::new()));
        Ok(Self { port, asked })
    }

    /// Questions answered so far.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

/// Takes questions and gives answers many at a time, and looks for them instead of being woken: what is measured is who asks, and a
/// question that wakes a thread of this machine costs more than one that leaves it.
fn answer_datagrams(socket: &UdpSocket, many: &UdpSocketState, asked: &AtomicU64) {
    let mut buffers = [[0; LENGTH + 1]; BATCH_SIZE];
    let mut met = [RecvMeta::default(); BATCH_SIZE];
    loop {
        let mut slices = buffers.each_mut().map(|buffer| IoSliceMut::new(buffer));
        let Ok(received) = many.recv(UdpSockRef::from(socket), &mut slices, &mut met) else {
            std::thread::sleep(LOOK_AGAIN);
            continue;
        };
        let questions: Vec<_> = buffers.iter().zip(&met).take(received).filter_map(question).collect();
        asked.fetch_add(u64::try_from(questions.len()).unwrap_or_default(), Ordering::Relaxed);
        for questions in questions.chunk_by(|(one, _), (other, _)| one == other) {
            for questions in questions.chunks(many.max_gso_segments()) {
                // Lost, if they cannot leave at once.
                let _ = answer(many, socket, questions);
            }
        }
    }
}

fn question((buffer, met): (&[u8; LENGTH + 1], &RecvMeta)) -> Option<(SocketAddr, Question)> {
    Some((met.addr, Question::decode(buffer.get(..met.len)?)?))
}

/// Answers to one who asked, which the kernel cuts apart.
fn answer(many: &UdpSocketState, socket: &UdpSocket, questions: &[(SocketAddr, Question)]) -> io::Result<()> {
    let Some((destination, _)) = questions.first().copied() else { return Ok(()) };
    let answers: Vec<u8> =
        questions.iter().flat_map(|(_, question)| Answer::encode(question.nonce, Some(&stat()))).collect();
    let (ecn, src_ip, segment_size) = (None, None, Some(LENGTH));
    let transmit = Transmit { destination, ecn, contents: &answers, segment_size, src_ip };
    many.try_send(UdpSockRef::from(socket), &transmit)
}

fn stat() -> Stat {
    let load = MEAN_LOAD + rand::rng().random_range(-SPREAD..SPREAD);
    Stat {
        average_concurrent_requests: load,
        request_count: 2.0 * load,
        timestamp: runtime::clock::unix_seconds(),
        ..Stat::default()
    }
}
