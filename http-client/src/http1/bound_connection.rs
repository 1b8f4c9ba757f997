//! BoundConnection: the connection to a server on which a client has authenticated itself.
//!
//! NTLM and Negotiate authenticate a connection and not a request (RFC 4559, 6): what follows on it
//! has the client's rights. So from the first request with their credentials on, a connection
//! carries requests of that client's connection alone, and closes with it.

use std::sync::{Arc, OnceLock};

use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderValue};
use parking_lot::Mutex;

use super::connection::Connection;
use super::pool::Pool;

const SCHEMES: [&[u8]; 2] = [b"ntlm", b"negotiate"];

/// Part of a client's connection. Empty, and without memory, for nearly all of them.
#[derive(Clone, Debug, Default)]
pub struct BoundConnection(OnceLock<Arc<Slot>>);

/// The connection while no request uses it, and the pool of its server.
#[derive(Debug, Default)]
pub(crate) struct Slot(Mutex<Option<(Pool, Connection)>>);

/// Where a connection returns after its response.
#[derive(Debug)]
pub(crate) enum ConnectionHome {
    Pool(Pool),
    Client(Box<(Arc<Slot>, Pool)>),
}

// === impl BoundConnection ===

impl BoundConnection {
    /// The client's connection to the server of `pool`, if it is open.
    pub(super) fn take(&self, pool: &Pool) -> Option<Connection> {
        let (of, connection) = self.0.get()?.0.lock().take()?;
        (of.is(pool) && connection.is_idle()).then_some(connection)
    }

    pub(super) fn home(&self, pool: &Pool) -> ConnectionHome {
        let slot = self.0.get_or_init(Arc::default).clone();
        ConnectionHome::Client(Box::new((slot, pool.clone())))
    }
}

// === impl ConnectionHome ===

impl ConnectionHome {
    pub(crate) fn put(self, mut connection: Connection) {
        match self {
            Self::Pool(pool) => pool.put(connection),
            Self::Client(home) => {
                let (slot, pool) = *home;
                connection.shrink();
                *slot.0.lock() = Some((pool, connection));
            }
        }
    }
}

/// Whether a request with these headers authenticates its connection.
pub(super) fn binds_connection(headers: &HeaderMap) -> bool {
    let binds = |value: &HeaderValue| {
        let scheme = value.as_bytes().split(|byte| *byte == b' ').next().unwrap_or_default();
        SCHEMES.iter().any(|binding| scheme.eq_ignore_ascii_case(binding))
    };
    headers.get_all(AUTHORIZATION).iter().any(binds)
}
