//! Addresses: where the app of a row listens, and from which family its client connects.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use tokio::net::TcpListener;

/// Addresses of documentation, behind each default route. Nothing is sent to them.
const OTHER_HOSTS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];

/// Addresses of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Where the app listens.
    pub app: AppAddress,
    /// Where the client reaches the proxy, and so from where: a loopback address.
    pub client: IpAddr,
    /// Whether the app must see no client on loopback.
    pub hides_loopback: bool,
}

/// An address on which an app listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppAddress {
    /// `127.0.0.1` alone.
    Loopback,
    /// `::1` alone.
    Loopback6,
    /// All addresses of IPv4 alone.
    Every,
    /// All addresses of both families.
    Every6,
    /// The host's address of IPv4 alone.
    Own,
    /// The host's address of IPv6 alone.
    Own6,
}

impl Default for Addresses {
    fn default() -> Self {
        Self { app: AppAddress::Loopback, client: Ipv4Addr::LOCALHOST.into(), hides_loopback: false }
    }
}

// === impl AppAddress ===

impl AppAddress {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Loopback, Self::Loopback6, Self::Every, Self::Every6, Self::Own, Self::Own6];

    /// Whether this host can have a row of it: other hosts reach it by the address's family.
    pub fn has_own_address(self) -> bool {
        self.own().is_some()
    }

    /// A listener on a free port.
    ///
    /// # Errors
    /// When the socket cannot be bound, or this host lacks the address.
    pub async fn listen(self) -> io::Result<TcpListener> {
        let ip = match self {
            Self::Loopback => Ipv4Addr::LOCALHOST.into(),
            Self::Loopback6 => Ipv6Addr::LOCALHOST.into(),
            Self::Every => Ipv4Addr::UNSPECIFIED.into(),
            Self::Every6 => Ipv6Addr::UNSPECIFIED.into(),
            Self::Own | Self::Own6 => self.own().ok_or(io::ErrorKind::AddrNotAvailable)?,
        };
        TcpListener::bind((ip, 0)).await
    }

    /// This host's address of the same family, if it has a route to other hosts.
    fn own(self) -> Option<IpAddr> {
        let is_v6 = matches!(self, Self::Loopback6 | Self::Every6 | Self::Own6);
        let any: IpAddr = if is_v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect((OTHER_HOSTS[usize::from(is_v6)], 9)).ok()?;
        let own = socket.local_addr().ok()?.ip();
        (!own.is_loopback() && !own.is_unspecified()).then_some(own)
    }
}
