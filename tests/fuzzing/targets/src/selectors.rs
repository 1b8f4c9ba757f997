//! Label selectors of metric queries and of `/scale`.

use std::collections::BTreeMap;

use autoscaler::contract::selector::Selector;

pub(crate) const WORDS: &[&[u8]] = &[
    b"in",
    b"notin",
    b" in (",
    b")",
    b"(",
    b",",
    b"=",
    b"==",
    b"!=",
    b"!",
    b" ",
    b"\t",
    b"app",
    b"web",
    b"a.b/c",
    b"/",
    b">",
    b"\0",
    b"\xc3\xa4",
    b"\xff",
];

pub(crate) fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(selector) = Selector::parse(&text) else { return };
    assert_eq!(Selector::parse(&selector.to_string()).as_ref(), Ok(&selector), "{text:?}");
    selector.matches(&BTreeMap::from([("app".to_owned(), "web".to_owned())]));
    assert!(!selector.requirements().is_empty() || selector.matches(&BTreeMap::new()));
}
