//! The lengths of a pod's lists in a review, checked before it is decoded. Input: the review's
//! bytes, which any pod may send.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, SeqAccess, Visitor};

/// Elements of a list. Three bytes, `{},`, decode to a container of a kilobyte, and each container
/// takes an operation of the patch.
const MAX_LENGTH: usize = 500;

#[derive(Deserialize)]
struct ReviewLists {
    #[serde(rename = "request")]
    _request: Option<RequestLists>,
}

#[derive(Deserialize)]
struct RequestLists {
    #[serde(rename = "object")]
    _object: Option<PodLists>,
    #[serde(rename = "oldObject")]
    _old_object: Option<PodLists>,
}

#[derive(Deserialize)]
struct PodLists {
    #[serde(rename = "spec")]
    _spec: Option<SpecLists>,
}

/// The lists with the largest elements after decoding.
#[derive(Deserialize)]
struct SpecLists {
    #[serde(rename = "containers")]
    _containers: Option<ShortList>,
    #[serde(rename = "initContainers")]
    _init_containers: Option<ShortList>,
    #[serde(rename = "ephemeralContainers")]
    _ephemeral_containers: Option<ShortList>,
    #[serde(rename = "volumes")]
    _volumes: Option<ShortList>,
}

/// A list of at most [`MAX_LENGTH`] elements, which are skipped.
struct ShortList;

struct ShortListVisitor;

/// Checks the lists without memory for their elements.
///
/// # Errors
/// When a list is longer than any pod's, or the body is not a review of a pod.
pub(super) fn check_list_lengths(body: &[u8]) -> Result<(), serde_json::Error> {
    let ReviewLists { .. } = serde_json::from_slice(body)?;
    Ok(())
}

// === impl ShortList ===

impl<'de> Deserialize<'de> for ShortList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ShortListVisitor)
    }
}

// === impl ShortListVisitor ===

impl<'de> Visitor<'de> for ShortListVisitor {
    type Value = ShortList;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a list of at most {MAX_LENGTH} elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<ShortList, A::Error> {
        let mut length = 0;
        while list.next_element::<IgnoredAny>()?.is_some() {
            length += 1;
            if length > MAX_LENGTH {
                return Err(A::Error::invalid_length(length, &self));
            }
        }
        Ok(ShortList)
    }
}
