//! The `Date` of responses that have none (RFC 9110, 6.6.1). Apps that serve gRPC often send none.

use std::cell::RefCell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{DATE, HeaderMap, HeaderValue};

thread_local! {
    /// The last value, and its second.
    static LAST: RefCell<(u64, HeaderValue)> = const { RefCell::new((0, HeaderValue::from_static(""))) };
}

pub(super) fn add(headers: &mut HeaderMap) {
    // Not by an entry, which grows a full map before it finds the header.
    if !headers.contains_key(DATE) {
        headers.insert(DATE, now());
    }
}

/// The time, formatted once a second.
#[expect(clippy::disallowed_methods, reason = "the header is wall time; runtime's clock is above this crate")]
fn now() -> HeaderValue {
    let second = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    LAST.with_borrow_mut(|(last, value)| {
        if *last != second
            && let Ok(new) =
                HeaderValue::try_from(httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second)))
        {
            (*last, *value) = (second, new);
        }
        value.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_gets_date_unless_it_has_one() {
        let mut headers = HeaderMap::new();
        add(&mut headers);
        let date = headers[DATE].to_str().unwrap().to_owned();
        assert!(httpdate::parse_http_date(&date).unwrap() > UNIX_EPOCH, "{date}");
        headers.insert(DATE, HeaderValue::from_static("then"));
        add(&mut headers);
        assert_eq!(headers[DATE], "then");
    }
}
