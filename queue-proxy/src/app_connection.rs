//! PodAddresses: connects to the app from the pod's own address, never from loopback.
//!
//! Apps trust loopback: PostgreSQL's image lets 127.0.0.1 in without a password, Redis leaves its
//! protected mode, HTTP apps have it in lists of allowed clients. A client of another host must not
//! become local by a sidecar. So the app's connections come from the pod's address, and go to it
//! where the app listens there. An app that listens on loopback alone is reached there, also from
//! the pod's address, which Linux permits.
//!
//! The addresses are those of the routes to other hosts, so no setting names them. An unspecified
//! address of the app means this pod.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU16, Ordering};

use autoscaler::Protocol;
use tokio::net::{TcpSocket, TcpStream};

/// Addresses of documentation, behind each default route. Nothing is sent to them.
const OTHER_HOSTS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];
const DISCARD: u16 = 9;
const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// Linux' range of ports for connections. A kernel that binds before it connects gives each port
/// out once, also those that linger after their connection: 28,000 connections a minute. A port
/// that is chosen here is used again after a second.
const SOURCE_PORTS: RangeInclusive<u16> = 32768..=60999;
/// Ports that may be taken in a row.
const MAX_TAKEN_PORTS: u32 = 64;
static NEXT_PORT: AtomicU16 = AtomicU16::new(*SOURCE_PORTS.start());

/// The pod's own addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PodAddresses {
    /// One of each family, if it has a route to other hosts.
    own: [Option<IpAddr>; 2],
    /// Whether the app may see a client as loopback, in a family of which the pod has no address.
    may_be_loopback: bool,
}

/// Where the app may listen, and the address to connect from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Target {
    to: SocketAddr,
    /// `None`: the kernel's choice, which is `to` itself where that is the pod's own.
    from: Option<IpAddr>,
}

// === impl PodAddresses ===

impl PodAddresses {
    /// The addresses of this host, for an app with this protocol.
    pub(crate) fn find(protocol: Protocol) -> Self {
        Self::new(OTHER_HOSTS.map(|host| source_of_route((host, DISCARD).into())), protocol)
    }

    /// A pod without any own address has no clients on other hosts. In one that has, a family
    /// without an own address leads to an app by HTTP only: what speaks TCP trusts loopback as a
    /// rule.
    fn new(own: [Option<IpAddr>; 2], protocol: Protocol) -> Self {
        Self { own, may_be_loopback: protocol == Protocol::Http || own == [None, None] }
    }

    /// Whether the pod has an address of other hosts' networks.
    pub(crate) fn has_own(self) -> bool {
        self.own != [None, None]
    }

    /// Whether `address` leads to this pod. One of a second network, or of the link alone, does not
    /// lead to other hosts, but is reached from itself.
    pub(crate) fn contain(self, address: SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        let is_own = || self.own.contains(&Some(ip)) || source_of_route(address) == Some(ip);
        ip.is_loopback() || ip.is_unspecified() || is_own()
    }

    /// A connection to the app at `app`. An unspecified address means the pod's own and loopback, a
    /// loopback address both loopback addresses.
    ///
    /// # Errors
    /// That of the first address, if the app listens on none.
    pub(crate) async fn connect(self, app: SocketAddr) -> io::Result<TcpStream> {
        let mut first = None;
        for target in self.targets(app) {
            match target.connect().await {
                Ok(stream) => return Ok(stream),
                // Loopback has more ports to connect from: the kernel uses them again at once.
                Err(error)
                    if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::AddrNotAvailable) =>
                {
                    first.get_or_insert(error);
                }
                Err(error) => return Err(first.unwrap_or(error)),
            }
        }
        Err(first
            .unwrap_or_else(|| io::Error::other("the pod has no address of the family of the app's address")))
    }

    fn targets(self, app: SocketAddr) -> impl Iterator<Item = Target> {
        let ip = app.ip().to_canonical();
        let at = move |to: IpAddr, from| Target { to: (to, app.port()).into(), from };
        let own =
            self.own.into_iter().flatten().filter(move |_| ip.is_unspecified()).map(move |own| at(own, None));
        let loopback = LOOPBACK.into_iter().zip(self.own);
        let loopback = loopback
            .filter(move |(to, _)| ip.is_unspecified() || ip == *to || ip == Ipv4Addr::LOCALHOST)
            .filter(move |(_, own)| own.is_some() || self.may_be_loopback)
            .map(move |(to, own)| at(to, own));
        let other = (!ip.is_unspecified() && !LOOPBACK.contains(&ip))
            .then(|| Target { to: app, from: self.source_for(ip) });
        own.chain(loopback).chain(other)
    }

    /// Loopback has more addresses than one.
    fn source_for(self, to: IpAddr) -> Option<IpAddr> {
        let own = if to.is_ipv4() { self.own[0] } else { self.own[1] };
        own.filter(|_| to.is_loopback())
    }
}

// === impl Target ===

impl Target {
    async fn connect(self) -> io::Result<TcpStream> {
        let Some(from) = self.from else { return TcpStream::connect(self.to).await };
        let mut taken = 0;
        loop {
            let connected = self.connect_from((from, next_port()).into()).await;
            match connected {
                Err(error)
                    if taken < MAX_TAKEN_PORTS
                        && matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable) =>
                {
                    taken += 1;
                }
                connected => return connected,
            }
        }
    }

    async fn connect_from(self, from: SocketAddr) -> io::Result<TcpStream> {
        let socket = if from.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(from)?;
        socket.connect(self.to).await
    }
}

/// The address from which this host reaches `other`, if it does.
fn source_of_route(other: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if other.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(other).ok()?;
    let own = socket.local_addr().ok()?.ip();
    (!own.is_loopback() && !own.is_unspecified()).then_some(own)
}

fn next_port() -> u16 {
    let next = |port: u16| Some(if port < *SOURCE_PORTS.end() { port + 1 } else { *SOURCE_PORTS.start() });
    NEXT_PORT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or(*SOURCE_PORTS.start())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn pod(own: &[&str], protocol: Protocol) -> PodAddresses {
        let of = |v4: bool| own.iter().map(|ip| ip.parse::<IpAddr>().unwrap()).find(|ip| ip.is_ipv4() == v4);
        PodAddresses::new([of(true), of(false)], protocol)
    }

    fn targets(pod: PodAddresses, app: &str) -> Vec<String> {
        let text = |target: Target| match target.from {
            Some(from) => format!("{} from {from}", target.to),
            None => target.to.to_string(),
        };
        pod.targets(app.parse().unwrap()).map(text).collect()
    }

    #[test]
    fn app_is_never_reached_from_loopback_in_a_pod_with_an_address() {
        let dual = ["10.0.0.5", "fd00::5"];
        for (own, protocol, app, expected) in [
            (
                &dual[..],
                Protocol::Tcp,
                "0.0.0.0:80",
                &["10.0.0.5:80", "[fd00::5]:80", "127.0.0.1:80 from 10.0.0.5", "[::1]:80 from fd00::5"][..],
            ),
            (&dual, Protocol::Tcp, "127.0.0.1:80", &["127.0.0.1:80 from 10.0.0.5", "[::1]:80 from fd00::5"]),
            (&dual, Protocol::Tcp, "127.0.0.2:80", &["127.0.0.2:80 from 10.0.0.5"]),
            (&dual, Protocol::Http, "[::1]:80", &["[::1]:80 from fd00::5"]),
            (&dual, Protocol::Http, "10.0.0.9:80", &["10.0.0.9:80"]),
            (&dual, Protocol::Http, "[fe80::9%2]:80", &["[fe80::9%2]:80"]),
            (&dual[..1], Protocol::Tcp, "[::]:80", &["10.0.0.5:80", "127.0.0.1:80 from 10.0.0.5"]),
            (&dual[1..], Protocol::Tcp, "0.0.0.0:80", &["[fd00::5]:80", "[::1]:80 from fd00::5"]),
        ] {
            assert_eq!(targets(pod(own, protocol), app), expected, "{own:?} {app}");
        }
    }

    #[test]
    fn family_without_own_address_is_used_for_http_or_without_any_address() {
        let http = targets(pod(&["10.0.0.5"], Protocol::Http), "0.0.0.0:80");
        assert_eq!(http, ["10.0.0.5:80", "127.0.0.1:80 from 10.0.0.5", "[::1]:80"]);
        let alone = targets(pod(&[], Protocol::Tcp), "127.0.0.1:80");
        assert_eq!(alone, ["127.0.0.1:80", "[::1]:80"]);
    }

    #[test]
    fn address_that_leads_to_no_other_host_is_the_pods_too() {
        let alone = pod(&[], Protocol::Http);
        for own in PodAddresses::find(Protocol::Http).own.into_iter().flatten() {
            assert!(alone.contain((own, 80).into()), "{own}");
        }
        assert!(!alone.contain((OTHER_HOSTS[0], 80).into()));
    }

    /// What the app at `listen` sees as the client's address, if this host has own addresses.
    async fn seen_by_app(listen: &str) -> Option<(IpAddr, PodAddresses)> {
        let found = PodAddresses::find(Protocol::Tcp);
        let listener = TcpListener::bind(listen).await.ok().filter(|_| found.has_own())?;
        let app = (Ipv4Addr::UNSPECIFIED, listener.local_addr().unwrap().port()).into();
        let (_stream, accepted) = tokio::try_join!(found.connect(app), listener.accept()).ok()?;
        Some((accepted.1.ip(), found))
    }

    #[tokio::test]
    async fn app_sees_the_pods_address_whichever_it_listens_on() {
        let mut listens = vec!["127.0.0.1:0".to_owned(), "0.0.0.0:0".to_owned()];
        let found = PodAddresses::find(Protocol::Tcp);
        listens.extend(found.own[0].map(|own| format!("{own}:0")));
        listens.extend(found.own[1].iter().flat_map(|own| [format!("[{own}]:0"), "[::1]:0".to_owned()]));
        for listen in listens {
            let Some((client, pod)) = seen_by_app(&listen).await else { continue };
            assert!(pod.own.contains(&Some(client.to_canonical())), "{listen}: {client}");
        }
    }

    #[tokio::test]
    async fn app_that_does_not_listen_refuses() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let closed = listener.local_addr().unwrap();
        drop(listener);
        for app in [closed, (Ipv4Addr::UNSPECIFIED, closed.port()).into()] {
            let refused = PodAddresses::find(Protocol::Http).connect(app).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        }
    }

    #[test]
    fn source_ports_stay_in_their_range() {
        for _ in 0..40_000 {
            assert!(SOURCE_PORTS.contains(&next_port()));
        }
    }
}
