//! Times of reports, as RFC 3339 in UTC.

pub(super) fn time(unix_millis: i64) -> String {
    jiff::Timestamp::from_millisecond(unix_millis).unwrap_or_default().to_string()
}
