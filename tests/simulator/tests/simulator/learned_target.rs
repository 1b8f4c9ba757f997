//! The learned target reaches the optimum of each app, and stays where it must.
//!
//! Each row of a table is a file of `scenarios`; its `target` is the static optimum by `--sweep`.
//! `make test` runs the first seed of some rows. All hundred seeds of all rows run as an ignored
//! test that prints the rates; [the design](../../../../docs/design/learned-target.md) has the last
//! ones: `cargo test --release -p simulator --test simulator -- --ignored --nocapture
//! hundred_seeds`. The environment may select rows by a part of their name, and seeds: `ROW=memory
//! SEEDS=1-20`.

use std::num::NonZero;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::available_parallelism;
use std::time::Duration;

use autoscaler::settings::LearnTarget;
use simulator::scenario_file::units::Objective;
use simulator::scenario_file::{Outcome, ScenarioFile};

use self::UserTarget::{Factor, NoneWithLimit, Nothing};
use crate::seconds;

const FIVE_MINUTES: Duration = seconds(300);
const TEN_MINUTES: Duration = seconds(600);
/// The release of the runs of three hours, and ten minutes after it.
const RELEASED: u64 = 3600;
const AFTER_RELEASE: Duration = seconds(RELEASED + 600);
/// The load of the run that begins with a tenth of it, and ten minutes after it.
const LOADED: u64 = 1800;
const AFTER_LOW_LOAD: Duration = seconds(LOADED + 600);
/// Accepted pod-seconds of a request as a ratio to the static optimum's.
const COST: f64 = 1.15;
const EIGHT_SERVERS: &str = include_str!("../../scenarios/eight-servers.yaml");
const CV_1: &str = include_str!("../../scenarios/eight-servers-cv-1.yaml");
const CV_4: &str = include_str!("../../scenarios/eight-servers-cv-4.yaml");
const ONE_CORE: &str = include_str!("../../scenarios/one-core.yaml");
const MEMORY: &str = include_str!("../../scenarios/memory-limit.yaml");
const DEPENDENCY: &str = include_str!("../../scenarios/slow-dependency.yaml");
const MIXES: &str = include_str!("../../scenarios/two-mixes.yaml");
const DIURNAL: &str = include_str!("../../scenarios/diurnal.yaml");
const RELEASE: &str = include_str!("../../scenarios/release.yaml");
const UNCHANGED: &str = include_str!("../../scenarios/variants/release-unchanged.yaml");
const SLOWER: &str = include_str!("../../scenarios/variants/release-slower.yaml");
const FASTER: &str = include_str!("../../scenarios/variants/release-faster.yaml");
const WARM_UP: &str = include_str!("../../scenarios/variants/warm-up.yaml");
const BURSTS: &str = include_str!("../../scenarios/variants/bursts.yaml");
const CLOSED_LOOP: &str = include_str!("../../scenarios/variants/closed-loop.yaml");
const SLOW_POD: &str = include_str!("../../scenarios/variants/slow-pod.yaml");
const SLOW_ENDPOINT: &str = include_str!("../../scenarios/variants/slow-endpoint.yaml");
const LOW_LOAD: &str = include_str!("../../scenarios/variants/low-load.yaml");
const ONE_POD: &str = include_str!("../../scenarios/variants/one-pod.yaml");
const MORE_MEMORY: &str = include_str!("../../scenarios/variants/release-memory.yaml");

fn file(text: &str, seed: u64) -> ScenarioFile {
    ScenarioFile { seed, ..ScenarioFile::parse(text).unwrap() }
}

#[derive(Clone, Copy, Debug)]
enum UserTarget {
    /// This factor of the optimum.
    Factor(f64),
    /// None, with this container concurrency: an HPA on `desired-replicas`.
    NoneWithLimit(u32),
    /// Neither a target nor an objective, and at most so many pods. The file's objective has to be
    /// kept all the same.
    Nothing(u32),
}

impl UserTarget {
    /// The file, which has the optimum as its target, with this target instead.
    fn of(self, file: &ScenarioFile) -> ScenarioFile {
        match self {
            Factor(factor) => {
                ScenarioFile { target: file.target.map(|optimum| factor * optimum), ..file.clone() }
            }
            NoneWithLimit(container_concurrency) => {
                ScenarioFile { target: None, container_concurrency, ..file.clone() }
            }
            Nothing(max_pods) => ScenarioFile { target: None, objective: None, max_pods, ..file.clone() },
        }
    }
}

/// The run with the user's target, and the one with the static optimum.
fn beside_optimum(text: &str, user: UserTarget, seed: u64, warm_up: Duration) -> (Outcome, Outcome) {
    let learned = user.of(&file(text, seed));
    // With the same limit: it changes the pods that a static target needs as well.
    let container_concurrency = learned.container_concurrency;
    let optimum = ScenarioFile { learn: LearnTarget::Off, container_concurrency, ..file(text, seed) };
    (learned.run_after(warm_up).unwrap(), optimum.run_after(warm_up).unwrap())
}

/// Why a run did not converge, if it did not.
fn convergence_fault(text: &str, user: UserTarget, seed: u64, warm_up: Duration) -> Option<String> {
    let (learned, optimum) = beside_optimum(text, user, seed, warm_up);
    let cost = pod_seconds_of_a_request(&learned) / pod_seconds_of_a_request(&optimum);
    // Also where the run had none: all are of the 95th percentile.
    let kept = |objective: Objective| learned.p95_ms <= objective.latency.as_secs_f64() * 1000.0;
    let converged = cost <= COST && learned.objective_kept && file(text, seed).objective.is_none_or(kept);
    (!converged).then(|| format!("{user:?}, seed {seed}: {cost:.2} of the pod-seconds\n{learned:?}"))
}

/// Clients that wait for their responses send the fewer requests the fewer pods there are, so
/// pod-seconds alone do not compare. In all other rows both runs have the same requests.
fn pod_seconds_of_a_request(outcome: &Outcome) -> f64 {
    outcome.pod_seconds as f64 / outcome.requests as f64
}

/// Why the target moved under a slow dependency, or cost pods, if so.
fn dependency_fault(seed: u64) -> Option<String> {
    let (learned, still) = beside_optimum(DEPENDENCY, Factor(1.0), seed, seconds(1800));
    let before = target_at(&learned, 1800);
    let moved = targets_between(&learned, 1800, 2400).any(|target| (target / before - 1.0).abs() > 0.05);
    let faulty = moved || learned.pod_seconds as f64 > 1.02 * still.pod_seconds as f64;
    faulty.then(|| {
        format!("seed {seed}: {} and {} pod-seconds\n{learned:?}", learned.pod_seconds, still.pod_seconds)
    })
}

/// Why a changing mix moved the target too often, or cost misses, if so.
fn mixes_fault(seed: u64) -> Option<String> {
    let (learned, still) = beside_optimum(MIXES, Factor(1.0), seed, Duration::ZERO);
    let times = change_times(&learned);
    let often = times.iter().zip(times.iter().skip(1)).any(|(one, next)| next - one < 600);
    let faulty = often || (still.objective_kept && !learned.objective_kept);
    faulty.then(|| format!("seed {seed}: {} misses without learning\n{learned:?}", still.misses))
}

/// Why a target at the optimum left it, if it did.
fn diurnal_fault(seed: u64) -> Option<String> {
    let (learned, still) = beside_optimum(DIURNAL, Factor(1.0), seed, Duration::ZERO);
    let optimum = file(DIURNAL, seed).first_target();
    let moved = targets_between(&learned, 0, 7200).any(|target| (target / optimum - 1.0).abs() > 0.1);
    let faulty = moved || learned.pod_seconds as f64 > 1.02 * still.pod_seconds as f64;
    faulty.then(|| format!("seed {seed}: {} pod-seconds without learning\n{learned:?}", still.pod_seconds))
}

fn release_fault(seed: u64) -> Option<String> {
    convergence_fault(RELEASE, Factor(1.0), seed, seconds(2400))
}

/// Why costs raised the target within two hours from a release without another change, or a raise
/// had to be taken back, if so. The user's target is so many times the optimum.
fn unchanged_fault(factor: f64, seed: u64) -> Option<String> {
    let learned = Factor(factor).of(&file(UNCHANGED, seed)).run_after(TEN_MINUTES).unwrap();
    let before = target_at(&learned, RELEASED);
    let is_raised = |(_, target, phase): &(u64, f64, String)| phase == "Reverted" && *target > 1.1 * before;
    let faulty = learned.targets.iter().any(is_raised) || takes_raise_back(&learned, RELEASED);
    faulty.then(|| format!("seed {seed}: {learned:?}"))
}

/// Whether a raise from this second on was followed by a lower target.
fn takes_raise_back(outcome: &Outcome, from: u64) -> bool {
    let targets: Vec<_> = targets_between(outcome, from, u64::MAX).collect();
    let changes = || targets.iter().zip(targets.iter().skip(1)).filter(|(one, next)| one != next);
    changes().zip(changes().skip(1)).any(|((before, raised), (_, after))| raised > before && after < raised)
}

/// Why the CPU time of a request did not lower the target before the load came, or the run did not
/// converge, if so.
fn low_load_fault(seed: u64) -> Option<String> {
    let learned = Factor(4.0).of(&file(LOW_LOAD, seed)).run().unwrap();
    let before = target_at(&learned, LOADED);
    let late = (before > 20.0).then(|| format!("seed {seed}: {before:.2} before the load\n{learned:?}"));
    late.or_else(|| convergence_fault(LOW_LOAD, Factor(4.0), seed, AFTER_LOW_LOAD))
}

/// Kills from ten minutes after the release on: before, the target is one of the former memory.
fn more_memory_fault(factor: f64, seed: u64) -> Option<String> {
    let kills = |text: &str| Factor(factor).of(&file(text, seed)).run_after(AFTER_RELEASE).unwrap().oom_kills;
    // A shorter run is the start of a longer one.
    let first = kills(&MORE_MEMORY.replace("duration: 3h", "duration: 70m"));
    let later = kills(MORE_MEMORY) - first;
    let fault =
        (later > 1).then(|| format!("seed {seed}: {first} kills until the 70th minute, {later} later"));
    fault.or_else(|| convergence_fault(MORE_MEMORY, Factor(factor), seed, AFTER_RELEASE))
}

fn memory_fault(user: UserTarget, seed: u64, warm_up: Duration) -> Option<String> {
    let (learned, _) = beside_optimum(MEMORY, user, seed, warm_up);
    let kills = (learned.oom_kills > 1)
        .then(|| format!("{user:?}, seed {seed}: {} kills\n{learned:?}", learned.oom_kills));
    kills.or_else(|| convergence_fault(MEMORY, user, seed, warm_up))
}

fn targets_between(outcome: &Outcome, from: u64, until: u64) -> impl Iterator<Item = f64> {
    let later = outcome.targets.iter().filter(move |(at, ..)| (from..until).contains(at));
    std::iter::once(target_at(outcome, from)).chain(later.map(|(_, target, _)| *target))
}

fn target_at(outcome: &Outcome, second: u64) -> f64 {
    outcome.targets.iter().rev().find(|(at, ..)| *at <= second).map_or(f64::NAN, |(_, target, _)| *target)
}

fn change_times(outcome: &Outcome) -> Vec<u64> {
    let pairs = outcome.targets.iter().zip(outcome.targets.iter().skip(1));
    pairs.filter(|(one, next)| one.1 != next.1).map(|(_, next)| next.0).collect()
}

/// One row of the acceptance table: `None` is a pass.
type Row = (&'static str, fn(u64) -> Option<String>);

const ROWS: [Row; 43] = [
    ("eight servers, tight objective, x1/4", |seed| {
        convergence_fault(EIGHT_SERVERS, Factor(0.25), seed, TEN_MINUTES)
    }),
    ("eight servers, tight objective, x4", |seed| {
        convergence_fault(EIGHT_SERVERS, Factor(4.0), seed, TEN_MINUTES)
    }),
    ("eight servers, cv 1, x1/4", |seed| convergence_fault(CV_1, Factor(0.25), seed, TEN_MINUTES)),
    ("eight servers, cv 1, x4", |seed| convergence_fault(CV_1, Factor(4.0), seed, TEN_MINUTES)),
    ("eight servers, cv 4, x1/4", |seed| convergence_fault(CV_4, Factor(0.25), seed, TEN_MINUTES)),
    ("eight servers, cv 4, x4", |seed| convergence_fault(CV_4, Factor(4.0), seed, TEN_MINUTES)),
    ("slow endpoint, x1/4", |seed| convergence_fault(SLOW_ENDPOINT, Factor(0.25), seed, TEN_MINUTES)),
    ("slow endpoint, x4", |seed| convergence_fault(SLOW_ENDPOINT, Factor(4.0), seed, TEN_MINUTES)),
    ("one core, x1/4", |seed| convergence_fault(ONE_CORE, Factor(0.25), seed, TEN_MINUTES)),
    ("one core, x4", |seed| convergence_fault(ONE_CORE, Factor(4.0), seed, TEN_MINUTES)),
    ("one core, a tenth of the load at first, x4", low_load_fault),
    ("memory limit, x1/4", |seed| memory_fault(Factor(0.25), seed, TEN_MINUTES)),
    ("memory limit, x4", |seed| memory_fault(Factor(4.0), seed, FIVE_MINUTES)),
    ("no target, eight servers, tight objective", |seed| {
        convergence_fault(EIGHT_SERVERS, NoneWithLimit(0), seed, FIVE_MINUTES)
    }),
    ("no target, eight servers, cv 1", |seed| convergence_fault(CV_1, NoneWithLimit(0), seed, FIVE_MINUTES)),
    ("no target, eight servers, cv 4", |seed| convergence_fault(CV_4, NoneWithLimit(0), seed, FIVE_MINUTES)),
    ("no target, one core", |seed| convergence_fault(ONE_CORE, NoneWithLimit(0), seed, FIVE_MINUTES)),
    ("no target, memory limit", |seed| memory_fault(NoneWithLimit(0), seed, FIVE_MINUTES)),
    ("no target, eight servers, cv 1, limit 20", |seed| {
        convergence_fault(CV_1, NoneWithLimit(20), seed, TEN_MINUTES)
    }),
    ("no target, one core, limit 30", |seed| {
        convergence_fault(ONE_CORE, NoneWithLimit(30), seed, TEN_MINUTES)
    }),
    ("no target, memory limit, limit 10", |seed| memory_fault(NoneWithLimit(10), seed, TEN_MINUTES)),
    ("no target, no objective, eight servers, cv 1, at most ten pods", |seed| {
        convergence_fault(CV_1, Nothing(10), seed, FIVE_MINUTES)
    }),
    ("no target, no objective, eight servers, cv 4", |seed| {
        convergence_fault(CV_4, Nothing(1000), seed, FIVE_MINUTES)
    }),
    ("no target, no objective, one core", |seed| {
        convergence_fault(ONE_CORE, Nothing(1000), seed, FIVE_MINUTES)
    }),
    ("no target, warm-up", |seed| convergence_fault(WARM_UP, NoneWithLimit(0), seed, FIVE_MINUTES)),
    ("no target, bursts", |seed| convergence_fault(BURSTS, NoneWithLimit(0), seed, FIVE_MINUTES)),
    ("no target, closed loop", |seed| convergence_fault(CLOSED_LOOP, NoneWithLimit(0), seed, FIVE_MINUTES)),
    ("no target, slow pod", |seed| convergence_fault(SLOW_POD, NoneWithLimit(0), seed, FIVE_MINUTES)),
    ("no target, slow endpoint", |seed| {
        convergence_fault(SLOW_ENDPOINT, NoneWithLimit(0), seed, FIVE_MINUTES)
    }),
    ("no target, one pod", |seed| convergence_fault(ONE_POD, NoneWithLimit(0), seed, FIVE_MINUTES)),
    ("slow dependency", dependency_fault),
    ("two mixes", mixes_fault),
    ("diurnal load at the optimum", diurnal_fault),
    ("release", release_fault),
    ("release without a change", |seed| unchanged_fault(1.0, seed)),
    ("release without a change, x4", |seed| unchanged_fault(4.0, seed)),
    ("release without a change, 70", |seed| unchanged_fault(8.75, seed)),
    ("slower release", |seed| convergence_fault(SLOWER, Factor(1.0), seed, AFTER_RELEASE)),
    ("slower release, x4", |seed| convergence_fault(SLOWER, Factor(4.0), seed, AFTER_RELEASE)),
    ("faster release", |seed| convergence_fault(FASTER, Factor(1.0), seed, AFTER_RELEASE)),
    ("faster release, x1/4", |seed| convergence_fault(FASTER, Factor(0.25), seed, AFTER_RELEASE)),
    ("release with more memory", |seed| more_memory_fault(1.0, seed)),
    ("release with more memory, x3", |seed| more_memory_fault(3.0, seed)),
];

#[test]
fn low_target_reaches_the_optimum_of_a_queue() {
    assert_eq!(convergence_fault(CV_1, Factor(0.25), 1, TEN_MINUTES), None);
}

#[test]
fn release_without_a_change_leads_to_no_overload() {
    assert_eq!(unchanged_fault(8.75, 1), None);
}

#[test]
fn high_target_reaches_the_optimum_of_a_queue() {
    assert_eq!(convergence_fault(CV_1, Factor(4.0), 1, TEN_MINUTES), None);
}

#[test]
fn optimum_of_a_queue_is_found_in_five_minutes_without_a_target() {
    assert_eq!(convergence_fault(CV_1, NoneWithLimit(0), 1, FIVE_MINUTES), None);
}

#[test]
fn optimum_is_found_at_the_maximum_of_pods_without_a_target_or_an_objective() {
    assert_eq!(convergence_fault(CV_1, Nothing(10), 1, FIVE_MINUTES), None);
}

#[test]
fn optimum_of_pods_with_a_memory_limit_is_found_without_a_target() {
    assert_eq!(memory_fault(NoneWithLimit(0), 1, FIVE_MINUTES), None);
}

#[test]
fn optimum_of_pods_that_warm_up_is_found_without_a_target() {
    assert_eq!(convergence_fault(WARM_UP, NoneWithLimit(0), 1, FIVE_MINUTES), None);
}

#[test]
fn optimum_beside_a_slow_endpoint_is_found_without_a_target() {
    assert_eq!(convergence_fault(SLOW_ENDPOINT, NoneWithLimit(0), 1, FIVE_MINUTES), None);
}

#[test]
fn burst_starts_no_pods_for_its_backlog_without_a_target() {
    assert_eq!(convergence_fault(BURSTS, NoneWithLimit(0), 4, FIVE_MINUTES), None);
}

#[test]
fn one_pod_stays_one_without_a_target() {
    assert_eq!(convergence_fault(ONE_POD, NoneWithLimit(0), 1, FIVE_MINUTES), None);
}

#[test]
fn low_target_reaches_the_optimum_of_a_core() {
    assert_eq!(convergence_fault(ONE_CORE, Factor(0.25), 1, TEN_MINUTES), None);
}

#[test]
fn cpu_of_pods_with_little_load_lowers_a_target_before_the_load_comes() {
    assert_eq!(low_load_fault(1), None);
}

#[test]
fn low_target_is_raised_when_the_service_time_uses_the_budget() {
    assert_eq!(convergence_fault(EIGHT_SERVERS, Factor(0.25), 1, TEN_MINUTES), None);
}

#[test]
fn changing_mix_moves_the_target_at_most_once_in_ten_minutes() {
    assert_eq!(mixes_fault(1), None);
}

#[test]
fn release_with_slower_requests_reaches_the_optimum_again() {
    assert_eq!(release_fault(1), None);
}

#[test]
fn memory_of_the_pods_limits_the_target_without_a_kill() {
    assert_eq!(memory_fault(Factor(0.25), 1, TEN_MINUTES), None);
}

#[test]
fn target_above_the_memory_limit_leads_to_a_single_kill() {
    assert_eq!(memory_fault(Factor(4.0), 1, FIVE_MINUTES), None);
}

#[test]
fn recommended_target_changes_no_size() {
    let file = ScenarioFile { learn: LearnTarget::Recommend, target: Some(2.0), ..file(CV_1, 1) };
    let recommended = file.run().unwrap();
    let off = ScenarioFile { learn: LearnTarget::Off, ..file }.run().unwrap();
    assert_eq!(
        (recommended.pod_seconds, recommended.misses, recommended.requests),
        (off.pod_seconds, off.misses, off.requests)
    );
    assert!(recommended.changes > 0, "{recommended:?}");
}

/// The faults of a row, by as many threads as there are cores.
fn faults(fault: fn(u64) -> Option<String>, seeds: RangeInclusive<u64>) -> Vec<String> {
    let next = AtomicU64::new(*seeds.start());
    let take = || Some(next.fetch_add(1, Relaxed)).filter(|seed| seeds.contains(seed));
    let work = || std::iter::from_fn(take).filter_map(fault).collect::<Vec<_>>();
    let threads = available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}

/// Seeds `FIRST-LAST` of the environment, or all hundred.
fn seeds() -> RangeInclusive<u64> {
    let Ok(seeds) = std::env::var("SEEDS") else { return 1..=100 };
    let (first, last) = seeds.split_once('-').unwrap();
    first.parse().unwrap()..=last.parse().unwrap()
}

#[test]
#[ignore = "takes an hour; prints the rate of each row"]
fn hundred_seeds_of_each_row() {
    let part = std::env::var("ROW").unwrap_or_default();
    for (name, fault) in ROWS.into_iter().filter(|(name, _)| name.contains(&part)) {
        let faults = faults(fault, seeds());
        println!("{name}: {} of {}", seeds().count() - faults.len(), seeds().count());
        for fault in faults.iter().take(3) {
            println!("  {fault}");
        }
    }
}
