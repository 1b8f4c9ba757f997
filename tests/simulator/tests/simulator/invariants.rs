//! Invariants of all scenarios at all times.

use autoscaler::settings::BurstCapacity;
use std::time::Duration;

use proptest::prelude::*;
use simulator::{HpaMetric, Load, Profile, Report, Scaler, Scenario, ServiceTime, Simulation, settings};

use crate::seconds;

fn loads() -> impl Strategy<Value = Load> {
    let kinds = prop_oneof![
        Just(Load::clients as fn(Profile) -> Load),
        Just(Load::paced as fn(Profile) -> Load),
        Just(Load::poisson as fn(Profile) -> Load),
    ];
    let bursts = prop::collection::vec((0u64..120_000, 1u32..300), 0..3);
    (kinds, 0.0..40.0f64, 10u64..120, 0.0..40.0f64, 0.0..1.0f64, bursts).prop_map(
        |(kind, level, at, later, noise, bursts)| {
            let load = kind(Profile::constant(level).step(seconds(at), later).noise(noise));
            bursts.into_iter().fold(load, |load, (at, size)| load.burst(Duration::from_millis(at), size))
        },
    )
}

fn pods() -> impl Strategy<Value = Scenario> {
    let starts =
        prop_oneof![1 => Just(None), 9 => (0u64..20_000).prop_map(|ms| Some(Duration::from_millis(ms)))];
    let concurrencies = prop_oneof![Just(0u32), Just(1), Just(2), Just(5), Just(10)];
    (starts, concurrencies, 20u64..4000, 0u32..5, 1usize..4, 1u64..60).prop_map(
        |(pod_start, container_concurrency, service, initial_replicas, activators, client_timeout)| {
            Scenario {
                pod_start,
                container_concurrency,
                target: f64::from(container_concurrency.max(1)) * 0.7,
                service_time: ServiceTime::Exponential(Duration::from_millis(service)),
                initial_replicas,
                activators,
                client_timeout: seconds(client_timeout),
                ..Scenario::default()
            }
        },
    )
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    let scalers = prop_oneof![
        Just(Scaler::Direct),
        Just(Scaler::Hpa(HpaMetric::Average)),
        Just(Scaler::Hpa(HpaMetric::Desired)),
    ];
    let burst_capacities = prop_oneof![Just(-1.0), Just(0.0), 0.0..50.0f64];
    let outages = prop::collection::vec((0u64..150, 1u64..60), 0..2);
    (any::<u64>(), loads(), pods(), scalers, burst_capacities, (1u32..4, 0u32..20), any::<bool>(), outages)
        .prop_map(|(seed, load, pods, scaler, burst_capacity, (min, more), scale_to_zero, outages)| {
            Scenario {
                seed,
                load,
                scaler,
                min_replicas: min,
                max_replicas: min + more,
                // The loop does not choose the initial size, so it has to be within the bounds.
                initial_replicas: if pods.initial_replicas == 0 && scale_to_zero {
                    0
                } else {
                    pods.initial_replicas.clamp(min, min + more)
                },
                scale_to_zero,
                settings: settings(|s| s.target.burst_capacity = BurstCapacity::from(burst_capacity)),
                adapter_outages: outages
                    .into_iter()
                    .map(|(at, length)| seconds(at)..seconds(at + length))
                    .collect(),
                ..pods
            }
        })
}

fn assert_no_request_is_lost(report: &Report) {
    let ended = report.served + report.refused + report.timed_out;
    assert_eq!(report.arrived, ended + (report.running + report.held) as u64, "{report}");
}

fn assert_sizes_are_within_bounds(scenario: &Scenario, report: &Report) {
    let bounds = scenario.min_replicas..=scenario.max_replicas;
    for change in &report.changes {
        let zero = change.to == 0 && scenario.scale_to_zero;
        assert!(zero || bounds.contains(&change.to), "{change} is outside {bounds:?}\n{report}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn keeps_requests_concurrency_limits_and_size_bounds(scenario in scenarios()) {
        let limit = scenario.container_concurrency;
        let mut simulation = Simulation::new(scenario.clone());
        for step in 1..=20 {
            simulation.run_until(seconds(step * 11)).unwrap();
            let report = simulation.report();
            assert_no_request_is_lost(&report);
            assert_sizes_are_within_bounds(&scenario, &report);
            assert!(limit == 0 || report.most_running <= limit as usize, "{report}");
            assert!(report.longest_idle <= seconds(1) / 500 * scenario.activators as u32, "{scenario:?}\n{report}");
        }
    }

    #[test]
    fn runs_of_one_scenario_are_equal(scenario in scenarios()) {
        let run = || scenario.clone().run(seconds(100)).unwrap();
        assert_eq!(run(), run());
    }
}
