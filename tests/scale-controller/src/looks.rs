//! What the zero-scaler says of itself: whether it is ready, and how many looks at objects it has had.

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Its admin port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admin(pub(crate) u16);

// === impl Admin ===

impl Admin {
    pub(crate) async fn is_ready(self) -> bool {
        self.get("/ready").await.is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
    }

    /// Looks at objects of all kinds.
    pub(crate) async fn looks(self) -> Result<u64> {
        let metrics = self.get("/metrics").await?;
        let counts = metrics.lines().filter(|line| line.starts_with("rouse_reconcile_seconds_count"));
        counts
            .map(|line| Ok(line.rsplit_once(' ').context("a metric without value")?.1.parse::<u64>()?))
            .sum()
    }

    async fn get(self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.0)).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }
}
