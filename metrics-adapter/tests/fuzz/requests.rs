//! Requests to the API. Each input is a file of lines: the path and query, then the headers.

use fuzzing::Campaign;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode};
use metrics_adapter::external_metrics::auth::{FrontProxy, PeerCertificates};
use serde_json::Value;

use crate::support::{Adapter, Setup};

const WORDS: &[&[u8]] = &[
    b"\n",
    b"x-remote-user: system:kube-aggregator\n",
    b"x-remote-group: system:masters\n",
    b"impersonate-user: root\n",
    b"authorization: Bearer x\n",
    b"accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList\n",
    b"accept: text/plain\n",
    b"if-none-match: \"x\"\n",
    b"/apis/external.metrics.k8s.io/v1beta1",
    b"/namespaces/",
    b"/why/",
    b"/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/trace/",
    b"recording=1&from=",
    b"/openapi/v3",
    b"?labelSelector=service%3Dweb",
    b"%",
    b"%00",
    b"%2F",
    b"/",
    b"..",
    b"*",
    b",",
    b";",
    b"\xff",
];

#[test]
fn every_response_has_the_format_of_the_api() {
    let corpus = crate::corpus("requests", WORDS);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let adapter = runtime.block_on(async { Adapter::start(Setup::alone().await) });
    let front_proxy = std::sync::Arc::new(FrontProxy::default());
    let peer = PeerCertificates::default();
    let inputs = crate::run(Campaign::from_environment(), &corpus, |bytes| {
        let Some(request) = request(bytes) else { return };
        assert_eq!(FrontProxy::authenticate(&front_proxy, &request.headers, &peer), None);
        let impersonates = request.headers.keys().any(|name| name.as_str().starts_with("impersonate-"));
        runtime.block_on(async {
            let response = adapter.api.serve(&request, &peer).await;
            let status = response.status();
            let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
            let probe = ["/readyz", "/livez", "/healthz"].contains(&request.uri.path().trim_end_matches('/'));
            assert!(probe || !impersonates || status == StatusCode::FORBIDDEN, "{status}");
            if !status.is_success() && status != StatusCode::NOT_MODIFIED {
                let error: Value = serde_json::from_slice(&body).unwrap();
                assert_eq!((&error["kind"], &error["code"]), (&"Status".into(), &status.as_u16().into()));
                assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "{error}");
            }
        });
    });
    println!("{inputs} requests");
}

/// The request that hyper would parse; `None` if it would reject the bytes.
fn request(bytes: &[u8]) -> Option<Parts> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let mut request = Request::builder().method(Method::GET).uri(lines.next()?);
    for line in lines {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(line[..colon].trim_ascii()).ok()?;
        request = request.header(name, HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?);
    }
    Some(request.body(()).ok()?.into_parts().0)
}
