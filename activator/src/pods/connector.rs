//! Connector: a TCP connection to a pod, within about a second or not at all.
//!
//! A pod that is starting or stopping may drop the first SYN, and the kernel repeats it only after
//! a second. So each attempt is short (50 ms, growing), and the next one sends a new SYN; Knative's
//! activator does the same. A refused connection fails at once: the caller ejects the pod and
//! probes it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use proxy::tcp::enable_keepalive;
use tokio::net::TcpStream;

const FIRST_TIMEOUT: Duration = Duration::from_millis(50);
const GROWTH: f64 = 1.4;
/// 50 ms growing by 1.4 seven times is 1.2 s in all.
const ATTEMPTS: u32 = 7;

/// A connection to the pod at `address`, with keepalive.
///
/// # Errors
/// When the pod refuses it, or all attempts time out.
pub async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let mut timeout = FIRST_TIMEOUT;
    for _ in 0..ATTEMPTS {
        match tokio::time::timeout(timeout, TcpStream::connect(address)).await {
            Ok(connected) => {
                let stream = connected?;
                stream.set_nodelay(true)?;
                // A pod that vanishes with its node would keep websockets open.
                enable_keepalive(&stream)?;
                return Ok(stream);
            }
            Err(_) => timeout = timeout.mul_f64(GROWTH),
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, format!("connection attempts to {address} timed out")))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn connection_to_pod_has_keepalive() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = connect(listener.local_addr().unwrap()).await.unwrap();
        assert!(socket2::SockRef::from(&stream).keepalive().unwrap());
    }
}
