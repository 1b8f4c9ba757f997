//! Cost of learning, which runs for every workload each second.
//!
//! Run by `make bench`, after that of the crate `autoscaler`. Time is virtual.

#![allow(clippy::unwrap_used, reason = "a panic fails the benchmark, as intended")]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;

use autoscaler::learning_report::Checkpoint;
use autoscaler::scaling::decider::DeciderSpec;
use autoscaler::stats::collection::WindowAverages;
use criterion::Bencher;
use learning::{AppSecond, Learner, LearningSpec, MissBudget, PodSecond};

use cases::Case;

#[path = "../../autoscaler/benches/cases/mod.rs"]
mod cases;
#[path = "../../autoscaler/benches/table/mod.rs"]
mod table;

const T0: Duration = Duration::from_secs(1_600_000_000);

const CASES: &[Case] = &[
    Case { name: "learn from a second of one pod, and decide", bound: Some(2000.0), run: learn },
    Case { name: "checkpoint of a learner", bound: None, run: checkpoint },
];

fn main() -> ExitCode {
    cases::run(CASES)
}

fn at(second: u64) -> Duration {
    T0 + Duration::from_secs(second)
}

fn learner() -> Learner {
    let objective = Some(MissBudget(0.05));
    Learner::new(LearningSpec { user_target: 8.0, objective, ..LearningSpec::default() }, 0)
}

/// A second of a pod with this load.
fn pod(load: f64) -> PodSecond {
    let app = AppSecond { completions: 10.0 * load, seconds: load, misses: load / 8.0, errors: 0.0 };
    PodSecond {
        age: Duration::from_secs(600),
        concurrency: load,
        arrivals: 10.0 * load,
        app: Some(app),
        ..PodSecond::default()
    }
}

/// The steps at the end of a block are included: one in ten seconds.
fn learn(bencher: &mut Bencher<'_>) {
    let mut learner = learner();
    let pod = pod(8.0);
    let spec = DeciderSpec { target: 8.0, ..DeciderSpec::default() };
    let averages = Some(WindowAverages { stable: 8.0, panic: 8.0 });
    let mut second = 0;
    bencher.iter(|| {
        second += 1;
        learner.observe(at(second), black_box(&[pod]));
        learner.decide(&spec, averages, 1, at(second))
    });
}

/// After an hour with loads of a pod from 2 to 12.
fn checkpoint(bencher: &mut Bencher<'_>) {
    let mut learner = learner();
    for second in 0..3600_u32 {
        learner.observe(at(second.into()), &[pod(2.0 + f64::from(second % 101) / 10.0)]);
    }
    bencher.iter(|| Checkpoint::of(&black_box(&learner).state(at(3600))));
}
