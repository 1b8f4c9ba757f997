//! Addresses: an app is reached wherever it listens, and never from loopback, which apps trust.

use std::net::{IpAddr, Ipv6Addr};

use crate::addresses::{Addresses, AppAddress};
use crate::case::AppAction::{Closes, Reads, ReadsBytes, Sends};
use crate::case::{Case, case, observed, ok, response};
use crate::http2::{self, Http2Case, data, request};

const SOURCE: &str = "docker-library/postgres#1028, istio/istio#28178";
const SWITCHES: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";

/// The rows of a sidecar that has the app's port alone, of HTTP/1 and of bytes.
pub fn sidecar_rows() -> Vec<Case> {
    everywhere(AppAddress::ALL, true).flat_map(|at| [plain(at), upgraded(at)]).collect()
}

/// As above, of HTTP/2.
pub fn sidecar_http2_rows() -> Vec<Http2Case> {
    everywhere(AppAddress::ALL, true).map(upload).collect()
}

/// The rows of an activator, which has the address of a pod.
pub fn pod_rows() -> Vec<Case> {
    everywhere(POD_ADDRESSES, false).flat_map(|at| [plain(at), upgraded(at)]).collect()
}

/// As above, of HTTP/2.
pub fn pod_http2_rows() -> Vec<Http2Case> {
    everywhere(POD_ADDRESSES, false).map(upload).collect()
}

/// The rows of a client over IPv6.
pub fn client_rows() -> Vec<Case> {
    vec![
        case("a client over IPv6 is served, and its address is forwarded", "RFC 7239, 6")
            .at(over_ipv6())
            .sends("GET / HTTP/1.1\r\nHost: a\r\nForwarded: for=10.1.2.3\r\n\r\n")
            .app_receives_request(
                observed("GET / HTTP/1.1\nforwarded: for=10.1.2.3, for=\"[::1]\"\nhost: a")
                    .with("x-forwarded-for: ::1"),
            )
            .gets(ok()),
    ]
}

/// As above, of HTTP/2.
pub fn client_http2_rows() -> Vec<Http2Case> {
    vec![
        http2::case("a client over IPv6 is served, and its address is forwarded", "RFC 7239, 6")
            .at(over_ipv6())
            .sends([request(1, "GET", "/", &[("forwarded", "for=10.1.2.3")]).ending()])
            .app_receives_request(
                observed("GET / HTTP/2\n:authority: a\nforwarded: for=10.1.2.3, for=\"[::1]\"")
                    .with("x-forwarded-for: ::1"),
            )
            .gets(1, ok()),
    ]
}

/// As above, of bytes.
pub fn client_tcp_rows() -> Vec<Case> {
    vec![plain(over_ipv6())]
}

const POD_ADDRESSES: [AppAddress; 3] = [AppAddress::Loopback6, AppAddress::Own, AppAddress::Own6];

fn over_ipv6() -> Addresses {
    Addresses { client: IpAddr::V6(Ipv6Addr::LOCALHOST), ..Addresses::default() }
}

/// Those that this host can have.
fn everywhere(
    addresses: impl IntoIterator<Item = AppAddress>,
    hides_loopback: bool,
) -> impl Iterator<Item = Addresses> {
    let possible = addresses.into_iter().filter(|address| address.has_own_address());
    possible.map(move |app| Addresses { app, hides_loopback, ..Addresses::default() })
}

fn plain(at: Addresses) -> Case {
    let name = match at.app {
        AppAddress::Loopback => "an app on 127.0.0.1 alone is reached",
        AppAddress::Loopback6 => "an app on ::1 alone is reached",
        AppAddress::Every => "an app on all addresses of IPv4 is reached",
        AppAddress::Every6 => "an app on all addresses of both families is reached",
        AppAddress::Own => "an app on the pod's address alone is reached",
        AppAddress::Own6 => "an app on the pod's address of IPv6 alone is reached",
    };
    case(name, SOURCE)
        .at(at)
        .sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi")
        .passes("POST / HTTP/1.1\ncontent-length: 2\nhost: a\n\nhi")
}

fn upgraded(at: Addresses) -> Case {
    case("an upgraded connection reaches the app where it listens", SOURCE)
        .at(at)
        .sends("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
        .app([Reads, Sends(SWITCHES.to_vec()), ReadsBytes(b"ping".to_vec()), Sends(b"pong".to_vec()), Closes])
        .app_receives("GET / HTTP/1.1\nconnection: upgrade\nhost: a\nupgrade: x")
        .gets(response(101))
        .sends("ping")
        .gets_bytes("pong")
        .then_closes()
}

fn upload(at: Addresses) -> Http2Case {
    http2::case("an app of HTTP/2 is reached where it listens", SOURCE)
        .at(at)
        .sends([request(1, "POST", "/", &[]), data(1, "hi").ending()])
        .app_receives("POST / HTTP/2\n:authority: a\n\nhi")
        .gets(1, ok())
}
