//! A stat by two UDP datagrams: the query of a collector and the response of a sidecar.
//!
//! ```text
//!  query     "rst?"  version  nonce (8)  zeros
//!  response  "rst!"  version  nonce (8)  0: too young | 1: a stat  four values (8 each)  timestamp (8)
//! ```
//!
//! Numbers are big-endian. Ten thousand workloads need tens of thousands of queries a second. HTTP
//! costs several times as much per query, or a connection kept open to every pod. A collector
//! without a response falls back to HTTP: a network policy may allow only TCP, and an older sidecar
//! lacks this protocol.
//!
//! A query is as long as its response, so a forged sender address gives no amplification. The nonce
//! protects against forged responses. A datagram of another version is dropped.

use super::Stat;

/// Bytes of a query, and of a response.
pub const LENGTH: usize = 4 + 1 + 8 + 1 + 4 * 8 + 8;

const QUERY: [u8; 4] = *b"rst?";
const RESPONSE: [u8; 4] = *b"rst!";
const VERSION: u8 = 1;
const TOO_YOUNG: u8 = 0;
const STAT: u8 = 1;

/// A query for the last finished period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatQuery {
    /// A random number of the client.
    pub nonce: u64,
}

/// The response to a [`StatQuery`].
#[derive(Clone, Debug, PartialEq)]
pub struct StatResponse {
    /// The nonce of the query.
    pub nonce: u64,
    /// The last finished period, without the pod's name; `None` before the first has ended.
    pub stat: Option<Stat>,
}

// === impl StatQuery ===

impl StatQuery {
    /// The datagram.
    pub fn encode(self) -> Vec<u8> {
        let mut bytes = head(QUERY, self.nonce);
        bytes.resize(LENGTH, 0);
        bytes
    }

    /// Parses a datagram; `None` if it is not a query.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        if bytes.len() != LENGTH {
            return None;
        }
        Some(Self { nonce: nonce(&mut bytes, QUERY)? })
    }
}

// === impl StatResponse ===

impl StatResponse {
    /// The datagram.
    pub fn encode(nonce: u64, stat: Option<&Stat>) -> Vec<u8> {
        let mut bytes = head(RESPONSE, nonce);
        if let Some(stat) = stat {
            bytes.push(STAT);
            for value in [
                stat.average_concurrent_requests,
                stat.average_proxied_concurrent_requests,
                stat.request_count,
                stat.proxied_request_count,
            ] {
                bytes.extend_from_slice(&value.to_be_bytes());
            }
            bytes.extend_from_slice(&stat.timestamp.to_be_bytes());
        } else {
            bytes.push(TOO_YOUNG);
            bytes.resize(LENGTH, 0);
        }
        bytes
    }

    /// Parses a datagram; `None` if it is not a response. Its values may be invalid
    /// ([`Stat::is_plausible`]).
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        if bytes.len() != LENGTH {
            return None;
        }
        let nonce = nonce(&mut bytes, RESPONSE)?;
        let [kind] = take(&mut bytes)?;
        let stat = match kind {
            TOO_YOUNG => None,
            STAT => Some(stat(&mut bytes)?),
            _ => return None,
        };
        Some(Self { nonce, stat })
    }
}

fn head(magic: [u8; 4], nonce: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(LENGTH);
    bytes.extend_from_slice(&magic);
    bytes.push(VERSION);
    bytes.extend_from_slice(&nonce.to_be_bytes());
    bytes
}

fn nonce(bytes: &mut &[u8], magic: [u8; 4]) -> Option<u64> {
    if take(bytes)? != magic || take(bytes)? != [VERSION] {
        return None;
    }
    take(bytes).map(u64::from_be_bytes)
}

fn stat(bytes: &mut &[u8]) -> Option<Stat> {
    Some(Stat {
        pod: String::new(),
        average_concurrent_requests: f64::from_be_bytes(take(bytes)?),
        average_proxied_concurrent_requests: f64::from_be_bytes(take(bytes)?),
        request_count: f64::from_be_bytes(take(bytes)?),
        proxied_request_count: f64::from_be_bytes(take(bytes)?),
        timestamp: i64::from_be_bytes(take(bytes)?),
        app: None,
    })
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn query_and_response_have_one_length_and_round_trip() {
        let stat = Stat {
            pod: String::new(),
            average_concurrent_requests: 1.5,
            average_proxied_concurrent_requests: 0.25,
            request_count: 1e9,
            proxied_request_count: f64::MIN_POSITIVE,
            timestamp: -1,
            app: None,
        };
        for stat in [Some(stat), None] {
            let bytes = StatResponse::encode(u64::MAX - 1, stat.as_ref());
            assert_eq!(bytes.len(), LENGTH);
            assert_eq!(StatResponse::decode(&bytes), Some(StatResponse { nonce: u64::MAX - 1, stat }));
            assert_eq!(StatQuery::decode(&bytes), None);
        }
        let query = StatQuery { nonce: 7 }.encode();
        assert_eq!(query.len(), LENGTH, "no amplification by a forged sender address");
        assert_eq!(StatQuery::decode(&query), Some(StatQuery { nonce: 7 }));
        assert_eq!(StatResponse::decode(&query), None);
    }

    #[test]
    fn drops_datagrams_of_another_version() {
        for mut bytes in [StatQuery { nonce: 7 }.encode(), StatResponse::encode(7, None)] {
            bytes[4] += 1;
            assert_eq!((StatQuery::decode(&bytes), StatResponse::decode(&bytes)), (None, None));
        }
    }

    /// Random bytes, or a response with some bytes changed.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let change = |changes: Vec<(usize, u8)>| {
            let mut bytes = StatResponse::encode(7, Some(&Stat::default()));
            changes.into_iter().for_each(|(at, byte)| bytes[at] = byte);
            bytes
        };
        let changed = proptest::collection::vec((0..LENGTH, any::<u8>()), 0..5).prop_map(change);
        prop_oneof![proptest::collection::vec(any::<u8>(), 0..2 * LENGTH), changed]
    }

    proptest! {
        #[test]
        fn decodes_any_bytes_without_panic(bytes in bytes()) {
            if let Some(StatResponse { nonce, stat: Some(stat) }) = StatResponse::decode(&bytes) {
                prop_assert_eq!(StatResponse::encode(nonce, Some(&stat)), bytes.clone());
            }
            if let Some(query) = StatQuery::decode(&bytes) {
                prop_assert_eq!(StatQuery::decode(&query.encode()), Some(query));
            }
        }
    }
}
