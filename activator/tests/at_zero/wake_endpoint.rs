//! Calls of front doors, which wait for a pod and then send the request to it themselves.

use std::sync::Arc;
use std::time::Duration;

use activator::args::Limits;
use activator::workloads::StartFailure;
use activator::workloads::no_wake::NoWake;
use autoscaler::scaling::pod_start::StartCause;

use crate::support::pod::FakePod;
use crate::support::receiver::Receiver;
use crate::support::{Harness, LIMITS, eventually, within};

const POD: &str = "127.0.0.2";
const CLIENT: (&str, &str) = ("user-agent", "curl");

async fn with_receiver(harness: &Harness) -> Receiver {
    let receiver = Receiver::start().await;
    harness.receivers.send_replace([receiver.address].into());
    eventually("the receiver is connected", || async {
        harness.metric("rouse_activator_push_connections") == 1.0
    })
    .await;
    receiver
}

#[tokio::test]
async fn call_is_demand_and_held_until_the_workload_has_a_pod() {
    let harness = Harness::start().await;
    let mut receiver = with_receiver(&harness).await;
    let call = harness.door_call("/shop/web", CLIENT);
    let poke = receiver.next().await;
    assert_eq!(poke.messages[0].stat.average_concurrent_requests, 1.0);
    let another = harness.door_call("/shop/web/cart?a=b", CLIENT);
    harness.until_held(2).await;

    let pod = FakePod::start(POD, harness.pod_port).await;
    harness.pod_seen(POD, false).await;
    eventually("the pod is probed", || async { pod.probes() > 0 }).await;
    assert_eq!(harness.held(), 2);
    pod.becomes_ready();
    for call in [call, another] {
        let answer = within("answer", call).await.unwrap();
        assert_eq!((answer.status(), answer.body.len()), (200, 0));
    }
    assert_eq!((pod.served(), harness.held()), (0, 0), "the door sends the requests itself");
}

#[tokio::test]
async fn call_to_a_workload_with_a_pod_is_answered_at_once_and_does_not_count() {
    let harness = Harness::start().await;
    let mut receiver = with_receiver(&harness).await;
    let pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    harness.settled().await;
    for _ in 0..3 {
        assert_eq!(within("answer", harness.door_call("/shop/web", CLIENT)).await.unwrap().status(), 200);
    }
    receiver.next_beat().await;
    receiver.next_beat().await;
    assert_eq!((receiver.rest().len(), pod.served()), (0, 0));
}

#[tokio::test]
async fn call_for_a_request_that_is_no_load_does_not_wake() {
    let harness = Harness::with(LIMITS, |workload| {
        let rules = "GET /healthz, User-Agent: *UptimeRobot*".parse().unwrap();
        workload.no_wake = Some(Arc::new(NoWake { rules, ..NoWake::default() }));
    })
    .await;
    for (path, header) in [
        ("/shop/web/healthz", CLIENT),
        ("/shop/web", ("x-forwarded-uri", "/healthz?a=b")),
        ("/shop/web", ("x-original-uri", "/healthz")),
        ("/shop/web", ("user-agent", "UptimeRobot/2")),
        ("/shop/web", ("user-agent", "LoadBalancer/2")),
    ] {
        let answer = within("answer", harness.door_call(path, header)).await.unwrap();
        assert_eq!((answer.status(), harness.held()), (200, 0), "{path} {header:?}");
    }
    let held = harness.door_call("/shop/web", ("x-forwarded-uri", "/cart"));
    harness.until_held(1).await;
    held.abort();
    harness.until_held(0).await;
}

#[tokio::test]
async fn failed_wake_is_answered_as_a_held_request_is() {
    let harness = Harness::start().await;
    let held = harness.door_call("/shop/web", CLIENT);
    harness.until_held(1).await;
    let failure = StartFailure { cause: StartCause::ImagePull, awaited: None, given_up: true };
    harness.adapt(|workload| workload.start_failure = Some(failure.into())).await;
    for call in [held, harness.door_call("/shop/web", CLIENT)] {
        let answer = within("answer", call).await.unwrap();
        assert_eq!((answer.status(), answer.header("retry-after")), (503, "10"));
        assert_eq!(answer.problem()["reason"], "CannotStart");
    }
    for path in ["/shop/other", "/shop", "/"] {
        let answer = within("answer", harness.door_call(path, CLIENT)).await.unwrap();
        assert_eq!((answer.status(), &answer.problem()["reason"]), (404, &"UnknownWorkload".into()));
    }
}

#[tokio::test]
async fn held_calls_have_the_bounds_of_held_requests() {
    let limits = Limits { queue_depth: 2, wake_timeout: Duration::from_secs(5), ..LIMITS };
    let harness = Harness::with(limits, |_| {}).await;
    let held = [(); 2].map(|()| harness.door_call("/shop/web", CLIENT));
    harness.until_held(2).await;
    let refused = within("answer", harness.door_call("/shop/web", CLIENT)).await.unwrap();
    assert_eq!((refused.status(), refused.header("retry-after")), (503, "1"));
    for call in held {
        assert_eq!(within("answer", call).await.unwrap().problem()["reason"], "WakeTimeout");
    }
}
