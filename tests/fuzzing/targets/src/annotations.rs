//! Values of annotations, which any user of a namespace writes.

use autoscaler::settings::{NoWakeRules, Schedule};

pub(crate) const NO_WAKE_WORDS: &[&[u8]] =
    &[b"GET ", b"HEAD", b"/*", b"*", b",", b"User-Agent: ", b"user-agent:", b"/", b"\xff"];
pub(crate) const SCHEDULE_WORDS: &[&[u8]] = &[
    b"Mon-Fri",
    b"Sun-Sat",
    b"00:00-24:00",
    b"23:59-00:00",
    b"02:30-02:31",
    b"Europe/Berlin",
    b"Pacific/Apia",
    b"UTC",
    b": 1",
    b": 4294967295",
    b";",
];

/// 2027-01-15, a Friday.
const NOW: i64 = 1_800_000_000_000;
const WEEK: i64 = 7 * 24 * 3600 * 1000;

pub(crate) fn check_no_wake(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Some(rules) = NoWakeRules::parse(&text) else { return };
    for (method, path) in [("GET", "/"), ("HEAD", "/healthz"), ("POST", "/static/a/b"), ("PRI", "*")] {
        rules.matches(method, path, None);
        rules.matches(method, path, Some(bytes));
    }
}

pub(crate) fn check_schedule(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Some(schedule) = Schedule::parse(&text) else { return };
    for now in [i64::MIN, 0, NOW, i64::MAX] {
        schedule.at(now);
    }
    if let Some(change) = schedule.next_change(NOW) {
        assert!(change.at > NOW && change.at <= NOW + 2 * WEEK, "{change:?}");
        assert_eq!(schedule.minimum(change.at), change.minimum);
        assert_eq!(schedule.minimum(change.at - 1), schedule.minimum(NOW));
    }
}
