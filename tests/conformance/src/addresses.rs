//! Addresses: where the app of a row listens, and from which family its client connects.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use tokio::net::{TcpListener, TcpSocket};

/// Addresses of documentation, behind each default route. Nothing is sent to them.
const OTHER_HOSTS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];

/// Ports of which other addresses may be taken, until a listener fails.
const PORTS_TRIED: u32 = 100;

/// A port on the addresses on which its app does not listen, until dropped.
#[derive(Debug)]
pub struct ReservedPort(#[expect(dead_code, reason = "the sockets are held")] Vec<TcpSocket>);

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

fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.bind(address).map(|()| socket)
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

    /// A listener on a port that nothing else has: a sidecar that has the port alone would reach an
    /// app of another row on the other addresses.
    ///
    /// # Errors
    /// When the socket cannot be bound, or this host lacks the address.
    pub async fn listen(self) -> io::Result<(TcpListener, ReservedPort)> {
        let ip = match self {
            Self::Loopback => Ipv4Addr::LOCALHOST.into(),
            Self::Loopback6 => Ipv6Addr::LOCALHOST.into(),
            Self::Every => Ipv4Addr::UNSPECIFIED.into(),
            Self::Every6 => Ipv6Addr::UNSPECIFIED.into(),
            Self::Own | Self::Own6 => self.own().ok_or(io::ErrorKind::AddrNotAvailable)?,
        };
        let mut attempts = 0;
        loop {
            let listener = TcpListener::bind((ip, 0)).await?;
            attempts += 1;
            match self.reserve(listener.local_addr()?.port()) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && attempts < PORTS_TRIED => {}
                reserved => return Ok((listener, reserved?)),
            }
        }
    }

    /// Binds the addresses on which the app does not listen. Connections to them are refused.
    fn reserve(self, port: u16) -> io::Result<ReservedPort> {
        let loopback = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        let own = [Self::Own, Self::Own6].into_iter().filter_map(Self::own);
        let others = loopback.into_iter().chain(own).filter(|ip| !self.includes(*ip));
        let bound = others.map(|ip| bind((ip, port).into()));
        // A host may lack a family.
        let known =
            bound.filter(|bound| !matches!(bound, Err(error) if error.kind() != io::ErrorKind::AddrInUse));
        known.collect::<io::Result<_>>().map(ReservedPort)
    }

    fn includes(self, ip: IpAddr) -> bool {
        match self {
            Self::Loopback => ip == Ipv4Addr::LOCALHOST,
            Self::Loopback6 => ip == Ipv6Addr::LOCALHOST,
            Self::Every => ip.is_ipv4(),
            Self::Every6 => true,
            Self::Own | Self::Own6 => self.own() == Some(ip),
        }
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "these are tests")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn port_of_an_app_is_free_on_no_other_address() {
        let (listener, reserved) = AppAddress::Loopback6.listen().await.unwrap();
        let same_port = (Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port());
        assert_eq!(TcpListener::bind(same_port).await.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(reserved);
        TcpListener::bind(same_port).await.unwrap();
    }
}
