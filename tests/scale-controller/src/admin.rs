//! The admin port of a process: its readiness, and the number of reconciles of the zero-scaler.

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An admin port on this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admin(pub(crate) u16);

// === impl Admin ===

impl Admin {
    pub(crate) async fn is_ready(self) -> bool {
        self.get("/ready").await.is_ok_and(|response| response.starts_with("HTTP/1.1 200"))
    }

    /// The number of reconciles of all controllers.
    pub(crate) async fn reconciles(self) -> Result<u64> {
        let metrics = self.get("/metrics").await?;
        let counts =
            metrics.lines().filter(|line| line.starts_with("rouse_zero_scaler_reconcile_seconds_count"));
        counts
            .map(|line| Ok(line.rsplit_once(' ').context("a metric without value")?.1.parse::<u64>()?))
            .sum()
    }

    async fn get(self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.0)).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut response = String::new();
        stream.read_to_string(&mut response).await?;
        Ok(response)
    }
}
