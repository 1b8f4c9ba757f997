//! The waiting page: what a browser gets when its request is held for long.
//!
//! A held browser shows nothing. Its page retries from a script, and these retries are held as any
//! request is, so they keep the wake going. A retry ends when a pod takes requests, and is not
//! forwarded; the page then loads its URL again. So the app gets the request once: a link that is
//! valid once would otherwise be used up by the retry.
//!
//! Browsers send `Sec-Fetch-Mode` over HTTPS and to loopback alone. Over HTTP they are held until
//! the app responds, as all other clients.
//!
//! No cache may store these responses: the next one for the same URL is the app's.

pub mod template;
pub mod template_file;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use autoscaler::Key;
use autoscaler::contract::WAITING_PAGE_HEADER;
use bytes::Bytes;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, RETRY_AFTER, UPGRADE,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{Either, Full};

use crate::queue::rejection::Rejection;
use crate::requests::error_response::RequestError;

use super::local_body::{LocalBody, NO_STORE};
use template::Template;

const RETRY: HeaderName = HeaderName::from_static(WAITING_PAGE_HEADER);
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
/// `Retry-After`, also the refresh of the built-in page in a browser without scripts.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("5");

/// The page of this process. Clones share the template.
#[derive(Clone, Debug)]
pub struct WaitingPage {
    after: Duration,
    template: Arc<ArcSwap<Template>>,
}

/// A request of a browser that concerns the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrowserRequest {
    /// Loads a document, in place of which the page can be shown.
    Navigation,
    /// Sent by the page.
    Retry,
}

/// Content Security Policy nonce of one response: only elements with it are applied. It has 128
/// bits, so that no content of a template can guess it.
struct Nonce(u128);

// === impl BrowserRequest ===

impl BrowserRequest {
    /// What the request is; `None` if it is not a browser's, or if it changes data or upgrades its
    /// connection.
    pub fn of<B>(request: &Request<B>) -> Option<Self> {
        let headers = request.headers();
        if request.method() != Method::GET || headers.contains_key(UPGRADE) {
            None
        } else if headers.contains_key(RETRY) {
            Some(Self::Retry)
        } else {
            let navigates = headers.get(FETCH_MODE).is_some_and(|mode| mode == "navigate");
            (navigates && accepts_html(headers)).then_some(Self::Navigation)
        }
    }
}

fn accepts_html(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = values.flat_map(|value| value.split(','));
    types.any(|range| range.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/html"))
}

// === impl WaitingPage ===

impl WaitingPage {
    /// The built-in page, for browsers that were held `after` this time.
    pub fn new(after: Duration) -> Self {
        Self { after, template: Arc::new(ArcSwap::from_pointee(Template::built_in())) }
    }

    /// How long a browser is held before it gets the page.
    pub fn after(&self) -> Duration {
        self.after
    }

    /// Replaces the template.
    pub fn set_template(&self, template: Template) {
        self.template.store(Arc::new(template));
    }

    /// The page of a workload. Its `last_wake` is what the next is expected to take.
    pub fn respond(&self, workload: &Key, last_wake: Option<Duration>) -> Response<LocalBody> {
        let nonce = Nonce(rand::random());
        let page = self.template.load().render(workload, &nonce.to_string(), last_wake);
        let mut response = Response::new(Either::Left(Full::new(Bytes::from(page))));
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        headers.insert(CACHE_CONTROL, NO_STORE);
        headers.insert(RETRY_AFTER, RETRY_SECONDS);
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        // Hexadecimal digits are valid in a header.
        if let Ok(policy) = HeaderValue::try_from(content_security_policy(&nonce)) {
            headers.insert(CONTENT_SECURITY_POLICY, policy);
        }
        response
    }
}

/// Styles and scripts of the template alone, and requests to its own origin by the script.
fn content_security_policy(nonce: &Nonce) -> String {
    format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; font-src data:; \
         connect-src 'self'; base-uri 'none'; form-action 'none'"
    )
}

/// The response to a retry of the page when a pod takes requests.
pub fn respond_to_retry() -> Response<LocalBody> {
    let mut response = Response::new(Either::Left(Full::default()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    response
}

/// Marks the response to a retry that failed. The page stays if another one may succeed, else it is
/// loaded again and shows the error.
pub fn mark_failure<B>(response: &mut Response<B>, error: &RequestError) {
    let may_succeed = matches!(
        error,
        RequestError::Rejected(
            Rejection::QueueFull { .. }
                | Rejection::ActivatorMemoryFull { .. }
                | Rejection::ActivatorStopping
                | Rejection::UploadMemoryFull { .. }
                | Rejection::CannotStart { .. }
                | Rejection::WakeTimeout { .. }
        )
    );
    if may_succeed {
        response.headers_mut().insert(RETRY, HeaderValue::from_static("retry"));
    }
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
}

// === impl Nonce ===

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use autoscaler::settings::Pause;
    use http_body_util::BodyExt;

    use super::*;

    const CHROMIUM: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8";

    fn request(method: Method, headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::builder().method(method);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    #[test]
    fn only_navigations_and_retries_concern_the_page() {
        let navigate = ("sec-fetch-mode", "navigate");
        let accept = ("accept", CHROMIUM);
        for (headers, expected) in [
            (vec![navigate, accept], Some(BrowserRequest::Navigation)),
            (vec![navigate, ("accept", "TEXT/HTML ;q=0.9")], Some(BrowserRequest::Navigation)),
            (vec![("rouse-waiting-page", "retry")], Some(BrowserRequest::Retry)),
            (vec![navigate, accept, ("rouse-waiting-page", "retry")], Some(BrowserRequest::Retry)),
            (vec![navigate, accept, ("upgrade", "websocket")], None),
            (vec![navigate, ("accept", "*/*")], None),
            (vec![navigate, ("accept", "application/json, text/html-fragment")], None),
            (vec![navigate], None),
            (vec![accept], None),
            (vec![("sec-fetch-mode", "cors"), accept], None),
            (vec![("sec-fetch-mode", "websocket"), accept], None),
            (vec![], None),
        ] {
            assert_eq!(BrowserRequest::of(&request(Method::GET, &headers)), expected, "{headers:?}");
            for method in [Method::HEAD, Method::POST, Method::OPTIONS] {
                assert_eq!(BrowserRequest::of(&request(method, &headers)), None, "{headers:?}");
            }
        }
    }

    #[tokio::test]
    async fn scripts_and_styles_of_each_page_have_its_own_nonce() {
        let page = WaitingPage::new(Duration::ZERO);
        let mut nonces = Vec::new();
        for _ in 0..2 {
            let response = page.respond(&Key::new("shop", "web"), None);
            let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
            let nonce = policy.split("'nonce-").nth(1).unwrap().split('\'').next().unwrap().to_owned();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            let text = String::from_utf8(body.into()).unwrap();
            assert_eq!(text.matches(&format!("nonce=\"{nonce}\"")).count(), 2, "{text}");
            nonces.push(nonce);
        }
        assert_ne!(nonces[0], nonces[1]);
    }

    #[test]
    fn page_stays_after_failures_that_a_retry_may_end() {
        for (rejection, marked) in [
            (Rejection::QueueFull { bound: 1 }, true),
            (Rejection::WakeTimeout { after: Duration::ZERO }, true),
            (Rejection::Paused(Pause::On), false),
            (Rejection::WorkloadDeleted, false),
        ] {
            let mut response = Response::new(());
            mark_failure(&mut response, &rejection.into());
            assert_eq!(response.headers().contains_key(RETRY), marked);
        }
    }
}
