//! The whole loop on a whole cluster: `make test-system`, or any cluster with Rouse and its images by KUBECONFIG.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use autoscaler::api::{Mode, ServerlessService};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};
use system_tests::installation::{self, begin_with_short_grace};
use system_tests::load::{self, Load, one_answer, until_answered};
use system_tests::namespace::{TestNamespace, pods_of};
use system_tests::timeline::{Entry, Happening, Timeline};
use system_tests::wait;
use system_tests::workload::{Workload, replicas, scale, state, until_mode, until_replicas};

/// Enough for a pod's start on a loaded machine.
const POD_START: Duration = Duration::from_secs(60);
/// Enough for a window of 6 s, a grace period of 3 s, the HPA's way down and the ends of pods.
const TO_ZERO: Duration = Duration::from_secs(180);

/// A workload that was applied at zero replicas and is held there.
async fn asleep(namespace: &TestNamespace, workload: Workload) -> Result<(Workload, String)> {
    let workload = Workload { replicas: 0, ..workload };
    workload.create(namespace).await?;
    let url = workload.url(namespace).await?;
    until_proxied(namespace, &workload.name, &url).await?;
    Ok((workload, url))
}

/// Waits until a workload that was just applied is reached through activators. Its slices name them at once, but kube-proxy
/// may not have read them yet, and refuses for a Service without any. Any answer will do: pods may have taken over meanwhile.
async fn until_proxied(namespace: &TestNamespace, name: &str, url: &str) -> Result<()> {
    until_mode(namespace, name, Mode::Proxy).await?;
    wait::until("anybody's answer", POD_START, || async {
        let answers = Load::probe(url).run(namespace).await?;
        Ok(answers.iter().any(|answer| answer.status != 0).then_some(()))
    })
    .await
}

/// When the workload's pod was seen to be Ready, in Unix milliseconds: among `entries`, or in what is still to come.
async fn became_ready(entries: &mut Vec<Entry>, timeline: &mut Timeline) -> Result<f64> {
    let find = |entries: &[Entry]| {
        entries.iter().find(|entry| matches!(entry.what, Happening::Ready(_))).map(|entry| entry.at_ms)
    };
    loop {
        if let Some(at) = find(entries) {
            return Ok(at);
        }
        entries.push(tokio::time::timeout(POD_START, timeline.next()).await.context("the pod to be Ready")??);
    }
}

async fn scaling_active(namespace: &TestNamespace, name: &str) -> Result<(String, String, String)> {
    let autoscalers: Api<HorizontalPodAutoscaler> = namespace.api();
    let status = autoscalers.get(name).await?.status.context("the HPA has no status yet")?;
    let condition = status.conditions.into_iter().flatten().find(|c| c.type_ == "ScalingActive");
    let condition = condition.context("the HPA says nothing of ScalingActive yet")?;
    Ok((condition.status, condition.reason.unwrap_or_default(), condition.message.unwrap_or_default()))
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: make test-system"]
async fn a_request_at_zero_is_held_and_answered() -> Result<()> {
    let namespace = begin_with_short_grace("wake").await?;
    for (name, attached) in [("managed", false), ("attached", true)] {
        let (workload, url) = asleep(&namespace, Workload { attached, ..Workload::new(name) }).await?;
        ensure!(replicas(&namespace, name).await? == 0, "{name} must sleep before the request");
        one_answer(&url, &namespace).await.with_context(|| format!("the held request of {name}"))?;
        until_replicas(&namespace, &workload.name, |n| n >= 1, Duration::from_secs(1)).await?;
    }
    namespace.delete().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: make test-system"]
async fn a_wake_reaches_the_scale_subresource_within_50_ms() -> Result<()> {
    let namespace = begin_with_short_grace("latency").await?;
    let (mut patched, mut answered, mut ahead) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..10 {
        let (workload, url) = asleep(&namespace, Workload::new(&format!("w{i}"))).await?;
        let mut timeline = Timeline::follow(&namespace, &workload.name);
        // The watch tells of changes only, so it must have seen the Deployment before the request is sent.
        tokio::time::timeout(POD_START, timeline.next()).await.context("the watches to be there")??;
        let answer = one_answer(&url, &namespace).await?;
        let mut entries = timeline.drain();
        let ready = became_ready(&mut entries, &mut timeline).await?;
        let patch = entries.iter().find(|entry| matches!(entry.what, Happening::Scaled { .. }));
        let patch = patch.with_context(|| format!("no new size was seen: {entries:?}"))?;
        patched.push(patch.at_ms - answer.sent_ms);
        answered.push(answer.ms);
        ahead.push(ready - (answer.sent_ms + answer.ms));
    }
    let p50 = load::quantile(&patched, 0.5);
    println!(
        "10 wakes: request -> /scale patched p50 {p50:.1} ms, max {:.1} ms; request -> answer p50 {:.0} ms, max {:.0} ms; \
         answered before the pod was seen Ready by p50 {:.0} ms, min {:.0} ms",
        load::quantile(&patched, 1.0),
        load::quantile(&answered, 0.5),
        load::quantile(&answered, 1.0),
        load::quantile(&ahead, 0.5),
        load::quantile(&ahead, 0.0)
    );
    ensure!(p50 <= 50.0, "request -> /scale patched took {p50:.1} ms at p50: {patched:?}");
    // The sidecar announces the app: a held request waits neither for the kubelet's next look nor for an EndpointSlice.
    ensure!(load::quantile(&ahead, 0.5) > 0.0, "requests were held until their pod was Ready: {ahead:?}");
    namespace.delete().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: make test-system"]
async fn the_stock_hpa_holds_four_pods_under_a_load_for_four() -> Result<()> {
    let namespace = begin_with_short_grace("steady").await?;
    // 200 % would start a panic at the second pod; here the HPA is to do all of it.
    let workload = Workload { target: "5".to_owned(), ..Workload::new("steady") }
        .annotated("panic-threshold-percentage", "1000");
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_proxied(&namespace, "steady", &url).await?;
    let load = Load::concurrency(&url, 20, Duration::from_millis(100), Duration::from_secs(75));
    let running = tokio::spawn(load.start(&namespace).await?.finish());
    until_replicas(&namespace, "steady", |n| n == 4, Duration::from_secs(45)).await?;
    let settled = tokio::time::Instant::now();
    while settled.elapsed() < Duration::from_secs(20) {
        let size = replicas(&namespace, "steady").await?;
        ensure!(
            size == 4,
            "the size went to {size} under a steady load; {}",
            state(&namespace, "steady").await
        );
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let (status, reason, message) = scaling_active(&namespace, "steady").await?;
    ensure!(
        (status.as_str(), reason.as_str()) == ("True", "ValidMetricFound"),
        "ScalingActive: {status} {reason} {message}"
    );
    ensure!(
        message.contains("external metric concurrency"),
        "ScalingActive is about another metric: {message}"
    );
    load::all_ok(&running.await??)?;
    namespace.delete().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: make test-system"]
async fn nothing_is_lost_on_the_way_to_zero_and_back() -> Result<()> {
    let namespace = begin_with_short_grace("zero").await?;
    for (name, attached, capacity) in
        [("managed", false, "0"), ("through", false, "-1"), ("attached", true, "0")]
    {
        let workload =
            Workload { attached, ..Workload::new(name) }.annotated("target-burst-capacity", capacity);
        workload.create(&namespace).await?;
        let url = workload.url(&namespace).await?;
        until_answered(&url, &namespace, POD_START).await?;
        let burst = Load::rate(&url, 20.0, Duration::from_secs(3));
        let mut sent = 0;
        // Knocks at ever other moments of the way down; each must be answered, whatever it meets.
        for moment in
            ["the start", "the switch to the activators", "the write of zero", "the end of the last pod"]
        {
            until_moment(&namespace, name, moment)
                .await
                .with_context(|| format!("{name}, waiting for {moment}"))?;
            let answers = burst.run(&namespace).await?;
            sent += answers.len();
            load::all_ok(&answers).with_context(|| format!("{name}, requests sent at {moment}"))?;
        }
        until_replicas(&namespace, name, |n| n == 0, TO_ZERO).await?;
        println!("{name}: {sent} requests around the way to zero, all answered 200");
    }
    namespace.delete().await
}

async fn until_moment(namespace: &TestNamespace, name: &str, moment: &str) -> Result<()> {
    match moment {
        "the switch to the activators" => {
            // Behind the activator always, the switch is no event; a pause within the window stands for it.
            let services: Api<ServerlessService> = namespace.api();
            wait::until("the switch", TO_ZERO, || async {
                let mode = services.get(name).await?.status.and_then(|status| status.mode);
                Ok((mode == Some(Mode::Proxy)).then_some(()))
            })
            .await
        }
        "the write of zero" => until_replicas(namespace, name, |n| n == 0, TO_ZERO).await.map(drop),
        "the end of the last pod" => {
            until_replicas(namespace, name, |n| n == 0, TO_ZERO).await?;
            wait::until("the last pod to be gone", POD_START, || async {
                let pods: Api<k8s_openapi::api::core::v1::Pod> = namespace.api();
                let left = pods.list(&ListParams::default().labels(&format!("app={name}"))).await?;
                Ok(left.items.is_empty().then_some(()))
            })
            .await
        }
        _ => Ok(()),
    }
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: make test-system"]
async fn without_the_adapter_the_hpa_says_so_and_keeps_its_size() -> Result<()> {
    let namespace = begin_with_short_grace("frozen").await?;
    let workload = Workload { min_replicas: 2, replicas: 2, ..Workload::new("frozen") };
    workload.create(&namespace).await?;
    let fine = |(status, ..): (String, String, String)| Ok((status == "True").then_some(()));
    wait::until("the HPA to read the metric", Duration::from_secs(90), || async {
        fine(scaling_active(&namespace, "frozen").await?)
    })
    .await?;
    installation::scale_part(&namespace.client, "metrics-adapter", 0).await?;
    let outcome = frozen(&namespace).await;
    installation::scale_part(&namespace.client, "metrics-adapter", 2).await?;
    outcome?;
    installation::until_ready(&namespace.client, Duration::from_secs(60)).await?;
    wait::until("the HPA to read the metric again", Duration::from_secs(60), || async {
        fine(scaling_active(&namespace, "frozen").await?)
    })
    .await?;
    namespace.delete().await
}

async fn frozen(namespace: &TestNamespace) -> Result<()> {
    wait::until("the HPA to report an error", Duration::from_secs(60), || async {
        let (status, reason, message) = scaling_active(namespace, "frozen").await?;
        if (status.as_str(), reason.as_str()) == ("False", "FailedGetExternalMetric") {
            Ok(Some(()))
        } else {
            bail!("{status} {reason} {message}")
        }
    })
    .await?;
    let frozen = tokio::time::Instant::now();
    while frozen.elapsed() < Duration::from_secs(20) {
        let size = replicas(namespace, "frozen").await?;
        ensure!(size == 2, "without data the size went to {size}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: make test-system"]
async fn only_who_may_read_the_metric_reads_it() -> Result<()> {
    let namespace = begin_with_short_grace("access").await?;
    let workload = Workload::new("guarded");
    workload.create(&namespace).await?;
    let bindings: Api<RoleBinding> = namespace.api();
    let binding = json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}],
    });
    bindings.create(&PostParams::default(), &serde_json::from_value(binding)?).await?;
    let value = wait::until("a reader to get the metric", Duration::from_secs(60), || async {
        let list: Value = serde_json::from_str(&raw_metric(&namespace, "reader").await?)?;
        Ok(Some(list))
    })
    .await?;
    ensure!(value["kind"] == "ExternalMetricValueList", "{value}");
    ensure!(value["items"][0]["metricName"] == "concurrency", "{value}");
    match raw_metric(&namespace, "stranger").await {
        Ok(body) => bail!("a stranger read {body}"),
        Err(error) => ensure!(format!("{error:#}").contains("forbidden"), "not refused but: {error:#}"),
    }
    namespace.delete().await
}

/// What `kubectl get --raw --as USER` does.
async fn raw_metric(namespace: &TestNamespace, user: &str) -> Result<String> {
    let path = format!(
        "/apis/external.metrics.k8s.io/v1beta1/namespaces/{}/concurrency?labelSelector=service%3Dguarded",
        namespace.name
    );
    let request = http::Request::get(path).header("Impersonate-User", user).body(Vec::new())?;
    Ok(namespace.client.request_text(request).await?)
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: make test-system"]
async fn a_burst_is_answered_ahead_of_the_hpa() -> Result<()> {
    let namespace = begin_with_short_grace("panic").await?;
    let workload = Workload { target: "5".to_owned(), ..Workload::new("burst") };
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    wait::until("the first pod", POD_START, || async {
        let pods = pods_of(&namespace, "burst").await?;
        Ok(pods.iter().any(system_tests::namespace::is_ready).then_some(()))
    })
    .await?;
    let mut timeline = Timeline::follow(&namespace, "burst");
    let load = Load::concurrency(&url, 30, Duration::from_millis(200), Duration::from_secs(15));
    let answers = load.run(&namespace).await?;
    load::all_ok(&answers)?;
    let first = timeline.drain().into_iter().find(|entry| matches!(entry.what, Happening::Scaled { .. }));
    let first = first.with_context(|| "no new size under six times the target")?;
    let began = answers.iter().map(|answer| answer.sent_ms).fold(f64::INFINITY, f64::min);
    println!("burst of 30 on one pod for 5: {:?} after {:.0} ms", first.what, first.at_ms - began);
    ensure!(
        matches!(&first.what, Happening::Scaled { by: Some(by), .. } if by == "zero-scaler"),
        "the first to act was not the panic override but {:?}",
        first.what
    );
    namespace.delete().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: make test-system"]
async fn a_workload_that_may_not_sleep_and_is_put_to_zero_stays_there() -> Result<()> {
    let namespace = begin_with_short_grace("paused").await?;
    let mut workload = Workload::new("paused");
    workload.annotations.remove("scale-to-zero");
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_answered(&url, &namespace, POD_START).await.context("while it is awake")?;
    scale(&namespace, "paused", 0).await?;
    let refused = wait::until("a request to be refused by name", Duration::from_secs(60), || async {
        let answers = Load::one(&url).run(&namespace).await?;
        Ok(answers.into_iter().find(|answer| answer.status == 503))
    })
    .await?;
    ensure!(refused.error.contains("paused"), "the refusal does not say why: {}", refused.error);
    ensure!(replicas(&namespace, "paused").await? == 0, "a paused workload was woken");
    namespace.delete().await
}
