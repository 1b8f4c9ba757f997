//! ActivatorReports: which activators do not report, here or to a metrics-adapter.
//!
//! Without the reports of one activator no workload goes to zero: it may carry a request of any.
//! One that cannot report for longer than a drain, while others can, leaves the endpoints of all
//! workloads. It runs on, so its requests end as in a drain, and after the time of another drain
//! workloads go to zero again, except those that it published as carried, or, if it published
//! nothing, reported last. If none can report, all stay, and nothing goes to zero.
//!
//! Input: this process's push connections, the slices of Service `activator`, the Leases of
//! activators, and what the metrics-adapters miss: an activator that only they miss has to leave as
//! well.

use std::collections::BTreeSet;

use autoscaler::Key;
use autoscaler::stats::CarriedWorkloads;
use autoscaler::stats::reporters::{MissingReports, PublishedWorkloads, Reporters};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::clock::now;

/// The reports of all activators.
#[derive(Debug, Default)]
pub struct ActivatorReports {
    reporters: Mutex<Reporters>,
    adapters: Mutex<MissingReports>,
    seen: Mutex<SeenReports>,
}

/// What the last update found.
#[derive(Debug, Default)]
struct SeenReports {
    silent: BTreeSet<String>,
    are_complete: bool,
    cut_off: BTreeSet<String>,
    /// Activators that may carry requests without a report of them.
    carriers: BTreeSet<String>,
    /// Which activators are silent, and since when. Made once, so that it does not change.
    message: String,
}

/// What an update changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReportChanges {
    /// Activators became silent, report again, or carry no unreported requests any more.
    pub silent: bool,
    /// Activators have to leave the endpoints, or may return.
    pub cut_off: bool,
    /// Number of silent activators.
    pub number: usize,
}

// === impl ActivatorReports ===

impl ActivatorReports {
    /// An activator reported a whole second to this process, with requests of these workloads.
    pub fn reported(&self, name: &str, carried: CarriedWorkloads) {
        self.reporters.lock().reported(name, carried, now());
    }

    /// A report of an activator is missing, or its connection ended.
    pub fn interrupted(&self, name: &str) {
        self.reporters.lock().interrupted(name);
    }

    /// Takes the names of all activators in the slices, and whether each is ready.
    pub(super) fn list(&self, listed: impl IntoIterator<Item = (String, bool)>) {
        self.reporters.lock().list(listed, now());
    }

    /// Whether every activator that may carry requests reported the last second, everywhere.
    pub(super) fn are_complete(&self) -> bool {
        self.reporters.lock().are_complete(now()) && self.adapters.lock().silent.is_empty()
    }

    /// Takes what activators that cannot report published; see [`Reporters::publish`].
    pub fn publish(&self, published: PublishedWorkloads) -> CarriedWorkloads {
        self.reporters.lock().publish(published, now())
    }

    /// Which activators are silent, and since when; `None` if all requests of this workload are
    /// reported.
    pub(super) fn silence(&self, key: &Key) -> Option<String> {
        if !self.are_complete() {
            return Some(self.seen.lock().message.clone());
        }
        let reporters = self.reporters.lock();
        let activator = reporters.carrier(key, now())?;
        Some(format!(
            "activator {activator} cannot report its requests of this workload, which may not have ended"
        ))
    }

    /// Keeps the activators that may be in endpoints; `name_of` is the name of their pod.
    pub(super) fn retain_reporting<T>(&self, ready: &mut Vec<T>, name_of: impl Fn(&T) -> String) {
        let adapters = self.adapters.lock().cut_off.clone();
        let here: Vec<String> = self.reporters.lock().cut_off(now()).map(str::to_owned).collect();
        ready.retain(|activator| !here.contains(&name_of(activator)));
        // Different activators may be cut off from different receivers, and one has to stay.
        if ready.iter().any(|activator| !adapters.contains(&name_of(activator))) {
            ready.retain(|activator| !adapters.contains(&name_of(activator)));
        }
    }

    /// Compares with the last update. `adapters`: what the metrics-adapters miss.
    pub(super) fn update(&self, adapters: MissingReports, at: Timestamp) -> ReportChanges {
        let reporters = self.reporters.lock();
        let (here, are_complete) = (reporters.missing(now()), reporters.are_complete(now()));
        let carriers = reporters.unreported(now()).filter(|(_, workloads)| !workloads.is_none());
        let carriers = carriers.map(|(name, _)| name.to_owned()).collect();
        drop(reporters);
        let union = |one: &[String], other: &[String]| one.iter().chain(other).cloned().collect();
        let silent: BTreeSet<String> = union(&here.silent, &adapters.silent);
        let cut_off: BTreeSet<String> = union(&here.cut_off, &adapters.cut_off);
        *self.adapters.lock() = adapters;
        let mut seen = self.seen.lock();
        let changes = ReportChanges {
            silent: seen.silent != silent || seen.are_complete != are_complete || seen.carriers != carriers,
            cut_off: seen.cut_off != cut_off,
            number: silent.len(),
        };
        if seen.silent != silent {
            let names = silent.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            let at = at.round(jiff::Unit::Second).unwrap_or(at);
            seen.message = format!("activator {names} does not report its requests since {at}");
            tracing::warn!(activators = %names, "silent activators changed");
        }
        for name in cut_off.difference(&seen.cut_off) {
            tracing::warn!(activator = %name, "activator does not report, removed from endpoints");
        }
        (seen.silent, seen.are_complete) = (silent, are_complete);
        (seen.cut_off, seen.carriers) = (cut_off, carriers);
        changes
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use autoscaler::stats::reporters::DRAIN;

    use super::*;

    fn two_activators() -> ActivatorReports {
        let reports = ActivatorReports::default();
        reports.list(["a", "b"].map(|name| (name.to_owned(), true)));
        reports.publish(PublishedWorkloads::new());
        reports
    }

    fn missing(silent: &[&str], cut_off: &[&str]) -> MissingReports {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        MissingReports { silent: names(silent), cut_off: names(cut_off) }
    }

    fn in_endpoints(reports: &ActivatorReports) -> Vec<&'static str> {
        let mut ready = vec!["a", "b"];
        reports.retain_reporting(&mut ready, |name| (*name).to_owned());
        ready
    }

    #[tokio::test(start_paused = true)]
    async fn activator_that_an_adapter_misses_is_silent_here_too() {
        let reports = two_activators();
        ["a", "b"].into_iter().for_each(|name| reports.reported(name, CarriedWorkloads::none()));
        assert!(reports.are_complete());
        let changes = reports.update(missing(&["b"], &[]), Timestamp::UNIX_EPOCH);
        assert_eq!(changes, ReportChanges { silent: true, cut_off: false, number: 1 });
        assert!(!reports.are_complete());
        let silence = reports.silence(&Key::new("shop", "web")).unwrap();
        assert_eq!(silence, "activator b does not report its requests since 1970-01-01T00:00:00Z");
        assert_eq!(in_endpoints(&reports), ["a", "b"]);
        assert!(reports.update(missing(&["b"], &["b"]), Timestamp::UNIX_EPOCH).cut_off);
        assert_eq!(in_endpoints(&reports), ["a"]);
        assert!(reports.update(missing(&[], &[]), Timestamp::UNIX_EPOCH).silent);
        assert!(reports.are_complete());
        assert_eq!(in_endpoints(&reports), ["a", "b"]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_activator_stays_if_each_is_cut_off_from_another_receiver() {
        let reports = two_activators();
        for _ in 0..DRAIN.as_secs() + 3 {
            tokio::time::advance(Duration::from_secs(1)).await;
            reports.reported("a", CarriedWorkloads::none());
        }
        assert_eq!(in_endpoints(&reports), ["a"]);
        reports.update(missing(&["a"], &["a"]), Timestamp::UNIX_EPOCH);
        assert_eq!(in_endpoints(&reports), ["a"]);
    }
}
