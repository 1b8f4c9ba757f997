//! ReservedAddress: an address of loopback for an app that starts late or restarts.
//!
//! A test that closed a listener to get an address without an app could lose it: the kernel gives
//! the port to the next listener, and the sidecar would connect to that one, or to itself.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::{TcpListener, TcpSocket};

/// An address that stays reserved until this is dropped. It refuses connections while no listener
/// is open.
pub(crate) struct ReservedAddress {
    /// Bound and never listening.
    socket: TcpSocket,
}

impl ReservedAddress {
    pub(crate) fn new() -> Self {
        Self { socket: bind(0) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    pub(crate) fn listen(&self) -> TcpListener {
        bind(self.address().port()).listen(1024).unwrap()
    }
}

/// Sockets of one user that all have `SO_REUSEPORT` share a port; one without it can't have that
/// port.
fn bind(port: u16) -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseport(true).unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, port).into()).unwrap();
    socket
}
