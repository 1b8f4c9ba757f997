//! Reporters: which activators are due to report, and whether all of them did.
//!
//! The metrics-adapter and the zero-scaler have one each, of their own connections and of the
//! EndpointSlices of Service `activator`. An activator that is silent may carry any request, so
//! nothing counts as idle or as complete until every activator that is due has reported.
//!
//! | activator | due |
//! |---|---|
//! | ready | yes |
//! | not ready, or terminating | for the time of a drain |
//! | in no slice | no: Kubernetes removes a pod from them when its process has ended |
//! | ready, and [cut off](Reporters::cut_off) | for the time of a drain, outside the endpoints |
//!
//! One that is due no more may still carry long requests. It publishes their workloads through the
//! API server ([`CarriedWorkloads`]), and of those nothing is complete. Where it has published
//! nothing, the API server may be out of its reach too: then it is so for the workloads of its last
//! report.
//!
//! What surprises: with no reporter that is due, nothing is complete. The sum of no reports is not
//! zero.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::carried_workloads::CarriedWorkloads;
use crate::contract::key::Key;

/// Time between two reports of an activator.
pub const BEAT: Duration = Duration::from_secs(1);
/// A connection without a message for this time is dead: three beats, and the delay of one.
pub const LOST_AFTER: Duration = Duration::from_millis(3500);
/// Oldest report with which a second is complete. It is sent at the end of its second, and may be
/// half a second late.
const LATE: Duration = Duration::from_millis(2500);
/// Longest drain of an activator: its `terminationGracePeriodSeconds`.
pub const DRAIN: Duration = Duration::from_secs(120);
/// Time after which an activator that cannot report publishes what it carries. Longer than the loss
/// of a node takes, and much shorter than the time for which it is due.
pub const PUBLISH_AFTER: Duration = Duration::from_secs(60);

/// What activators published, by the names of their pods.
pub type PublishedWorkloads = BTreeMap<String, CarriedWorkloads>;

/// The activators of an installation.
#[derive(Debug, Default)]
pub struct Reporters {
    activators: BTreeMap<String, Reporter>,
    /// `None` until it was read for the first time.
    published: Option<PublishedWorkloads>,
}

#[derive(Debug)]
struct Reporter {
    listing: Listing,
    /// Since when each second was reported, and the last report; `None` while it is silent.
    reports: Option<(Instant, Instant)>,
    silent_since: Instant,
    /// The workloads with requests in its last second that was reported.
    carried: CarriedWorkloads,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listing {
    Ready,
    NotReadySince(Instant),
    /// In no slice, or not ready for the first time.
    Absent,
}

/// An activator that is due and silent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SilentReporter {
    /// Name of its pod.
    pub activator: String,
    pub since: Instant,
}

/// What one receiver of reports misses, as it reports it to another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MissingReports {
    /// Names of the activators that are due and silent.
    pub silent: Vec<String>,
    /// Names of those that should leave the endpoints.
    pub cut_off: Vec<String>,
}

// === impl Reporters ===

impl Reporters {
    /// Takes the names of all activators in the slices, and whether each is ready.
    pub fn list(&mut self, listed: impl IntoIterator<Item = (String, bool)>, now: Instant) {
        let mut absent: Vec<String> = self.activators.keys().cloned().collect();
        // In the first list, an activator that is not ready may be draining; later it is starting.
        let is_first = self.activators.values().all(|reporter| reporter.listing == Listing::Absent);
        for (name, is_ready) in listed {
            absent.retain(|other| *other != name);
            let reporter = self.activators.entry(name).or_insert_with(|| Reporter::new(now));
            reporter.listing = match reporter.listing {
                _ if is_ready => Listing::Ready,
                Listing::Absent if !is_first => Listing::Absent,
                Listing::NotReadySince(since) => Listing::NotReadySince(since),
                Listing::Ready | Listing::Absent => Listing::NotReadySince(now),
            };
        }
        for name in absent {
            self.activators.entry(name).and_modify(|reporter| reporter.listing = Listing::Absent);
        }
        self.activators
            .retain(|_, reporter| reporter.listing != Listing::Absent || reporter.reports.is_some());
    }

    /// Takes what activators published. Returns the workloads that none of them carries any more.
    pub fn publish(&mut self, published: PublishedWorkloads, now: Instant) -> CarriedWorkloads {
        let before: Vec<_> = self.unreported(now).map(|(_, workloads)| workloads.clone()).collect();
        self.published = Some(published);
        let mut after = self.unreported(now).map(|(_, workloads)| workloads);
        if before.contains(&CarriedWorkloads::All) && !after.any(|it| *it == CarriedWorkloads::All) {
            return CarriedWorkloads::All;
        }
        let listed = before.into_iter().flat_map(CarriedWorkloads::into_listed);
        CarriedWorkloads::new(listed.filter(|key| self.carrier(key, now).is_none()))
    }

    /// The activator that may carry requests of this workload without a report of them.
    pub fn carrier(&self, key: &Key, now: Instant) -> Option<&str> {
        let mut unreported = self.unreported(now);
        unreported.find(|(_, workloads)| workloads.contains(key)).map(|(activator, _)| activator)
    }

    /// What activators published, and what the silent ones without a publication carried when they
    /// last reported. One that is not ready ends within a drain.
    pub fn unreported(&self, now: Instant) -> impl Iterator<Item = (&str, &CarriedWorkloads)> {
        let published = self.published.iter().flatten();
        let silent = self.activators.iter().filter(move |(name, reporter)| {
            let has_published = self.published.as_ref().is_some_and(|all| all.contains_key(*name));
            reporter.listing == Listing::Ready && reporter.is_silent(now) && !has_published
        });
        let last_reported = silent.map(|(name, reporter)| (name, &reporter.carried));
        published.chain(last_reported).map(|(name, workloads)| (name.as_str(), workloads))
    }

    /// An activator reported a whole second, with requests of these workloads.
    pub fn reported(&mut self, name: &str, carried: CarriedWorkloads, now: Instant) {
        if !self.activators.contains_key(name) {
            self.activators.insert(name.to_owned(), Reporter::new(now));
        }
        if let Some(reporter) = self.activators.get_mut(name) {
            let since = reporter.reports.filter(|_| !reporter.is_silent(now)).map_or(now, |(since, _)| since);
            reporter.reports = Some((since, now));
            reporter.silent_since = now;
            reporter.carried = carried;
        }
    }

    /// A report of an activator is missing, or its connection ended.
    pub fn interrupted(&mut self, name: &str) {
        if let Some(reporter) = self.activators.get_mut(name) {
            reporter.reports = None;
        }
    }

    /// Whether every activator that is due reported the last second, and there is one.
    pub fn are_complete(&self, now: Instant) -> bool {
        let mut due = self.due(now).peekable();
        self.published.is_some() && due.peek().is_some() && due.all(|(_, reporter)| !reporter.is_silent(now))
    }

    /// Whether all requests of this workload were reported in the last second.
    pub fn are_complete_for(&self, key: &Key, now: Instant) -> bool {
        self.are_complete(now) && self.carrier(key, now).is_none()
    }

    /// Whether an activator with requests of this workload may not have reported the last second.
    pub fn is_any_silent_for(&self, key: &Key, now: Instant) -> bool {
        self.due(now).any(|(_, reporter)| reporter.is_silent(now)) || self.carrier(key, now).is_some()
    }

    /// The activators that are due and silent, by name.
    pub fn silent(&self, now: Instant) -> Vec<SilentReporter> {
        let silent = self.due(now).filter(|(_, reporter)| reporter.is_silent(now));
        silent
            .map(|(name, reporter)| SilentReporter { activator: name.clone(), since: reporter.silent_since })
            .collect()
    }

    /// The ready activators that should leave the endpoints: silent for longer than a drain, in
    /// which another ready activator reported each second. Requests that they carry end as in a
    /// drain. If no activator reports, all stay.
    pub fn cut_off(&self, now: Instant) -> impl Iterator<Item = &str> {
        let others_since = self.reporting_since(now);
        self.activators
            .iter()
            .filter(move |(_, reporter)| reporter.is_cut_off_for(DRAIN, others_since, now))
            .map(|(name, _)| name.as_str())
    }

    /// What another receiver needs.
    pub fn missing(&self, now: Instant) -> MissingReports {
        MissingReports {
            silent: self.silent(now).into_iter().map(|silent| silent.activator).collect(),
            cut_off: self.cut_off(now).map(str::to_owned).collect(),
        }
    }

    fn due(&self, now: Instant) -> impl Iterator<Item = (&String, &Reporter)> {
        let others_since = self.reporting_since(now);
        self.activators.iter().filter(move |(_, reporter)| match reporter.listing {
            Listing::Ready => !reporter.is_cut_off_for(2 * DRAIN, others_since, now),
            Listing::NotReadySince(since) => now.saturating_duration_since(since) <= DRAIN,
            Listing::Absent => false,
        })
    }

    /// Since when a ready activator reports without a gap.
    fn reporting_since(&self, now: Instant) -> Option<Instant> {
        let ready = self.activators.values().filter(|reporter| reporter.listing == Listing::Ready);
        let reporting = ready.filter(|reporter| !reporter.is_silent(now));
        reporting.filter_map(|reporter| Some(reporter.reports?.0)).min()
    }
}

// === impl Reporter ===

impl Reporter {
    fn new(now: Instant) -> Self {
        let carried = CarriedWorkloads::none();
        Self { listing: Listing::Absent, reports: None, silent_since: now, carried }
    }

    fn is_silent(&self, now: Instant) -> bool {
        self.reports.is_none_or(|(_, last)| now.saturating_duration_since(last) > LATE)
    }

    fn is_cut_off_for(&self, time: Duration, others_since: Option<Instant>, now: Instant) -> bool {
        let since = others_since.map(|others_since| others_since.max(self.silent_since));
        self.listing == Listing::Ready
            && self.is_silent(now)
            && since.is_some_and(|since| now.saturating_duration_since(since) > time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ready activators `a` and `b`, at the second after the start.
    struct Cluster {
        reporters: Reporters,
        start: Instant,
    }

    impl Cluster {
        fn new() -> Self {
            let start = tokio::time::Instant::now().into_std();
            let mut cluster = Self { reporters: Reporters::default(), start };
            cluster.reporters.publish(PublishedWorkloads::new(), start);
            cluster.list(0, &[("a", true), ("b", true)]);
            cluster
        }

        fn at(&self, second: u64) -> Instant {
            self.start + Duration::from_secs(second)
        }

        fn list(&mut self, second: u64, listed: &[(&str, bool)]) {
            let at = self.at(second);
            self.reporters.list(listed.iter().map(|(name, ready)| ((*name).to_owned(), *ready)), at);
        }

        /// Each of these reports in each of the seconds.
        fn report(&mut self, seconds: std::ops::RangeInclusive<u64>, names: &[&str]) {
            for second in seconds {
                let at = self.at(second);
                names.iter().for_each(|name| self.reporters.reported(name, CarriedWorkloads::none(), at));
            }
        }

        fn is_complete(&self, second: u64) -> bool {
            self.reporters.are_complete(self.at(second))
        }

        fn cut_off(&self, second: u64) -> Vec<&str> {
            self.reporters.cut_off(self.at(second)).collect()
        }

        fn silent(&self, second: u64) -> Vec<String> {
            self.reporters.silent(self.at(second)).into_iter().map(|silent| silent.activator).collect()
        }
    }

    #[test]
    fn drain_is_the_time_that_kubernetes_gives_activators() {
        let deployed = include_str!("../../../deploy/activator.yaml");
        assert!(deployed.contains(&format!("terminationGracePeriodSeconds: {}", DRAIN.as_secs())));
    }

    #[test]
    fn second_is_complete_only_with_report_of_every_ready_activator() {
        let mut cluster = Cluster::new();
        assert!(!cluster.is_complete(0));
        cluster.report(1..=5, &["a"]);
        assert!(!cluster.is_complete(5), "b has never reported");
        assert_eq!(cluster.silent(5), ["b"]);
        cluster.report(6..=9, &["a", "b"]);
        assert!(cluster.is_complete(9));
        cluster.report(10..=12, &["a"]);
        assert!(cluster.is_complete(11), "a late report");
        assert!(!cluster.is_complete(12));
        assert_eq!(cluster.reporters.silent(cluster.at(12))[0].since, cluster.at(9));
    }

    #[test]
    fn nothing_is_complete_without_activators() {
        let mut cluster = Cluster::new();
        assert!(!Reporters::default().are_complete(cluster.start));
        cluster.report(1..=1, &["a", "b"]);
        cluster.list(1, &[]);
        assert!(!cluster.is_complete(1));
        cluster.report(2..=2, &["simulated"]);
        assert!(!cluster.is_complete(2), "it is in no slice");
    }

    #[test]
    fn interrupted_reports_count_again_with_the_next_one() {
        let mut cluster = Cluster::new();
        cluster.report(1..=3, &["a", "b"]);
        cluster.reporters.interrupted("b");
        assert!(!cluster.is_complete(3));
        cluster.report(4..=4, &["a", "b"]);
        assert!(cluster.is_complete(4));
    }

    #[test]
    fn draining_activator_is_due_for_one_drain_and_ended_one_is_not() {
        let mut cluster = Cluster::new();
        cluster.report(1..=3, &["a", "b"]);
        cluster.list(3, &[("a", true), ("b", false)]);
        cluster.report(4..=122, &["a"]);
        cluster.list(100, &[("a", true), ("b", false)]);
        assert!(!cluster.is_complete(122));
        cluster.report(123..=124, &["a"]);
        assert!(cluster.is_complete(124));
        let mut cluster = Cluster::new();
        cluster.report(1..=3, &["a", "b"]);
        cluster.list(4, &[("a", true)]);
        cluster.report(4..=9, &["a"]);
        assert!(cluster.is_complete(9));
    }

    #[test]
    fn starting_activator_is_due_when_it_is_ready() {
        let mut cluster = Cluster::new();
        cluster.report(1..=3, &["a", "b"]);
        cluster.list(3, &[("a", true), ("b", true), ("c", false)]);
        assert!(cluster.is_complete(3));
        cluster.list(3, &[("a", true), ("b", true), ("c", true)]);
        assert!(!cluster.is_complete(3));
        let mut restarted = Cluster { reporters: Reporters::default(), ..cluster };
        restarted.reporters.publish(PublishedWorkloads::new(), restarted.start);
        restarted.list(3, &[("a", true), ("b", false)]);
        restarted.report(3..=3, &["a"]);
        assert!(!restarted.is_complete(3), "b may have been ready before this process started");
    }

    #[test]
    fn cut_off_activator_leaves_after_one_drain_and_is_due_for_another() {
        let mut cluster = Cluster::new();
        cluster.report(1..=10, &["a", "b"]);
        cluster.report(11..=130, &["a"]);
        assert_eq!(cluster.cut_off(130), [""; 0]);
        cluster.report(131..=250, &["a"]);
        assert_eq!(cluster.cut_off(250), ["b"]);
        assert!(!cluster.is_complete(250));
        cluster.report(251..=251, &["a"]);
        assert!(cluster.is_complete(251));
        cluster.report(252..=252, &["a", "b"]);
        assert_eq!(cluster.cut_off(252), [""; 0], "it returns with its first report");
    }

    #[test]
    fn all_stay_and_nothing_is_complete_if_none_reports() {
        let mut cluster = Cluster::new();
        cluster.report(1..=10, &["a", "b"]);
        assert_eq!((cluster.cut_off(10_000), cluster.is_complete(10_000)), (vec![], false));
        cluster.report(10_000..=10_120, &["a"]);
        assert_eq!(cluster.cut_off(10_120), [""; 0], "a drain counts from the first report of another");
        cluster.report(10_121..=10_121, &["a"]);
        assert_eq!(cluster.cut_off(10_121), ["b"]);
    }

    #[test]
    fn workload_of_published_requests_is_incomplete_until_they_end() {
        let mut cluster = Cluster::new();
        let [web, api] = ["web", "api"].map(|name| Key::new("shop", name));
        cluster.report(1..=300, &["a"]);
        assert!(cluster.reporters.are_complete_for(&web, cluster.at(300)), "b is due no more");
        let publish = |cluster: &mut Cluster, workloads: Option<&str>| {
            let published = workloads.map(|text| ("b".to_owned(), CarriedWorkloads::parse(text)));
            let now = cluster.at(300);
            let released = cluster.reporters.publish(published.into_iter().collect(), now);
            let is_complete = [&web, &api].map(|key| {
                let (reporters, now) = (&cluster.reporters, cluster.at(300));
                assert_eq!(reporters.are_complete_for(key, now), !reporters.is_any_silent_for(key, now));
                reporters.are_complete_for(key, now)
            });
            (released.to_string(), is_complete)
        };
        let expect = |released: &str, is_complete| (released.to_owned(), is_complete);
        assert_eq!(publish(&mut cluster, Some("shop/web")), expect("", [false, true]));
        assert_eq!(cluster.reporters.carrier(&web, cluster.at(300)), Some("b"));
        assert_eq!(publish(&mut cluster, Some("shop/web shop/api")), expect("", [false, false]));
        assert_eq!(publish(&mut cluster, Some("shop/api")), expect("shop/web", [true, false]));
        assert_eq!(publish(&mut cluster, Some("*")), expect("", [false, false]));
        assert_eq!(publish(&mut cluster, None), expect("*", [true, true]));
    }

    #[test]
    fn nothing_is_complete_before_published_requests_were_read() {
        let mut cluster = Cluster::new();
        cluster.reporters.published = None;
        cluster.report(1..=2, &["a", "b"]);
        assert!(!cluster.is_complete(2));
        cluster.reporters.publish(PublishedWorkloads::new(), cluster.at(2));
        assert!(cluster.is_complete(2));
    }

    #[test]
    fn workload_of_the_last_report_is_incomplete_while_activator_cannot_publish_either() {
        let [web, api] = ["web", "api"].map(|name| Key::new("shop", name));
        let cut_off = || {
            let mut cluster = Cluster::new();
            cluster.report(1..=10, &["a", "b"]);
            let carried = CarriedWorkloads::new([web.clone()]);
            cluster.reporters.reported("b", carried, cluster.start + Duration::from_secs(10));
            cluster.report(11..=300, &["a"]);
            let now = cluster.at(300);
            assert!(cluster.is_complete(300), "b is due no more");
            assert!(!cluster.reporters.are_complete_for(&web, now));
            assert!(cluster.reporters.are_complete_for(&api, now));
            (cluster, now)
        };
        let (mut cluster, now) = cut_off();
        let nothing = PublishedWorkloads::from([("b".to_owned(), CarriedWorkloads::none())]);
        assert_eq!(cluster.reporters.publish(nothing, now).to_string(), "shop/web", "its requests ended");
        assert!(cluster.reporters.are_complete_for(&web, now));
        let (mut cluster, now) = cut_off();
        cluster.report(300..=300, &["b"]);
        assert!(cluster.reporters.are_complete_for(&web, now), "it reports again");
        for listed in [vec![("a", true)], vec![("a", true), ("b", false)]] {
            let (mut cluster, _) = cut_off();
            cluster.list(300, &listed);
            cluster.report(301..=430, &["a"]);
            let reporters = &cluster.reporters;
            assert!(
                reporters.are_complete_for(&web, cluster.at(430)),
                "it has ended, or is lost: {listed:?}"
            );
        }
    }
}
