//! Label selectors, of metric queries and of `/scale`.

use std::collections::BTreeMap;

use autoscaler::contract::selector::Selector;
use fuzzing::Campaign;

const WORDS: &[&[u8]] = &[
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

#[test]
fn parsed_selector_round_trips_and_matches() {
    let corpus = crate::corpus("selectors", WORDS);
    let labels = [("app", "web"), ("tier", "front")];
    let labels: BTreeMap<_, _> = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let inputs = crate::run(Campaign::from_environment(), &corpus, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Ok(selector) = Selector::parse(&text) {
            let again = Selector::parse(&selector.to_string());
            assert_eq!(again.as_ref(), Ok(&selector), "{text:?}");
            let _ = selector.matches(&labels);
            assert!(!selector.requirements().is_empty() || selector.matches(&labels));
        }
    });
    println!("{inputs} selectors");
}
