//! A Service that selects other pods while requests arrive.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
#![allow(unreachable_pub, missing_debug_implementations, reason = "shared by test files, not published")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use activator::workloads::Workload;
use autoscaler::contract::selector::Selector;
use support::pod::FakePod;
use support::{Harness, eventually, within};
use tokio::task::JoinSet;

const STABLE: &str = "127.0.0.2";
const CANARY: &str = "127.0.0.3";

fn select(app: &str) -> impl FnOnce(&mut Workload) + use<> {
    let selector = Selector::parse(&format!("app={app}")).unwrap();
    |workload| workload.selector = Some(selector)
}

#[tokio::test]
async fn requests_move_to_the_selected_pods_and_none_is_lost() {
    let harness = Arc::new(Harness::start().await);
    let stable = FakePod::ready(STABLE, harness.pod_port).await;
    let canary = FakePod::ready(CANARY, harness.pod_port).await;
    harness.pod_seen(STABLE, true).await;
    harness.pod_of("canary", CANARY, true).await;
    let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut clients = JoinSet::new();
    for _ in 0..8 {
        let (harness, stop, sent) = (harness.clone(), stop.clone(), sent.clone());
        clients.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let answer = within("answer", harness.get("/")).await.unwrap();
                assert_eq!(answer.status(), 200, "{}", answer.problem());
                sent.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    eventually("requests are sent", || async { sent.load(Ordering::Relaxed) > 200 }).await;
    assert_eq!(canary.served(), 0);
    harness.adapt(select("canary")).await;
    eventually("requests reach the canary", || async { canary.served() > 0 }).await;
    // A request may have chosen its pod a moment before.
    eventually("no request runs on the others", || async { stable.running() == 0 }).await;
    let before = (stable.served(), canary.served());
    eventually("more requests are sent", || async { canary.served() > before.1 + 200 }).await;
    stop.store(true, Ordering::Relaxed);
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    assert!(stable.served() <= before.0 + 8, "{} after {}", stable.served(), before.0);
    assert_eq!(stable.served() + canary.served(), sent.load(Ordering::Relaxed));
}

#[tokio::test]
async fn held_request_waits_for_a_pod_that_the_service_selects() {
    let harness = Harness::start().await;
    let canary = FakePod::ready(CANARY, harness.pod_port).await;
    harness.pod_of("canary", CANARY, true).await;
    let request = harness.get("/");
    harness.until_held(1).await;
    harness.settled().await;
    assert_eq!((harness.held(), canary.served(), canary.probes()), (1, 0, 0));
    harness.adapt(select("canary")).await;
    let answer = within("answer", request).await.unwrap();
    assert_eq!((answer.status(), answer.body.as_ref()), (200, CANARY.as_bytes()));
}
