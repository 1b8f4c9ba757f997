//! Idle websockets, and the memory that a proxy has for each.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, Result, ensure};

use super::client::read_head;

const UPGRADE: &[u8] = b"GET /websocket HTTP/1.1\r\nHost: web.shop.example.com\r\n\
    Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Opens `count` of them, and returns by how much `resident` grew for each.
///
/// # Errors
/// When one is refused.
pub(super) fn bytes_for_each(
    address: SocketAddr,
    count: usize,
    mut resident: impl FnMut() -> Result<u64>,
) -> Result<f64> {
    drop(open(address)?);
    let before = resident()?;
    let open = (0..count).map(|_| open(address)).collect::<Result<Vec<_>>>()?;
    let after = resident()?;
    Ok(after.saturating_sub(before) as f64 / open.len() as f64)
}

fn open(address: SocketAddr) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(UPGRADE)?;
    let mut reader = BufReader::new(stream);
    let head = read_head(&mut reader).context("no response to an upgrade")?;
    let status = head.lines().next().unwrap_or_default().to_owned();
    ensure!(status.starts_with("HTTP/1.1 101 "), "an upgrade got {status:?}");
    Ok(reader.into_inner())
}
