//! SlotMessage: what activators send to each other to lend slots.

use serde::{Deserialize, Serialize};

use crate::Key;

/// Message between two activators about slots of one workload. Messages of a connection arrive in
/// order; after an error the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum SlotMessage<Pod> {
    /// Number and age of the sender's waiting requests. Replaces its previous `Want`.
    Want {
        /// Requests without a slot; 0 withdraws the want.
        requests: u32,
        /// Wait of the oldest request so far, in milliseconds.
        oldest_millis: u64,
    },
    /// The receiver may use one of the sender's slots on this pod until it returns the slot.
    Lend(Pod),
    /// Returns a slot on this pod that the receiver has lent.
    Return(Pod),
    /// Returns a slot on this pod. The sender cannot use the pod until it sends
    /// [`Accept`](Self::Accept).
    Refuse(Pod),
    /// The sender can use slots on this pod again.
    Accept(Pod),
    /// The sender starts with this workload. All its earlier wants and loans are void.
    Begin,
}

/// Names of all kinds of messages. Another one is of a later version and safe to skip; one of these
/// that cannot be decoded is not: it may give back a slot or void loans.
pub const MESSAGE_KINDS: [&str; 6] = ["want", "lend", "return", "refuse", "accept", "begin"];

/// A [`SlotMessage`] with its workload, as sent over a connection that all workloads share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadSlotMessage<Pod> {
    /// The workload that owns the slots.
    pub workload: Key,
    pub message: SlotMessage<Pod>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_listed() {
        let want = SlotMessage::Want { requests: 1, oldest_millis: 2 };
        let (lend, back) = (SlotMessage::Lend(1), SlotMessage::Return(1));
        let kinds = [want, lend, back, SlotMessage::Refuse(1), SlotMessage::Accept(1), SlotMessage::Begin];
        for (message, name) in kinds.iter().zip(MESSAGE_KINDS) {
            let json = serde_json::to_value(message).unwrap();
            assert!(json == name || json.get(name).is_some(), "{json}");
        }
    }
}
