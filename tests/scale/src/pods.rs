//! Pods: one server for all loopback addresses on one port. Each address reports a random load.

use std::convert::Infallible;
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use autoscaler::stats::datagram::{MAX_LENGTH, StatQuery, StatResponse};
use autoscaler::stats::{AppStat, Stat};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use proxy::incoming_body::IncomingBody;
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use rand::RngExt;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Mean concurrent requests of a pod.
pub(crate) const MEAN_LOAD: f64 = 5.0;
/// Largest difference from the mean.
const SPREAD: f64 = 3.0;
/// Receive buffer for all pods together, in bytes. The kernel may grant less.
const RECEIVE_BUFFER: usize = 4 << 20;
/// Interval between polls of the socket: about the time between queries.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The stats server of all pods.
pub(crate) struct Pods {
    pub(crate) port: u16,
    queries: Arc<AtomicU64>,
}

// === impl Pods ===

impl Pods {
    /// Serves until the runtime ends. With `http`, it answers no datagrams.
    pub(crate) async fn start(http: bool) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
        let port = listener.local_addr()?.port();
        let queries = Arc::new(AtomicU64::new(0));
        if !http {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))?;
            let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
            state.set_recv_buffer_size(UdpSockRef::from(&socket), RECEIVE_BUFFER)?;
            let counter = queries.clone();
            std::thread::spawn(move || answer_datagrams(&socket, &state, &counter));
        }
        let counter = queries.clone();
        let service = move |_: Request<IncomingBody>, _: &_| {
            counter.fetch_add(1, Ordering::Relaxed);
            let json = serde_json::to_vec(&stat(0)).unwrap_or_default();
            std::future::ready(Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(json)))))
        };
        let options = proxy::server::ServerOptions::default();
        tokio::spawn(proxy::server::serve(listener, service, options, CancellationToken::new()));
        Ok(Self { port, queries })
    }

    /// Queries received so far.
    pub(crate) fn queries(&self) -> u64 {
        self.queries.load(Ordering::Relaxed)
    }
}

/// Receives and answers queries in batches, and polls instead of blocking. A query that wakes a
/// thread on the same machine costs the measured process more than one that leaves the machine.
fn answer_datagrams(socket: &UdpSocket, state: &UdpSocketState, received_queries: &AtomicU64) {
    let mut buffers = [[0; MAX_LENGTH + 1]; BATCH_SIZE];
    let mut metas = [RecvMeta::default(); BATCH_SIZE];
    loop {
        let mut slices = buffers.each_mut().map(|buffer| IoSliceMut::new(buffer));
        let Ok(received) = state.recv(UdpSockRef::from(socket), &mut slices, &mut metas) else {
            std::thread::sleep(POLL_INTERVAL);
            continue;
        };
        let queries: Vec<_> = buffers.iter().zip(&metas).take(received).filter_map(query).collect();
        received_queries.fetch_add(u64::try_from(queries.len()).unwrap_or_default(), Ordering::Relaxed);
        for queries in
            queries.chunk_by(|(one, first), (other, next)| one == other && first.length() == next.length())
        {
            for queries in queries.chunks(state.max_gso_segments()) {
                // A full send buffer loses the answers, as a network would.
                let _ = answer(state, socket, queries);
            }
        }
    }
}

fn query((buffer, metas): (&[u8; MAX_LENGTH + 1], &RecvMeta)) -> Option<(SocketAddr, StatQuery)> {
    Some((metas.addr, StatQuery::decode(buffer.get(..metas.len)?)?))
}

/// Sends the answers of one length to one client as one buffer, which the kernel splits into
/// datagrams.
fn answer(state: &UdpSocketState, socket: &UdpSocket, queries: &[(SocketAddr, StatQuery)]) -> io::Result<()> {
    let Some((destination, first)) = queries.first().copied() else { return Ok(()) };
    let answers: Vec<u8> = queries
        .iter()
        .flat_map(|(_, query)| {
            StatResponse::encode(*query, Some(&stat(query.objective_micros.unwrap_or_default())))
        })
        .collect();
    let (ecn, src_ip, segment_size) = (None, None, Some(first.length()));
    let transmit = Transmit { destination, ecn, contents: &answers, segment_size, src_ip };
    state.try_send(UdpSockRef::from(socket), &transmit)
}

fn stat(objective_micros: u64) -> Stat {
    let load = MEAN_LOAD + rand::rng().random_range(-SPREAD..SPREAD);
    let app = AppStat { completions: 2.0 * load, seconds: load, objective_micros, ..AppStat::default() };
    Stat {
        average_concurrent_requests: load,
        request_count: 2.0 * load,
        timestamp: component_base::clock::unix_seconds(),
        app: Some(app),
        ..Stat::default()
    }
}
