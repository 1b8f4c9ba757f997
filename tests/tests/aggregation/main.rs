//! The adapter behind the real aggregation layer: whom it believes, whom it asks, and what the API server makes of it:
//! `make test-system`.
//!
//! It is spoken to directly, on a forwarded port, by clients that show what they like. For that a CA of the test's own is published
//! beside the front proxy's, and for a moment the adapters may ask nobody: both is put back.

#![allow(clippy::indexing_slicing, reason = "what is missing in an answer is null")]

mod api_server;
mod direct;
mod front_proxy;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::StatusCode;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Role, RoleBinding};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use system_tests::installation::{self, begin};
use system_tests::metric::{API, ask};
use system_tests::namespace::TestNamespace;
use system_tests::wait;

use api_server::ErrorLog;
use direct::Adapter;
use front_proxy::TestCa;

const PUBLISHED: Duration = Duration::from_secs(30);
/// A review's answer is believed for ten seconds.
const FORGOTTEN: Duration = Duration::from_secs(30);
/// Who the HPA is.
const HPA: &str = "system:serviceaccount:kube-system:horizontal-pod-autoscaler";
/// What lets the adapters ask.
const DELEGATOR: &str = "rouse-metrics-adapter-auth-delegator";
/// Questions of one kind. Others ask for reviews meanwhile, but not so often.
const QUESTIONS: usize = 20;

#[tokio::test]
#[ignore = "needs a cluster with Rouse: make test-system"]
async fn the_front_proxy_is_believed_and_nobody_else() -> Result<()> {
    let namespace = begin("aggregation").await?;
    let client = namespace.client.clone();
    let adapter = Adapter::any(&client).await?;
    handshakes(&adapter).await.context("check 1: handshakes")?;
    certificates_that_mean_nothing(&adapter).await.context("check 1: certificates")?;
    let ca = TestCa::publish(&client).await?;
    let outcome = checks_with_a_certificate(&namespace, &adapter, &ca).await;
    ca.withdraw(&client).await?;
    outcome?;
    headers_of_a_token(&namespace, &adapter).await.context("check 8: smuggled headers")?;
    namespace.delete().await
}

async fn checks_with_a_certificate(namespace: &TestNamespace, adapter: &Adapter, ca: &TestCa) -> Result<()> {
    rotation(adapter, ca).await.context("check 2: the CA")?;
    let mut proxy = adapter.connect(Some(ca.client("front-proxy-client")?)).await?;
    let index = proxy.get_as("system:aggregator", &[], "/openapi/v3").await?;
    ensure!(index.status == StatusCode::OK, "check 3: a user without groups got {index:?}");
    masters(adapter, &mut proxy).await.context("check 4: masters")?;
    reviews(namespace, adapter, &mut proxy).await.context("check 5: reviews")?;
    entity_tags(&mut proxy).await.context("check 7: discovery")?;
    let client = &namespace.client;
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let subjects = bindings.get(DELEGATOR).await?.subjects;
    let bind = |subjects: Value| {
        let (bindings, patch) = (bindings.clone(), json!({"subjects": subjects}));
        async move { bindings.patch(DELEGATOR, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop) }
    };
    bind(json!([])).await?;
    let outcome = nobody_to_ask(&mut proxy).await.context("check 6: nobody to ask");
    bind(json!(subjects)).await?;
    outcome?;
    wait::until("the adapter to be let ask again", FORGOTTEN, || async {
        let mut proxy = adapter.connect(Some(ca.client("front-proxy-client")?)).await?;
        let answer = proxy.get_as("somebody-else", &[], API).await?;
        Ok((answer.status == StatusCode::OK).then_some(()))
    })
    .await
}

/// All that a front proxy may speak, by the name that it uses.
async fn handshakes(adapter: &Adapter) -> Result<()> {
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for protocol in ["h2", "http/1.1"] {
            let mut anybody = adapter.connect_by(version, protocol, None).await?;
            let health = anybody.get("/healthz", &[]).await?;
            ensure!(health.status == StatusCode::OK, "{version:?}, {protocol}: {health:?}");
        }
    }
    Ok(())
}

/// No certificate, and one of a CA that nobody knows: either is nobody, whatever the headers say.
async fn certificates_that_mean_nothing(adapter: &Adapter) -> Result<()> {
    let mut nobody = adapter.connect(None).await?;
    let mut stranger = adapter.connect(Some(TestCa::new()?.client("front-proxy-client")?)).await?;
    for peer in [&mut nobody, &mut stranger] {
        let answer = peer.get_as("admin", &["system:masters"], API).await?;
        ensure!(answer.status == StatusCode::FORBIDDEN, "{answer:?}");
        ensure!(answer.message().contains("system:anonymous"), "{answer:?}");
    }
    Ok(())
}

/// A CA counts when it is published, without a restart, and then only for the names that are published.
async fn rotation(adapter: &Adapter, ca: &TestCa) -> Result<()> {
    let restarts = adapter.restarts().await?;
    wait::until("the new CA to be believed", PUBLISHED, || async {
        let mut proxy = adapter.connect(Some(ca.client("front-proxy-client")?)).await?;
        let answer = proxy.get_as("jane", &[], API).await?;
        Ok((answer.status == StatusCode::OK).then_some(()))
    })
    .await?;
    let mut other = adapter.connect(Some(ca.client("somebody")?)).await?;
    let answer = other.get_as("admin", &["system:masters"], API).await?;
    ensure!(answer.status == StatusCode::FORBIDDEN, "another name of the same CA: {answer:?}");
    ensure!(adapter.restarts().await? == restarts, "it was started anew");
    Ok(())
}

async fn masters(adapter: &Adapter, proxy: &mut direct::Connection) -> Result<()> {
    let before = adapter.reviews().await?;
    for i in 0..QUESTIONS {
        let answer = proxy.get_as(&format!("master-{i}"), &["system:masters"], API).await?;
        ensure!(answer.status == StatusCode::OK, "{answer:?}");
    }
    let asked = adapter.reviews().await? - before;
    ensure!(asked < QUESTIONS, "{asked} reviews for {QUESTIONS} questions of masters");
    Ok(())
}

/// What is asked is whether this user may list this metric in this namespace, and that once in ten seconds.
async fn reviews(namespace: &TestNamespace, adapter: &Adapter, proxy: &mut direct::Connection) -> Result<()> {
    let here = format!("{API}/namespaces/{}", namespace.name);
    let before = adapter.reviews().await?;
    for _ in 0..QUESTIONS {
        let answer = proxy.get_as(HPA, &[], &format!("{here}/concurrency?labelSelector=service%3Dx")).await?;
        ensure!(
            answer.status == StatusCode::NOT_FOUND,
            "the HPA may ask, and there is no such Service: {answer:?}"
        );
    }
    let asked = adapter.reviews().await? - before;
    ensure!((1..QUESTIONS).contains(&asked), "{asked} reviews for {QUESTIONS} times the same question");
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
                let answer = proxy.get_as(&format!("may-{user}"), &[], &path).await?;
                if answer.status == expected {
                    return Ok::<_, anyhow::Error>(true);
                }
                last = Some(answer);
                // A refusal is believed for a while, too, and a new role takes a moment to be known.
                tokio::time::sleep(FORGOTTEN / 100).await;
            }
            Ok(false)
        }
        .await?;
        ensure!(as_expected, "who may {user} concurrency here, at {path}: {last:?}");
    }
    Ok(())
}

/// Lets the user `may-VERB` do that with the metric `concurrency`.
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

/// Nobody gets in whom nobody can be asked about; what needs no answer goes on.
async fn nobody_to_ask(proxy: &mut direct::Connection) -> Result<()> {
    let mut refused = None;
    for i in 0..100 {
        let answer = proxy.get_as(&format!("unknown-{i}"), &[], API).await?;
        if answer.status.is_server_error() {
            refused = Some(answer);
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let refused = refused.context("everybody was still let in")?;
    ensure!(refused.json()["kind"] == "Status", "{refused:?}");
    let health = proxy.get("/healthz", &[]).await?;
    ensure!(health.status == StatusCode::OK, "{health:?}");
    let answer = proxy.get_as("master", &["system:masters"], API).await?;
    ensure!(answer.status == StatusCode::OK, "{answer:?}");
    Ok(())
}

/// The list of metrics is fixed, and so is its tag.
async fn entity_tags(proxy: &mut direct::Connection) -> Result<()> {
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
    let known = proxy.get("/apis", &as_aggregator(Some(tag))).await?;
    ensure!(known.status == StatusCode::NOT_MODIFIED && known.body.is_empty(), "{known:?}");
    Ok(())
}

/// Who shows a token is whom the token says.
async fn headers_of_a_token(namespace: &TestNamespace, adapter: &Adapter) -> Result<()> {
    let token = direct::token_of_nobody_special(namespace).await?;
    let mut caller = adapter.connect(None).await?;
    let metric = format!("{API}/namespaces/{}/concurrency?labelSelector=service%3Dx", namespace.name);
    let bearer = ("authorization", format!("Bearer {token}"));
    let discovered = caller.get(API, std::slice::from_ref(&bearer)).await?;
    ensure!(discovered.status == StatusCode::OK, "everybody known may discover: {discovered:?}");
    for smuggled in [
        vec![("x-remote-user", "admin".to_owned()), ("x-remote-group", "system:masters".to_owned())],
        vec![("impersonate-user", "admin".to_owned()), ("impersonate-group", "system:masters".to_owned())],
    ] {
        let headers: Vec<_> = smuggled.into_iter().chain([bearer.clone()]).collect();
        let answer = caller.get(&metric, &headers).await?;
        ensure!(answer.status == StatusCode::FORBIDDEN, "{answer:?}");
    }
    let wrong = caller.get(API, &[("authorization", "Bearer of-nobody".to_owned())]).await?;
    ensure!(wrong.status == StatusCode::UNAUTHORIZED, "{wrong:?}");
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: make test-system"]
async fn the_api_server_discovers_it_without_a_complaint() -> Result<()> {
    let namespace = begin("discovery").await?;
    let client = namespace.client.clone();
    let log = ErrorLog::from_now_on()?;
    api_server::look_again(&client, installation::API_SERVICE).await?;
    let resources = ask(&client, API).await?;
    let names: Vec<_> =
        resources["resources"].as_array().into_iter().flatten().map(|r| r["name"].clone()).collect();
    ensure!(names == ["concurrency", "requests-per-second", "desired-replicas"], "{names:?}");
    wait::until("discovery and OpenAPI to have it", Duration::from_secs(90), || async {
        let index = ask(&client, "/openapi/v3").await?;
        let address = index["paths"]["apis/external.metrics.k8s.io/v1beta1"]["serverRelativeURL"].clone();
        let address = address.as_str().context("OpenAPI does not have it")?;
        ensure!(ask(&client, address).await?["openapi"] == "3.0.0");
        let groups = api_server::aggregated_discovery(&client).await?;
        let ours = groups["items"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|group| group["metadata"]["name"] == "external.metrics.k8s.io");
        let freshness = ours.map(|group| group["versions"][0]["freshness"].clone());
        ensure!(freshness == Some(json!("Current")), "discovery: {freshness:?}");
        Ok(Some(()))
    })
    .await?;
    // It is the namespace's deletion that suffers first from an API that cannot be discovered.
    namespace.delete().await?;
    let complaints = log.complaints()?;
    ensure!(complaints.is_empty(), "the API server complained:\n{}", complaints.join("\n"));
    Ok(())
}
