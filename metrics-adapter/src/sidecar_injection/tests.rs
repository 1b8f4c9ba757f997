use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, Version};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Body, Frame};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use prometheus::Registry;
use serde_json::{Value, json};

use super::*;
use crate::metrics::Metrics;

const API_SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 80, 0, 1));
const HOSTILE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 244, 0, 9));

fn settings() -> SidecarSettings {
    SidecarSettings {
        image: "queue-proxy:v1".to_owned(),
        cpu_request: Quantity("1m".to_owned()),
        memory_request: Quantity("2Mi".to_owned()),
        memory_limit: Quantity("3Mi".to_owned()),
    }
}

fn webhook() -> (Arc<Webhook>, Metrics) {
    let metrics = Metrics::register(&Registry::new()).unwrap();
    (Arc::new(Webhook::new(Some(settings()), metrics.sidecar_reviews.clone())), metrics)
}

/// A review as the API server sends it.
fn review() -> Value {
    let pods = json!({"group": "", "version": "v1", "resource": "pods"});
    json!({
        "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "0c9a8d74", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "resource": pods,
            "requestResource": pods, "name": "web-1", "namespace": "shop", "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
            "object": {
                "kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web-1", "creationTimestamp": null},
                "spec": {"containers": [{"name": "app", "image": "app", "resources": {}}]}, "status": {},
            },
            "oldObject": null, "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    })
}

fn post<B>(body: B) -> Request<B> {
    Request::post(webhook::PATH).body(body).unwrap()
}

fn post_json(body: &Value) -> Request<Full<Bytes>> {
    post(Full::from(body.to_string()))
}

/// A body of which nothing arrives.
fn stalled() -> Request<impl Body<Data = Bytes, Error = Infallible> + Send> {
    post(StreamBody::new(futures::stream::pending::<Result<Frame<Bytes>, Infallible>>()))
}

/// The status, and the body as text.
async fn serve<B>(webhook: &Webhook, request: Request<B>) -> (StatusCode, String)
where
    B: Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
{
    let response = webhook.serve(request, API_SERVER).await;
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn responds_with_a_patch_that_adds_the_sidecar() {
    let (webhook, metrics) = webhook();
    let (status, body) = serve(&webhook, post_json(&review())).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&body["kind"], &body["apiVersion"]),
        (&"AdmissionReview".into(), &"admission.k8s.io/v1".into())
    );
    let response = &body["response"];
    assert_eq!((&response["uid"], &response["allowed"]), (&"0c9a8d74".into(), &true.into()));
    assert_eq!(response["patchType"], "JSONPatch");
    let patch: Vec<u8> = serde_json::from_value(response["patch"].clone()).unwrap();
    let patch: Value = serde_json::from_slice(&patch).unwrap();
    let sidecar = &patch[0]["value"];
    assert_eq!(patch[0]["path"], "/spec/containers/-");
    assert_eq!(
        (&sidecar["image"], &sidecar["imagePullPolicy"]),
        (&"queue-proxy:v1".into(), &"IfNotPresent".into())
    );
    let resources = json!({"requests": {"cpu": "1m", "memory": "2Mi"}, "limits": {"memory": "3Mi"}});
    assert_eq!(sidecar["resources"], resources);
    assert_eq!((metrics.sidecar_reviews.ok.get(), metrics.sidecar_reviews.failed.get()), (1, 0));
}

#[tokio::test]
async fn pod_with_a_sidecar_is_allowed_without_a_patch() {
    let mut review = review();
    review["request"]["object"]["spec"]["containers"][0]["name"] = "queue-proxy".into();
    let (status, body) = serve(&webhook().0, post_json(&review)).await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &body["response"]["allowed"]), (StatusCode::OK, &true.into()));
    assert_eq!(body["response"].get("patch"), None);
}

#[tokio::test]
async fn without_an_image_there_is_no_webhook() {
    let metrics = Metrics::register(&Registry::new()).unwrap();
    let webhook = Webhook::new(None, metrics.sidecar_reviews.clone());
    let (status, body) = serve(&webhook, post_json(&review())).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(body.contains("set --sidecar-image"), "{body}");
    assert_eq!(metrics.sidecar_reviews.failed.get(), 0);
}

#[tokio::test]
async fn rejects_what_is_no_review_of_a_created_pod() {
    let changed = |pointer: &str, value: Value| {
        let mut review = review();
        *review.pointer_mut(pointer).unwrap() = value;
        review.to_string()
    };
    let cases = [
        (String::new(), "not an AdmissionReview"),
        ("[".repeat(50_000), "not an AdmissionReview"),
        ("{}".to_owned(), "not an AdmissionReview"),
        (changed("/request", Value::Null), "no request"),
        (changed("/apiVersion", "admission.k8s.io/v1beta1".into()), "v1beta1"),
        (changed("/request/operation", "UPDATE".into()), "CREATE of pods alone"),
        (changed("/request/resource/resource", "secrets".into()), "/v1/secrets/"),
        (changed("/request/object", Value::Null), "no object"),
        (changed("/request/object/spec/containers", json!([])), "no containers"),
        (changed("/request/object/spec/containers", json!("x")), "not an AdmissionReview"),
        (changed("/request/object/spec/containers", vec![json!({}); 501].into()), "at most 500 elements"),
        (changed("/request/object/spec/containers", vec![json!({}); 25_001].into()), "50000 JSON elements"),
        (changed("/request/object/spec", json!({"volumes": vec![json!({}); 501]})), "at most 500 elements"),
        (
            changed("/request/oldObject", json!({"spec": {"containers": vec![0; 501]}})),
            "at most 500 elements",
        ),
    ];
    let (webhook, metrics) = webhook();
    for (body, message) in cases {
        let (status, text) = serve(&webhook, post(Full::<Bytes>::from(body))).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{text}");
        assert!(text.contains(message), "{text}");
    }
    assert_eq!((metrics.sidecar_reviews.ok.get(), metrics.sidecar_reviews.failed.get()), (0, 14));
}

#[tokio::test]
async fn rejects_other_methods_and_many_bodies_on_one_connection() {
    let (webhook, _) = webhook();
    let mut get = post_json(&review());
    *get.method_mut() = Method::GET;
    assert_eq!(serve(&webhook, get).await.0, StatusCode::METHOD_NOT_ALLOWED);
    let mut multiplexed = post_json(&review());
    *multiplexed.version_mut() = Version::HTTP_2;
    assert_eq!(serve(&webhook, multiplexed).await.0, StatusCode::HTTP_VERSION_NOT_SUPPORTED);
}

#[tokio::test(start_paused = true)]
async fn rejects_bodies_that_are_too_large_or_too_slow() {
    let (webhook, _) = webhook();
    let large = vec![b' '; 4 * 1024 * 1024 + 1];
    assert_eq!(serve(&webhook, post(Full::<Bytes>::from(large))).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(serve(&webhook, stalled()).await.0, StatusCode::REQUEST_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn large_review_is_delayed_and_others_are_not() {
    let (webhook, _) = webhook();
    let mut large = review();
    large["request"]["object"]["metadata"]["annotations"] = json!({"large": ",".repeat(5_000)});
    let served = async |review: &Value| {
        let start = tokio::time::Instant::now();
        assert_eq!(serve(&webhook, post_json(review)).await.0, StatusCode::OK);
        start.elapsed()
    };
    assert!(served(&large).await >= Duration::from_millis(250));
    assert_eq!(served(&review()).await, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn slow_client_takes_its_own_places_only() {
    let (webhook, _) = webhook();
    let mut hostile = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let webhook = webhook.clone();
        hostile.spawn(async move { webhook.serve(stalled(), HOSTILE).await.status() });
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let served = tokio::time::timeout(Duration::from_millis(1), serve(&webhook, post_json(&review()))).await;
    assert_eq!(served.unwrap().0, StatusCode::OK);
    let ended = hostile.join_all().await;
    assert!(ended.contains(&StatusCode::TOO_MANY_REQUESTS), "{ended:?}");
}
