//! SharedConnection: the one HTTP/2 connection to the app, made when it is needed and made anew when it has ended.

use std::net::SocketAddr;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use crate::caller_body::CallerBody;
use crate::error_response::Refusal;

/// A connection that all requests of a worker share.
#[derive(Debug)]
pub(crate) struct SharedConnection {
    app: SocketAddr,
    sender: Mutex<Option<SendRequest<CallerBody>>>,
}

// === impl SharedConnection ===

impl SharedConnection {
    pub(crate) fn new(app: SocketAddr) -> Self {
        Self { app, sender: Mutex::new(None) }
    }

    /// Sends over the connection there is, or a new one. A request that met the end of a used one (apps end theirs by age)
    /// before it was written goes out again.
    pub(crate) async fn send(
        &self,
        request: Box<Request<CallerBody>>,
    ) -> Result<Response<Incoming>, Refusal> {
        let mut unsent = *request;
        loop {
            let (mut sender, is_new) = self.sender().await?;
            let mut failed = match sender.try_send_request(unsent).await {
                Ok(response) => return Ok(response),
                Err(failed) => failed,
            };
            match failed.take_message() {
                Some(again) if !is_new => unsent = again,
                _ => {
                    tracing::debug!(error = %failed.error(), "HTTP/2 request failed");
                    return Err(Refusal::of_failed(failed.error()));
                }
            }
        }
    }

    /// The connection, and whether it was made just now.
    async fn sender(&self) -> Result<(SendRequest<CallerBody>, bool), Refusal> {
        let mut current = self.sender.lock().await;
        if let Some(sender) = current.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok((sender.clone(), false));
        }
        let sender = Box::pin(self.connect()).await?;
        *current = Some(sender.clone());
        Ok((sender, true))
    }

    async fn connect(&self) -> Result<SendRequest<CallerBody>, Refusal> {
        let stream = TcpStream::connect(self.app).await.map_err(|_| Refusal::AppUnreachable)?;
        stream.set_nodelay(true).map_err(|_| Refusal::AppUnreachable)?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|_| Refusal::AppFailed)?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "HTTP/2 connection to the app ended");
            }
        });
        Ok(sender)
    }
}
