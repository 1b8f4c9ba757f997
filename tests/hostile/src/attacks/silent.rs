//! Connections that take a place and send nothing, or next to nothing.

use std::time::Duration;

use tokio::io::{AsyncWriteExt, split};

use super::drain;
use crate::connector::Connection;
use crate::tally::Tally;

const HALF_HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: hostile\r\nX-Hostile: ";
/// A handshake record of 512 bytes that do not follow.
const HALF_HANDSHAKE: &[u8] = &[0x16, 3, 1, 2, 0, 1];
/// Shorter than the time after which a server may take a silent connection for idle.
const DRIP_INTERVAL: Duration = Duration::from_millis(500);

pub(crate) async fn idle(connection: Box<dyn Connection>, tally: &Tally) {
    drain(connection, tally).await;
}

pub(crate) async fn half_open_handshake(connection: Box<dyn Connection>, tally: &Tally) {
    begin(connection, HALF_HANDSHAKE, tally).await;
}

pub(crate) async fn half_open_head(connection: Box<dyn Connection>, tally: &Tally) {
    begin(connection, HALF_HEAD, tally).await;
}

pub(crate) async fn dripping_head(connection: Box<dyn Connection>, tally: &Tally) {
    let (read, mut write) = split(connection);
    let drip = async {
        for byte in HALF_HEAD.iter().chain(std::iter::repeat(&b'a')) {
            if write.write_all(&[*byte]).await.is_err() || write.flush().await.is_err() {
                return;
            }
            tally.add_sent(1);
            tokio::time::sleep(DRIP_INTERVAL).await;
        }
    };
    tokio::select! {
        () = drip => {}
        () = drain(read, tally) => {}
    }
}

async fn begin(mut connection: Box<dyn Connection>, bytes: &[u8], tally: &Tally) {
    if connection.write_all(bytes).await.is_ok() && connection.flush().await.is_ok() {
        tally.add_sent(bytes.len() as u64);
        drain(connection, tally).await;
    }
}
