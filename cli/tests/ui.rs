//! `ui` over loopback, on an API in memory. The page in a browser is in `tests/system/browser`.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test panics")]

mod support;

use std::net::SocketAddr;
use std::time::Duration;

use cli::args::UiArgs;
use cli::ui::Page;
use fake_api::{FakeApi, Outage};
use http::StatusCode;
use serde_json::{Value, json};
use support::{put_report, put_workload, report, session};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;

const GROUP: &str = "/apis/external.metrics.k8s.io/v1beta1";
/// 2026-01-01T00:00:00Z.
const BEGIN: i64 = 1_767_225_600_000;

/// A served page.
struct Served {
    api: FakeApi,
    address: SocketAddr,
    /// `/TOKEN/`
    base: String,
    _serving: AbortOnDropHandle<()>,
}

struct Response {
    status: u16,
    head: String,
    body: String,
}

impl Served {
    async fn start(api: FakeApi) -> Self {
        let page = Page::bind(UiArgs { port: 0 }, &session(&api, None)).await.unwrap();
        let address = page.addresses().unwrap()[0];
        let base = page.url().strip_prefix(&format!("http://{address}")).unwrap().to_owned();
        let _serving = AbortOnDropHandle::new(tokio::spawn(page.serve()));
        Self { api, address, base, _serving }
    }

    async fn send(&self, method: &str, path: &str, host: &str) -> Response {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Response { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        let response = self.send("GET", &format!("{}{path}", self.base), &self.address.to_string()).await;
        (response.status, serde_json::from_str(&response.body).unwrap_or(Value::Null))
    }

    /// The list, once it fulfills `is_expected`.
    async fn list_until(&self, is_expected: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..100 {
            let (_, list) = self.get("api/workloads").await;
            if is_expected(&list) {
                return list;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{:?}", self.get("api/workloads").await);
    }
}

fn put_loads(api: &FakeApi, load: Value) {
    let sample = json!({
        "namespace": "shop", "name": "web", "metric": "concurrency",
        "load": load, "ready": 3, "decided": 3, "target": 70.0, "panicking": false,
    });
    api.respond_to_reads(
        &format!("{GROUP}/history"),
        StatusCode::OK,
        json!({"workloads": [sample]}).to_string(),
    );
}

/// `shop/web` with a load, and `shop/cart`, whose HPA has a tolerance.
fn shop() -> FakeApi {
    let api = FakeApi::default();
    api.respond_to_reads("/version", StatusCode::OK, version().to_string());
    put_workload(&api, "web", json!({"phase": "Active", "reason": "ReceivingTraffic", "replicas": 3}));
    let condition = json!({
        "type": "HPAAccepted", "status": "True", "reason": "ToleranceNotZero", "message": "tolerance 0.1",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    put_workload(&api, "cart", json!({"phase": "AtZero", "replicas": 0, "conditions": [condition]}));
    put_loads(&api, json!(151.25));
    api
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "37", "gitVersion": "v1.37.0", "gitCommit": "", "gitTreeState": "",
        "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
    })
}

#[tokio::test]
async fn listens_on_loopback_alone() {
    let page = Page::bind(UiArgs { port: 0 }, &session(&shop(), None)).await.unwrap();
    let addresses = page.addresses().unwrap();
    assert!(addresses.iter().all(|address| address.ip().is_loopback()), "{addresses:?}");
    assert!(addresses.windows(2).all(|pair| pair[0].port() == pair[1].port()), "{addresses:?}");
    let taken = Page::bind(UiArgs { port: addresses[0].port() }, &session(&shop(), None)).await;
    let error = taken.err().unwrap().to_string();
    assert!(error.starts_with("cannot listen on 127.0.0.1:"), "{error}");
}

#[tokio::test]
async fn only_requests_with_the_token_and_a_loopback_host_are_served() {
    let page = Served::start(shop()).await;
    let (base, host) = (page.base.as_str(), page.address.to_string());
    let requests = page.api.requests().len();
    for (method, path, host, expected) in [
        ("GET", base, host.as_str(), 200),
        ("HEAD", base, "localhost:1", 200),
        ("GET", base, "rebound.example", 421),
        ("GET", base, "", 421),
        ("GET", "/", &host, 404),
        ("GET", "/api/workloads", &host, 404),
        ("GET", &format!("/{}/", "0".repeat(48)), &host, 404),
        ("POST", base, &host, 405),
        ("DELETE", &format!("{base}api/workloads/shop/web"), &host, 405),
        ("GET", base.trim_end_matches('/'), &host, 308),
        ("GET", &format!("{base}../../etc/passwd"), &host, 404),
        ("GET", &format!("{base}page.css"), &host, 200),
    ] {
        let response = page.send(method, path, host).await;
        assert_eq!(response.status, expected, "{method} {path} {host}");
        for header in ["default-src 'self'", "nosniff", "no-referrer", "frame-ancestors 'none'", "no-store"] {
            assert!(response.head.contains(header), "{header} is not in {}", response.head);
        }
        assert!(!response.head.contains("access-control"), "{}", response.head);
    }
    let reads: Vec<_> = page.api.requests().split_off(requests);
    assert!(reads.iter().all(|request| request.contains("podautoscalers")), "only the watch: {reads:?}");
}

#[tokio::test]
async fn list_follows_the_cluster() {
    let page = Served::start(shop()).await;
    let list = page.list_until(|list| list["workloads"].as_array().is_some_and(|all| all.len() == 2)).await;
    let [cart, web] = [&list["workloads"][0], &list["workloads"][1]];
    assert_eq!((&cart["name"], &cart["problems"], &cart["load"]), (&json!("cart"), &json!(1), &Value::Null));
    assert_eq!((&web["state"], &web["load"], &web["ready"]), (&json!("Active"), &json!(151.25), &json!(3)));
    assert_eq!((&list["error"], &list["loadError"]), (&Value::Null, &Value::Null));
    put_workload(&page.api, "web", json!({"phase": "Waking", "replicas": 1}));
    page.list_until(|list| list["workloads"][1]["state"] == "Waking").await;
    page.api.remove("/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/podautoscalers/cart");
    page.list_until(|list| list["workloads"][0]["name"] == "web").await;
    assert_eq!(page.get("api/workloads/shop/cart").await.0, 404);
    assert_eq!(page.api.writes(), [] as [&str; 0]);
}

#[tokio::test]
async fn list_and_workload_have_savings_until_now_which_do_not_change_with_each_poll() {
    let api = shop();
    let savings = json!({
        "since": "2026-01-01T00:00:00Z", "podSeconds": 7250, "cpuMilliSeconds": 1_800_000,
        "memoryMebibyteSeconds": -3_686_400,
    });
    put_workload(&api, "web", json!({"phase": "Active", "replicas": 3, "savings": savings}));
    let page = Served::start(api).await;
    let list = page.list_until(|list| list["workloads"][1]["savedPodHours"].is_number()).await;
    let web = &list["workloads"][1];
    let hours = ["savedPodHours", "savedCpuHours", "savedMemoryGibHours"].map(|key| web[key].as_f64());
    assert_eq!(hours, [Some(2.01), Some(0.5), Some(-1.0)], "rounded down to hundredths");
    assert!(list["workloads"][0].get("savedPodHours").is_none(), "no account: {list}");
    let at_zero = json!({
        "since": "2026-01-01T00:00:00Z", "atZeroSince": "2026-01-01T00:00:00Z", "podCpuMilli": 250,
        "podMemoryMebibytes": 64,
    });
    put_workload(&page.api, "web", json!({"phase": "AtZero", "replicas": 0, "savings": at_zero}));
    page.list_until(|list| list["workloads"][1]["state"] == "AtZero").await;
    let (_, view) = page.get("api/workloads/shop/web").await;
    let (_, later) = page.get("api/workloads/shop/web").await;
    let of = |view: &Value, key: &str| view["row"][key].as_f64().unwrap();
    let (pods, cpus) = (of(&view, "savedPodHours"), of(&view, "savedCpuHours"));
    assert!(pods > 1.0 && (cpus - pods / 4.0).abs() < 0.02, "the present phase counts: {view}");
    // Two polls may be on both sides of a hundredth.
    assert!(of(&later, "savedPodHours") - pods < 0.02, "{later}");
}

#[tokio::test]
async fn list_without_loads_has_the_reason() {
    let api = shop();
    let page = Served::start(api.clone()).await;
    page.list_until(|list| list["workloads"][1]["load"] == 151.25).await;
    api.respond_to_reads(&format!("{GROUP}/history"), StatusCode::NOT_FOUND, "no such resource");
    let list = page.list_until(|list| list["loadError"].is_string()).await;
    assert_eq!(list["workloads"][1]["load"], Value::Null, "{list}");
    assert_eq!(list["workloads"][1]["size"], 3);
}

#[tokio::test]
async fn workload_has_its_hour_its_wakes_with_the_write_and_fixes() {
    let api = shop();
    put_report(&api, "web", &report(Some(151.25), 3));
    let wake = json!({
        "received": BEGIN, "reported": 1, "created": 30, "scheduled": 40, "started": 700, "verified": 900,
        "forwarded": 901, "answered": 910,
    });
    let sample = json!({"at": BEGIN, "load": 151.25, "ready": 3, "decided": 3, "target": 70.0});
    let history = json!({
        "metric": "concurrency", "now": BEGIN + 60_000, "intervalMs": 30_000, "samples": [sample], "wakes": [wake],
    });
    api.respond_to_reads(
        &format!("{GROUP}/namespaces/shop/history/web"),
        StatusCode::OK,
        history.to_string(),
    );
    for (name, kind) in [("a", "PodAutoscaler"), ("b", "Deployment")] {
        api.put(
            &format!("/apis/events.k8s.io/v1/namespaces/shop/events/{name}"),
            json!({
                "metadata": {"name": name, "namespace": "shop"}, "reason": "ScaledFromZero", "type": "Normal",
                "eventTime": "2026-01-01T00:00:00.006000Z", "note": "scaled from 0 to 1 for a held request",
                "regarding": {"kind": kind, "name": "web", "namespace": "shop"},
            }),
        );
    }
    let page = Served::start(api).await;
    page.list_until(|list| list["listed"] == true).await;
    let (status, view) = page.get("api/workloads/shop/web").await;
    assert_eq!((status, &view["row"]["load"]), (200, &json!(151.25)), "{view}");
    assert_eq!(view["history"]["value"]["samples"][0]["load"], 151.25);
    assert_eq!((&view["wakes"][0]["written"], &view["wakes"][0]["answered"]), (&json!(6), &json!(910)));
    assert_eq!(view["why"]["value"]["pods"]["ready"], 3);
    assert_eq!(view["events"]["value"].as_array().unwrap().len(), 1, "{view}");

    let (_, cart) = page.get("api/workloads/shop/cart").await;
    let fix = cart["conditions"][0]["fix"].as_str().unwrap();
    assert!(fix.contains("tolerance"), "{fix}");
    assert!(cart["history"]["error"].is_string() && cart["why"]["error"].is_string(), "{cart}");
}

#[tokio::test]
async fn unreachable_cluster_fails_before_the_address_is_printed() {
    let api = shop();
    api.set_outage(Some(Outage::Failing));
    assert!(Page::bind(UiArgs { port: 0 }, &session(&api, None)).await.is_err());
}
