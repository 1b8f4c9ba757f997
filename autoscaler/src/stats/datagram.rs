//! A stat by two datagrams: what a collector asks a sidecar, and what that answers.
//!
//! ```text
//!  question  "rst?"  version  nonce (8)  zeros
//!  answer    "rst!"  version  nonce (8)  0: too young | 1: a stat  four values (8 each)  timestamp (8)
//! ```
//!
//! Numbers are big-endian. Ten thousand workloads are ten thousands of questions a second, and by HTTP each costs several times
//! what it takes here, or a connection kept for every pod there is. Who gets no answer asks by HTTP: a policy may let only TCP through, and an older
//! sidecar has never heard of this. A question is as long as its answer, so that nobody can be flooded by others' answers; the
//! nonce is what tells an answer from a stranger's guess. A version that is not this one is not answered.

use super::Stat;

/// Bytes of a question, and of an answer.
pub const LENGTH: usize = 4 + 1 + 8 + 1 + 4 * 8 + 8;

const QUESTION: [u8; 4] = *b"rst?";
const ANSWER: [u8; 4] = *b"rst!";
const VERSION: u8 = 1;
const TOO_YOUNG: u8 = 0;
const STAT: u8 = 1;

/// Asks for the last finished period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatQuery {
    /// Chosen by who asks; nobody else can know it.
    pub nonce: u64,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq)]
pub struct StatResponse {
    /// The question's.
    pub nonce: u64,
    /// The last finished period, without the pod's name; `None` before the first has ended.
    pub stat: Option<Stat>,
}

// === impl StatQuery ===

impl StatQuery {
    /// As it is sent.
    pub fn encode(self) -> Vec<u8> {
        let mut bytes = head(QUESTION, self.nonce);
        bytes.resize(LENGTH, 0);
        bytes
    }

    /// What was received; `None` if it is no question.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        if bytes.len() != LENGTH {
            return None;
        }
        Some(Self { nonce: nonce(&mut bytes, QUESTION)? })
    }
}

// === impl StatResponse ===

impl StatResponse {
    /// As it is sent.
    pub fn encode(nonce: u64, stat: Option<&Stat>) -> Vec<u8> {
        let mut bytes = head(ANSWER, nonce);
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

    /// What was received; `None` if it is no answer. Its numbers may still be nonsense ([`Stat::is_plausible`]).
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        if bytes.len() != LENGTH {
            return None;
        }
        let nonce = nonce(&mut bytes, ANSWER)?;
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
    fn both_are_of_one_length_and_say_what_was_said() {
        let stat = Stat {
            pod: String::new(),
            average_concurrent_requests: 1.5,
            average_proxied_concurrent_requests: 0.25,
            request_count: 1e9,
            proxied_request_count: f64::MIN_POSITIVE,
            timestamp: -1,
        };
        for stat in [Some(stat), None] {
            let bytes = StatResponse::encode(u64::MAX - 1, stat.as_ref());
            assert_eq!(bytes.len(), LENGTH);
            assert_eq!(StatResponse::decode(&bytes), Some(StatResponse { nonce: u64::MAX - 1, stat }));
            assert_eq!(StatQuery::decode(&bytes), None);
        }
        let question = StatQuery { nonce: 7 }.encode();
        assert_eq!(question.len(), LENGTH, "whoever forges a sender sends as much as that one gets");
        assert_eq!(StatQuery::decode(&question), Some(StatQuery { nonce: 7 }));
        assert_eq!(StatResponse::decode(&question), None);
    }

    #[test]
    fn another_version_is_not_understood() {
        for mut bytes in [StatQuery { nonce: 7 }.encode(), StatResponse::encode(7, None)] {
            bytes[4] += 1;
            assert_eq!((StatQuery::decode(&bytes), StatResponse::decode(&bytes)), (None, None));
        }
    }

    /// Bytes at random, and an answer of which some are changed.
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
        fn any_bytes_are_taken(bytes in bytes()) {
            if let Some(StatResponse { nonce, stat: Some(stat) }) = StatResponse::decode(&bytes) {
                prop_assert_eq!(StatResponse::encode(nonce, Some(&stat)), bytes.clone());
            }
            if let Some(question) = StatQuery::decode(&bytes) {
                prop_assert_eq!(StatQuery::decode(&question.encode()), Some(question));
            }
        }
    }
}
