//! Requests that ask for the activator itself instead of an app. They are answered at once and never counted.

use autoscaler::Key;
use autoscaler::contract::{PROBE_ACTIVATOR, PROBE_HEADER, WORKLOAD_HEADER};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::Full;

use crate::error_response::{self, Error};

/// The answer, if the request is a probe that came on a port of `workload`.
///
/// The zero-scaler puts an activator into the path of a workload only after this answer named it. A probe for somebody else
/// says that slices lead the wrong way: it is refused, not forwarded.
pub fn answer(headers: &HeaderMap, workload: &Key) -> Option<Response<Full<Bytes>>> {
    let asked = headers.get(PROBE_HEADER);
    if asked.is_some_and(|asked| asked != PROBE_ACTIVATOR) {
        return Some(named(error_response::respond(&Error::OtherProbe, workload), workload));
    }
    let answer = || Response::new(Full::new(Bytes::from_static(PROBE_ACTIVATOR.as_bytes())));
    asked.map(|_| named(answer(), workload))
}

fn named(mut response: Response<Full<Bytes>>, workload: &Key) -> Response<Full<Bytes>> {
    if let Ok(workload) = HeaderValue::from_str(&workload.to_string()) {
        response.headers_mut().insert(WORKLOAD_HEADER, workload);
    }
    response
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    fn status(name: &'static str, value: &'static str) -> Option<StatusCode> {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        answer(&headers, &Key::new("shop", "web")).map(|response| response.status())
    }

    #[test]
    fn probes_are_answered_and_requests_are_not() {
        assert_eq!(status("rouse-probe", "activator"), Some(StatusCode::OK));
        assert_eq!(status("rouse-probe", "queue-proxy"), Some(StatusCode::BAD_REQUEST));
        assert_eq!(status("user-agent", "curl/8"), None);
    }
}
