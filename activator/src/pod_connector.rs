//! PodConnector: a TCP connection to a pod, within about a second or not at all.
//!
//! A pod that is just starting or going may swallow the first packet, and the kernel repeats it only after a second. So each
//! try is short (50 ms, growing), and a new one is made with a new packet; Knative's activator does the same. What refuses
//! fails at once: its caller knows better what to do than another try does.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;

const FIRST_TRY: Duration = Duration::from_millis(50);
const GROWTH: f64 = 1.4;
/// 50 ms growing by 1.4 seven times is 1.2 s in all.
const TRIES: u32 = 7;

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
