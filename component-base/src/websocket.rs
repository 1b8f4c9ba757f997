//! Websockets between Rouse's own parts: pushes, decisions and slot exchange.
//!
//! A client opens its connection with a [`Connector`], which retries with backoff. Client and
//! server then [`split`] the socket: the sender pings, the receiver detects a lost peer. Both
//! halves run side by side, so that a peer that does not read cannot stop the other direction.

mod connector;
mod frame;
mod peer;
#[cfg(test)]
mod tests;

pub use connector::{ClientSocket, ConnectError, Connector};
pub use frame::Frame;
pub use peer::{PeerError, PeerLimits, PeerReceiver, PeerSender, split};
