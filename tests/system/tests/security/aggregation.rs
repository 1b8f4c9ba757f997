//! The adapter behind the real aggregation layer: which identities it trusts, which reviews it
//! requests, and what the API server discovers.
//!
//! The tests connect to an adapter pod through a forwarded port, with identities of their choice.
//! For that they publish a CA beside the front proxy's, and for a short time they take the
//! adapters' permission to request reviews away. Both are restored.

#![allow(clippy::indexing_slicing, reason = "an absent field of a response is null")]

mod api_server;
mod direct;
mod front_proxy;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::StatusCode;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Role, RoleBinding};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use system_tests::cluster::installation::{self, begin_exclusive};
use system_tests::cluster::namespace::TestNamespace;
use system_tests::traffic::metric::{API, get_json};
use system_tests::wait;

use api_server::ErrorLog;
use direct::Adapter;
use front_proxy::TestCa;

const PUBLISHED: Duration = Duration::from_secs(30);
/// The adapter caches the result of a review for ten seconds.
const CACHE_EXPIRED: Duration = Duration::from_secs(30);
/// The HPA controller's user name.
const HPA: &str = "system:serviceaccount:kube-system:horizontal-pod-autoscaler";
/// The binding that permits the adapters to request reviews.
const DELEGATOR: &str = "rouse-metrics-adapter-auth-delegator";
/// Number of equal requests. Others cause reviews meanwhile, but fewer.
const REQUESTS: usize = 20;

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn adapter_trusts_identity_headers_of_front_proxy_only() -> Result<()> {
    let namespace = begin_exclusive("aggregation").await?;
    let client = namespace.client.clone();
    let adapter = Adapter::any(&client).await?;
    check_handshakes(&adapter).await.context("check 1: handshakes")?;
    check_untrusted_certificates(&adapter).await.context("check 1: certificates")?;
    let ca = TestCa::publish(&client).await?;
    let result = check_trusted_certificates(&namespace, &adapter, &ca).await;
    ca.withdraw(&client).await?;
    result?;
    check_identity_of_token(&namespace, &adapter).await.context("check 8: smuggled headers")?;
    namespace.end().await
}

async fn check_trusted_certificates(namespace: &TestNamespace, adapter: &Adapter, ca: &TestCa) -> Result<()> {
    check_ca_rotation(adapter, ca).await.context("check 2: the CA")?;
    let mut proxy = adapter.connect(Some(ca.client("front-proxy-client")?)).await?;
    let index = proxy.get_as("system:aggregator", &[], "/openapi/v3").await?;
    ensure!(index.status == StatusCode::OK, "check 3: a user without groups got {index:?}");
    check_masters(adapter, &mut proxy).await.context("check 4: masters")?;
    check_reviews(namespace, adapter, &mut proxy).await.context("check 5: reviews")?;
    check_entity_tags(&mut proxy).await.context("check 7: discovery")?;
    let client = &namespace.client;
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let subjects = bindings.get(DELEGATOR).await?.subjects;
    let bind = |subjects: Value| {
        let (bindings, patch) = (bindings.clone(), json!({"subjects": subjects}));
        async move { bindings.patch(DELEGATOR, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop) }
    };
    bind(json!([])).await?;
    let result = check_unavailable_reviews(&mut proxy).await.context("check 6: unavailable reviews");
    bind(json!(subjects)).await?;
    result?;
    wait::until("the adapter to get reviews again", CACHE_EXPIRED, || async {
        let mut proxy = adapter.connect(Some(ca.client("front-proxy-client")?)).await?;
        let response = proxy.get_as("other-user", &[], API).await?;
        Ok((response.status == StatusCode::OK).then_some(()))
    })
    .await
}

/// All versions of TLS and HTTP that a front proxy may use, by the DNS name that it uses.
async fn check_handshakes(adapter: &Adapter) -> Result<()> {
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for protocol in ["h2", "http/1.1"] {
            let mut connection = adapter.connect_by(version, protocol, None).await?;
            let health = connection.get("/healthz", &[]).await?;
            ensure!(health.status == StatusCode::OK, "{version:?}, {protocol}: {health:?}");
        }
    }
    Ok(())
}

/// Without a certificate, and with one of an unpublished CA, a client is anonymous, whatever its
/// headers contain.
async fn check_untrusted_certificates(adapter: &Adapter) -> Result<()> {
    let mut anonymous = adapter.connect(None).await?;
    let mut untrusted = adapter.connect(Some(TestCa::new()?.client("front-proxy-client")?)).await?;
    for peer in [&mut anonymous, &mut untrusted] {
        let response = peer.get_as("admin", &["system:masters"], API).await?;
        ensure!(response.status == StatusCode::FORBIDDEN, "{response:?}");
        ensure!(response.message().contains("system:anonymous"), "{response:?}");
    }
    Ok(())
}

/// The adapter accepts a CA once it is published, without a restart, and only for the published
/// names.
async fn check_ca_rotation(adapter: &Adapter, ca: &TestCa) -> Result<()> {
    let restarts = adapter.restarts().await?;
    wait::until("the new CA to be accepted", PUBLISHED, || async {
        let mut proxy = adapter.connect(Some(ca.client("front-proxy-client")?)).await?;
        let response = proxy.get_as("jane", &[], API).await?;
        Ok((response.status == StatusCode::OK).then_some(()))
    })
    .await?;
    let mut other = adapter.connect(Some(ca.client("other-name")?)).await?;
    let response = other.get_as("admin", &["system:masters"], API).await?;
    ensure!(response.status == StatusCode::FORBIDDEN, "another name of the same CA: {response:?}");
    ensure!(adapter.restarts().await? == restarts, "the adapter restarted");
    Ok(())
}

async fn check_masters(adapter: &Adapter, proxy: &mut direct::Connection) -> Result<()> {
    let before = adapter.reviews().await?;
    for i in 0..REQUESTS {
        let response = proxy.get_as(&format!("master-{i}"), &["system:masters"], API).await?;
        ensure!(response.status == StatusCode::OK, "{response:?}");
    }
    let reviews = adapter.reviews().await? - before;
    ensure!(reviews < REQUESTS, "{reviews} reviews for {REQUESTS} requests of masters");
    Ok(())
}

/// A review is about one user, verb, metric and namespace, and its result is cached for ten
/// seconds.
async fn check_reviews(
    namespace: &TestNamespace,
    adapter: &Adapter,
    proxy: &mut direct::Connection,
) -> Result<()> {
    let here = format!("{API}/namespaces/{}", namespace.name);
    let before = adapter.reviews().await?;
    for _ in 0..REQUESTS {
        let response =
            proxy.get_as(HPA, &[], &format!("{here}/concurrency?labelSelector=service%3Dx")).await?;
        ensure!(
            response.status == StatusCode::NOT_FOUND,
            "the HPA may query, and there is no such Service: {response:?}"
        );
    }
    let reviews = adapter.reviews().await? - before;
    ensure!((1..REQUESTS).contains(&reviews), "{reviews} reviews for {REQUESTS} equal requests");
    for verb in ["list", "get"] {
        allow(namespace, verb).await?;
    }
    for (user, path, expected) in [
        ("list", format!("{here}/concurrency?labelSelector=service%3Dx"), StatusCode::NOT_FOUND),
        ("list", format!("{here}/requests-per-second?labelSelector=service%3Dx"), StatusCode::FORBIDDEN),
        (
            "list",
            format!("{API}/namespaces/default/concurrency?labelSelector=service%3Dx"),
            StatusCode::FORBIDDEN,
        ),
        ("get", format!("{here}/concurrency?labelSelector=service%3Dx"), StatusCode::FORBIDDEN),
    ] {
        let mut last = None;
        let as_expected = async {
            for _ in 0..100 {
                let response = proxy.get_as(&format!("may-{user}"), &[], &path).await?;
                if response.status == expected {
                    return Ok::<_, anyhow::Error>(true);
                }
                last = Some(response);
                // A denial is cached, too, and a new role takes effect after a moment.
                tokio::time::sleep(CACHE_EXPIRED / 100).await;
            }
            Ok(false)
        }
        .await?;
        ensure!(as_expected, "user may-{user} at {path}: {last:?}");
    }
    Ok(())
}

/// Permits the user `may-VERB` that verb on the metric `concurrency`.
async fn allow(namespace: &TestNamespace, verb: &str) -> Result<()> {
    let (create, name) = (PostParams::default(), format!("may-{verb}"));
    let role = json!({
        "metadata": {"name": name},
        "rules": [{"apiGroups": ["external.metrics.k8s.io"], "resources": ["concurrency"], "verbs": [verb]}],
    });
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
    });
    namespace.api::<Role>().create(&create, &serde_json::from_value(role)?).await?;
    namespace.api::<RoleBinding>().create(&create, &serde_json::from_value(binding)?).await?;
    Ok(())
}

/// Requests that need a review fail while reviews are unavailable; all others succeed.
async fn check_unavailable_reviews(proxy: &mut direct::Connection) -> Result<()> {
    let mut refused = None;
    for i in 0..100 {
        let response = proxy.get_as(&format!("unknown-{i}"), &[], API).await?;
        if response.status.is_server_error() {
            refused = Some(response);
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let refused = refused.context("requests were still permitted")?;
    ensure!(refused.json()["kind"] == "Status", "{refused:?}");
    let health = proxy.get("/healthz", &[]).await?;
    ensure!(health.status == StatusCode::OK, "{health:?}");
    let response = proxy.get_as("master", &["system:masters"], API).await?;
    ensure!(response.status == StatusCode::OK, "{response:?}");
    Ok(())
}

/// The list of metrics is constant, and so is its entity tag.
async fn check_entity_tags(proxy: &mut direct::Connection) -> Result<()> {
    let as_aggregator = |tag: Option<String>| {
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList".to_owned();
        let mut headers = vec![
            ("x-remote-user", "system:kube-aggregator".to_owned()),
            ("x-remote-group", "system:masters".to_owned()),
            ("accept", accept),
        ];
        headers.extend(tag.map(|tag| ("if-none-match", tag)));
        headers
    };
    let first = proxy.get("/apis", &as_aggregator(None)).await?;
    let tag = first.header("etag").context("no tag")?;
    ensure!(first.json()["kind"] == "APIGroupDiscoveryList", "{first:?}");
    ensure!(proxy.get("/apis", &as_aggregator(None)).await?.header("etag").as_ref() == Some(&tag));
    let not_modified = proxy.get("/apis", &as_aggregator(Some(tag))).await?;
    ensure!(
        not_modified.status == StatusCode::NOT_MODIFIED && not_modified.body.is_empty(),
        "{not_modified:?}"
    );
    Ok(())
}

/// A client with a token has the token's identity, whatever its headers contain.
async fn check_identity_of_token(namespace: &TestNamespace, adapter: &Adapter) -> Result<()> {
    let token = direct::token_without_permissions(namespace).await?;
    let mut connection = adapter.connect(None).await?;
    let metric = format!("{API}/namespaces/{}/concurrency?labelSelector=service%3Dx", namespace.name);
    let bearer = ("authorization", format!("Bearer {token}"));
    let discovered = connection.get(API, std::slice::from_ref(&bearer)).await?;
    ensure!(discovered.status == StatusCode::OK, "every authenticated user may discover: {discovered:?}");
    for smuggled in [
        vec![("x-remote-user", "admin".to_owned()), ("x-remote-group", "system:masters".to_owned())],
        vec![("impersonate-user", "admin".to_owned()), ("impersonate-group", "system:masters".to_owned())],
    ] {
        let headers: Vec<_> = smuggled.into_iter().chain([bearer.clone()]).collect();
        let response = connection.get(&metric, &headers).await?;
        ensure!(response.status == StatusCode::FORBIDDEN, "{response:?}");
    }
    let wrong = connection.get(API, &[("authorization", "Bearer invalid".to_owned())]).await?;
    ensure!(wrong.status == StatusCode::UNAUTHORIZED, "{wrong:?}");
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn api_server_discovers_adapter_without_errors() -> Result<()> {
    let namespace = begin_exclusive("discovery").await?;
    let client = namespace.client.clone();
    let log = ErrorLog::from_now_on()?;
    api_server::rediscover(&client, installation::API_SERVICE).await?;
    let resources = get_json(&client, API).await?;
    let names: Vec<_> =
        resources["resources"].as_array().into_iter().flatten().map(|r| r["name"].clone()).collect();
    ensure!(names == ["concurrency", "requests-per-second", "desired-replicas"], "{names:?}");
    wait::until("discovery and OpenAPI to contain the API", Duration::from_secs(90), || async {
        let index = get_json(&client, "/openapi/v3").await?;
        let address = index["paths"]["apis/external.metrics.k8s.io/v1beta1"]["serverRelativeURL"].clone();
        let address = address.as_str().context("OpenAPI does not contain the API")?;
        ensure!(get_json(&client, address).await?["openapi"] == "3.0.0");
        let groups = api_server::aggregated_discovery(&client).await?;
        let group = groups["items"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|group| group["metadata"]["name"] == "external.metrics.k8s.io");
        let freshness = group.map(|group| group["versions"][0]["freshness"].clone());
        ensure!(freshness == Some(json!("Current")), "discovery: {freshness:?}");
        Ok(Some(()))
    })
    .await?;
    // The deletion of a namespace is the first operation to fail when an API cannot be discovered.
    namespace.delete().await?;
    let errors = log.errors()?;
    ensure!(errors.is_empty(), "errors in the log of the API server:\n{}", errors.join("\n"));
    Ok(())
}
