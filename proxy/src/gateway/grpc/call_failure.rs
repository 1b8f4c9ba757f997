//! CallFailure: why the proxy answers a call itself, as gRPC's rules of retries read it.

use std::fmt::Write as _;
use std::io;

use h2::Reason;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};

pub(crate) const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_RETRY_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// A request of gRPC or gRPC-Web.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Over HTTP/2.
    Grpc,
    /// Of browsers, over any version of HTTP.
    Web,
    /// The same in base64.
    WebText,
}

/// Why a call has no response of its app. An extension of the response, which
/// [`CallFailure::respond`] takes out.
#[derive(Clone, Debug)]
pub struct CallFailure {
    status: &'static str,
    message: String,
    /// It was not sent, and may be sent again after this time in milliseconds, unless the response
    /// names another.
    retry: Option<&'static str>,
}

// === impl Call ===

impl Call {
    /// The kind of call, if the request is one.
    pub fn of<B>(request: &Request<B>) -> Option<Self> {
        // Most requests have another method, which is cheaper to compare.
        if request.method() == Method::POST { Self::of_content(request.headers()) } else { None }
    }

    /// The kind of call that a message with these headers belongs to.
    pub fn of_content(headers: &HeaderMap) -> Option<Self> {
        let (of, suffix) =
            headers.get(CONTENT_TYPE)?.as_bytes().split_at_checked("application/grpc".len())?;
        if !of.eq_ignore_ascii_case(b"application/grpc") {
            return None;
        }
        let end = suffix.iter().position(|byte| b"+; \t".contains(byte)).unwrap_or(suffix.len());
        let suffix = suffix.get(..end)?;
        [("", Self::Grpc), ("-web", Self::Web), ("-web-text", Self::WebText)]
            .into_iter()
            .find_map(|(of, call)| suffix.eq_ignore_ascii_case(of.as_bytes()).then_some(call))
    }

    fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Grpc => "application/grpc",
            Self::Web => "application/grpc-web",
            Self::WebText => "application/grpc-web-text",
        })
    }
}

// === impl CallFailure ===

impl CallFailure {
    /// The call was not sent, so it may be sent again: UNAVAILABLE, after a pause.
    pub fn refused(message: String) -> Self {
        Self { status: "14", message, retry: Some("1000") }
    }

    /// The connection of the app ended before its response: UNAVAILABLE, as without a proxy.
    pub fn unavailable(message: String) -> Self {
        Self { status: "14", message, retry: None }
    }

    /// There is no memory for more of a call that may have begun: RESOURCE_EXHAUSTED.
    pub fn exhausted(message: String) -> Self {
        Self { status: "8", message, retry: None }
    }

    /// A time has passed, and the call may have run: DEADLINE_EXCEEDED.
    pub fn timed_out(message: String) -> Self {
        Self { status: "4", message, retry: None }
    }

    /// The app ended the call by an error: the status that a client reads in the code of a reset
    /// (gRPC over HTTP/2, Errors), so that it is the same as without a proxy.
    pub fn of_app(error: &io::Error, message: String) -> Self {
        let error = error.get_ref().and_then(|error| error.downcast_ref::<h2::Error>());
        let reset = error.filter(|error| error.is_reset() && error.is_remote());
        let status = match reset.and_then(h2::Error::reason) {
            Some(Reason::CANCEL) => "1",
            Some(Reason::INADEQUATE_SECURITY) => "7",
            Some(Reason::ENHANCE_YOUR_CALM) => "8",
            _ => return Self::internal(message),
        };
        Self { status, message, retry: None }
    }

    /// A peer violated the protocol: INTERNAL.
    pub fn internal(message: String) -> Self {
        Self { status: "13", message, retry: None }
    }

    /// Makes a response with this extension one of gRPC: trailers alone, in its head. True if it
    /// was one; its body is to be replaced by an empty one.
    pub fn respond<B>(response: &mut Response<B>, call: Call) -> bool {
        let Some(failure) = response.extensions_mut().remove::<Self>() else { return false };
        *response.status_mut() = StatusCode::OK;
        let headers = response.headers_mut();
        headers.remove(CONTENT_LENGTH);
        let seconds = headers.remove(RETRY_AFTER).filter(|_| failure.retry.is_some());
        let pause =
            seconds.and_then(|seconds| HeaderValue::try_from([seconds.as_bytes(), b"000"].concat()).ok());
        if let Some(pause) = pause.or(failure.retry.map(HeaderValue::from_static)) {
            headers.insert(GRPC_RETRY_PUSHBACK, pause);
        }
        headers.insert(CONTENT_TYPE, call.content_type());
        headers.extend(failure.trailers());
        true
    }

    /// The status as trailers.
    pub fn trailers(&self) -> HeaderMap {
        let mut trailers = HeaderMap::with_capacity(2);
        trailers.insert(GRPC_STATUS, HeaderValue::from_static(self.status));
        trailers
            .extend(HeaderValue::try_from(percent_encoded(&self.message)).map(|text| (GRPC_MESSAGE, text)));
        trailers
    }
}

/// The text of `grpc-message`: printable ASCII without `%`, all other bytes encoded.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'%' | ..0x20 | 0x7f.. => {
                // Writing to a string cannot fail.
                let _ = write!(encoded, "%{byte:02X}");
            }
            _ => encoded.push(char::from(byte)),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_calls_by_method_and_content_type() {
        let call = |method, content: &str| {
            Call::of(&Request::builder().method(method).header("content-type", content).body(()).unwrap())
        };
        for content in ["application/grpc", "application/grpc+proto", "Application/gRPC; a=b"] {
            assert_eq!(call("POST", content), Some(Call::Grpc), "{content}");
        }
        assert_eq!(call("POST", "application/grpc-web+proto"), Some(Call::Web));
        for content in ["application/grpc-web-text", "APPLICATION/GRPC-WEB-TEXT;charset=utf-8"] {
            assert_eq!(call("POST", content), Some(Call::WebText), "{content}");
        }
        for content in ["application/grpcx", "application/json", "", "application/grp"] {
            assert_eq!(call("POST", content), None, "{content}");
        }
        assert_eq!(call("GET", "application/grpc"), None);
        assert_eq!(Call::of(&Request::post("/").body(()).unwrap()), None);
    }

    #[test]
    fn refused_call_names_its_pause_and_others_name_none() {
        let answered = |failure: CallFailure, retry: Option<&str>| {
            let mut response = Response::builder().status(503).header("content-length", 9);
            if let Some(retry) = retry {
                response = response.header("retry-after", retry);
            }
            let mut response = response.extension(failure).body(()).unwrap();
            assert!(CallFailure::respond(&mut response, Call::Web));
            assert!(!CallFailure::respond(&mut response, Call::Web));
            let (head, ()) = response.into_parts();
            assert_eq!((head.status, head.headers.len()), (StatusCode::OK, 3 + usize::from(retry.is_some())));
            let pause = head.headers.get("grpc-retry-pushback-ms");
            (head.headers["grpc-status"].clone(), pause.map(|pause| pause.to_str().unwrap().to_owned()))
        };
        let refused = CallFailure::refused("50 % \u{e4}".into());
        assert_eq!(refused.trailers()["grpc-message"], "50 %25 %C3%A4");
        assert_eq!(answered(refused, Some("10")), (HeaderValue::from_static("14"), Some("10000".into())));
        let timed_out = answered(CallFailure::timed_out("late".into()), None);
        assert_eq!(timed_out, (HeaderValue::from_static("4"), None));
    }
}
