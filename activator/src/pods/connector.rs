//! Connector: a TCP connection to a pod, within about a second or not at all.
//!
//! A pod that is starting or stopping may drop the first SYN, and the kernel repeats it only after
//! a second. So a further attempt with a new SYN begins after 50 ms, and again after growing
//! pauses; Knative's activator does the same. The earlier attempts go on: on a path with a round
//! trip of more than the longest pause no other would succeed. A refused connection fails at once:
//! the caller ejects the pod and probes it.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use component_base::listener::keepalive::{bound_unacknowledged, enable_keepalive};
use component_base::listener::outbound;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::net::TcpStream;
use tokio::time::timeout;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const GROWTH: f64 = 1.4;
/// 50 ms growing by 1.4 seven times is 1.2 s in all.
const ATTEMPTS: u32 = 7;

/// A connection to the pod at `address`, with keepalive.
///
/// # Errors
/// When the pod refuses it, or all attempts time out.
pub async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = first_connected(|| outbound::connect(address)).await.unwrap_or_else(|| {
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("connection attempts to {address} timed out")))
    })?;
    stream.set_nodelay(true)?;
    // A pod that vanishes with its node would keep websockets open.
    enable_keepalive(&stream)?;
    Ok(stream)
}

/// As [`connect`], for HTTP/2.
///
/// # Errors
/// See [`connect`].
pub async fn connect_http2(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = connect(address).await?;
    bound_unacknowledged(&stream)?;
    Ok(stream)
}

/// The result of the attempt that ends first; `None` if none ends in time.
async fn first_connected<F: Future>(attempt: impl Fn() -> F) -> Option<F::Output> {
    let mut attempts = FuturesUnordered::new();
    let mut pause = FIRST_PAUSE;
    for _ in 0..ATTEMPTS {
        attempts.push(attempt());
        if let Ok(first) = timeout(pause, attempts.next()).await {
            return first;
        }
        pause = pause.mul_f64(GROWTH);
    }
    None
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use component_base::listener::bind_port;
    use tokio::net::TcpListener;
    use tokio::time::{Instant, sleep};

    use super::*;

    /// Milliseconds until the first of the attempts is connected, each of which takes as long as
    /// `attempt` returns for its beginning.
    async fn connected_after(attempt: impl Fn(u64) -> u64) -> Option<u64> {
        let start = Instant::now();
        let elapsed = || u64::try_from(start.elapsed().as_millis()).unwrap();
        first_connected(|| sleep(Duration::from_millis(attempt(elapsed())))).await.map(|()| elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn connects_on_a_path_with_a_long_round_trip() {
        for round_trip in [1, 60, 400, 1100] {
            assert_eq!(connected_after(|_| round_trip).await, Some(round_trip));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn lost_first_syn_is_followed_by_another_after_50_ms() {
        let taken = connected_after(|begun| if begun == 0 { 1000 } else { 1 }).await;
        assert!(taken.is_some_and(|taken| taken < 60), "{taken:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn gives_up_a_lost_pod_after_about_a_second() {
        let start = Instant::now();
        assert_eq!(first_connected(pending::<()>).await, None);
        let taken = start.elapsed().as_millis();
        assert!((1100..1300).contains(&taken), "{taken}");
    }

    #[tokio::test]
    async fn connection_to_pod_has_keepalive() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = connect(listener.local_addr().unwrap()).await.unwrap();
        assert!(socket2::SockRef::from(&stream).keepalive().unwrap());
    }

    #[tokio::test]
    async fn leased_port_opens_while_a_connection_to_a_pod_has_it() {
        let pod = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut streams = Vec::new();
        // Other programs of the machine may have a local port as well.
        for _ in 0..20 {
            streams.push(connect(pod.local_addr().unwrap()).await.unwrap());
        }
        let mut ports = streams.iter().map(|stream| stream.local_addr().unwrap().port());
        assert!(ports.any(|port| bind_port(port).is_ok()));
    }
}
