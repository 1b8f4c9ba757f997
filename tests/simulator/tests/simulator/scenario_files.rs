//! Scenario files: what is accepted, and that each app behaves as its model.

use std::time::Duration;

use simulator::scenario_file::{Outcome, ScenarioFile, sweep};

use crate::seconds;

const QUEUE: &str = "{model: queue, servers: 8, service: {mean: 100ms, cv: 1}}";

/// A file of ten minutes with this app, rate, target and further lines.
fn text(app: &str, rps: u32, target: u32, more: &str) -> String {
    format!(
        "name: t\nduration: 10m\napp: {app}\nload: [{{at: 0s, rps: {rps}}}]\ntarget: {target}\nlearn: Off\n{more}"
    )
}

fn parse(text: &str) -> Result<ScenarioFile, String> {
    ScenarioFile::parse(text).map_err(|error| error.to_string())
}

fn run(app: &str, rps: u32, target: u32, more: &str) -> Outcome {
    parse(&text(app, rps, target, more)).unwrap().run().unwrap()
}

#[test]
fn unknown_field_is_an_error_at_any_depth() {
    assert!(parse(&text(QUEUE, 1, 8, "")).is_ok());
    for (app, more) in [
        (QUEUE, "tarjet: 3"),
        ("{model: queue, servers: 8, cores: 1, service: {mean: 100ms}}", ""),
        ("{model: queue, servers: 8, service: {mean: 100ms, cw: 1}}", ""),
        (QUEUE, "changes: [{at: 1m, app: {service: {mean: 1s}}, template: true}]"),
        (QUEUE, "changes: [{at: 1m, app: {cores: 2}}]"),
    ] {
        let error = parse(&text(app, 1, 8, more)).unwrap_err();
        assert!(error.contains("unknown field"), "{app} {more}: {error}");
    }
}

#[test]
fn value_out_of_range_is_an_error_with_its_field() {
    for (app, more, expected) in [
        ("{model: queue, servers: 0, service: {mean: 1s}}", "", "app: servers must be at least 1"),
        ("{model: queue, servers: 1, service: {mean: 1x}}", "", "must be a duration"),
        ("{model: turbo}", "", "unknown variant"),
        (QUEUE, "objective: 300ms", "is not an objective such as 300ms@p95"),
        (QUEUE, "bursts: {every: 1m, length: 1s, factor: -1}", "bursts: factor must be from 0 to 100"),
        (
            "{model: queue, servers: 1, service: {mean: 1s}, slowPods: {every: 0, factor: 2}}",
            "",
            "app: every must be at least 1",
        ),
        (
            "{model: queue, servers: 1, service: {mean: 1s}, warmUp: {time: 1s, factor: 0}}",
            "",
            "app: factor must be from 0.01 to 100",
        ),
        (
            "{model: queue, servers: 1, service: {mean: 1s, slow: {share: 1.1, factor: 2}}}",
            "",
            "app: share must be from 0 to 1",
        ),
        (QUEUE, "maxPods: 0", "maxPods: must be at least 1"),
        (QUEUE, "changes: [{at: 2m, app: {}}, {at: 1m, app: {}}]", "changes: must be in order of time"),
    ] {
        let error = parse(&text(app, 1, 8, more)).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn learning_without_a_target_starts_low_and_otherwise_the_default_is_in_force() {
    let first = |mode: &str, more: &str| {
        let text = text(QUEUE, 10, 8, more).replace("target: 8\n", "").replace("learn: Off", mode);
        parse(&text).unwrap().run().unwrap().targets[0].1
    };
    assert_eq!(first("learn: Apply", ""), 2.0);
    assert_eq!(first("learn: Apply", "containerConcurrency: 1"), 0.7);
    assert_eq!(first("learn: Recommend", ""), 70.0);
    assert_eq!(first("learn: Recommend", "containerConcurrency: 20"), 14.0);
}

#[test]
fn load_needs_one_unit_in_all_points() {
    let parse = |load: &str| parse(&text(QUEUE, 1, 8, "").replace("[{at: 0s, rps: 1}]", load));
    assert!(parse("[{at: 0s, clients: 5}, {at: 1m, clients: 9}]").is_ok());
    for load in ["[{at: 0s}]", "[{at: 0s, rps: 1, clients: 1}]", "[{at: 0s, rps: 1}, {at: 1m, clients: 1}]"] {
        let error = parse(load).unwrap_err();
        assert!(error.starts_with("load: "), "{load}: {error}");
    }
}

#[test]
fn clients_wait_for_their_responses() {
    let closed = text(QUEUE, 1, 8, "").replace("rps: 1", "clients: 8");
    let outcome = parse(&closed).unwrap().run().unwrap();
    // Eight clients, 100 ms for each response: 80 requests a second.
    assert!((46_000..50_000).contains(&outcome.requests), "{outcome:?}");
}

#[test]
fn bursts_add_their_share_of_requests() {
    let requests = |more| run(QUEUE, 100, 8, more).requests as f64;
    // A third of the time has three times the load.
    let ratio = requests("bursts: {every: 10s, length: 5s, factor: 3}") / requests("");
    assert!((1.4..=1.95).contains(&ratio), "{ratio}");
}

#[test]
fn slow_pods_and_cold_pods_take_longer() {
    let p95 = |more: &str| {
        let app = format!("{{model: queue, servers: 8, service: {{mean: 100ms}}, {more}}}");
        run(&app, 10, 8, "").p95_ms
    };
    assert!(p95("") < 110.0);
    assert!((190.0..=220.0).contains(&p95("slowPods: {every: 1, factor: 2}")));
    assert!((190.0..=220.0).contains(&p95("warmUp: {time: 1h, factor: 2}")));
    assert!(p95("warmUp: {time: 10s, factor: 2}") < 110.0);
}

#[test]
fn requests_to_a_slow_endpoint_take_longer() {
    let p95 = |slow: &str| {
        let app = format!("{{model: queue, servers: 8, service: {{mean: 100ms{slow}}}}}");
        run(&app, 10, 8, "").p95_ms
    };
    assert!((990.0..=1030.0).contains(&p95(", slow: {share: 0.1, factor: 10}")));
    assert!(p95(", slow: {share: 0.01, factor: 10}") < 110.0);
}

#[test]
fn shorter_run_is_the_start_of_a_longer_one() {
    let file = parse(&text(QUEUE, 100, 8, "objective: 400ms@p95")).unwrap();
    let whole = file.run().unwrap();
    assert_eq!(whole, file.run().unwrap());
    let rest = file.run_after(seconds(200)).unwrap();
    let start =
        ScenarioFile::parse(&text(QUEUE, 100, 8, "objective: 400ms@p95").replace("10m", "200s")).unwrap();
    let start = start.run().unwrap();
    assert_eq!(start.requests + rest.requests, whole.requests);
    assert_eq!(start.pod_seconds + rest.pod_seconds, whole.pod_seconds);
    assert_eq!(start.misses + rest.misses, whole.misses);
}

#[test]
fn requests_beyond_the_servers_wait_and_miss_the_objective() {
    let below = run(QUEUE, 400, 6, "objective: 400ms@p95");
    assert!(below.objective_kept && below.p95_ms < 320.0, "{below:?}");
    let above = run(QUEUE, 400, 24, "objective: 400ms@p95");
    assert!(!above.objective_kept && above.p95_ms > 600.0, "{above:?}");
    assert_eq!((below.errors, above.errors), (0, 0));
}

#[test]
fn requests_share_the_cores_of_a_pod() {
    let app = "{model: cpu, cores: 1, cpu: 10ms, wait: 90ms}";
    let alone = run(app, 5, 10, "");
    assert!((99.0..107.0).contains(&alone.p95_ms), "{alone:?}");
    let shared = run(app, 400, 10, "");
    assert!((120.0..250.0).contains(&shared.p95_ms), "{shared:?}");
}

#[test]
fn pod_above_its_memory_limit_is_killed_and_comes_back() {
    let app = "{model: memory, base: 56Mi, perRequest: 20Mi, limit: 256Mi, service: {mean: 200ms, cv: 1}}";
    let safe = run(app, 50, 3, "");
    assert_eq!((safe.oom_kills, safe.errors), (0, 0), "{safe:?}");
    let killed = run(app, 50, 30, "");
    assert!(killed.oom_kills > 0 && killed.errors >= killed.oom_kills, "{killed:?}");
    assert!(killed.errors < killed.requests, "{killed:?}");
}

#[test]
fn more_pods_do_not_help_when_a_shared_dependency_is_full() {
    let app = "{model: dependency, slots: 40, service: {mean: 50ms, cv: 1}}";
    let enough = run(app, 400, 5, "objective: 300ms@p95");
    assert!(enough.objective_kept, "{enough:?}");
    let change = "changes: [{at: 5m, app: {service: {mean: 200ms}}}]\nobjective: 300ms@p95";
    let full = run(app, 400, 5, change);
    assert!(full.misses > full.requests / 5 && full.pod_seconds > 2 * enough.pod_seconds, "{full:?}");
}

#[test]
fn change_is_merged_into_the_app() {
    let slower = run(QUEUE, 100, 6, "changes: [{at: 0s, app: {service: {mean: 200ms}}, newTemplate: true}]");
    let same = run("{model: queue, servers: 8, service: {mean: 200ms, cv: 1}}", 100, 6, "");
    let ratio = slower.p95_ms / same.p95_ms;
    assert!((0.9..1.1).contains(&ratio), "{slower:?}\n{same:?}");
}

#[test]
fn sweep_selects_the_cheapest_target_that_keeps_the_objective() {
    let text = include_str!("../../scenarios/eight-servers-cv-1.yaml").replace("40m", "5m");
    let best = sweep(&ScenarioFile::parse(&text).unwrap(), Duration::ZERO).unwrap().unwrap();
    let (_, target, _) = &best.targets[0];
    assert!((6.0..=8.0).contains(target) && best.objective_kept, "{best:?}");
}
