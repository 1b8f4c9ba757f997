//! Candidates on a paused clock, against an API server in memory.

use fake_api::{FakeApi, Outage};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::election::RENEW_DEADLINE;
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

/// Two candidates, of which `a` leads.
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
async fn one_candidate_leads_and_followers_send_no_requests() {
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
async fn released_lease_is_acquired_at_once() {
    let api = FakeApi::default();
    let (mut a, b) = two(&api).await;
    a.stop.cancel();
    a.leadership.released().await;
    assert!(!a.leadership.is_leader());
    after(0.01).await;
    assert!(b.leads());
    assert_eq!(a.leadership.leader().as_deref(), Some("b"), "it still reports the leader");
    after(30.0).await;
    assert!(!a.leads() && b.leads());
    assert_eq!(spec(&api)["leaseTransitions"], 2);
}

#[tokio::test(start_paused = true)]
async fn lease_of_crashed_leader_is_acquired_after_it_expires() {
    let api = FakeApi::default();
    let (a, b) = two(&api).await;
    a.task.abort();
    after(DURATION.as_secs_f64() - 2.5).await;
    assert!(!b.leads(), "its lease still holds");
    after(2.6).await;
    assert!(b.leads());
}

#[tokio::test(start_paused = true)]
async fn leader_without_api_server_stops_before_another_may_begin() {
    for outage in [Outage::Failing, Outage::Hanging, Outage::Shedding(503)] {
        let api = FakeApi::default();
        let (a, b) = two(&api).await;
        after(10.0).await;
        api.set_outage(Some(outage));
        after(RENEW_DEADLINE.as_secs_f64() - 2.1).await;
        assert!(a.leads(), "an outage of some seconds is not a change: {outage:?}");
        after(2.2).await;
        assert!(!a.leads(), "{outage:?}");
        for _ in 0..90 {
            after(1.0).await;
            assert!(!a.leads() && !b.leads(), "{outage:?}");
        }
        api.set_outage(None);
        // The first write of each part that elects a leader.
        after(5.0).await;
        assert!(a.leads() != b.leads(), "{outage:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn ignores_wall_clock_of_other_holders() {
    let api = FakeApi::default();
    let (_a, b) = two(&api).await;
    for time in ["1970-01-01T00:00:00.000000Z", "2970-01-01T00:00:00.000000Z"] {
        let mut object = api.get(PATH).unwrap();
        object["spec"]["renewTime"] = time.into();
        api.put(PATH, object);
        after(0.1).await;
        assert!(!b.leads(), "observed just now, whatever its timestamp: {time}");
    }
}

#[tokio::test(start_paused = true)]
async fn loses_lease_to_other_holder_but_not_by_edit_or_deletion() {
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
async fn restarted_leader_continues_at_once() {
    let api = FakeApi::default();
    let (a, b) = two(&api).await;
    drop(a.task);
    let again = Replica::start(&api, "a");
    after(0.1).await;
    assert!(again.leads() && !b.leads());
    assert_eq!(spec(&api)["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn lost_leadership_is_published_in_time() {
    let api = FakeApi::default();
    let mut a = Replica::start(&api, "a");
    a.leadership.acquired().await;
    api.set_outage(Some(Outage::Hanging));
    let began = Instant::now();
    a.leadership.lost().await;
    assert!(began.elapsed() <= RENEW_DEADLINE, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn invalid_lease_duration_does_not_block_election() {
    for seconds in [json!(-1), json!(0), json!(i32::MAX), Value::Null] {
        let api = FakeApi::default();
        api.put(PATH, json!({"spec": {"holderIdentity": "gone", "leaseDurationSeconds": seconds}}));
        let a = Replica::start(&api, "a");
        after(61.0).await;
        assert!(a.leads(), "{seconds}");
    }
}

#[tokio::test(start_paused = true)]
async fn leadership_expires_without_updates() {
    let api = FakeApi::default();
    let a = Replica::start(&api, "a");
    after(0.1).await;
    assert!(a.leads());
    // The election's task does not run, as in a process that was suspended.
    a.task.abort();
    after(RENEW_DEADLINE.as_secs_f64()).await;
    assert!(!a.leads());
    assert!(Leadership::always_leading().is_leader());
}

#[tokio::test(start_paused = true)]
async fn lease_of_a_restored_etcd_is_renewed_and_acquired() {
    let lease = |version: &str| {
        let object = json!({
            "metadata": {"name": "part", "resourceVersion": version},
            "spec": {"holderIdentity": "a", "leaseDurationSeconds": 9},
        });
        serde_json::from_value(object).unwrap()
    };
    for identity in ["a", "b"] {
        let mut election = Election::new(identity);
        let now = Instant::now();
        election.observe(lease("2208"), now);
        election.observe(lease("806"), now);
        let version = |election: &Election| match election.step(now + DURATION, Duration::ZERO) {
            Some(Step::Replace(object)) => object.metadata.resource_version,
            step => panic!("{step:?}"),
        };
        assert_eq!(version(&election).as_deref(), Some("2208"), "a late event of the watch");
        // The write of that version was a conflict.
        election.read(lease("806"), now);
        assert_eq!(version(&election).as_deref(), Some("806"), "{identity}");
    }
}
