//! Routes: from a request to its response, with the headers that keep other sites out.

use std::sync::Arc;

use autoscaler::Key;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use http_body_util::Full;
use serde::Serialize;
use serde_json::json;

use crate::ui::access::{Access, AccessError};
use crate::ui::assets;
use crate::ui::fleet::Fleet;
use crate::ui::workload_view::WorkloadView;

/// Of every response. The page loads scripts, styles and data from itself alone, and no other page
/// can embed it or read its address.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

#[derive(Debug)]
pub(super) struct Routes {
    pub(super) access: Access,
    pub(super) fleet: Arc<Fleet>,
}

type PageResponse = Response<Full<Bytes>>;

// === impl Routes ===

impl Routes {
    /// Responds to one request. Its body is ignored.
    pub(super) async fn respond(&self, request: Parts) -> PageResponse {
        let mut response = self.route(&request).await;
        for (name, value) in HEADERS {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }

    async fn route(&self, request: &Parts) -> PageResponse {
        let path = match self.access.check(host(&request.headers), request.uri.path()) {
            Ok(path) => path,
            Err(error @ AccessError::Host) => {
                return text(StatusCode::MISDIRECTED_REQUEST, error.to_string());
            }
            Err(error @ AccessError::Token) => return text(StatusCode::NOT_FOUND, error.to_string()),
        };
        if request.method != Method::GET && request.method != Method::HEAD {
            return text(StatusCode::METHOD_NOT_ALLOWED, "the page only reads".to_owned());
        }
        if path.is_empty() && !request.uri.path().ends_with('/') {
            return redirect(&format!("/{}/", self.access.token()));
        }
        if let Some(asset) = assets::find(path) {
            return respond(StatusCode::OK, asset.content_type, Bytes::from_static(asset.text.as_bytes()));
        }
        match *path.split('/').collect::<Vec<_>>().as_slice() {
            ["api", "workloads"] => json_response(StatusCode::OK, &self.fleet.list().await),
            ["api", "workloads", namespace, name] if !namespace.is_empty() && !name.is_empty() => {
                self.workload(&Key::new(namespace, name)).await
            }
            _ => text(StatusCode::NOT_FOUND, "not found".to_owned()),
        }
    }

    async fn workload(&self, key: &Key) -> PageResponse {
        match WorkloadView::read(&self.fleet, key).await {
            Some(view) => json_response(StatusCode::OK, &view),
            None => {
                let error = format!("{key} is not a workload, or not any more");
                json_response(StatusCode::NOT_FOUND, &json!({ "error": error }))
            }
        }
    }
}

/// The Host header, if there is exactly one.
fn host(headers: &HeaderMap) -> Option<&str> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next()?.to_str().ok()?;
    hosts.next().is_none().then_some(host)
}

fn json_response(status: StatusCode, value: &impl Serialize) -> PageResponse {
    match serde_json::to_vec(value) {
        Ok(body) => respond(status, "application/json", Bytes::from(body)),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

fn text(status: StatusCode, text: String) -> PageResponse {
    respond(status, "text/plain; charset=utf-8", Bytes::from(text + "\n"))
}

fn redirect(to: &str) -> PageResponse {
    let mut response = text(StatusCode::PERMANENT_REDIRECT, String::new());
    if let Ok(to) = HeaderValue::from_str(to) {
        response.headers_mut().insert(header::LOCATION, to);
    }
    response
}

fn respond(status: StatusCode, content_type: &'static str, body: Bytes) -> PageResponse {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
