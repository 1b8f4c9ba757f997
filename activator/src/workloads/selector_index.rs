//! SelectorIndex: the workloads of one namespace, by one label of their selectors.
//!
//! A pod event evaluates the selectors that name one of the pod's labels, instead of the selector
//! of each workload of the namespace.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use autoscaler::contract::selector::{Requirement, Selector};

/// The workloads of one namespace that have a selector.
#[derive(Debug, Default)]
pub(super) struct SelectorIndex {
    /// Label to value to workloads. A workload is under one label only, with each of its values.
    by_label: HashMap<String, HashMap<String, BTreeSet<String>>>,
    /// Workloads with a selector that requires no value of any label.
    unindexed: BTreeSet<String>,
}

// === impl SelectorIndex ===

impl SelectorIndex {
    /// Adds a workload that is not in the index.
    pub(super) fn insert(&mut self, workload: &str, selector: &Selector) {
        // Labels such as the team's are common to many workloads.
        let rarest = required(selector).min_by_key(|(label, values)| self.count(label, values));
        let Some((label, values)) = rarest else {
            self.unindexed.insert(workload.to_owned());
            return;
        };
        let by_value = self.by_label.entry(label.to_owned()).or_default();
        for value in values {
            by_value.entry(value.clone()).or_default().insert(workload.to_owned());
        }
    }

    /// Removes a workload that was added with this selector.
    pub(super) fn remove(&mut self, workload: &str, selector: &Selector) {
        self.unindexed.remove(workload);
        for (label, values) in required(selector) {
            let Some(by_value) = self.by_label.get_mut(label) else { continue };
            for value in values {
                let Some(workloads) = by_value.get_mut(value) else { continue };
                workloads.remove(workload);
                if workloads.is_empty() {
                    by_value.remove(value);
                }
            }
            if by_value.is_empty() {
                self.by_label.remove(label);
            }
        }
    }

    /// The workloads that may select an object with these labels: all that do, and some that do
    /// not.
    pub(super) fn candidates<'a>(
        &'a self,
        labels: &'a BTreeMap<String, String>,
    ) -> impl Iterator<Item = &'a str> {
        let labelled = labels.iter().filter_map(|(label, value)| self.by_label.get(label)?.get(value));
        labelled.flatten().chain(&self.unindexed).map(String::as_str)
    }

    /// How many workloads have one of these values.
    fn count(&self, label: &str, values: &[String]) -> usize {
        let by_value = self.by_label.get(label);
        let workloads = values.iter().filter_map(|value| by_value?.get(value));
        workloads.map(BTreeSet::len).sum()
    }
}

/// The labels that a selector requires, with the permitted values.
fn required(selector: &Selector) -> impl Iterator<Item = (&str, &[String])> {
    selector.requirements().iter().filter_map(|requirement| match requirement {
        Requirement::In(label, values) => Some((label.as_str(), values.as_slice())),
        Requirement::NotIn(..) | Requirement::Exists(_) | Requirement::DoesNotExist(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SELECTORS: [&str; 8] = [
        "app=a",
        "app=b,team=x",
        "team=x",
        "app in (a, b)",
        "app in (a, b),team in (x, y)",
        "app,team!=x",
        "!app",
        "app=a,app=b",
    ];

    fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
        let value = |values: &'static [&'static str]| prop::option::of(prop::sample::select(values));
        (value(&["a", "b", "c"]), value(&["x", "y"])).prop_map(|(app, team)| {
            let labels = [("app", app), ("team", team)];
            let set = labels.into_iter().filter_map(|(label, value)| Some((label, value?)));
            set.map(|(label, value)| (label.to_owned(), value.to_owned())).collect()
        })
    }

    proptest! {
        /// Each step adds a workload with a selector, replaces its selector, or removes it.
        #[test]
        fn candidates_include_each_workload_that_selects_the_labels(
            steps in prop::collection::vec((0..6_usize, prop::option::of(prop::sample::select(&SELECTORS))), 0..40),
            labels in labels(),
        ) {
            let mut index = SelectorIndex::default();
            let mut workloads = BTreeMap::new();
            for (workload, selector) in steps {
                let name = workload.to_string();
                if let Some(before) = workloads.remove(&name) {
                    index.remove(&name, &before);
                }
                if let Some(selector) = selector {
                    let selector = Selector::parse(selector).unwrap();
                    index.insert(&name, &selector);
                    workloads.insert(name, selector);
                }
            }
            let selecting = |name: &&str| workloads.get(*name).is_some_and(|it| it.matches(&labels));
            let found: BTreeSet<&str> = index.candidates(&labels).filter(selecting).collect();
            let all: BTreeSet<&str> = workloads.keys().map(String::as_str).filter(selecting).collect();
            prop_assert_eq!(found, all);
            for (name, selector) in &workloads {
                index.remove(name, selector);
            }
            prop_assert!(index.by_label.is_empty() && index.unindexed.is_empty());
        }
    }

    #[test]
    fn workloads_with_a_common_label_are_found_by_another_one() {
        let mut index = SelectorIndex::default();
        for i in 0..100 {
            let selector = Selector::parse(&format!("team=x,app=app-{i}")).unwrap();
            index.insert(&i.to_string(), &selector);
        }
        let labels =
            [("team", "x"), ("app", "app-50")].map(|(label, value)| (label.to_owned(), value.to_owned()));
        let candidates: Vec<_> = index.candidates(&labels.into()).map(str::to_owned).collect();
        assert!(candidates.len() <= 2 && candidates.contains(&"50".to_owned()), "{candidates:?}");
    }
}
