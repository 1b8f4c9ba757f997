use autoscaler::learning::Phase;
use autoscaler::settings::LearnTarget;
use kube::runtime::watcher::Event;
use prometheus::Registry;

use super::*;
use crate::metrics::Metrics;

const NOW: Duration = Duration::from_secs(1_600_000_000);

/// The learners of one replica, with everything that they read.
struct Replica {
    learners: Learners,
    observations: Arc<Observations>,
    pods: ReadyPods,
    registry: Registry,
}

impl Replica {
    /// A replica that begins to lead.
    fn new() -> Self {
        let (observations, pods, registry) = (Arc::default(), ReadyPods::default(), Registry::new());
        pods.apply(Event::Init);
        pods.apply(Event::InitDone);
        let metrics = Metrics::register(&registry).unwrap().learning;
        let learners = Learners::new(Arc::clone(&observations), pods.clone(), metrics);
        Self { learners, observations, pods, registry }
    }

    fn learn(&mut self, workload: &Workload, seconds: u64) -> Option<LearningReport> {
        let averages = Some(WindowAverages { stable: 100.0, panic: 100.0 });
        self.learners.learn(workload, averages, 5, NOW + Duration::from_secs(seconds))
    }

    /// A target of 14 instead of 20, after an out-of-memory kill at this second.
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

#[test]
fn learner_begins_with_the_users_target_at_the_first_ready_pod() {
    let mut replica = Replica::new();
    assert_eq!(replica.learn(&workload(), 0), None);
    replica.pods.put_sample("a", "web:1", None);
    let report = replica.learn(&workload(), 2).unwrap();
    assert_eq!((report.target, report.phase, report.changes), (20.0, Phase::Observing, 0));
    assert_eq!((report.pods_with_user_target, report.pods_with_target), (5, 5));
}

#[test]
fn other_target_of_the_user_begins_anew() {
    let mut replica = Replica::new();
    replica.learn_from_kill(&workload(), 2);
    let other = Workload::learning("web", LearnTarget::Apply, 30.0);
    assert_eq!(replica.learn(&other, 4).unwrap().target, 30.0);
}

#[test]
fn memory_kill_counts_once_and_not_if_it_is_older_than_the_learner() {
    let mut replica = Replica::new();
    replica.pods.put_sample("a", "web:1", Some(NOW.as_secs() - 60));
    assert_eq!(replica.learn(&workload(), 0).unwrap().target, 20.0);
    let killed = replica.learn_from_kill(&workload(), 30).target;
    assert!((killed - 14.0).abs() < 1e-9, "{killed}");
    assert_eq!(replica.learn(&workload(), 60).unwrap().target, killed);
    // The pods of an earlier template do not count.
    replica.pods.put_sample("b", "web:2", None);
    replica.pods.put_sample("a", "web:1", Some(NOW.as_secs() + 90));
    assert_eq!(replica.learn(&workload(), 92).unwrap().target, killed);
}

#[test]
fn template_of_the_youngest_pod_is_the_epoch() {
    let mut replica = Replica::new();
    replica.pods.put_sample("a", "web:1", None);
    let first = replica.learn(&workload(), 0).unwrap().checkpoint.epoch();
    replica.pods.remove_sample("a");
    assert_eq!(replica.learn(&workload(), 2).unwrap().checkpoint.epoch(), first, "no pod is ready");
    replica.pods.put_sample("b", "web:2", None);
    assert_ne!(replica.learn(&workload(), 4).unwrap().checkpoint.epoch(), first);
}

#[test]
fn values_and_learners_end_with_leadership_workload_and_mode() {
    let ends: [fn(&mut Replica); 3] = [
        |replica| replica.learners.clear(),
        |replica| replica.learners.retain(|_| false),
        |replica| assert_eq!(replica.learn(&Workload { learning: None, ..workload() }, 9), None),
    ];
    for end in ends {
        let mut replica = Replica::new();
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
fn workload_between_zero_and_one_pod_keeps_its_target_and_one_learner() {
    let mut replica = Replica::new();
    for round in 0..500 {
        let at = NOW + Duration::from_secs(round * 2);
        if round % 60 < 30 {
            replica.pods.put_sample("a", "web:1", None);
            let second = autoscaler::learning::PodSecond { concurrency: 0.5, ..Default::default() };
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
