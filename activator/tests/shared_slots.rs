//! Several activators in front of the same pods: no pod exceeds its limit, no pod is idle while a
//! request waits in any activator, and a lost activator does not keep the others from its slots.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
#![allow(unreachable_pub, missing_debug_implementations, reason = "shared by test files, not published")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use support::group::{Group, pod_ip};
use support::pod::FakePod;
use support::work_log::{Figures, NUMBER, Stalls, TAKES};
use support::{ReceivedResponse, client, eventually, within};
use tokio::task::JoinHandle;
use tokio::time::Instant;

async fn await_all_responses(requests: Vec<JoinHandle<ReceivedResponse>>) {
    for request in requests {
        assert_eq!(within("answer", request).await.unwrap().status(), 200);
    }
}

fn most(group: &Group) -> Vec<usize> {
    group.pods.iter().map(FakePod::most).collect()
}

/// knative/serving#13331: requests at one activator could not use the pods of the others.
#[tokio::test]
async fn requests_at_one_activator_use_pods_of_all() {
    let group = Group::start(3, 20, 1).await;
    group.see_pods().await;
    group.close_gates();
    let busy = &group.members[0].harness;
    let mut requests: Vec<_> = (0..20).map(|_| busy.get("/")).collect();
    group.until_each_runs(1).await;
    requests.extend((0..5).map(|_| busy.get("/")));
    busy.until_held(5).await;
    group.release(5);
    await_all_responses(requests).await;
    assert_eq!(most(&group), [1; 20]);
}

#[tokio::test]
async fn lent_slots_return_to_the_activator_that_needs_them() {
    let group = Group::start(3, 6, 2).await;
    group.see_pods().await;
    for member in &group.members {
        group.close_gates();
        let requests: Vec<_> = (0..12).map(|_| member.harness.get("/")).collect();
        group.until_each_runs(2).await;
        group.release(2);
        await_all_responses(requests).await;
    }
    assert_eq!(most(&group), [2; 6]);
}

#[tokio::test]
async fn activator_without_own_slots_serves_a_wake() {
    // One of them owns the only slot, and has no request for which it would probe the pod.
    for (holder, of_workload) in (0..3).flat_map(|holder| [(holder, 1), (holder, 0)]) {
        let group = Group::start(3, 1, of_workload).await;
        let request = group.members[holder].harness.get("/");
        group.members[holder].harness.until_held(1).await;
        for member in &group.members {
            member.harness.limited_pod_seen(&pod_ip(1), false, 1 - of_workload).await;
        }
        assert_eq!(within("answer", request).await.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn activators_together_keep_to_the_limit_of_each_queue_proxy() {
    let group = Group::start(3, 2, 0).await;
    for member in &group.members {
        member.harness.limited_pod_seen(&pod_ip(1), true, 2).await;
        member.harness.limited_pod_seen(&pod_ip(2), true, 4).await;
        member.harness.settled().await;
    }
    group.close_gates();
    let requests: Vec<_> =
        group.members.iter().flat_map(|member| (0..6).map(|_| member.harness.get("/"))).collect();
    let running = || group.pods.iter().map(FakePod::running).sum::<usize>();
    eventually("all slots are used", || async { running() == 6 }).await;
    group.release(20);
    await_all_responses(requests).await;
    assert_eq!(most(&group), [2, 4]);
}

#[tokio::test]
async fn others_use_slots_of_pods_that_their_owner_cannot_use() {
    let group = Group::start(2, 4, 1).await;
    let [with_pods, without_pods] = [&group.members[0].harness, &group.members[1].harness];
    for pod in 1..=4 {
        with_pods.pod_seen(&pod_ip(pod), true).await;
        without_pods.pod_seen(&pod_ip(pod), false).await;
    }
    with_pods.settled().await;
    without_pods.settled().await;
    group.close_gates();
    let requests: Vec<_> = (0..4).map(|_| with_pods.get("/")).collect();
    group.until_each_runs(1).await;
    group.release(1);
    await_all_responses(requests).await;
}

#[tokio::test]
async fn others_take_over_slots_of_a_lost_activator() {
    let mut group = Group::start(3, 12, 1).await;
    group.see_pods().await;
    group.close_gates();
    // Some of these run on slots of the others.
    let lost: Vec<_> = (0..10).map(|_| group.members[2].harness.get("/")).collect();
    let running = |group: &Group| group.pods.iter().map(FakePod::running).sum::<usize>();
    eventually("ten run", || async { running(&group) == 10 }).await;
    // Kubernetes has not noticed yet: the address stays behind the Service.
    drop(group.members.pop());
    lost.into_iter().for_each(|request| request.abort());
    eventually("its requests have ended", || async { running(&group) == 0 }).await;
    let requests: Vec<_> = (0..12).map(|_| group.members[0].harness.get("/")).collect();
    group.until_each_runs(1).await;
    group.release(2);
    await_all_responses(requests).await;
    assert_eq!(most(&group), [1; 12]);
}

#[tokio::test]
async fn new_activator_shares_slots_with_the_others() {
    let mut group = Group::start(1, 9, 1).await;
    group.join().await;
    group.join().await;
    group.connected().await;
    group.see_pods().await;
    for member in &group.members {
        group.close_gates();
        let requests: Vec<_> = (0..9).map(|_| member.harness.get("/")).collect();
        group.until_each_runs(1).await;
        group.release(1);
        await_all_responses(requests).await;
    }
}

#[tokio::test]
async fn stopping_activator_borrows_slots_for_held_requests() {
    let group = Group::start(2, 2, 1).await;
    let stopping = &group.members[0];
    let requests: Vec<_> = (0..4).map(|_| stopping.harness.get("/")).collect();
    stopping.harness.until_held(4).await;
    group.leave(stopping);
    stopping.harness.stop.cancel();
    for pod in 1..=2 {
        for member in &group.members {
            member.harness.pod_seen(&pod_ip(pod), true).await;
        }
    }
    await_all_responses(requests).await;
}

#[tokio::test]
async fn deleted_pod_does_not_block_other_slots() {
    let group = Group::start(2, 3, 1).await;
    group.see_pods().await;
    group.close_gates();
    let first: Vec<_> = (0..3).map(|_| group.members[0].harness.get("/")).collect();
    group.until_each_runs(1).await;
    let next: Vec<_> = (0..4).map(|_| group.members[1].harness.get("/")).collect();
    group.members[1].harness.until_held(4).await;
    // Its owner and its borrower see the deletion one after the other.
    for member in &group.members {
        member.harness.pod_gone(&pod_ip(2)).await;
        member.harness.settled().await;
    }
    group.release(10);
    await_all_responses(first).await;
    await_all_responses(next).await;
    assert_eq!(group.pods[1].served(), 1, "only the request that already ran on it");
}

/// Sixty clients send one request after the other to the first `activators`, until `requests` are
/// sent.
async fn run(group: &Group, activators: usize, requests: usize, work: std::ops::Range<usize>) -> Figures {
    let next = Arc::new(AtomicUsize::new(0));
    let clients = (0..60).map(|number| {
        let url = group.members[number % activators].harness.url("/");
        let (next, work) = (next.clone(), work.clone());
        tokio::spawn(async move {
            let (client, mut sent) = (client(), Vec::new());
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= requests {
                    return sent;
                }
                // Varies from request to request.
                let takes = work.start + number * 7919 % work.len();
                let request = Request::get(&url).header(NUMBER, number).header(TAKES, takes);
                sent.push((number, Instant::now()));
                let answer = client.request(request.body(Full::<Bytes>::default()).unwrap()).await.unwrap();
                assert_eq!(answer.status(), 200);
                answer.into_body().collect().await.unwrap();
            }
        })
    });
    let mut sent = vec![Instant::now(); requests];
    for client in clients.collect::<Vec<_>>() {
        for (number, at) in client.await.unwrap() {
            sent[number] = at;
        }
    }
    let logs: Vec<_> = group.pods.iter().map(FakePod::log).collect();
    let messages: Vec<_> =
        group.members.iter().map(|m| m.harness.metric("rouse_activator_slot_messages_total")).collect();
    let figures = Figures::of(&logs, &sent);
    println!("{figures:?}, messages {messages:?}");
    figures
}

#[tokio::test]
async fn no_pod_exceeds_its_limit_under_load_and_all_are_used() {
    let group = Group::start(3, 20, 1).await;
    group.see_pods().await;
    let figures = run(&group, 3, 1_200, 10..30).await;
    assert_eq!((figures.requests, most(&group)), (1_200, vec![1; 20]));
    // Wide bounds, for a busy machine. The ignored test below checks the real ones.
    assert!(figures.spread < 1.0, "{figures:?}");
    assert!(figures.idle_while_waiting[2] < Duration::from_secs(2), "{figures:?}");
}

#[tokio::test]
async fn no_app_without_sidecar_gets_two_requests_at_a_time() {
    let group = Group::without_sidecars(2, 20, 1).await;
    group.see_pods().await;
    let figures = run(&group, 2, 1_200, 10..30).await;
    assert_eq!((figures.requests, most(&group)), (1_200, vec![1; 20]));
    // Wide, for a busy machine.
    assert!(figures.idle_while_waiting[2] < Duration::from_secs(2), "{figures:?}");
}

#[tokio::test]
async fn no_app_without_sidecar_gets_two_requests_while_pods_come_and_go() {
    let group = Group::without_sidecars(2, 20, 1).await;
    let served = || group.pods.iter().map(FakePod::served).sum::<usize>();
    let size_changes = async {
        // All pods come one by one, and half of them leave again.
        for (pod, is_gone) in (1..=20).map(|pod| (pod, false)).chain((1..=10).map(|pod| (pod, true))) {
            let before = served();
            for member in &group.members {
                match is_gone {
                    true => member.harness.pod_gone(&pod_ip(pod)).await,
                    false => member.harness.plain_pod_seen(&pod_ip(pod), true, Value::Null).await,
                }
            }
            eventually("requests are served", || async { served() > before + 20 }).await;
        }
    };
    let (figures, ()) = tokio::join!(run(&group, 2, 1_500, 10..30), size_changes);
    assert_eq!((figures.requests, most(&group)), (1_500, vec![1; 20]));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes two minutes on an otherwise idle machine: cargo test -p activator --test shared_slots -- --ignored"]
async fn no_pod_is_idle_for_a_minute_while_a_request_waits() {
    // Clients of all activators, then of one only.
    for activators in [3, 1] {
        let group = Group::start(3, 20, 1).await;
        group.see_pods().await;
        let stalls = Stalls::watch();
        let figures = run(&group, activators, 12_000, 50..150).await;
        let stalled = stalls.longest();
        println!("the machine was stalled for up to {stalled:?}");
        assert_eq!((figures.requests, most(&group)), (12_000, vec![1; 20]));
        assert!(figures.spread <= 0.1, "{figures:?}");
        let idle = figures.idle_while_waiting[2].saturating_sub(stalled);
        assert!(idle <= Duration::from_millis(20), "{figures:?}, {stalled:?}");
    }
}
