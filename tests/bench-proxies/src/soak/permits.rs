//! Whether every permit is free: as many tunnels as there are permits are all agreed to at once, and one more has to wait.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::misbehaviour::ask_for_tunnel;
use crate::proxy::SOAKED_LIMIT;

const LONG_ENOUGH: Duration = Duration::from_secs(5);
const TOO_LONG: Duration = Duration::from_millis(500);

/// # Errors
/// When a permit is missing, or there are too many.
pub(super) fn ensure_all_are_free(proxy: SocketAddr) -> Result<()> {
    let mut tunnels = Vec::new();
    for number in 1..=SOAKED_LIMIT {
        let mut tunnel = ask_for_tunnel(proxy)?;
        ensure!(agrees(&mut tunnel, LONG_ENOUGH)?, "of {SOAKED_LIMIT} permits, only {} are free", number - 1);
        tunnels.push(tunnel);
    }
    let mut one_more = ask_for_tunnel(proxy)?;
    ensure!(!agrees(&mut one_more, TOO_LONG)?, "more than {SOAKED_LIMIT} permits are free");
    drop(tunnels.pop());
    ensure!(agrees(&mut one_more, LONG_ENOUGH)?, "a permit that came back is not given again");
    Ok(())
}

/// Whether the tunnel is there in time.
fn agrees(tunnel: &mut TcpStream, within: Duration) -> Result<bool> {
    tunnel.set_read_timeout(Some(within))?;
    let mut head = [0; 1024];
    let count = match tunnel.read(&mut head) {
        Ok(count) => count,
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            return Ok(false);
        }
        Err(error) => return Err(error).context("a tunnel"),
    };
    let head = head.get(..count).unwrap_or_default();
    if !head.starts_with(b"HTTP/1.1 101 ") {
        bail!("instead of a tunnel: {}", head.escape_ascii());
    }
    Ok(true)
}
