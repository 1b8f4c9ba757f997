//! The workloads of a seed.

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use super::description::{Behavior, Change, Description, End, Fault, HpaForm, Kind, PodForm, ServiceForm};
use super::names::names;
use crate::workloads::workload::Sidecar;

const KINDS: [Kind; 4] = [Kind::Deployment, Kind::StatefulSet, Kind::ReplicaSet, Kind::CustomResource];
const SIDECARS: [Sidecar; 3] = [Sidecar::Native, Sidecar::AppFirst, Sidecar::None];

/// So many workloads of a seed.
pub fn workloads(seed: u64, count: usize) -> Vec<Description> {
    (0..count).map(|index| workload(seed, index)).collect()
}

/// The workload of an index. The faults take turns, so that few workloads have many of them.
fn workload(seed: u64, index: usize) -> Description {
    let mut random = StdRng::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index as u64);
    let random = &mut random;
    let fault = fault(seed.wrapping_add(index as u64));
    let (kind, sidecar) = one_of(random, &forms(fault));
    let names = names(random, kind);
    let service = service(random, sidecar);
    let is_full = fault == Some(Fault::QuotaFull);
    let behaviors = [Behavior::Fast, Behavior::Fast, Behavior::Default, Behavior::NeverDown];
    let behavior = one_of(random, &behaviors);
    // With the others the HPA stays above minReplicas for longer than the test, after a burst.
    let is_elastic = behavior == Behavior::Fast && !is_full;
    let hpa = HpaForm {
        max_replicas: if is_elastic { random.random_range(1..=3) } else { 1 },
        behavior,
        burst_capacity: one_of(random, &[0, 211, -1]),
    };
    let pods = PodForm {
        second_label: random.random_bool(0.3),
        limited: !is_full && random.random_bool(0.3),
        // A sidecar queues ten times as many, which is more than the requests of a load.
        concurrency: one_of(random, &[0, 0, 4, 10]),
    };
    let change = change(random, kind, sidecar, service, (is_full, is_elastic));
    let end = end(random, service);
    Description { index, kind, names, sidecar, service, pods, hpa, fault, change, end }
}

fn service(random: &mut impl Rng, sidecar: Sidecar) -> ServiceForm {
    let attached = sidecar != Sidecar::None && random.random_bool(0.5);
    ServiceForm {
        attached,
        ports: random.random_range(1..=3),
        named_target: random.random_bool(0.5),
        udp: random.random_bool(0.3),
        app_protocol: random.random_bool(0.3),
        node_port: random.random_bool(0.2),
        // One that selects its pods as well does not go to zero.
        publishes_not_ready: random.random_bool(0.2) && !attached,
    }
}

/// Of four workloads one has no fault. The others have all faults, in an order that mixes their
/// phases.
fn fault(turn: u64) -> Option<Fault> {
    let all = Fault::ALL.len() as u64;
    let at = turn % (all / 3 * 4);
    let faulty = at.checked_sub(at / 4 + 1).filter(|_| !at.is_multiple_of(4))?;
    // 4 and the number of faults have no common divisor.
    Fault::ALL.get(usize::try_from(faulty * 4 % all).ok()?).copied()
}

/// The kinds and pods that can have a fault. Deployments are as frequent as all others together.
fn forms(fault: Option<Fault>) -> Vec<(Kind, Sidecar)> {
    let kinds = [Kind::Deployment, Kind::Deployment].into_iter().chain(KINDS);
    let forms = kinds.flat_map(|kind| SIDECARS.map(|sidecar| (kind, sidecar)));
    forms.filter(|(kind, sidecar)| fault.is_none_or(|it| it.applies_to(*kind, *sidecar))).collect()
}

fn change(
    random: &mut impl Rng,
    kind: Kind,
    sidecar: Sidecar,
    service: ServiceForm,
    (is_full, is_elastic): (bool, bool),
) -> Change {
    let mut possible = vec![Change::Nothing, Change::Port];
    possible.extend(is_elastic.then_some(Change::Bounds));
    // The quota has no room for the second pod of a rollout. A StatefulSet replaces its only pod.
    possible.extend((kind == Kind::Deployment && !is_full).then_some(Change::Rollout));
    let takes_selector = sidecar != Sidecar::None && !service.attached && !service.publishes_not_ready;
    possible.extend(takes_selector.then_some(Change::Selector));
    one_of(random, &possible)
}

fn end(random: &mut impl Rng, service: ServiceForm) -> End {
    let mut possible = vec![End::HpaDeleted, End::HpaOrphaned, End::TargetChanged, End::NamespaceDeleted];
    // Kubernetes alone routes nowhere without a selector.
    possible.extend(service.attached.then_some(End::HpaDeletedUnderLoad));
    one_of(random, &possible)
}

#[allow(clippy::indexing_slicing, reason = "the range is that of the slice, which is never empty")]
fn one_of<T: Copy>(random: &mut impl Rng, all: &[T]) -> T {
    all[random.random_range(0..all.len())]
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};

    use super::super::description::{Outcome, Phase};
    use super::super::names::{LONGEST, LONGEST_SERVICE, longest_target};
    use super::*;

    #[test]
    fn one_seed_gives_the_same_workloads_whatever_their_number() {
        assert_eq!(workloads(7, 200), workloads(7, 200));
        assert_eq!(workloads(7, 200).get(..12), Some(&workloads(7, 12)[..]));
        assert_ne!(workloads(7, 12), workloads(8, 12));
    }

    #[test]
    fn two_hundred_workloads_have_every_kind_fault_change_and_end() {
        for seed in 0..20 {
            let all = workloads(seed, 200);
            let count = |of: fn(&Description) -> String| all.iter().map(of).collect::<HashSet<_>>().len();
            assert_eq!(count(|it| format!("{:?}", it.kind)), 4);
            assert_eq!(count(|it| format!("{:?}", it.fault)), Fault::ALL.len() + 1, "seed {seed}");
            assert_eq!(count(|it| format!("{:?}", it.change)), 5);
            assert_eq!(count(|it| format!("{:?}", it.end)), 5);
            assert_eq!(count(|it| format!("{:?}", it.outcome())), 3);
        }
    }

    #[test]
    fn names_are_valid_and_reach_the_limits_of_the_api() {
        let mut lengths = BTreeSet::new();
        for workload in workloads(3, 300) {
            let names = &workload.names;
            let limits = [
                (&names.target, longest_target(workload.kind)),
                (&names.service, LONGEST_SERVICE),
                (&names.hpa, LONGEST),
            ];
            for (name, longest) in limits {
                assert!((1..=longest).contains(&name.len()), "{name}");
                for label in name.split('.') {
                    let letter = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase());
                    assert!(letter(label.chars().next()), "{name}");
                    assert!(label.chars().last().is_some_and(|c| c.is_ascii_alphanumeric()), "{name}");
                }
                lengths.insert(name.len());
            }
            assert!(!names.service.contains('.'));
        }
        assert!(lengths.contains(&LONGEST) && lengths.contains(&LONGEST_SERVICE));
    }

    #[test]
    fn faults_fit_their_workloads_and_those_that_are_not_served_are_reported() {
        for workload in (0..10).flat_map(|seed| workloads(seed, 200)) {
            let Some(fault) = workload.fault else { continue };
            assert!(fault.applies_to(workload.kind, workload.sidecar));
            assert!(fault.outcome() == Outcome::Sleeps || fault.report().is_some(), "{fault:?}");
            assert!(fault.outcome() != Outcome::StaysUp || fault.phase() != Phase::AtZero, "{fault:?}");
            if fault == Fault::QuotaFull {
                assert!(workload.hpa.max_replicas == 1 && workload.change != Change::Rollout);
            }
        }
    }

    #[test]
    fn service_that_publishes_not_ready_pods_never_has_a_selector() {
        let all: Vec<_> = (0..10).flat_map(|seed| workloads(seed, 200)).collect();
        let publishing: Vec<_> = all.iter().filter(|it| it.service.publishes_not_ready).collect();
        assert!(!publishing.is_empty());
        for workload in publishing {
            assert!(!workload.service.attached && workload.change != Change::Selector);
        }
    }

    #[test]
    fn service_of_pods_without_sidecar_has_no_selector() {
        for workload in workloads(5, 200).into_iter().filter(|it| it.sidecar == Sidecar::None) {
            assert!(!workload.service.attached && workload.change != Change::Selector);
        }
    }
}
