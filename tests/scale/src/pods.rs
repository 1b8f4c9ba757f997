//! Pods: all addresses of the loopback network, on one port; whoever is asked there has some requests.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use autoscaler::stats::Stat;
use autoscaler::stats::datagram::{Answer, LENGTH, Question};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use rand::RngExt;
use tokio::net::{TcpListener, UdpSocket};
use tokio_util::sync::CancellationToken;

/// Requests that one has on average.
pub(crate) const MEAN_LOAD: f64 = 5.0;
/// And how far from it, at most.
const SPREAD: f64 = 3.0;

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
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).await?;
            tokio::spawn(answer_datagrams(socket, asked.clone()));
        }
        let counter = asked.clone();
        let service = move |_: Request<Incoming>, _: &_| {
            counter.fetch_add(1, Ordering::Relaxed);
            let json = serde_json::to_vec(&stat()).unwrap_or_default();
            std::future::ready(Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(json)))))
        };
        let options = chassis::server::Options::default();
        tokio::spawn(chassis::server::serve(listener, service, options, CancellationToken::new()));
        Ok(Self { port, asked })
    }

    /// Questions answered so far.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

async fn answer_datagrams(socket: UdpSocket, asked: Arc<AtomicU64>) {
    let mut buffer = [0; LENGTH + 1];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else { continue };
        if let Some(Question { nonce }) = buffer.get(..length).and_then(Question::decode) {
            asked.fetch_add(1, Ordering::Relaxed);
            // Lost, if it cannot leave at once.
            let _ = socket.try_send_to(&Answer::encode(nonce, Some(&stat())), from);
        }
    }
}

fn stat() -> Stat {
    let load = MEAN_LOAD + rand::rng().random_range(-SPREAD..SPREAD);
    Stat {
        average_concurrent_requests: load,
        request_count: 2.0 * load,
        timestamp: chassis::clock::unix_seconds(),
        ..Stat::default()
    }
}
