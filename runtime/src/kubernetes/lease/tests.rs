//! Replicas on a paused clock over an API in memory.

use fake_api::{FakeApi, Outage};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::*;

const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/rouse-system/leases/part";

struct Replica {
    leadership: Leadership,
    stop: CancellationToken,
    task: AbortOnDropHandle<()>,
}

impl Replica {
    fn start(api: &FakeApi, identity: &str) -> Self {
        let stop = CancellationToken::new();
        let lease = Lease::new(api.client(), "rouse-system", "part", identity);
        let (leadership, run) = lease.elect(stop.clone());
        Self { leadership, stop, task: AbortOnDropHandle::new(tokio::spawn(run)) }
    }

    fn leads(&self) -> bool {
        self.leadership.is_leader()
    }
}

async fn after(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}

/// Two replicas, of which `a` leads.
async fn two(api: &FakeApi) -> (Replica, Replica) {
    let a = Replica::start(api, "a");
    after(0.1).await;
    let b = Replica::start(api, "b");
    after(0.1).await;
    assert_eq!((a.leads(), b.leads()), (true, false));
    assert_eq!(b.leadership.leader().as_deref(), Some("a"));
    (a, b)
}

fn spec(api: &FakeApi) -> Value {
    api.get(PATH).unwrap()["spec"].clone()
}

#[tokio::test(start_paused = true)]
async fn one_of_many_leads_and_followers_ask_for_nothing() {
    let api = FakeApi::default();
    let replicas: Vec<_> = ["a", "b", "c"].map(|name| Replica::start(&api, name)).into();
    for _ in 0..100 {
        after(1.0).await;
        assert_eq!(replicas.iter().filter(|replica| replica.leads()).count(), 1);
    }
    let writes = api.requests().iter().filter(|request| request.starts_with("PUT")).count();
    assert!((45..=51).contains(&writes), "one renewal each 2 s, but there were {writes}");
    assert_eq!(spec(&api)["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_clean_exit_hands_over_at_once() {
    let api = FakeApi::default();
    let (mut a, b) = two(&api).await;
    a.stop.cancel();
    a.leadership.released().await;
    assert!(!a.leadership.is_leader());
    after(0.01).await;
    assert!(b.leads());
    assert_eq!(a.leadership.leader().as_deref(), Some("b"), "it knows to the end whom to ask");
    after(30.0).await;
    assert!(!a.leads() && b.leads());
    assert_eq!(spec(&api)["leaseTransitions"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_leader_lost_without_a_word_is_followed_after_the_lease_and_not_before() {
    let api = FakeApi::default();
    let (a, b) = two(&api).await;
    a.task.abort();
    after(DURATION.as_secs_f64() - 2.5).await;
    assert!(!b.leads(), "its lease still holds");
    after(2.6).await;
    assert!(b.leads());
}

#[tokio::test(start_paused = true)]
async fn without_the_api_a_leader_stops_before_anybody_else_may_begin() {
    for outage in [Outage::Failing, Outage::Hanging] {
        let api = FakeApi::default();
        let (a, b) = two(&api).await;
        after(10.0).await;
        api.set_outage(Some(outage));
        after(RENEW_DEADLINE.as_secs_f64() - 2.1).await;
        assert!(a.leads(), "an outage of some seconds is no change: {outage:?}");
        after(2.2).await;
        assert!(!a.leads(), "{outage:?}");
        for _ in 0..60 {
            after(1.0).await;
            assert!(!a.leads() && !b.leads(), "{outage:?}");
        }
        api.set_outage(None);
        after(5.0).await;
        assert!(a.leads() != b.leads(), "{outage:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn clocks_that_differ_do_not_matter() {
    let api = FakeApi::default();
    let (_a, b) = two(&api).await;
    for time in ["1970-01-01T00:00:00.000000Z", "2970-01-01T00:00:00.000000Z"] {
        let mut object = api.get(PATH).unwrap();
        object["spec"]["renewTime"] = time.into();
        api.put(PATH, object);
        after(0.1).await;
        assert!(!b.leads(), "renewed just now, whatever it says: {time}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_in_other_hands_is_given_up_and_one_that_was_edited_or_deleted_is_not() {
    let api = FakeApi::default();
    let a = Replica::start(&api, "a");
    after(0.1).await;
    let mut object = api.get(PATH).unwrap();
    object["metadata"]["labels"] = json!({"edited": "by hand"});
    api.put(PATH, object.clone());
    after(3.0).await;
    assert!(a.leads());
    assert_eq!(api.get(PATH).unwrap()["metadata"]["labels"]["edited"], "by hand");
    api.remove(PATH);
    after(3.0).await;
    assert!(a.leads());
    object["spec"]["holderIdentity"] = "b".into();
    object["spec"]["renewTime"] = "2030-01-01T00:00:00.000000Z".into();
    api.put(PATH, object);
    after(0.01).await;
    assert!(!a.leads());
    assert_eq!(a.leadership.leader().as_deref(), Some("b"));
    after(DURATION.as_secs_f64() + 0.1).await;
    assert!(a.leads(), "b never renewed it");
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_starts_again_under_its_name_goes_on_at_once() {
    let api = FakeApi::default();
    let (a, b) = two(&api).await;
    drop(a.task);
    let again = Replica::start(&api, "a");
    after(0.1).await;
    assert!(again.leads() && !b.leads());
    assert_eq!(spec(&api)["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_leadership_is_told_when_it_comes() {
    let api = FakeApi::default();
    let mut a = Replica::start(&api, "a");
    a.leadership.acquired().await;
    api.set_outage(Some(Outage::Hanging));
    let began = Instant::now();
    a.leadership.lost().await;
    assert!(began.elapsed() <= RENEW_DEADLINE, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_object_of_nonsense_keeps_nobody_waiting_for_ever() {
    for seconds in [json!(-1), json!(0), json!(i32::MAX), Value::Null] {
        let api = FakeApi::default();
        api.put(PATH, json!({"spec": {"holderIdentity": "gone", "leaseDurationSeconds": seconds}}));
        let a = Replica::start(&api, "a");
        after(61.0).await;
        assert!(a.leads(), "{seconds}");
    }
}

#[tokio::test(start_paused = true)]
async fn leadership_is_not_believed_after_its_time() {
    let api = FakeApi::default();
    let a = Replica::start(&api, "a");
    after(0.1).await;
    assert!(a.leads());
    // The task that would say otherwise does not come to run, as in a process that was stopped.
    a.task.abort();
    after(RENEW_DEADLINE.as_secs_f64()).await;
    assert!(!a.leads());
    assert!(Leadership::always_leading().is_leader());
}
