//! Turns a caller's request into one to the app, and the app's response into one to the caller.
//!
//! The app sees the request as if it had come straight to it: same method, path, Host and body; only headers of the
//! connection and our own are gone, and X-Forwarded-* say who asked. Bodies stream both ways, nothing is collected.

use std::net::IpAddr;

use autoscaler::contract;
use chassis::server::Connection;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri, Version};
use hyper::body::Incoming;

use crate::error_response::Refusal;
use crate::hop_by_hop;
use crate::upstream::{Lease, Upstream};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Sends `request` to the app. The response's head is the caller's already; its body is still to come,
/// over a connection that is kept until then.
pub(crate) async fn forward(
    upstream: &Upstream,
    mut request: Request<Incoming>,
) -> Result<(Response<Incoming>, Option<Lease>), Refusal> {
    if request.method() == Method::CONNECT {
        return Err(Refusal::Connect);
    }
    let upgrade = hop_by_hop::upgrade(request.headers()).cloned();
    let peer = request.extensions().get::<Connection>().map(|connection| connection.peer.ip());
    rewrite_headers(request.headers_mut(), peer, upgrade.as_ref());
    if request.version() != Version::HTTP_2 || upgrade.is_some() {
        to_http1(&mut request);
    }

    let (mut response, lease) = upstream.send(request).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS && upgrade.is_none() {
        return Err(Refusal::AppFailed);
    }
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        hop_by_hop::strip(response.headers_mut());
    }
    Ok((response, lease))
}

fn rewrite_headers(headers: &mut HeaderMap, peer: Option<IpAddr>, upgrade: Option<&HeaderValue>) {
    hop_by_hop::strip(headers);
    if let Some(protocol) = upgrade {
        headers.insert(header::UPGRADE, protocol.clone());
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    }
    for ours in [contract::PROXIED_HEADER, contract::PROBE_HEADER, contract::WORKLOAD_HEADER] {
        headers.remove(ours);
    }
    if let Some(peer) = peer {
        append_forwarded_for(headers, peer);
    }
    headers.entry(X_FORWARDED_PROTO).or_insert(HeaderValue::from_static("http"));
}

/// One header with all addresses: many apps read only the first of several.
fn append_forwarded_for(headers: &mut HeaderMap, peer: IpAddr) {
    let before = headers.get_all(&X_FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
    let mut all = before.fold(String::new(), |mut all, value| {
        all.push_str(value);
        all.push_str(", ");
        all
    });
    all.push_str(&peer.to_canonical().to_string());
    if let Ok(value) = HeaderValue::try_from(all) {
        headers.insert(X_FORWARDED_FOR, value);
    }
}

/// To the app a request goes as to an origin: with its path alone, and Host as the caller gave it.
fn to_http1(request: &mut Request<Incoming>) {
    let uri = std::mem::take(request.uri_mut()).into_parts();
    if let Some(asked) = uri.authority
        && !request.headers().contains_key(header::HOST)
        && let Ok(host) = HeaderValue::from_str(asked.as_str())
    {
        request.headers_mut().insert(header::HOST, host);
    }
    *request.uri_mut() = uri.path_and_query.map(Uri::from).unwrap_or_default();
    *request.version_mut() = Version::HTTP_11;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peer_joins_whoever_was_named_before() {
        let mut headers = HeaderMap::new();
        append_forwarded_for(&mut headers, "::ffff:10.0.0.1".parse().unwrap());
        assert_eq!(headers[X_FORWARDED_FOR], "10.0.0.1");
        headers.append(X_FORWARDED_FOR, HeaderValue::from_static("10.0.0.2"));
        append_forwarded_for(&mut headers, "fd00::1".parse().unwrap());
        assert_eq!(
            headers.get_all(X_FORWARDED_FOR).iter().collect::<Vec<_>>(),
            ["10.0.0.1, 10.0.0.2, fd00::1"]
        );
    }

    #[test]
    fn our_own_headers_do_not_reach_the_app() {
        let mut headers = HeaderMap::new();
        headers.insert(contract::PROXIED_HEADER, HeaderValue::from_static("activator"));
        headers.insert(contract::WORKLOAD_HEADER, HeaderValue::from_static("shop/web"));
        headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static("https"));
        rewrite_headers(&mut headers, None, None);
        assert_eq!(headers.len(), 1);
        assert_eq!(headers[X_FORWARDED_PROTO], "https");
    }
}
