//! ListItems: cuts a JSON list into its items while it arrives, so that no list is kept in memory.
//!
//! Input: the chunks of a response. Output: the text of each object that is directly in an array of
//! the list, for a decoder of single items. Only brackets and strings are read here; what is
//! between them is up to that decoder.
//!
//! Bounds: an item has at most 64 KiB, and larger ones are skipped; a list has at most 128 MiB, of
//! which 100,000 pods with a few labels take about 45.

use std::ops::Range;

/// Bound of an item. That of a pod with two containers takes less than 1 KiB without its labels.
const MAX_ITEM_BYTES: usize = 64 * 1024;
/// Bound of a list.
const MAX_LIST_BYTES: usize = 128 * 1024 * 1024;
/// Depth of an item in `{"items": [{}]}`.
const ITEM_DEPTH: u32 = 3;

/// The state between two chunks.
#[derive(Debug, Default)]
pub(super) struct ListItems {
    received: usize,
    /// Open brackets outside of strings.
    depth: u32,
    /// Whether the outermost object has been opened.
    begun: bool,
    /// Whether the bracket at depth 2 opens an array.
    in_array: bool,
    string: StringState,
    item: OpenItem,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum StringState {
    #[default]
    Outside,
    Inside,
    /// Behind a backslash.
    Escaped,
}

/// The item that is being received.
#[derive(Debug, Default)]
enum OpenItem {
    #[default]
    None,
    /// The item's bytes of earlier chunks.
    Text(Vec<u8>),
    /// It exceeds its bound.
    TooLarge,
}

/// Why the rest of a list is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// It exceeds its bound.
    #[error("the list has more than {MAX_LIST_BYTES} bytes")]
    TooLarge,
    /// It is no JSON object, or is cut off.
    #[error("the list is not a JSON object")]
    Malformed,
}

/// An item above its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ItemTooLarge;

// === impl ListItems ===

impl ListItems {
    /// Reads the next chunk, and gives each item that ends in it to `take`.
    pub(super) fn push(
        &mut self,
        chunk: &[u8],
        mut take: impl FnMut(Result<&[u8], ItemTooLarge>),
    ) -> Result<(), ListError> {
        self.received = self.received.saturating_add(chunk.len());
        if self.received > MAX_LIST_BYTES {
            return Err(ListError::TooLarge);
        }
        // Of the open item.
        let mut start = 0;
        for (at, byte) in chunk.iter().enumerate() {
            if self.is_in_string(*byte) {
                continue;
            }
            match byte {
                b'{' | b'[' => {
                    if self.open(*byte)? {
                        self.item = OpenItem::Text(Vec::new());
                        start = at;
                    }
                }
                b'}' | b']' => {
                    if self.depth == ITEM_DEPTH {
                        self.item.append(chunk, start..at + 1);
                        self.item.finish(&mut take);
                    }
                    self.depth = self.depth.checked_sub(1).ok_or(ListError::Malformed)?;
                }
                _ if self.depth > 0 || byte.is_ascii_whitespace() => {}
                _ => return Err(ListError::Malformed),
            }
        }
        self.item.append(chunk, start..chunk.len());
        Ok(())
    }

    /// Checks that the list is complete.
    pub(super) fn finish(&self) -> Result<(), ListError> {
        if self.begun && self.depth == 0 { Ok(()) } else { Err(ListError::Malformed) }
    }

    /// Whether a byte is part of a string within the list.
    fn is_in_string(&mut self, byte: u8) -> bool {
        let before = self.string;
        self.string = match (before, byte) {
            (StringState::Outside, b'"') if self.depth > 0 => StringState::Inside,
            (StringState::Outside, _) | (StringState::Inside, b'"') => StringState::Outside,
            (StringState::Inside, b'\\') => StringState::Escaped,
            (StringState::Inside | StringState::Escaped, _) => StringState::Inside,
        };
        before != StringState::Outside || self.string != StringState::Outside
    }

    /// Opens a bracket; returns whether an item begins with it.
    fn open(&mut self, bracket: u8) -> Result<bool, ListError> {
        let is_object = bracket == b'{';
        if self.depth == 0 && (self.begun || !is_object) {
            return Err(ListError::Malformed);
        }
        self.begun = true;
        self.depth = self.depth.checked_add(1).ok_or(ListError::Malformed)?;
        if self.depth + 1 == ITEM_DEPTH {
            self.in_array = !is_object;
        }
        Ok(self.depth == ITEM_DEPTH && self.in_array && is_object)
    }
}

// === impl OpenItem ===

impl OpenItem {
    fn append(&mut self, chunk: &[u8], part: Range<usize>) {
        let Self::Text(text) = self else { return };
        let part = chunk.get(part).unwrap_or_default();
        if text.len() + part.len() > MAX_ITEM_BYTES {
            *self = Self::TooLarge;
        } else {
            text.extend_from_slice(part);
        }
    }

    fn finish(&mut self, take: &mut impl FnMut(Result<&[u8], ItemTooLarge>)) {
        match std::mem::take(self) {
            Self::None => {}
            Self::Text(text) => take(Ok(&text)),
            Self::TooLarge => take(Err(ItemTooLarge)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The items of a list that arrives in chunks of this size.
    fn items(list: &str, chunk: usize) -> Result<Vec<String>, ListError> {
        let (mut items, mut taken) = (ListItems::default(), Vec::new());
        for chunk in list.as_bytes().chunks(chunk) {
            items.push(chunk, |item| {
                taken.push(item.map_or("too large".to_owned(), |item| String::from_utf8_lossy(item).into()));
            })?;
        }
        items.finish().map(|()| taken)
    }

    #[test]
    fn items_are_the_same_in_chunks_of_any_size() {
        let list = r#" {"kind": "List", "metadata": {"a": [{}], "b": {"c": {}}}, "items": [
            {"name": "}\"]{[\\", "list": [{"x": [1]}]}, 7, [{}], {}
        ], "other": "{"} "#;
        for chunk in 1..=list.len() {
            let items = items(list, chunk).unwrap();
            assert_eq!(items, [r#"{"name": "}\"]{[\\", "list": [{"x": [1]}]}"#, "{}"], "{chunk}");
        }
        assert_eq!(items(r#"{"items": []}"#, 4).unwrap(), [""; 0]);
    }

    #[test]
    fn text_that_is_no_complete_object_is_malformed() {
        for list in [
            "",
            " ",
            "<html>",
            "null",
            "\"{}\"",
            "[{}]",
            "}",
            "{}{}",
            "{}}",
            "{\"items\": [{}",
            "{\"items\": [\"]}",
            "{\"items\": []} 404",
        ] {
            assert_eq!(items(list, 3), Err(ListError::Malformed), "{list}");
        }
        assert_eq!(items(&"[".repeat(100_000), 4096), Err(ListError::Malformed));
        assert_eq!(items(&"{\"a\":".repeat(100_000), 4096), Err(ListError::Malformed));
    }

    #[test]
    fn too_large_item_is_skipped_without_being_kept() {
        let large = "x".repeat(MAX_ITEM_BYTES);
        let list = format!(r#"{{"items": [{{"name": "a"}}, {{"name": "{large}"}}, {{"name": "b"}}]}}"#);
        for chunk in [1000, list.len()] {
            assert_eq!(
                items(&list, chunk).unwrap(),
                [r#"{"name": "a"}"#, "too large", r#"{"name": "b"}"#],
                "{chunk}"
            );
        }
    }

    #[test]
    fn list_above_its_bound_is_not_read_to_its_end() {
        let (mut items, chunk) = (ListItems::default(), vec![b' '; 1 << 20]);
        let pushed = (0..1000).map(|_| items.push(&chunk, |_| {})).take_while(Result::is_ok).count();
        assert_eq!(pushed, MAX_LIST_BYTES >> 20);
        assert_eq!(items.push(b"{}", |_| {}), Err(ListError::TooLarge));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_within_the_bound_of_an_item(
            bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'{'), Just(b'['), Just(b'"')], 0..500),
            chunk in 1..50_usize,
        ) {
            let mut items = ListItems::default();
            for chunk in bytes.chunks(chunk) {
                if items.push(chunk, |_| {}).is_err() {
                    break;
                }
            }
        }
    }
}
