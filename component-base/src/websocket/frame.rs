//! What the websocket types of tungstenite and axum have in common.

use tokio_tungstenite::tungstenite::Message;

/// A websocket message.
pub trait Frame {
    /// An empty ping.
    fn ping() -> Self;
    /// True for a close frame.
    fn is_close(&self) -> bool;
}

impl Frame for Message {
    fn ping() -> Self {
        Self::Ping(bytes::Bytes::new())
    }

    fn is_close(&self) -> bool {
        matches!(self, Self::Close(_))
    }
}

#[cfg(feature = "axum")]
impl Frame for axum::extract::ws::Message {
    fn ping() -> Self {
        Self::Ping(bytes::Bytes::new())
    }

    fn is_close(&self) -> bool {
        matches!(self, Self::Close(_))
    }
}
