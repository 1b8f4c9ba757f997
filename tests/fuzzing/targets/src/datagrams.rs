//! Stats as datagrams, of any pod that sends to the adapter's port.

use autoscaler::stats::datagram::{StatQuery, StatResponse};

use crate::reports;

pub(crate) const WORDS: &[&[u8]] = &[
    b"rst!\x01",
    b"rst!\x02",
    b"\x7f\xf8\0\0\0\0\0\0",
    b"\x7f\xf0\0\0\0\0\0\0",
    b"\xff\xf0\0\0\0\0\0\0",
    b"\x80\0\0\0\0\0\0\0",
];

pub(crate) fn check(bytes: &[u8]) {
    let (query, response) = (StatQuery::decode(bytes), StatResponse::decode(bytes));
    assert!(query.is_none() || response.is_none(), "bytes are a query and a response");
    if let Some(query) = query {
        let encoded = query.encode();
        assert_eq!(encoded.len(), query.length());
        assert_eq!(StatQuery::decode(&encoded), Some(query));
    }
    // Whether the numbers are plausible is for its receiver to check.
    if let Some(stat) = response.and_then(|response| response.stat) {
        reports::check_averages(&[stat]);
    }
}
