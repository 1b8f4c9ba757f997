//! Messages between activators about slots.

use std::net::IpAddr;

use autoscaler::routing::slot_lending::WorkloadSlotMessage;

pub(crate) const WORDS: &[&[u8]] = &[b"{", b"}", b"[", b"]", b"null", b"4294967296", b"-1", b"\"::1\""];

pub(crate) fn check(bytes: &[u8]) {
    let Ok(messages) = serde_json::from_slice::<Vec<WorkloadSlotMessage<IpAddr>>>(bytes) else { return };
    let encoded = serde_json::to_vec(&messages).expect("messages that were decoded are encoded");
    let decoded: Vec<WorkloadSlotMessage<IpAddr>> = serde_json::from_slice(&encoded).unwrap();
    assert_eq!(decoded, messages);
}
