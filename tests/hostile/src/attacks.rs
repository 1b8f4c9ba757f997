//! What a client does with its connection, by protocol.
//!
//! Each function returns when the server ended the connection, and else goes on for ever.

pub(crate) mod datagrams;
mod frame;
pub(crate) mod http1;
pub(crate) mod http2;
pub(crate) mod silent;

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::tally::Tally;

/// Between two batches of a flood. Floods of one pod share the machine with the attacked parts; the
/// attack is about what a message costs the server, not about shares of CPU time.
pub(crate) const BATCH_PAUSE: Duration = Duration::from_millis(2);

/// Reads until the server ends the connection.
pub(crate) async fn drain(mut from: impl AsyncRead + Unpin, tally: &Tally) {
    let mut buffer = [0; 4096];
    while let Ok(1..) = from.read(&mut buffer).await {
        tally.add_received();
    }
}
