//! Probes of the activator itself. They are answered at once and never counted.

use autoscaler::Key;
use autoscaler::contract::{PROBE_ACTIVATOR, PROBE_HEADER, WORKLOAD_HEADER};
use bytes::Bytes;
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::Full;

use crate::requests::error_response::{self, RequestError};

/// Made once: a lookup by text parses the text first.
const PROBE: HeaderName = HeaderName::from_static(PROBE_HEADER);

/// The response, if the request is a probe. It names the `workload` to which the port is leased.
///
/// The zero-scaler relies on an activator in the path of a workload only after this response named
/// the workload. A probe of another component shows that EndpointSlices lead to the wrong address:
/// it is rejected, not forwarded.
pub fn respond(headers: &HeaderMap, workload: &Key) -> Option<Response<Full<Bytes>>> {
    let probe = headers.get(PROBE);
    if probe.is_some_and(|probe| probe != PROBE_ACTIVATOR) {
        return Some(named(error_response::respond(&RequestError::MisroutedProbe, workload), workload));
    }
    let response = || Response::new(Full::new(Bytes::from_static(PROBE_ACTIVATOR.as_bytes())));
    probe.map(|_| named(response(), workload))
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
        respond(&headers, &Key::new("shop", "web")).map(|response| response.status())
    }

    #[test]
    fn answers_probes_and_rejects_those_of_other_components() {
        assert_eq!(status("rouse-probe", "activator"), Some(StatusCode::OK));
        assert_eq!(status("rouse-probe", "queue-proxy"), Some(StatusCode::BAD_REQUEST));
        assert_eq!(status("user-agent", "curl/8"), None);
    }
}
