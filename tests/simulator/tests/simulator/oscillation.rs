//! Under a constant load with noise the size stays constant.
//!
//! The windows reduce noise but do not remove it. If a load varies by ±20 % each second, its mean
//! of a minute still varies by 1.5 %. The size is constant only if the load is further than that
//! from a whole number of pods. At a whole number the KPA, which rounds up without a tolerance,
//! changes the size about 290 times in two hours, and 110 times with an HPA that syncs every 15 s.
//! The remedy is the KPA's scale-down delay, which the metric passes on to the HPA: about 20
//! changes remain with two minutes, none with ten.
//!
//! The same 1.5 % are more pods for a larger workload. At 20 pods half a pod is too small a
//! distance (140 changes; 8 with a delay of ten minutes), so large workloads need the delay or a
//! longer window at every load.

use std::time::Duration;

use simulator::{HpaMetric, Load, Profile, Report, Scaler, Scenario, settings};

use crate::seconds;

const SCALERS: [Scaler; 2] = [Scaler::Direct, Scaler::Hpa(HpaMetric::Average)];
const TWO_HOURS: Duration = seconds(2 * 3600);
const TEN_MINUTES: Duration = seconds(600);
/// The panic of the start is over by then.
const SETTLED: Duration = seconds(300);

/// Each second has a rate of its own, up to a fifth above or below the mean.
fn noisy(mean: f64) -> Load {
    Load::paced(Profile::constant(mean).noise(0.2))
}

/// Requests at random instants.
fn poisson(mean: f64) -> Load {
    Load::poisson(Profile::constant(mean))
}

/// Two hours of requests of one second each, at a load of `pods` times the target of 7.
fn run(pods: f64, load: fn(f64) -> Load, scaler: Scaler, seed: u64, delay: Duration) -> Report {
    let scenario = Scenario {
        seed,
        load: load(7.0 * pods),
        scaler,
        target: 7.0,
        container_concurrency: 10,
        initial_replicas: pods.ceil() as u32,
        settings: settings(|s| s.scale.down_delay = delay),
        ..Scenario::default()
    };
    scenario.run(TWO_HOURS).unwrap()
}

fn assert_size_is_constant(report: &Report) {
    let most = report.most_changes_in(TEN_MINUTES, SETTLED);
    assert!(most <= 1, "{most} changes within ten minutes\n{report}");
    assert_eq!((report.refused, report.timed_out), (0, 0), "{report}");
}

#[test]
fn keeps_size_when_each_second_varies_by_a_fifth() {
    for scaler in SCALERS {
        for pods in [1.5, 2.5, 4.5, 6.5, 8.5] {
            for seed in 1..=5 {
                assert_size_is_constant(&run(pods, noisy, scaler, seed, Duration::ZERO));
            }
        }
    }
}

#[test]
fn keeps_size_for_poisson_arrivals() {
    for scaler in SCALERS {
        for pods in [2.5, 4.5, 6.5] {
            for seed in 1..=5 {
                assert_size_is_constant(&run(pods, poisson, scaler, seed, Duration::ZERO));
            }
        }
    }
}

/// The mean needs exactly three pods, so about every other minute needs a fourth.
#[test]
fn size_alternates_if_the_load_is_a_whole_number_of_pods() {
    for (scaler, at_least) in [(Scaler::Direct, 100), (Scaler::Hpa(HpaMetric::Average), 50)] {
        let report = run(3.0, noisy, scaler, 1, Duration::ZERO);
        let changes = report.changes_between(SETTLED, TWO_HOURS).count();
        assert!(changes >= at_least, "only {changes} changes, less than Knative's rule makes\n{report}");
        let sizes: Vec<_> = report.changes_between(SETTLED, TWO_HOURS).map(|change| change.to).collect();
        assert!(sizes.iter().all(|size| [3, 4].contains(size)), "sizes other than 3 and 4: {sizes:?}");
    }
}

#[test]
fn scale_down_delay_keeps_size_for_a_whole_number_of_pods() {
    for scaler in SCALERS {
        for load in [noisy, poisson] {
            for pods in [3.0, 5.0] {
                assert_size_is_constant(&run(pods, load, scaler, 1, TEN_MINUTES));
            }
        }
    }
}
