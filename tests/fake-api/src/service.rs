//! Responses to the requests of a [`kube::Client`].

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::Body;
use serde_json::{Value, json};
use tower_service::Service;

use crate::api::{FakeApi, Outage};
use crate::path::{Path, Query};
use crate::store::ApiError;
use crate::watch;

/// The content type of server-side apply.
const APPLY: &str = "application/apply-patch+yaml";
/// The content type of a JSON patch (RFC 6902).
const JSON_PATCH: &str = "application/json-patch+json";

type Response = http::Response<UnsyncBoxBody<Bytes, Infallible>>;

/// What the body of a PATCH request is.
#[derive(Clone, Copy)]
enum PatchKind {
    Apply,
    Json,
    Merge,
}

// === impl FakeApi ===

impl FakeApi {
    async fn respond(self, request: Request<Body>) -> Response {
        let (parts, body) = request.into_parts();
        let outage = {
            let mut state = self.lock();
            state.requests.push(format!("{} {}", parts.method, parts.uri.path()));
            state.outage
        };
        match outage {
            Some(Outage::Hanging) => return std::future::pending().await,
            Some(Outage::Failing) => return error_response(ApiError::Broken),
            Some(Outage::Shedding(status)) => return shed(status),
            None => {}
        }
        let read = self.lock().read_responses.get(parts.uri.path()).cloned();
        if let Some((status, body)) = read.filter(|_| parts.method == Method::GET) {
            return response(status, body);
        }
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        if query.watch {
            return self.watch(&Path::of(parts.uri.path()), &query);
        }
        let body = body.collect_bytes().await.unwrap_or_default();
        let object = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let kind = match parts.headers.get(CONTENT_TYPE) {
            Some(kind) if kind == APPLY => PatchKind::Apply,
            Some(kind) if kind == JSON_PATCH => PatchKind::Json,
            _ => PatchKind::Merge,
        };
        let refused =
            self.lock().refused_writes.iter().find(|(at, ..)| parts.uri.path().starts_with(at)).cloned();
        if let Some((_, status, message)) = refused.filter(|_| parts.method != Method::GET) {
            let message = message.replace("{request}", &self.lock().requests.len().to_string());
            return status_response(status, status.canonical_reason().unwrap_or_default(), &message);
        }
        let result = self.execute(&parts.method, parts.uri.path(), &query, object, kind);
        if parts.method != Method::GET {
            if self.is_last_write() {
                return std::future::pending().await;
            }
            let latency = self.lock().write_latency;
            if !latency.is_zero() {
                tokio::time::sleep(latency).await;
            }
        }
        match result {
            Ok((status, value)) => json_response(status, &value),
            Err(error) => error_response(error),
        }
    }

    /// Counts a write; returns whether it is the last before a simulated crash.
    fn is_last_write(&self) -> bool {
        let mut state = self.lock();
        let Some(left) = state.writes_left.as_mut() else { return false };
        *left = left.saturating_sub(1);
        let last = *left == 0;
        if last {
            state.writes_left = None;
            state.outage = Some(Outage::Hanging);
        }
        last
    }

    fn execute(
        &self,
        method: &Method,
        path: &str,
        query: &Query,
        object: Value,
        kind: PatchKind,
    ) -> Result<(StatusCode, Value), ApiError> {
        let creation_responses = self
            .lock()
            .creation_responses
            .iter()
            .find(|(at, _)| at == path)
            .map(|(_, respond)| respond.clone());
        let path = Path::of(path);
        let ok = |value| (StatusCode::OK, value);
        match (method, creation_responses) {
            (&Method::POST, Some(respond)) => Ok((StatusCode::CREATED, respond(object))),
            // Admission is not simulated.
            (&Method::POST, None) if query.dry_run => Ok((StatusCode::CREATED, object)),
            (&Method::POST, None) => {
                self.change(|store| store.create(&path, object)).map(|value| (StatusCode::CREATED, value))
            }
            (&Method::PUT, _) => {
                self.change(|store| store.replace(&path, object, &query.field_manager)).map(ok)
            }
            (&Method::PATCH, _) if query.dry_run => self.lock().store.merged(&path, &object).map(ok),
            (&Method::PATCH, _) => self
                .change(|store| match kind {
                    PatchKind::Apply => store.apply(&path, object, query),
                    PatchKind::Json => store.patch(&path, object),
                    PatchKind::Merge => store.merge(&path, &object, &query.field_manager),
                })
                .map(ok),
            (&Method::DELETE, _) => {
                let preconditions = object.get("preconditions").unwrap_or(&Value::Null);
                self.change(|store| store.remove(&path, preconditions)).map(ok)
            }
            _ if path.resource == "/apis" => Ok(ok(self.groups())),
            _ if path.is_group_version() => self.discovery(&path).map(ok),
            _ if path.is_collection() => Ok(ok(self.lock().store.list(&path, query))),
            _ => self.lock().store.get(&path).map(ok),
        }
    }

    fn discovery(&self, path: &Path) -> Result<Value, ApiError> {
        let state = self.lock();
        let (_, resources) =
            state.discovery.iter().find(|(at, _)| *at == path.resource).ok_or(ApiError::NotFound)?;
        let group_version = path.resource.trim_start_matches("/apis/");
        Ok(json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": resources}))
    }

    /// The groups of discovery, the versions of each in the order in which they were set; then
    /// those of stored objects.
    fn groups(&self) -> Value {
        let mut groups = BTreeMap::<String, Vec<Value>>::new();
        let state = self.lock();
        let set = state.discovery.iter().map(|(path, _)| path.as_str());
        for path in set.chain(state.store.all().map(|(id, _)| id.resource.as_str())) {
            let mut parts = path.trim_start_matches("/apis/").split('/');
            if let (true, Some(group), Some(version)) =
                (path.starts_with("/apis/"), parts.next(), parts.next())
            {
                let version = json!({"groupVersion": format!("{group}/{version}"), "version": version});
                let versions = groups.entry(group.to_owned()).or_default();
                if !versions.contains(&version) {
                    versions.push(version);
                }
            }
        }
        drop(state);
        let groups = groups.into_iter().map(|(name, versions)| json!({"name": name, "versions": versions}));
        json!({"kind": "APIGroupList", "groups": groups.collect::<Vec<_>>()})
    }

    fn watch(&self, path: &Path, query: &Query) -> Response {
        let events = watch::events(self.clone(), path.clone(), query.clone());
        http::Response::new(UnsyncBoxBody::new(http_body_util::StreamBody::new(events)))
    }
}

impl Service<Request<Body>> for FakeApi {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let api = self.clone();
        let response: BoxFuture<'static, _> = Box::pin(async move { Ok(api.respond(request).await) });
        response
    }
}

fn error_response(error: ApiError) -> Response {
    let (status, reason) = error.code_and_reason();
    status_response(status, reason, error.message())
}

/// The response of an API server, or of a load balancer before it, that sheds load.
fn shed(status: u16) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    let reason = status.canonical_reason().unwrap_or_default();
    let mut response = status_response(status, reason, reason);
    if status == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert(http::header::RETRY_AFTER, http::HeaderValue::from_static("1"));
    }
    response
}

fn status_response(status: StatusCode, reason: &str, message: &str) -> Response {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": status.as_u16(),
    });
    json_response(status, &body)
}

fn json_response(status: StatusCode, value: &Value) -> Response {
    response(status, Bytes::from(value.to_string()))
}

fn response(status: StatusCode, body: Bytes) -> Response {
    let mut response = http::Response::new(UnsyncBoxBody::new(Full::new(body)));
    *response.status_mut() = status;
    response
}
