//! The listeners on loopback, for IPv4 and IPv6.

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::error::CommandError;
use crate::ui::routes::Routes;

/// Open connections. A browser has six.
const MAX_CONNECTIONS: usize = 64;
/// Time to receive a request's head, from the end of the response before.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest life of a connection, so that clients without the token cannot keep all places.
const LIFETIME: Duration = Duration::from_secs(600);
/// Largest head of a request, in bytes.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// Pause after a failure to accept.
const ACCEPT_DELAY: Duration = Duration::from_millis(100);
/// Attempts to find a port that is free for both protocols.
const ATTEMPTS: usize = 8;

/// Listens on 127.0.0.1, and on ::1 where the machine has it. Port 0 is any free one. Both have the
/// same port, so that no other process gets the requests to `localhost`.
pub(super) async fn bind(port: u16) -> Result<(Vec<TcpListener>, u16), CommandError> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let (v4, port_of_both) = listen(Ipv4Addr::LOCALHOST.into(), port).await?;
        match listen(Ipv6Addr::LOCALHOST.into(), port_of_both).await {
            Ok((v6, _)) => return Ok((vec![v4, v6], port_of_both)),
            Err(CommandError::Listen { source, .. }) if is_missing(&source) => {
                return Ok((vec![v4], port_of_both));
            }
            Err(error) if port != 0 => return Err(error),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| CommandError::Argument("no port is free".to_owned())))
}

async fn listen(ip: IpAddr, port: u16) -> Result<(TcpListener, u16), CommandError> {
    let address = SocketAddr::new(ip, port);
    let failed = |source: io::Error| CommandError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    Ok((listener, port))
}

/// Whether the machine has no IPv6.
fn is_missing(error: &io::Error) -> bool {
    // EAFNOSUPPORT has no kind.
    matches!(error.kind(), ErrorKind::AddrNotAvailable | ErrorKind::Unsupported)
        || error.raw_os_error() == Some(97)
}

/// Serves on all listeners, until dropped.
pub(super) async fn serve(listeners: Vec<TcpListener>, routes: Arc<Routes>) {
    let open = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    join_all(listeners.into_iter().map(|listener| accept(listener, routes.clone(), open.clone()))).await;
}

async fn accept(listener: TcpListener, routes: Arc<Routes>, open: Arc<Semaphore>) {
    let mut connections = JoinSet::new();
    loop {
        // More connections wait in the listener's backlog.
        let Ok(place) = open.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let routes = routes.clone();
                connections.spawn(async move {
                    carry(stream, routes).await;
                    drop(place);
                });
            }
            // Mostly too many open files: others may close some meanwhile.
            Err(_) => tokio::time::sleep(ACCEPT_DELAY).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Serves one connection to its end, at most for its lifetime.
async fn carry(stream: TcpStream, routes: Arc<Routes>) {
    let respond = service_fn(move |request: Request<Incoming>| {
        let routes = routes.clone();
        async move { Ok::<_, Infallible>(routes.respond(request.into_parts().0).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), respond);
    // An error concerns its client alone. hyper's header timeout also ends idle connections.
    let _ = tokio::time::timeout(LIFETIME, connection).await;
}
