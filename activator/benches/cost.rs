//! Cost of a pod event, which one task of the process handles for all workloads.
//!
//! Run by `make bench`, after those of the crates `autoscaler` and `learning`.

#![allow(clippy::unwrap_used, reason = "a panic fails the benchmark, as intended")]

use std::collections::BTreeMap;
use std::process::ExitCode;

use activator::workloads::{ClusterChange, Pod, Workload, WorkloadIndex};
use autoscaler::Key;
use autoscaler::contract::selector::Selector;
use criterion::Bencher;

use cases::Case;

#[path = "../../autoscaler/benches/cases/mod.rs"]
mod cases;
#[path = "../../autoscaler/benches/table/mod.rs"]
mod table;

const CASES: &[Case] = &[
    Case { name: "pod event, one workload in its namespace", bound: Some(5000.0), run: |b| pod_event(b, 1) },
    Case {
        name: "pod event, 2,000 workloads in its namespace",
        bound: Some(5000.0),
        run: |b| pod_event(b, 2000),
    },
];

fn main() -> ExitCode {
    cases::run(CASES)
}

/// All workloads have a common label beside their own, as those of one Helm chart do.
fn workload(i: usize) -> ClusterChange {
    let selector = Selector::parse(&format!("app.kubernetes.io/part-of=shop,app=app-{i}")).unwrap();
    let workload = Workload { selector: Some(selector), ..Workload::default() };
    ClusterChange::Workload(Key::new("shop", format!("app-{i}")), Some(workload))
}

fn pod(i: usize, ready: bool) -> ClusterChange {
    let app = format!("app-{i}");
    let labels = [("app.kubernetes.io/part-of", "shop"), ("app", &app), ("pod-template-hash", "5d4f8c7b6d")];
    let labels: BTreeMap<_, _> =
        labels.into_iter().map(|(label, value)| (label.to_owned(), value.to_owned())).collect();
    let ip = Some([10, 0, 0, 1].into());
    let pod = Pod { uid: app.clone(), labels, ip, ready, injected: true, ..Pod::default() };
    ClusterChange::Pod(Key::new("shop", app + "-5d4f8c7b6d-x2x4z"), Some(pod))
}

/// Pods of all workloads, one after the other, become ready or unready.
fn pod_event(bencher: &mut Bencher<'_>, workloads: usize) {
    let mut index = WorkloadIndex::default();
    // In this order: a new workload visits all pods of its namespace.
    for i in 0..workloads {
        index.apply(workload(i));
    }
    for i in 0..workloads {
        index.apply(pod(i, false));
    }
    let mut event = workloads - 1;
    bencher.iter(|| {
        event += 1;
        let updates = index.apply(pod(event % workloads, event / workloads % 2 == 1));
        assert_eq!(updates.len(), 1);
    });
}
