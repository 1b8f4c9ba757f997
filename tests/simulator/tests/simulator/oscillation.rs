//! Under a constant load with noise the size rests.
//!
//! Noise passes through the windows: the mean of a minute of a load that jumps by ±20 % each second still moves by 1.5 %. So
//! a size can rest only if the load is further than that from an edge, a whole number of pods. At an edge the KPA, which
//! rounds up and knows no tolerance, moves with every breath, by its definition: some 290 times in two hours, and 110 times
//! where an HPA looks each 15 s. The remedy is its own too, a scale-down delay, which reaches the HPA by the metric: with two
//! minutes some 20 changes are left, with ten none.
//!
//! The same 1.5 % are more pods for a larger workload. At 20 pods half a pod is no distance any more (140 changes; 8 with ten
//! minutes of delay), so that there the delay or a longer window is not for edges alone.

use std::time::Duration;

use simulator::{HpaMetric, Load, Profile, Report, Scaler, Scenario, settings};

use crate::seconds;

const BOTH: [Scaler; 2] = [Scaler::Direct, Scaler::Hpa(HpaMetric::Average)];
const HOURS: Duration = seconds(2 * 3600);
const TEN_MINUTES: Duration = seconds(600);
/// The first panic is over by then.
const SETTLED: Duration = seconds(300);

/// Each second has a rate of its own, up to a fifth more or less than the mean.
fn jumping(mean: f64) -> Load {
    Load::paced(Profile::constant(mean).noise(0.2))
}

/// Requests at random instants.
fn random(mean: f64) -> Load {
    Load::poisson(Profile::constant(mean))
}

/// Two hours of requests of a second, for so many pods that carry 7 each.
fn play(pods: f64, load: fn(f64) -> Load, scaler: Scaler, seed: u64, delay: Duration) -> Report {
    let scenario = Scenario {
        seed,
        load: load(7.0 * pods),
        scaler,
        target: 7.0,
        container_concurrency: 10,
        initial_replicas: pods.ceil() as u32,
        settings: settings(|s| s.scale_down_delay = delay),
        ..Scenario::default()
    };
    scenario.run(HOURS).unwrap()
}

fn rests(report: &Report) {
    let most = report.most_changes_in(TEN_MINUTES, SETTLED);
    assert!(most <= 1, "{most} changes in ten minutes\n{report}");
    assert_eq!((report.refused, report.timed_out), (0, 0), "{report}");
}

#[test]
fn rests_when_each_second_is_a_fifth_more_or_less() {
    for scaler in BOTH {
        for pods in [1.5, 2.5, 4.5, 6.5, 8.5] {
            for seed in 1..=5 {
                rests(&play(pods, jumping, scaler, seed, Duration::ZERO));
            }
        }
    }
}

#[test]
fn rests_when_requests_come_at_random() {
    for scaler in BOTH {
        for pods in [2.5, 4.5, 6.5] {
            for seed in 1..=5 {
                rests(&play(pods, random, scaler, seed, Duration::ZERO));
            }
        }
    }
}

/// Three pods' worth on average, so every other minute wants a fourth. The exact rule follows every time.
#[test]
fn at_the_edge_of_a_pod_the_exact_rule_moves_all_the_time() {
    for (scaler, at_least) in [(Scaler::Direct, 100), (Scaler::Hpa(HpaMetric::Average), 50)] {
        let report = play(3.0, jumping, scaler, 1, Duration::ZERO);
        let changes = report.changes_between(SETTLED, HOURS).count();
        assert!(changes >= at_least, "{changes} changes: is this not Knative's rule any more?\n{report}");
        let sizes: Vec<_> = report.changes_between(SETTLED, HOURS).map(|change| change.to).collect();
        assert!(sizes.iter().all(|size| [3, 4].contains(size)), "by one pod, up and down: {sizes:?}");
    }
}

#[test]
fn at_the_edge_of_a_pod_a_scale_down_delay_gives_rest() {
    for scaler in BOTH {
        for load in [jumping, random] {
            for pods in [3.0, 5.0] {
                rests(&play(pods, load, scaler, 1, TEN_MINUTES));
            }
        }
    }
}
