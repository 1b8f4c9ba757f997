//! Opens a websocket to another part of Rouse, with retries.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Error as WebSocketError};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::auth::{ProjectedToken, TokenError};
use crate::listener::outbound;
use crate::retry;

/// Time for the connection and its handshake, which includes a TokenReview.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);

/// An open websocket of a client.
pub type ClientSocket = WebSocketStream<TcpStream>;

/// Why a connection could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The server did not complete the handshake.
    #[error("no handshake within {HANDSHAKE_TIMEOUT:?}")]
    Timeout,
    /// The token file cannot be used.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The TCP connection failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The handshake failed.
    #[error(transparent)]
    WebSocket(#[from] Box<WebSocketError>),
    /// This process cannot use the server's messages.
    #[error("{0}")]
    Server(String),
}

/// Opens connections to one server, one after the other.
pub struct Connector {
    address: SocketAddr,
    path: &'static str,
    token: ProjectedToken,
    headers: HeaderMap,
    check: fn(&HeaderMap) -> Result<(), String>,
    config: WebSocketConfig,
    retry: (Duration, Duration),
    delays: Box<dyn Iterator<Item = Duration> + Send>,
    is_first: bool,
    rejection_logged: bool,
}

// === impl Connector ===

impl Connector {
    /// Connects to `path` at `address` and authenticates with `token`. Retries begin at the first
    /// of the delays `retry` and reach the second.
    pub fn new(
        address: SocketAddr,
        path: &'static str,
        token: ProjectedToken,
        retry: (Duration, Duration),
    ) -> Self {
        Self {
            address,
            path,
            token,
            headers: HeaderMap::new(),
            check: |_| Ok(()),
            config: WebSocketConfig::default(),
            retry,
            delays: Box::new(retry::delays(retry.0, retry.1)),
            is_first: true,
            rejection_logged: false,
        }
    }

    /// Sends a further header with the handshake.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Checks the headers of the server's handshake before a connection counts as open.
    #[must_use]
    pub fn with_check(mut self, check: fn(&HeaderMap) -> Result<(), String>) -> Self {
        self.check = check;
        self
    }

    /// Bounds received messages, in bytes.
    #[must_use]
    pub fn with_max_message(mut self, bytes: usize) -> Self {
        self.config = self.config.max_message_size(Some(bytes)).max_frame_size(Some(bytes));
        self
    }

    /// Waits before the first attempt too, as after a lost connection.
    #[must_use]
    pub fn with_initial_delay(mut self) -> Self {
        self.is_first = false;
        self
    }

    /// Opens the next connection, with retries until it succeeds.
    pub async fn connect(&mut self) -> ClientSocket {
        loop {
            if !std::mem::take(&mut self.is_first) {
                sleep(self.delays.next().unwrap_or(self.retry.1)).await;
            }
            match self.attempt().await {
                Ok(socket) => {
                    self.delays = Box::new(retry::delays(self.retry.0, self.retry.1));
                    self.rejection_logged = false;
                    tracing::info!(address = %self.address, path = self.path, "websocket connected");
                    return socket;
                }
                Err(error) => self.log(&error),
            }
        }
    }

    async fn attempt(&mut self) -> Result<ClientSocket, ConnectError> {
        let url = format!("ws://{}{}", self.address, self.path);
        let mut request = url.into_client_request().map_err(Box::new)?;
        request.headers_mut().extend(self.headers.clone());
        self.token.authorize(request.headers_mut())?;
        let handshake = async {
            let stream = outbound::connect(self.address).await?;
            // Small messages must not wait for the acknowledgement of the previous one.
            stream.set_nodelay(true)?;
            let opened = client_async_with_config(request, stream, Some(self.config)).await;
            let (socket, response) = opened.map_err(Box::new)?;
            (self.check)(response.headers()).map_err(ConnectError::Server)?;
            Ok(socket)
        };
        timeout(HANDSHAKE_TIMEOUT, handshake).await.unwrap_or(Err(ConnectError::Timeout))
    }

    /// A rejection is logged once as an error: it is retried for as long as it lasts.
    fn log(&mut self, error: &ConnectError) {
        let (address, path) = (self.address, self.path);
        let rejection = match error {
            ConnectError::WebSocket(error) => match &**error {
                tungstenite::Error::Http(response) => {
                    let detail = response.body().as_deref().map(String::from_utf8_lossy);
                    Some(format!("{}: {}", response.status(), detail.unwrap_or_default().trim()))
                }
                _ => None,
            },
            ConnectError::Server(reason) => Some(reason.clone()),
            _ => None,
        };
        match rejection.filter(|_| !std::mem::replace(&mut self.rejection_logged, true)) {
            Some(reason) => tracing::error!(%address, path, %reason, "websocket rejected, retrying"),
            None => tracing::debug!(%address, path, %error, "websocket not connected, retrying"),
        }
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, path, .. } = self;
        f.debug_struct("Connector").field("address", address).field("path", path).finish_non_exhaustive()
    }
}
