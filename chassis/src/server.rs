//! Serves HTTP on a listener until told to stop, then ends gently.
//!
//! The service comes from a binary; what is here is what every listener needs: HTTP/1.1 and h2c on one port, a bound on
//! connections, a bound on the time a caller may take for its headers, and an end that lets running requests finish.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Wait after a failed accept (out of file descriptors, mostly) before the next try.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Bounds of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Time a caller has to send its request's headers.
    pub header_read_timeout: Duration,
    /// Connections open at a time; more wait in the kernel's backlog.
    pub max_connections: usize,
    /// Largest size of a request's headers, in bytes.
    pub max_header_bytes: usize,
    /// Time that running requests have to finish after the stop.
    pub drain_timeout: Duration,
}

/// The two ends of the connection a request came on; in every request's extensions.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    /// The caller.
    pub peer: SocketAddr,
    /// The address it connected to.
    pub local: SocketAddr,
}

// === impl Options ===

impl Default for Options {
    fn default() -> Self {
        Self {
            header_read_timeout: Duration::from_secs(30),
            max_connections: 65_536,
            max_header_bytes: 64 * 1024,
            drain_timeout: Duration::from_secs(30),
        }
    }
}

/// Accepts until `stop`, then waits for the running requests, at most `options.drain_timeout`.
pub async fn serve<S, F, B>(listener: TcpListener, service: S, options: Options, stop: CancellationToken)
where
    S: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let builder = builder(options);
    let graceful = GracefulShutdown::new();
    let slots = Arc::new(Semaphore::new(options.max_connections.min(Semaphore::MAX_PERMITS)));
    let mut stopped = pin!(stop.cancelled());
    loop {
        let (stream, peer, slot) = tokio::select! {
            () = &mut stopped => break,
            accepted = accept(&listener, &slots) => accepted,
        };
        let Ok(local) = stream.local_addr() else { continue };
        let service = service.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Connection { peer, local });
            service(request)
        });
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                // The caller's doing: it went away or spoke no HTTP.
                tracing::debug!(%peer, %error, "connection ended");
            }
            drop(slot);
        });
    }
    drop(listener);
    if tokio::time::timeout(options.drain_timeout, graceful.shutdown()).await.is_err() {
        tracing::warn!(after = ?options.drain_timeout, "connections were cut: their requests did not end in time");
    }
}

async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, Option<tokio::sync::OwnedSemaphorePermit>) {
    // The semaphore is never closed, so there is always a permit in the end.
    let slot = slots.clone().acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Small answers must not wait for an acknowledgement of the one before.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%peer, %error, "no TCP_NODELAY");
                }
                return (stream, peer, slot);
            }
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

fn builder(options: Options) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(options.header_read_timeout)
        .max_buf_size(options.max_header_bytes.max(8192));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(options.max_header_bytes).unwrap_or(u32::MAX));
    builder
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::Full;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_running_request_finishes_after_the_stop() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let (arrived, mut arrivals) = mpsc::channel::<()>(1);
        let release = Arc::new(tokio::sync::Notify::new());
        let service = {
            let release = release.clone();
            move |request: Request<Incoming>| {
                let (release, arrived) = (release.clone(), arrived.clone());
                async move {
                    assert_eq!(request.extensions().get::<Connection>().unwrap().local, address);
                    arrived.send(()).await.unwrap();
                    release.notified().await;
                    Ok(Response::new(Full::new(Bytes::from("late"))))
                }
            }
        };
        let server = tokio::spawn(serve(listener, service, Options::default(), stop.clone()));
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        arrivals.recv().await.unwrap();
        stop.cancel();
        release.notify_one();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.ends_with("late"), "{answer}");
        server.await.unwrap();
    }
}
