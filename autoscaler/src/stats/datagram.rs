//! A stat by two UDP datagrams: the query of a collector and the response of a sidecar.
//!
//! ```text
//!  version 1, 54 bytes
//!  query     "rst?"  1  nonce (8)  zeros
//!  response  "rst!"  1  nonce (8)  kind  four values (8 each)  timestamp (8)
//!
//!  version 2, 94 bytes
//!  query     "rst?"  2  nonce (8)  objective (8)  zeros
//!  response  "rst!"  2  nonce (8)  kind  four values (8 each)  timestamp (8)
//!                                        four values of the app (8 each)  objective (8)
//!
//!  kind      0: too young | 1: a stat | 2: a stat with the app part, in version 2 only
//!            zeros in place of absent values
//! ```
//!
//! Numbers are big-endian; the objective is in microseconds, 0 without one. A sidecar responds in
//! the version of the query. One that lacks the version drops the query.
//!
//! Ten thousand workloads need tens of thousands of queries a second. HTTP costs several times as
//! much per query, or a connection kept open to every pod. A collector without a response falls
//! back to HTTP: a network policy may allow only TCP.
//!
//! A query is as long as its response, so a forged sender address gives no amplification. The nonce
//! protects against forged responses. A response has the objective that was in force, which may be
//! another client's: any client sets it.

use super::{AppStat, Stat};

/// Bytes of the longest datagram.
pub const MAX_LENGTH: usize = length(VERSION_2);

const QUERY: [u8; 4] = *b"rst?";
const RESPONSE: [u8; 4] = *b"rst!";
const VERSION_1: u8 = 1;
const VERSION_2: u8 = 2;
const TOO_YOUNG: u8 = 0;
const STAT: u8 = 1;
const STAT_WITH_APP: u8 = 2;

/// A query for the last finished period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatQuery {
    /// A random number of the client.
    pub nonce: u64,
    /// The latency objective for later periods, in microseconds, 0 for none; `None` in version 1. A
    /// response of version 1 has no app part.
    pub objective_micros: Option<u64>,
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
        let mut bytes = head(QUERY, self);
        if let Some(objective) = self.objective_micros {
            bytes.extend_from_slice(&objective.to_be_bytes());
        }
        bytes.resize(self.length(), 0);
        bytes
    }

    /// Parses a datagram; `None` if it is not a query.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let version = version(&mut bytes, QUERY)?;
        let nonce = take(&mut bytes).map(u64::from_be_bytes)?;
        let objective_micros = match version {
            VERSION_2 => Some(take(&mut bytes).map(u64::from_be_bytes)?),
            _ => None,
        };
        Some(Self { nonce, objective_micros })
    }

    /// Bytes of the query, and of its response.
    pub fn length(self) -> usize {
        length(self.version())
    }

    fn version(self) -> u8 {
        if self.objective_micros.is_some() { VERSION_2 } else { VERSION_1 }
    }
}

// === impl StatResponse ===

impl StatResponse {
    /// The datagram that responds to `query`.
    pub fn encode(query: StatQuery, stat: Option<&Stat>) -> Vec<u8> {
        let mut bytes = head(RESPONSE, query);
        if let Some(stat) = stat {
            let app = stat.app.filter(|_| query.version() == VERSION_2);
            bytes.push(if app.is_some() { STAT_WITH_APP } else { STAT });
            push_stat(&mut bytes, stat);
            if let Some(app) = app {
                push_app(&mut bytes, app);
            }
        } else {
            bytes.push(TOO_YOUNG);
        }
        bytes.resize(query.length(), 0);
        bytes
    }

    /// Parses a datagram; `None` if it is not a response. Its values may be invalid
    /// ([`Stat::is_plausible`]).
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let version = version(&mut bytes, RESPONSE)?;
        let nonce = take(&mut bytes).map(u64::from_be_bytes)?;
        let [kind] = take(&mut bytes)?;
        let stat = match (kind, version) {
            (TOO_YOUNG, _) => None,
            (STAT, _) => Some(take_stat(&mut bytes)?),
            (STAT_WITH_APP, VERSION_2) => {
                let stat = take_stat(&mut bytes)?;
                Some(Stat { app: Some(take_app(&mut bytes)?), ..stat })
            }
            _ => return None,
        };
        Some(Self { nonce, stat })
    }
}

/// Bytes of a query of this version, and of a response.
const fn length(version: u8) -> usize {
    let first = 4 + 1 + 8 + 1 + 4 * 8 + 8;
    if version == VERSION_1 { first } else { first + 4 * 8 + 8 }
}

fn head(magic: [u8; 4], query: StatQuery) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(MAX_LENGTH);
    bytes.extend_from_slice(&magic);
    bytes.push(query.version());
    bytes.extend_from_slice(&query.nonce.to_be_bytes());
    bytes
}

/// The version of a datagram that starts with `magic` and has its version's length.
fn version(bytes: &mut &[u8], magic: [u8; 4]) -> Option<u8> {
    let received = bytes.len();
    if take(bytes)? != magic {
        return None;
    }
    let [version] = take(bytes)?;
    (matches!(version, VERSION_1 | VERSION_2) && received == length(version)).then_some(version)
}

fn push_stat(bytes: &mut Vec<u8>, stat: &Stat) {
    for value in [
        stat.average_concurrent_requests,
        stat.average_proxied_concurrent_requests,
        stat.request_count,
        stat.proxied_request_count,
    ] {
        bytes.extend_from_slice(&value.to_be_bytes());
    }
    bytes.extend_from_slice(&stat.timestamp.to_be_bytes());
}

fn take_stat(bytes: &mut &[u8]) -> Option<Stat> {
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

fn push_app(bytes: &mut Vec<u8>, app: AppStat) {
    for value in [app.completions, app.seconds, app.errors, app.misses] {
        bytes.extend_from_slice(&value.to_be_bytes());
    }
    bytes.extend_from_slice(&app.objective_micros.to_be_bytes());
}

fn take_app(bytes: &mut &[u8]) -> Option<AppStat> {
    Some(AppStat {
        completions: f64::from_be_bytes(take(bytes)?),
        seconds: f64::from_be_bytes(take(bytes)?),
        errors: f64::from_be_bytes(take(bytes)?),
        misses: f64::from_be_bytes(take(bytes)?),
        objective_micros: u64::from_be_bytes(take(bytes)?),
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

    /// A query and a response as they were before version 2.
    const OLD_QUERY: &[u8; 54] = b"rst?\x01\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
        \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    const OLD_RESPONSE: &[u8; 54] = b"rst!\x01\0\0\0\0\0\0\0\x07\x01\x3f\xf8\0\0\0\0\0\0\
        \x3f\xd0\0\0\0\0\0\0\x40\x08\0\0\0\0\0\0\x3f\xf0\0\0\0\0\0\0\0\0\0\0\x6b\x49\xd2\0";

    fn query(objective_micros: Option<u64>) -> StatQuery {
        StatQuery { nonce: u64::MAX - 1, objective_micros }
    }

    fn stat() -> Stat {
        Stat {
            pod: String::new(),
            average_concurrent_requests: 1.5,
            average_proxied_concurrent_requests: 0.25,
            request_count: 1e9,
            proxied_request_count: f64::MIN_POSITIVE,
            timestamp: -1,
            app: None,
        }
    }

    fn app() -> AppStat {
        AppStat { completions: 3.0, seconds: 0.5, errors: 1.0, misses: 2.0, objective_micros: u64::MAX }
    }

    #[test]
    fn query_and_response_have_one_length_and_round_trip() {
        for objective in [None, Some(0), Some(200_000)] {
            let query = query(objective);
            let sent = query.encode();
            assert_eq!(StatQuery::decode(&sent), Some(query));
            assert_eq!(StatResponse::decode(&sent), None);
            let app = objective.map(|_| app());
            for stat in [Some(Stat { app, ..stat() }), Some(stat()), None] {
                let bytes = StatResponse::encode(query, stat.as_ref());
                assert_eq!(bytes.len(), sent.len(), "no amplification by a forged sender address");
                assert_eq!(StatResponse::decode(&bytes), Some(StatResponse { nonce: query.nonce, stat }));
                assert_eq!(StatQuery::decode(&bytes), None);
            }
        }
    }

    #[test]
    fn sidecar_responds_to_an_older_adapter_in_its_version() {
        let query = StatQuery { nonce: 7, objective_micros: None };
        assert_eq!(StatQuery::decode(OLD_QUERY), Some(query));
        assert_eq!(query.encode(), OLD_QUERY);
        let old = Stat {
            pod: String::new(),
            average_concurrent_requests: 1.5,
            average_proxied_concurrent_requests: 0.25,
            request_count: 3.0,
            proxied_request_count: 1.0,
            timestamp: 1_800_000_000,
            app: None,
        };
        assert_eq!(StatResponse::decode(OLD_RESPONSE).unwrap().stat, Some(old.clone()));
        let new = Stat { app: Some(app()), ..old.clone() };
        for stat in [old, new] {
            assert_eq!(StatResponse::encode(query, Some(&stat)), OLD_RESPONSE);
        }
    }

    #[test]
    fn older_sidecar_drops_the_second_version() {
        let is_read = |sent: &[u8]| sent.len() == OLD_QUERY.len() && sent.starts_with(b"rst?\x01");
        assert!(is_read(&query(None).encode()) && !is_read(&query(Some(200_000)).encode()));
    }

    #[test]
    fn drops_datagrams_of_another_version() {
        for query in [query(None), query(Some(7))] {
            for bytes in [query.encode(), StatResponse::encode(query, Some(&stat()))] {
                for version in (0..=u8::MAX).filter(|version| *version != query.version()) {
                    let mut bytes = bytes.clone();
                    bytes[4] = version;
                    assert_eq!((StatQuery::decode(&bytes), StatResponse::decode(&bytes)), (None, None));
                }
            }
        }
    }

    /// Random bytes, or a response with some bytes changed.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let change = |(second, changes): (bool, Vec<(usize, u8)>)| {
            let stat = Stat { app: Some(app()), ..stat() };
            let mut bytes = StatResponse::encode(query(second.then_some(7)), Some(&stat));
            for (at, byte) in changes {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            bytes
        };
        let changes = proptest::collection::vec((0..MAX_LENGTH, any::<u8>()), 0..5);
        let changed = (any::<bool>(), changes).prop_map(change);
        prop_oneof![proptest::collection::vec(any::<u8>(), 0..2 * MAX_LENGTH), changed]
    }

    proptest! {
        #[test]
        fn decodes_any_bytes_without_panic(bytes in bytes()) {
            if let Some(StatResponse { nonce, stat: Some(stat) }) = StatResponse::decode(&bytes) {
                let query = StatQuery { nonce, objective_micros: (bytes[4] == VERSION_2).then_some(0) };
                let encoded = StatResponse::encode(query, Some(&stat));
                // Any bytes may be in place of an absent app part.
                let used = length(if stat.app.is_some() { VERSION_2 } else { VERSION_1 });
                prop_assert_eq!(&encoded[..used], &bytes[..used]);
            }
            if let Some(query) = StatQuery::decode(&bytes) {
                prop_assert_eq!(StatQuery::decode(&query.encode()), Some(query));
            }
        }
    }
}
