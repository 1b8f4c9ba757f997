//! Traces of Knative with learning: a recommended target leaves the decider's input as it is, so
//! the decisions are still those that Knative's code made.

use autoscaler::scaling::replay::{EPOCH, Replay, ReplayedDecision};

use super::*;
use crate::learning::target_in_force::{TargetInForce, spec_in_force};

/// One trace, with a learner beside the replay.
struct LearningReplay {
    mode: LearnTarget,
    replay: Replay,
    replica: Replica,
    counts: Counts,
}

#[derive(Debug, Default, PartialEq)]
struct Counts {
    decisions: usize,
    /// Decisions with a learned target that is not the user's.
    other_targets: usize,
    /// Decisions with other settings of the decider than in the trace.
    other_specs: usize,
}

// === impl LearningReplay ===

impl LearningReplay {
    fn of(mode: LearnTarget, trace: &str) -> Counts {
        let (replay, replica) = (Replay::new(), Replica::new(None));
        replica.pods.put_sample("a", "web:1", None);
        let mut replay = Self { mode, replay, replica, counts: Counts::default() };
        trace.lines().for_each(|line| replay.take(line));
        replay.counts
    }

    fn take(&mut self, line: &str) {
        let fields: serde_json::Value = serde_json::from_str(line).unwrap();
        let now = EPOCH + Duration::from_secs_f64(fields["t"].as_f64().unwrap());
        if let Some(stat) = fields.get("stat") {
            let number = |name: &str| stat[name].as_f64().unwrap();
            let (concurrency, arrivals) = (number("concurrency"), number("requestCount"));
            let pod = PodSecond { age: now, concurrency, arrivals, ..PodSecond::default() };
            self.replica.observations.record(&workload().key, now, vec![pod]);
        }
        if let Some(decision) = self.replay.take(serde_json::from_value(fields).unwrap()).unwrap() {
            self.decide(decision, now);
        }
    }

    fn decide(&mut self, decision: ReplayedDecision, now: Duration) {
        let user_target = decision.spec.target;
        let workload = Workload { spec: decision.spec, ..Workload::learning("web", self.mode, user_target) };
        let averages = decision.result.filter(|_| decision.has_data).map(|result| result.averages);
        let report = self.replica.learners.learn(&workload, averages, decision.ready, now).unwrap();
        // From the next decision on, the learned target is another one.
        self.replica.pods.put_sample("a", "web:1", Some(now.as_secs() + 1));
        let spec = spec_in_force(&workload, TargetInForce::new(&workload, report.target));
        self.counts.decisions += 1;
        self.counts.other_targets += usize::from(report.target != user_target);
        self.counts.other_specs += usize::from(*spec != workload.spec);
    }
}

fn counts(mode: LearnTarget) -> Counts {
    let files = std::fs::read_dir("../tests/traces").unwrap().map(|entry| entry.unwrap().path());
    let traces = files.filter(|path| path.to_str().is_some_and(|path| path.ends_with(".trace.ndjson")));
    traces.fold(Counts::default(), |sum, path| {
        let of = LearningReplay::of(mode, &std::fs::read_to_string(path).unwrap());
        Counts {
            decisions: sum.decisions + of.decisions,
            other_targets: sum.other_targets + of.other_targets,
            other_specs: sum.other_specs + of.other_specs,
        }
    })
}

#[test]
fn recommended_target_changes_no_decision_of_knatives_traces() {
    let recommended = counts(LearnTarget::Recommend);
    assert!(recommended.decisions > 1000 && recommended.other_targets > 500, "{recommended:?}");
    assert_eq!(recommended.other_specs, 0);
    // The same targets in force do change decisions.
    let applied = counts(LearnTarget::Apply);
    assert!(applied.other_specs > 500, "{applied:?}");
}
