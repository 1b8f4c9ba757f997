//! PodConnector: a TCP connection to a pod, within about a second or not at all.
//!
//! A pod that is just starting or going may swallow the first packet, and the kernel repeats it only after a second. So each
//! try is short (50 ms, growing), and a new one is made with a new packet; Knative's activator does the same. What refuses
//! fails at once: its caller knows better what to do than another try does.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

const FIRST_TRY: Duration = Duration::from_millis(50);
const GROWTH: f64 = 1.4;
/// 50 ms growing by 1.4 seven times is 1.2 s in all.
const TRIES: u32 = 7;

/// Connects to the address in the URI's authority, which is always an IP and a port.
#[derive(Clone, Copy, Debug, Default)]
pub struct PodConnector;

// === impl PodConnector ===

impl Service<Uri> for PodConnector {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        Box::pin(async move {
            let authority = to.authority().ok_or_else(|| invalid("no address"))?;
            let address = authority.as_str().parse().map_err(invalid)?;
            connect(address).await.map(TokioIo::new)
        })
    }
}

/// A connection to the pod at `address`.
///
/// # Errors
/// When it refuses, or answers to none of the tries.
pub async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let mut patience = FIRST_TRY;
    for _ in 0..TRIES {
        match tokio::time::timeout(patience, TcpStream::connect(address)).await {
            Ok(connected) => {
                let stream = connected?;
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(_) => patience = patience.mul_f64(GROWTH),
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, format!("{address} does not answer")))
}

fn invalid(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}
