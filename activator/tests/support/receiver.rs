//! A receiver of reports: the part of a metrics-adapter or zero-scaler that an activator connects
//! to.

use autoscaler::stats::ActivatorReport;
use futures::StreamExt;
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

pub struct Receiver {
    pub address: SocketAddr,
    pushes: mpsc::UnboundedReceiver<ActivatorReport>,
}

impl Receiver {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, pushes) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let sender = sender.clone();
                tokio::spawn(async move {
                    let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
                    while let Some(Ok(message)) = socket.next().await {
                        if message.is_text() {
                            let push = serde_json::from_str(message.to_text().unwrap()).unwrap();
                            let _ = sender.send(push);
                        }
                    }
                });
            }
        });
        Self { address, pushes }
    }

    /// The next push with a content.
    pub async fn next(&mut self) -> ActivatorReport {
        loop {
            let push = super::within("a push", self.pushes.recv()).await.unwrap();
            if has_content(&push) {
                return push;
            }
        }
    }

    /// The next push that ends a second.
    pub async fn next_beat(&mut self) -> ActivatorReport {
        loop {
            let push = super::within("a beat", self.pushes.recv()).await.unwrap();
            if push.is_beat {
                return push;
            }
        }
    }

    /// The pushes with a content that were received and not read yet.
    pub fn rest(&mut self) -> Vec<ActivatorReport> {
        std::iter::from_fn(|| self.pushes.try_recv().ok()).filter(has_content).collect()
    }
}

fn has_content(push: &ActivatorReport) -> bool {
    !push.messages.is_empty()
        || !push.slow_wakes.is_empty()
        || !push.wakes.is_empty()
        || !push.first_requests.is_empty()
}
