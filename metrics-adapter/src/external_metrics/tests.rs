//! The whole API in memory, with real certificates and fake reviews.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use arc_swap::ArcSwap;
use autoscaler::api::{OwnershipRank, PodAutoscaler};
use autoscaler::scaling::decider::Decider;
use autoscaler::settings::AutoscalerConfig;
use autoscaler::stats::Stat;
use autoscaler::stats::collection::{ScrapeResult, WindowAverages};
use component_base::auth::{Access, ReviewError, Reviewer, User};
use fake_api::FakeApi;
use futures::future::BoxFuture;
use http::Request;
use http_body_util::BodyExt;
use kube::runtime::watcher::Event;
use prometheus::Registry;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::sync::watch;

use std::sync::Arc;

use component_base::readiness::Readiness;
use http::{StatusCode, header};
use k8s_openapi::api::authorization::v1::SubjectAccessReviewSpec;

use crate::collection::collector::Collector;
use crate::decisions::decision_history::{DecisionHistory, DecisionRecord};
use crate::decisions::decision_store::DecisionStore;
use crate::external_metrics::auth::{self, Auth, FrontProxy, PeerCertificates};
use crate::external_metrics::leader_forwarder::LeaderForwarder;
use crate::external_metrics::{Api, MetricValues, value};
use crate::metrics::Metrics;
use crate::watches::ready_pods::ReadyPods;
use crate::watches::workloads::{Workload, WorkloadTable};

const METRIC: &str = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop";

/// A fake reviewer with fixed results, which records the access reviews.
#[derive(Debug, Default)]
struct FakeReviewer {
    fails: bool,
    denies: bool,
    reviews: Mutex<Vec<SubjectAccessReviewSpec>>,
}

impl Reviewer for FakeReviewer {
    fn token<'a>(
        &'a self,
        token: &'a str,
        audience: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Option<User>, ReviewError>> {
        assert_eq!(audience, None, "the token must be for the API server");
        Box::pin(async move {
            if self.fails {
                return Err(ReviewError::Timeout);
            }
            Ok((token == "good").then(|| User { name: "jane".to_owned(), ..User::default() }))
        })
    }

    fn access(&self, spec: SubjectAccessReviewSpec) -> BoxFuture<'_, Result<Access, ReviewError>> {
        self.reviews.lock().unwrap().push(spec);
        let (fails, denies) = (self.fails, self.denies);
        Box::pin(async move {
            match (fails, denies) {
                (true, _) => Err(ReviewError::Timeout),
                (_, true) => Ok(Access::Denied("no rule".to_owned())),
                _ => Ok(Access::Allowed),
            }
        })
    }
}

/// A front proxy's CA.
struct Ca {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Ca {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    fn client(&self, name: &str) -> PeerCertificates {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        PeerCertificates::new([certificate.der().clone()])
    }

    /// Data of the ConfigMap that a cluster publishes.
    fn config_map(&self) -> BTreeMap<String, String> {
        BTreeMap::from(
            [
                ("requestheader-client-ca-file", self.pem.as_str()),
                ("requestheader-allowed-names", r#"["front-proxy-client"]"#),
                ("requestheader-username-headers", r#"["X-Remote-User"]"#),
                ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
                ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#),
            ]
            .map(|(key, value)| (key.to_owned(), value.to_owned())),
        )
    }

    fn front_proxy(&self) -> FrontProxy {
        FrontProxy::parse(&self.config_map()).unwrap()
    }
}

/// An API with one workload, `shop/web`, and its dependencies.
struct Fixture {
    ca: Ca,
    front_proxy: Arc<ArcSwap<FrontProxy>>,
    reviewer: Arc<FakeReviewer>,
    values: MetricValues,
    readiness: Readiness,
    api: Arc<Api>,
}

impl Fixture {
    fn new(reviewer: FakeReviewer) -> Self {
        Self::with_custom(reviewer, false)
    }

    fn with_custom(reviewer: FakeReviewer, custom: bool) -> Self {
        let ca = Ca::new("front-proxy-ca");
        let front_proxy = Arc::new(ArcSwap::from_pointee(ca.front_proxy()));
        let reviewer = Arc::new(reviewer);
        let metrics = Metrics::register(&Registry::new()).unwrap();
        let (_, workloads) = watch::channel(Arc::new(WorkloadTable::from_iter([workload()])));
        let values = MetricValues {
            collector: Arc::new(Collector::default()),
            decisions: Arc::new(DecisionStore::default()),
            history: Arc::new(DecisionHistory::default()),
            pods: ReadyPods::default(),
            workloads,
        };
        values.collector.create_or_update(&workload().key, workload().windows);
        let readiness = Readiness::default();
        let auth = Auth::new(front_proxy.clone(), reviewer.clone(), metrics.reviews.clone());
        let api =
            Api::new(values.clone(), LeaderForwarder::alone(), auth, readiness.clone(), metrics, custom);
        Self { ca, front_proxy, reviewer, values, readiness, api }
    }

    /// Sends a request through the front proxy, as the HPA does.
    async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.send(request(path, &[("x-remote-user", "hpa")]), &self.ca.client("front-proxy-client")).await
    }

    async fn metric(&self, metric: &str) -> (StatusCode, Value) {
        self.get(&format!("{METRIC}/{metric}?labelSelector=service%3Dweb")).await
    }

    async fn send(&self, request: Request<()>, peer: &PeerCertificates) -> (StatusCode, Value) {
        let response = self.api.serve(&request.into_parts().0, peer).await;
        assert!(response.headers().get(header::RETRY_AFTER).is_none());
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    fn report(&self, concurrency: f64) {
        let total = Stat { average_concurrent_requests: concurrency, ..Stat::default() };
        let now = self.values.collector.clock().now();
        self.values.collector.record_scrape(
            &workload().key,
            now,
            &ScrapeResult::Complete { total, idle: false },
        );
    }

    fn decide(&self, desired: u32, held: bool) {
        value::tests::decide(&self.values, &workload(), workload().spec.target, desired, held);
    }

    fn reviews(&self) -> Vec<SubjectAccessReviewSpec> {
        self.reviewer.reviews.lock().unwrap().clone()
    }
}

fn workload() -> Workload {
    Workload { target_milli: 70_000, ..Workload::sample("web") }
}

fn request(path: &str, headers: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

fn no_certificate() -> PeerCertificates {
    PeerCertificates::default()
}

fn value(body: &Value) -> &str {
    body["items"][0]["value"].as_str().unwrap()
}

#[tokio::test]
async fn metric_is_one_item_in_thousandths() {
    let fixture = Fixture::new(FakeReviewer::default());
    fixture.report(12.3456);
    fixture.decide(1, false);
    let (status, body) = fixture.metric("concurrency").await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert_eq!(body["kind"], "ExternalMetricValueList");
    assert_eq!(body["apiVersion"], "external.metrics.k8s.io/v1beta1");
    let item = &body["items"][0];
    assert_eq!(item["metricName"], "concurrency");
    assert_eq!(item["metricLabels"], json!({"service": "web"}));
    assert_eq!((item["window"].as_i64(), value(&body)), (Some(60), "12346m"));
    let timestamp = item["timestamp"].as_str().unwrap();
    assert!(timestamp.len() == 20 && timestamp.ends_with('Z'), "{timestamp}");
}

/// A metric that is refused keeps the HPA of the live half of a blue-green pair from scaling.
#[test]
fn metric_of_a_shared_service_is_its_owners() {
    let rank = |created: &str, reachability: &str| {
        let autoscaler: PodAutoscaler = serde_json::from_value(json!({
            "metadata": {"creationTimestamp": created},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "service": "web"},
        }))
        .unwrap();
        let annotations =
            BTreeMap::from([("autoscaling.rouse.dev/reachability".to_owned(), reachability.to_owned())]);
        let (settings, errors) = autoscaler.spec.settings(&AutoscalerConfig::default(), &annotations);
        assert_eq!(errors, []);
        OwnershipRank::new(&autoscaler, &settings)
    };
    let workload = |name: &str, rank| Workload { service: "web".into(), rank, ..Workload::sample(name) };
    let retired = workload("blue", rank("2026-01-01T00:00:00Z", "Unreachable"));
    let live = workload("green", rank("2026-01-02T00:00:00Z", "Reachable"));
    let newer = workload("canary", rank("2026-01-03T00:00:00Z", "Reachable"));
    let table = WorkloadTable::from_iter([retired, newer, live]);
    assert_eq!(table.owner_of("shop", "web").unwrap().key.name, "green");
    assert!(table.owner_of("shop", "api").is_none());
}

#[tokio::test]
async fn why_explains_decisions_to_users_who_may_read_them() {
    let fixture = Fixture::new(FakeReviewer::default());
    fixture.report(140.0);
    let mut decider = Decider::new(&workload().spec, 1, Duration::ZERO);
    for (at, stable) in [(1_000, 140.0), (3_000, 70.0)] {
        let averages = Some(WindowAverages { stable, panic: stable });
        let result = decider.decide(&workload().spec, averages, 1, Duration::from_millis(at));
        fixture.values.history.record(DecisionRecord {
            at: i64::try_from(at).unwrap(),
            workload: Arc::new(workload()),
            spec: workload().spec,
            ready: 1,
            averages,
            idle_since: None,
            result,
            panicking: decider.is_panicking(),
            calm: None,
        });
    }
    for path in ["/why/shop/web", "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/why/web"] {
        let (status, why) = fixture.get(path).await;
        assert_eq!((status, &why["value"], &why["target"]), (StatusCode::OK, &json!("140"), &json!("70")));
        let desired: Vec<_> =
            why["decisions"].as_array().unwrap().iter().map(|d| d["desired"].clone()).collect();
        assert_eq!(desired, [2, 2], "newest first; the newer one is held by panic");
        assert_eq!(why["decisions"][0]["rule"], "panic-hold");
        assert_eq!(why["decisions"][1]["at"], "1970-01-01T00:00:01Z");
    }
    let review = fixture.reviews().pop().unwrap().resource_attributes.unwrap();
    assert_eq!(
        (review.resource.as_deref(), review.namespace.as_deref()),
        (Some("desired-replicas"), Some("shop"))
    );

    let peer = fixture.ca.client("front-proxy-client");
    let headers = [("x-remote-user", "jane"), ("accept", "text/plain")];
    let response = fixture.api.serve(&request("/why/shop/web", &headers).into_parts().0, &peer).await;
    let text = response.into_body().collect().await.unwrap().to_bytes();
    let text = std::str::from_utf8(&text).unwrap();
    assert!(text.contains("concurrency 140, target 70 per pod"), "{text}");
    assert!(text.contains("held by panic"), "{text}");
    let (status, body) = fixture.get("/why/shop/nothing").await;
    assert_eq!(status, StatusCode::NOT_FOUND, "{body}");
    let denied = Fixture::new(FakeReviewer { denies: true, ..FakeReviewer::default() });
    assert_eq!(denied.get("/why/shop/web").await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn trace_has_the_inputs_of_decisions_from_its_first_request_on() {
    let fixture = Fixture::new(FakeReviewer::default());
    let path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/trace/web";
    let (status, started) = fixture.get(path).await;
    assert_eq!((status, &started["lines"], &started["next"]), (StatusCode::OK, &json!([]), &json!(0)));
    let review = fixture.reviews().pop().unwrap().resource_attributes.unwrap();
    assert_eq!(review.resource.as_deref(), Some("desired-replicas"));
    let (recordings, now) = (fixture.values.collector.recordings(), fixture.values.collector.clock().now());
    recordings.decision(&workload(), &workload().spec, 3, now);
    let read = |from: u64| format!("{path}?recording={}&from={from}", started["recording"].as_str().unwrap());
    let (_, first) = fixture.get(&read(0)).await;
    assert_eq!((&first["lines"][0]["ready"], &first["lines"][1]["decide"]), (&json!(3), &json!(true)));
    assert_eq!(fixture.get(&read(2)).await.1["lines"], json!([]));

    let other = format!("{path}?recording=1&from=0");
    for (path, expected) in [
        (other.as_str(), StatusCode::GONE),
        (&format!("{path}?from=x"), StatusCode::BAD_REQUEST),
        ("/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/trace/nothing", StatusCode::NOT_FOUND),
    ] {
        let (status, body) = fixture.get(path).await;
        assert_eq!(status, expected, "{path}: {body}");
    }
}

#[tokio::test]
async fn held_decision_raises_only_the_metric_that_the_workload_scales_on() {
    let fixture = Fixture::new(FakeReviewer::default());
    fixture.report(10.0);
    fixture.decide(5, true);
    assert_eq!(value(&fixture.metric("concurrency").await.1), "350");
    for metric in ["requests-per-second", "rps"] {
        assert_eq!(value(&fixture.metric(metric).await.1), "0", "{metric}");
    }
    assert_eq!(value(&fixture.metric("desired-replicas").await.1), "5");
    fixture.decide(5, false);
    assert_eq!(value(&fixture.metric("concurrency").await.1), "10");
}

/// Until activators have reported as well, the stat of a pod may be only a part of the load.
#[tokio::test]
async fn average_is_not_served_before_the_first_decision() {
    let fixture = Fixture::new(FakeReviewer::default());
    fixture.report(10.0);
    let (status, body) = fixture.metric("concurrency").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(body["message"].as_str().unwrap().contains("no decision yet"), "{body}");
    // The workload does not scale on this metric.
    assert_eq!(value(&fixture.metric("requests-per-second").await.1), "0");
    fixture.decide(5, true);
    assert_eq!(value(&fixture.metric("concurrency").await.1), "350");
}

#[tokio::test]
async fn missing_data_is_an_error_and_never_zero() {
    let fixture = Fixture::new(FakeReviewer::default());
    for (path, code, part) in [
        (format!("{METRIC}/concurrency?labelSelector=service%3Dweb"), 503, "pods are not listed yet"),
        (format!("{METRIC}/desired-replicas?labelSelector=service%3Dweb"), 503, "shop/web"),
        (
            format!("{METRIC}/concurrency?labelSelector=service%3Dapi"),
            404,
            "no PodAutoscaler with a Metric names that Service",
        ),
        (format!("{METRIC}/latency?labelSelector=service%3Dweb"), 404, "latency"),
        (format!("{METRIC}/concurrency"), 400, "it names no Service"),
        (format!("{METRIC}/concurrency?labelSelector=service%3Dweb%2Ca%3Db"), 400, "no label \"a\""),
        (format!("{METRIC}/concurrency?labelSelector=service+in+%28a%2Cb%29"), 400, "in (a,b)"),
        (format!("{METRIC}/concurrency?labelSelector=%3D"), 400, "not a label selector"),
        ("/openapi/v4".to_owned(), 404, "could not find the requested resource /openapi/v4"),
    ] {
        let (status, body) = fixture.get(&path).await;
        assert_eq!(status.as_u16(), code, "{path}: {body}");
        assert_eq!((&body["kind"], &body["code"]), (&json!("Status"), &json!(code)), "{path}");
        assert!(body["message"].as_str().unwrap().contains(part), "{path}: {body}");
    }
}

#[tokio::test]
async fn openapi_index_lists_only_served_groups() {
    let fixture = Fixture::new(FakeReviewer::default());
    let (status, index) = fixture.get("/openapi/v3").await;
    assert_eq!(status, StatusCode::OK);
    let groups: Vec<_> = index["paths"].as_object().unwrap().keys().collect();
    assert_eq!(groups, ["apis/external.metrics.k8s.io/v1beta1"]);
    let address = index["paths"][groups[0]]["serverRelativeURL"].as_str().unwrap();
    let (status, document) = fixture.get(address).await;
    assert_eq!((status, document["openapi"].as_str()), (StatusCode::OK, Some("3.0.0")));
    let (status, document) = fixture.get("/openapi/v2").await;
    assert_eq!((status, document["swagger"].as_str()), (StatusCode::OK, Some("2.0")));
    let (status, _) = fixture.get("/openapi/v3/apis/custom.metrics.k8s.io/v1beta2").await;
    assert_eq!(status, StatusCode::NOT_FOUND, "custom metrics are disabled");
}

#[tokio::test]
async fn workload_without_pods_is_zero_when_an_activator_is_connected() {
    let fixture = Fixture::new(FakeReviewer::default());
    fixture.values.pods.apply(Event::Init);
    fixture.values.pods.apply(Event::InitDone);
    let (status, body) = fixture.metric("concurrency").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(body["message"].as_str().unwrap().contains("no activator is connected"), "{body}");

    let collector = &fixture.values.collector;
    let _activator = collector.reporting_activator();
    collector.record_scrape(&workload().key, collector.clock().now(), &ScrapeResult::NoPods);
    for metric in ["concurrency", "requests-per-second", "desired-replicas"] {
        let (status, body) = fixture.metric(metric).await;
        assert_eq!((status, value(&body)), (StatusCode::OK, "0"), "{metric}");
    }
}

#[tokio::test]
async fn reviews_every_request_and_caches_results() {
    let fixture = Fixture::new(FakeReviewer::default());
    fixture.report(1.0);
    fixture.decide(1, false);
    fixture.metric("concurrency").await;
    fixture.metric("concurrency").await;
    fixture.get("/apis").await;
    let reviews = fixture.reviews();
    assert_eq!(reviews.len(), 2, "{reviews:?}");
    let attributes = reviews[0].resource_attributes.clone().unwrap();
    assert_eq!(attributes.verb.as_deref(), Some("list"));
    assert_eq!(attributes.resource.as_deref(), Some("concurrency"));
    assert_eq!(attributes.namespace.as_deref(), Some("shop"));
    assert_eq!(reviews[0].groups.clone().unwrap(), ["system:authenticated"]);
    assert_eq!(reviews[1].non_resource_attributes.clone().unwrap().path.as_deref(), Some("/apis"));
}

#[tokio::test]
async fn denied_and_failed_reviews_reject_the_request() {
    let denied = Fixture::new(FakeReviewer { denies: true, ..FakeReviewer::default() });
    denied.report(1.0);
    let (status, body) = denied.metric("concurrency").await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(
        body["message"],
        "User \"hpa\" cannot list resource \"concurrency\" in API group \"external.metrics.k8s.io\" in the \
         namespace \"shop\": no rule"
    );
    let failing = Fixture::new(FakeReviewer { fails: true, ..FakeReviewer::default() });
    failing.report(1.0);
    assert_eq!(failing.metric("concurrency").await.0, StatusCode::SERVICE_UNAVAILABLE);
    let bearer = request("/apis", &[("authorization", "Bearer good")]);
    assert_eq!(failing.send(bearer, &no_certificate()).await.0, StatusCode::SERVICE_UNAVAILABLE);
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(failing.send(request(path, &[]), &no_certificate()).await.0, StatusCode::OK, "{path}");
    }
    let master = request("/apis", &[("x-remote-user", "a"), ("x-remote-group", "system:masters")]);
    let (status, _) = failing.send(master, &failing.ca.client("front-proxy-client")).await;
    assert_eq!(status, StatusCode::OK, "masters need no review");
}

#[tokio::test]
async fn trusts_user_headers_only_from_the_front_proxy() {
    let fixture = Fixture::new(FakeReviewer::default());
    let other_ca = Ca::new("front-proxy-ca");
    let headers = [
        ("x-remote-user", "admin"),
        ("x-remote-group", "system:masters"),
        ("x-remote-extra-example.org%2fscope", "a"),
    ];
    for peer in [no_certificate(), other_ca.client("front-proxy-client"), fixture.ca.client("another-name")] {
        fixture.send(request("/apis", &headers), &peer).await;
    }
    // All three are anonymous, so there is one review.
    let reviews = fixture.reviews();
    assert_eq!(reviews.len(), 1, "{reviews:?}");
    assert_eq!(reviews[0].user.as_deref(), Some("system:anonymous"));
    assert_eq!(reviews[0].groups.clone().unwrap(), ["system:unauthenticated"]);

    // The CA is rotated while the client stays connected.
    fixture.front_proxy.store(Arc::new(other_ca.front_proxy()));
    let headers = [("x-remote-user", "jane"), ("x-remote-extra-example.org%2fscope", "a")];
    fixture.send(request("/apis", &headers), &other_ca.client("front-proxy-client")).await;
    let last = fixture.reviews().pop().unwrap();
    assert_eq!(last.user.as_deref(), Some("jane"));
    assert_eq!(last.extra.unwrap()["example.org/scope"], ["a"]);
}

#[tokio::test(start_paused = true)]
async fn follows_a_rotated_front_proxy_ca_without_a_restart() {
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let (cluster, fixture) = (FakeApi::default(), Fixture::new(FakeReviewer::default()));
    let publish = |data: BTreeMap<String, String>| cluster.put(path, json!({"data": data}));
    let (first, second) = (Ca::new("first"), Ca::new("second"));
    let latch = fixture.readiness.latch("the front proxy");
    publish(first.config_map());
    tokio::spawn(auth::watch_front_proxy(cluster.client(), fixture.front_proxy.clone(), latch));
    let user_as_seen_with = async |ca: &Ca| {
        // Longer than a watch needs to deliver a change.
        tokio::time::sleep(Duration::from_secs(20)).await;
        fixture.send(request("/apis", &[("x-remote-user", "jane")]), &ca.client("front-proxy-client")).await;
        fixture.reviews().pop().unwrap().user.unwrap()
    };
    assert_eq!(user_as_seen_with(&first).await, "jane");
    assert!(fixture.readiness.is_ready());
    publish(second.config_map());
    assert_eq!(user_as_seen_with(&second).await, "jane");
    assert_eq!(user_as_seen_with(&first).await, "system:anonymous", "its CA was replaced");
    // An invalid ConfigMap and a deleted one change nothing.
    publish(BTreeMap::from([("requestheader-client-ca-file".to_owned(), "nonsense".to_owned())]));
    publish(BTreeMap::from([("requestheader-allowed-names".to_owned(), "nonsense".to_owned())]));
    assert_eq!(user_as_seen_with(&second).await, "jane");
    cluster.remove(path);
    assert_eq!(user_as_seen_with(&second).await, "jane");
}

#[tokio::test]
async fn reviews_tokens_and_rejects_impersonation() {
    let fixture = Fixture::new(FakeReviewer::default());
    let with = |name, value| request("/apis", &[(name, value), ("x-remote-user", "admin")]);
    assert_eq!(
        fixture.send(with("authorization", "Bearer bad"), &no_certificate()).await.0,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(fixture.send(with("authorization", "Bearer good"), &no_certificate()).await.0, StatusCode::OK);
    assert_eq!(fixture.reviews().pop().unwrap().user.as_deref(), Some("jane"));
    assert_eq!(
        fixture.send(with("impersonate-user", "admin"), &no_certificate()).await.0,
        StatusCode::FORBIDDEN
    );
    let post = Request::post("/apis").body(()).unwrap();
    assert_eq!(fixture.send(post, &no_certificate()).await.0, StatusCode::METHOD_NOT_ALLOWED);
    let protobuf = request("/apis", &[("accept", "application/vnd.kubernetes.protobuf")]);
    assert_eq!(fixture.send(protobuf, &no_certificate()).await.0, StatusCode::NOT_ACCEPTABLE);
    let hpa = request("/apis", &[("accept", "application/vnd.kubernetes.protobuf, */*")]);
    assert_eq!(fixture.send(hpa, &no_certificate()).await.0, StatusCode::OK);
}

#[tokio::test]
async fn discovery_has_both_forms_and_an_etag() {
    let fixture = Fixture::new(FakeReviewer::default());
    let (_, resources) = fixture.get("/apis/external.metrics.k8s.io/v1beta1").await;
    assert_eq!(resources["kind"], "APIResourceList");
    assert_eq!(resources["resources"].as_array().unwrap().len(), 3);
    assert_eq!(fixture.get("/apis").await.1["kind"], "APIGroupList");
    assert_eq!(fixture.get("/apis/external.metrics.k8s.io").await.1["kind"], "APIGroup");

    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let parts = |headers: &[(&str, &str)]| request("/apis", headers).into_parts().0;
    let first = fixture.api.serve(&parts(&[("accept", accept)]), &no_certificate()).await;
    assert_eq!(first.headers()[header::CONTENT_TYPE], accept);
    assert_eq!(first.headers()[header::VARY], "Accept");
    let tag = first.headers()[header::ETAG].to_str().unwrap().to_owned();
    let again =
        fixture.api.serve(&parts(&[("accept", accept), ("if-none-match", &tag)]), &no_certificate()).await;
    assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
    assert_eq!(again.headers()[header::ETAG], tag.as_str());
}

#[tokio::test]
async fn custom_metrics_of_services_and_workloads_are_off_by_default() {
    let without = Fixture::new(FakeReviewer::default());
    let custom = "/apis/custom.metrics.k8s.io/v1beta2";
    for path in [custom.to_owned(), format!("{custom}/namespaces/shop/services/web/concurrency")] {
        assert_eq!(without.get(&path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(without.get("/apis").await.1["groups"].as_array().unwrap().len(), 1);

    let fixture = Fixture::with_custom(FakeReviewer::default(), true);
    fixture.report(350.0);
    fixture.decide(1, false);
    for (resource, kind, api_version) in [
        ("services", "Service", "/v1"),
        ("podautoscalers.autoscaling.rouse.dev", "PodAutoscaler", "autoscaling.rouse.dev/v1alpha1"),
    ] {
        let (status, body) =
            fixture.get(&format!("{custom}/namespaces/shop/{resource}/web/concurrency")).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let item = &body["items"][0];
        let described = json!({"kind": kind, "namespace": "shop", "name": "web", "apiVersion": api_version});
        assert_eq!((&item["describedObject"], value(&body)), (&described, "350"));
        assert_eq!(item["metric"], json!({"name": "concurrency", "selector": null}));
        assert_eq!(item["windowSeconds"], 60);
        let review = fixture.reviews().pop().unwrap().resource_attributes.unwrap();
        let attributes = (review.verb.unwrap(), review.resource.unwrap(), review.subresource.unwrap());
        assert_eq!(attributes, ("get".to_owned(), resource.to_owned(), "concurrency".to_owned()));
    }
    for (path, code) in [
        ("services/other/concurrency", 404),
        ("podautoscalers.autoscaling.rouse.dev/other/concurrency", 404),
        ("services/web/latency", 404),
        ("pods/*/concurrency", 404),
        ("services/web/concurrency?metricLabelSelector=a%3Db", 400),
    ] {
        let (status, body) = fixture.get(&format!("{custom}/namespaces/shop/{path}")).await;
        assert_eq!((status.as_u16(), &body["kind"]), (code, &json!("Status")), "{path}");
    }
    let (_, resources) = fixture.get(custom).await;
    assert_eq!(resources["resources"][0]["name"], "services/concurrency");
    assert_eq!(fixture.get("/apis/custom.metrics.k8s.io").await.1["name"], "custom.metrics.k8s.io");
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let (_, groups) = fixture.send(request("/apis", &[("accept", accept)]), &no_certificate()).await;
    assert_eq!(groups["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn readyz_fails_until_ready_and_while_draining() {
    let fixture = Fixture::new(FakeReviewer::default());
    let readyz = || async { fixture.send(request("/readyz", &[]), &no_certificate()).await };
    let latch = fixture.readiness.latch("pods");
    assert_eq!(readyz().await.0, StatusCode::INTERNAL_SERVER_ERROR);
    drop(latch);
    assert_eq!(readyz().await.0, StatusCode::OK);
    fixture.readiness.drain();
    assert_eq!(readyz().await.0, StatusCode::INTERNAL_SERVER_ERROR);
}
