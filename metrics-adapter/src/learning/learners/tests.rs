mod traces;

use autoscaler::api::PodAutoscaler;
use autoscaler::learning_report::Phase;
use autoscaler::settings::LearnTarget;
use component_base::kubernetes::Decoded;
use kube::runtime::reflector;
use kube::runtime::watcher::Event;
use learning::{AppSecond, LearnerState, PodSecond};
use prometheus::Registry;
use serde_json::json;

use super::*;
use crate::learning::resources::resource_readings::ResourceUsage;
use crate::metrics::Metrics;

const NOW: Duration = Duration::from_secs(1_600_000_000);

/// The learners of one replica, with everything that they read.
struct Replica {
    learners: Learners,
    observations: Arc<Observations>,
    resources: Arc<ResourceReadings>,
    pods: ReadyPods,
    registry: Registry,
}

impl Replica {
    /// A replica that begins to lead. `stored` is the learning part of the PodAutoscaler's status.
    fn new(stored: Option<serde_json::Value>) -> Self {
        let (store, mut writer) = reflector::store();
        let object: Decoded<PodAutoscaler> = serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": "web"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "service": "web",
            },
            "status": {"learning": stored},
        }))
        .unwrap();
        assert!(object.0.is_ok(), "{object:?}");
        writer.apply_watcher_event(&Event::Apply(object));
        let (observations, pods, registry) = (Arc::default(), ReadyPods::default(), Registry::new());
        pods.apply(Event::Init);
        pods.apply(Event::InitDone);
        let metrics = Metrics::register(&registry).unwrap().learning;
        let stored = StoredLearning::new(store);
        let resources = Arc::<ResourceReadings>::default();
        let sources = LearnerSources {
            observations: Arc::clone(&observations),
            resources: resources.clone(),
            stored,
            pods: pods.clone(),
        };
        let learners = Learners::new(sources, metrics);
        Self { learners, observations, resources, pods, registry }
    }

    fn learn(&mut self, workload: &Workload, seconds: u64) -> Option<LearningReport> {
        let averages = Some(WindowAverages { stable: 100.0, panic: 100.0 });
        self.learners.learn(workload, averages, 5, NOW + Duration::from_secs(seconds))
    }

    /// Half the target of 20, after an out-of-memory kill at this second, before any load.
    fn learn_from_kill(&mut self, workload: &Workload, second: u64) -> LearningReport {
        self.pods.put_sample("a", "web:1", None);
        self.learn(workload, 0).unwrap();
        self.pods.put_sample("a", "web:1", Some(NOW.as_secs() + second));
        self.learn(workload, second).unwrap()
    }

    /// The names of the families that have a value.
    fn values(&self) -> Vec<String> {
        let families = self.registry.gather().into_iter();
        let named = families.map(|family| family.name().to_owned());
        named.filter(|name| name.contains("target") || name.contains("learning")).collect()
    }
}

fn workload() -> Workload {
    Workload::learning("web", LearnTarget::Apply, 20.0)
}

/// The status that the zero-scaler writes for a report.
fn stored(report: &LearningReport) -> serde_json::Value {
    json!({
        "mode": report.mode,
        "recommendedTarget": report.target.to_string(),
        "phase": report.phase.to_string(),
        "confidence": 0,
        "message": report.evidence,
        "checkpoint": report.checkpoint.as_ref().unwrap().json(),
    })
}

#[test]
fn learner_begins_with_the_users_target_at_the_first_ready_pod() {
    let mut replica = Replica::new(None);
    assert_eq!(replica.learn(&workload(), 0), None);
    replica.pods.put_sample("a", "web:1", None);
    let report = replica.learn(&workload(), 2).unwrap();
    assert_eq!((report.target, report.phase, report.changes), (20.0, Phase::Observing, 0));
    assert_eq!((report.pods_with_user_target, report.pods_with_target), (5, 5));
}

fn epoch(report: &LearningReport) -> u64 {
    let state: LearnerState = serde_json::from_str(report.checkpoint.as_ref().unwrap().json()).unwrap();
    state.epoch()
}

#[test]
fn new_leader_continues_from_the_checkpoint() {
    let report = Replica::new(None).learn_from_kill(&workload(), 2);
    assert!((report.target - 10.0).abs() < 1e-9, "{report:?}");
    // At zero, where no pod shows the template.
    let mut next = Replica::new(Some(stored(&report)));
    assert_eq!(next.learners.stored_target(&workload()), Some(report.target));
    assert_eq!(next.learn(&workload(), 4).unwrap().target, report.target);
    // With the pods of the former leader. The kill is part of the state.
    next = Replica::new(Some(stored(&report)));
    next.pods.put_sample("a", "web:1", Some(NOW.as_secs() + 2));
    assert_eq!(next.learn(&workload(), 4).unwrap().target, report.target);
    // With a kill of which the former leader stored nothing.
    next.pods.put_sample("b", "web:1", Some(NOW.as_secs() + 60));
    assert!(next.learn(&workload(), 62).unwrap().target < report.target);
}

#[test]
fn new_leader_keeps_target_of_another_template_and_discards_its_evidence() {
    let report = Replica::new(None).learn_from_kill(&workload(), 2);
    let mut next = Replica::new(Some(stored(&report)));
    next.pods.put_sample("b", "web:2", None);
    let continued = next.learn(&workload(), 4).unwrap();
    assert_eq!((continued.target, continued.phase), (report.target, Phase::Observing));
    assert_ne!(epoch(&continued), epoch(&report));
}

#[test]
fn new_leader_learns_anew_without_a_usable_checkpoint() {
    for checkpoint in ["", "{}", "null", "[1"] {
        let mut next = Replica::new(Some(json!({
            "mode": "Apply", "recommendedTarget": "14", "phase": "Settled", "confidence": 100, "message": "",
            "checkpoint": checkpoint,
        })));
        assert_eq!(next.learn(&workload(), 0), None, "{checkpoint}");
        next.pods.put_sample("a", "web:1", None);
        assert_eq!(next.learn(&workload(), 2).unwrap().target, 20.0, "{checkpoint}");
    }
}

#[test]
fn other_target_of_the_user_begins_anew() {
    let mut replica = Replica::new(None);
    replica.learn_from_kill(&workload(), 2);
    let other = Workload::learning("web", LearnTarget::Apply, 30.0);
    assert_eq!(replica.learn(&other, 4).unwrap().target, 30.0);
}

#[test]
fn memory_kill_counts_once_and_not_if_it_is_older_than_the_learner() {
    let mut replica = Replica::new(None);
    replica.pods.put_sample("a", "web:1", Some(NOW.as_secs() - 60));
    assert_eq!(replica.learn(&workload(), 0).unwrap().target, 20.0);
    let killed = replica.learn_from_kill(&workload(), 30).target;
    assert!((killed - 10.0).abs() < 1e-9, "{killed}");
    assert_eq!(replica.learn(&workload(), 60).unwrap().target, killed);
    // The pods of an earlier template do not count.
    replica.pods.put_sample("b", "web:2", None);
    replica.pods.put_sample("a", "web:1", Some(NOW.as_secs() + 90));
    assert_eq!(replica.learn(&workload(), 92).unwrap().target, killed);
}

#[test]
fn template_of_the_youngest_pod_is_the_epoch() {
    let mut replica = Replica::new(None);
    replica.pods.put_sample("a", "web:1", None);
    let first = epoch(&replica.learn(&workload(), 0).unwrap());
    replica.pods.remove_sample("a");
    assert_eq!(epoch(&replica.learn(&workload(), 2).unwrap()), first, "no pod is ready");
    replica.pods.put_sample("b", "web:2", None);
    assert_ne!(epoch(&replica.learn(&workload(), 4).unwrap()), first);
}

#[test]
fn evidence_states_whether_memory_is_available() {
    let mut replica = Replica::new(None);
    replica.pods.put_sample("a", "web:1", None);
    let evidence = replica.learn(&workload(), 0).unwrap().evidence;
    assert!(evidence.ends_with("is absent or fails: the rules for them are off"), "{evidence}");
    let usage = ResourceUsage { memory: Some(0.61), cpu: Some(0.35) };
    replica.resources.put_sample(&workload().key, usage);
    let evidence = replica.learn(&workload(), 2).unwrap().evidence;
    assert!(evidence.ends_with("; memory is at 61 % of its limit, CPU at 35 %"), "{evidence}");
}

#[test]
fn values_and_learners_end_with_leadership_workload_and_mode() {
    let ends: [fn(&mut Replica); 3] = [
        |replica| replica.learners.clear(),
        |replica| replica.learners.retain(|_| false),
        |replica| assert_eq!(replica.learn(&Workload { learning: None, ..workload() }, 9), None),
    ];
    for end in ends {
        let mut replica = Replica::new(None);
        replica.learn_from_kill(&workload(), 2);
        let learned = ["rouse_metrics_adapter_learned_target", "rouse_metrics_adapter_learning_phase"];
        assert_eq!(replica.values(), learned);
        replica.learn(&Workload::learning("web", LearnTarget::Recommend, 20.0), 4);
        let recommended =
            ["rouse_metrics_adapter_learning_phase", "rouse_metrics_adapter_recommended_target"];
        assert_eq!(replica.values(), recommended);
        end(&mut replica);
        assert_eq!(replica.values(), [""; 0]);
        assert!(replica.learners.learners.is_empty());
    }
}

#[test]
fn incomplete_data_freeze_the_target_with_the_reason() {
    let app = Some(AppSecond { completions: 100.0, seconds: 10.0, ..AppSecond::default() });
    let old_sidecar = None;
    for (app, missing, reason) in [
        (app, 10, "data of the pods are missing"),
        (app, 7200, "the clock was set"),
        (old_sidecar, 0, "sidecars do not report the times of requests"),
    ] {
        let mut replica = Replica::new(None);
        replica.pods.put_sample("a", "web:1", None);
        let mut reports = (0..300).map(|second| {
            let second = if second < 200 { second } else { second + missing };
            let pod = PodSecond { age: NOW, concurrency: 10.0, arrivals: 100.0, app, ..PodSecond::default() };
            replica.observations.record(&workload().key, NOW + Duration::from_secs(second), vec![pod; 5]);
            replica.learn(&workload(), second).unwrap()
        });
        let report = reports.nth(210).unwrap();
        assert!(report.evidence.starts_with(reason), "{reason}: {report:?}");
        assert!(reports.all(|report| (report.target, report.changes) == (20.0, 0)));
    }
}

#[test]
fn workload_between_zero_and_one_pod_keeps_its_target_and_one_learner() {
    let mut replica = Replica::new(None);
    for round in 0..500 {
        let at = NOW + Duration::from_secs(round * 2);
        if round % 60 < 30 {
            replica.pods.put_sample("a", "web:1", None);
            let second = PodSecond { concurrency: 0.5, ..PodSecond::default() };
            replica.observations.record(&workload().key, at, vec![second]);
        } else {
            replica.pods.remove_sample("a");
        }
        let report = replica.learn(&workload(), round * 2).unwrap();
        assert_eq!((report.target, report.changes), (20.0, 0), "{round}");
    }
    assert_eq!(replica.learners.learners.len(), 1);
    assert_eq!(replica.observations.take(&workload().key).len(), 0);
}

#[test]
fn follower_uses_the_stored_target_within_its_bounds() {
    let target = |recommended: &str, workload: &Workload| {
        let stored = json!({
            "mode": "Apply", "recommendedTarget": recommended, "phase": "Settled", "confidence": 100, "message": "",
        });
        Replica::new(Some(stored)).learners.stored_target(workload)
    };
    assert_eq!(target("8400m", &workload()), Some(8.4));
    assert_eq!(target("1000", &workload()), Some(80.0));
    for invalid in ["0", "-3", "x", ""] {
        assert_eq!(target(invalid, &workload()), None, "{invalid}");
    }
    assert_eq!(target("8", &Workload { learning: None, ..workload() }), None);
    assert_eq!(Replica::new(None).learners.stored_target(&workload()), None);
}
