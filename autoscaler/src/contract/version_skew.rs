//! How parts of different versions exchange messages, as during an upgrade.
//!
//! A sender states the version of its messages in a hello, the header [`HELLO_HEADER`] of its
//! request or response. A receiver refuses a newer version, and names it. Within a version, items
//! may be added: a receiver skips those that it cannot decode, one by one, and takes the others.
//! What is not safe to skip needs a new version.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// Header of a hello: the version of the messages, and the name of their sender.
pub const HELLO_HEADER: &str = "rouse-hello";

/// Reports of activators.
pub const REPORTS: MessageFormat = MessageFormat { content: "reports", version: 1 };
/// The decision stream of metrics-adapters.
pub const DECISIONS: MessageFormat = MessageFormat { content: "decisions", version: 1 };
/// Slot lending between activators; each of two sends a hello.
pub const SLOTS: MessageFormat = MessageFormat { content: "slot messages", version: 1 };
/// Queries that a metrics-adapter forwards to its leader; the response has a hello too.
pub const QUERIES: MessageFormat = MessageFormat { content: "queries", version: 1 };

/// Messages of one kind, in the newest version that this process sends and reads.
#[derive(Clone, Copy, Debug)]
pub struct MessageFormat {
    content: &'static str,
    pub version: u32,
}

/// A peer sends messages that this process cannot read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{sender} sends {content} of version {version}, and this process reads versions up to {newest}; upgrade it"
)]
pub struct NewerVersion {
    sender: String,
    content: &'static str,
    /// As received: it may not be a number.
    version: String,
    newest: u32,
}

/// A list of which the items that this version cannot decode were skipped.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownItems<T> {
    pub items: Vec<T>,
    /// Number of the others.
    pub skipped: usize,
}

// === impl MessageFormat ===

impl MessageFormat {
    /// The value of a hello.
    pub fn hello(self, sender: &str) -> String {
        format!("{} {sender}", self.version)
    }

    /// Checks the value of a peer's hello; a peer from before the header has version 0.
    ///
    /// # Errors
    /// When the peer's messages are of a newer version.
    pub fn check(self, hello: Option<&[u8]>) -> Result<(), NewerVersion> {
        let hello = String::from_utf8_lossy(hello.unwrap_or(b"0"));
        let (version, sender) = hello.split_once(' ').unwrap_or((&hello, "a peer without a name"));
        match version.parse::<u32>() {
            Ok(version) if version <= self.version => Ok(()),
            _ => Err(NewerVersion {
                sender: sender.to_owned(),
                content: self.content,
                version: version.to_owned(),
                newest: self.version,
            }),
        }
    }
}

// === impl KnownItems ===

impl<T> From<Vec<T>> for KnownItems<T> {
    fn from(items: Vec<T>) -> Self {
        Self { items, skipped: 0 }
    }
}

impl<T> Default for KnownItems<T> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<T: Serialize> Serialize for KnownItems<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.items.serialize(serializer)
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for KnownItems<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // As text: an untagged enum could not decode an item that keeps JSON as it is.
        let received = Vec::<Box<RawValue>>::deserialize(deserializer)?;
        let known = received.iter().map(|item| serde_json::from_str(item.get()));
        let items: Vec<T> = known.flatten().collect();
        Ok(Self { skipped: received.len() - items.len(), items })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_messages_are_refused_by_name() {
        for format in [REPORTS, DECISIONS, SLOTS, QUERIES] {
            let check = |hello: &str| format.check(Some(hello.as_bytes()));
            assert_eq!((check(&format.hello("a")), check("0"), format.check(None)), (Ok(()), Ok(()), Ok(())));
            let newer = format!("{} activator-7", format.version + 1);
            let expected = format!(
                "activator-7 sends {} of version 2, and this process reads versions up to 1; upgrade it",
                format.content
            );
            assert_eq!(check(&newer).unwrap_err().to_string(), expected);
            assert!(check("").is_err() && format.check(Some(b"\xff")).is_err());
        }
    }

    #[test]
    fn unknown_items_are_skipped_one_by_one() {
        let list: KnownItems<u8> = serde_json::from_str(r#"[1, "x", {"newer": [2]}, 3, 300]"#).unwrap();
        assert_eq!(list, KnownItems { items: vec![1, 3], skipped: 3 });
        assert_eq!(serde_json::to_string(&list).unwrap(), "[1,3]");
        assert!(serde_json::from_str::<KnownItems<u8>>("{}").is_err(), "no list");
        let kept = serde_json::from_str::<KnownItems<Box<RawValue>>>("[[ 1 ], 2]").unwrap();
        assert_eq!((kept.items[0].get(), kept.skipped), ("[ 1 ]", 0));
    }
}
