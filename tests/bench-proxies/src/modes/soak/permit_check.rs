//! Checks that every permit of the concurrency limit is free: the proxy accepts as many tunnels as
//! it has permits, and queues one more.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::abusive_clients::request_tunnel;
use crate::proxies::SOAKED_LIMIT;

/// Longest wait for a tunnel that must be accepted.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(5);
/// After this time without a response a tunnel counts as queued.
const QUEUED_AFTER: Duration = Duration::from_millis(500);

/// Opens the tunnels.
///
/// # Errors
/// When a permit is missing, or there are too many.
pub(super) fn ensure_all_are_free(proxy: SocketAddr) -> Result<()> {
    let mut tunnels = Vec::new();
    for number in 1..=SOAKED_LIMIT {
        let mut tunnel = request_tunnel(proxy)?;
        ensure!(
            is_accepted(&mut tunnel, ACCEPT_TIMEOUT)?,
            "of {SOAKED_LIMIT} permits, only {} are free",
            number - 1
        );
        tunnels.push(tunnel);
    }
    let mut one_more = request_tunnel(proxy)?;
    ensure!(!is_accepted(&mut one_more, QUEUED_AFTER)?, "more than {SOAKED_LIMIT} permits are free");
    drop(tunnels.pop());
    ensure!(is_accepted(&mut one_more, ACCEPT_TIMEOUT)?, "a released permit is not issued again");
    Ok(())
}

/// Whether the proxy accepts the tunnel in time.
fn is_accepted(tunnel: &mut TcpStream, within: Duration) -> Result<bool> {
    tunnel.set_read_timeout(Some(within))?;
    let mut head = [0; 1024];
    let count = match tunnel.read(&mut head) {
        Ok(count) => count,
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            return Ok(false);
        }
        Err(error) => return Err(error).context("cannot read the response to a tunnel request"),
    };
    let head = head.get(..count).unwrap_or_default();
    if !head.starts_with(b"HTTP/1.1 101 ") {
        bail!("tunnel rejected: {}", head.escape_ascii());
    }
    Ok(true)
}
