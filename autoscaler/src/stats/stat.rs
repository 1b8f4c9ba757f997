//! The statistics of one process for one workload, and the message in which activators push them.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::AppStat;
use super::plausible::is_plausible;
use crate::Key;
use crate::contract::version_skew::KnownItems;
use crate::history::{FirstRequest, Wake};

/// Most items of one frame. With the longest names they take less than 1 MiB.
const MAX_ITEMS: usize = 800;

/// One reporting period (1 s) of one process, for one workload.
///
/// The fields are Knative's (stat.proto), and `app`. Concurrency is time-weighted over the period;
/// counts are requests that arrived in it, divided by its length, so they read as requests per
/// second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Stat {
    /// Name of the reporting pod; used in logs only.
    pub pod: String,
    /// Requests in flight or queued here, averaged over the period. Includes the proxied ones.
    pub average_concurrent_requests: f64,
    /// The part of `average_concurrent_requests` that an activator forwarded and has counted
    /// already.
    pub average_proxied_concurrent_requests: f64,
    /// Requests that arrived, per second. Includes the proxied ones.
    pub request_count: f64,
    /// The part of `request_count` that an activator forwarded.
    pub proxied_request_count: f64,
    /// Whole Unix seconds at the end of the period.
    pub timestamp: i64,
    /// The requests that ended; `None` of a whole workload from an activator, of TCP connections,
    /// and from a sidecar of an earlier version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app: Option<AppStat>,
}

/// A [`Stat`] and its workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatMessage {
    pub key: Key,
    /// The stat of one activator for the workload.
    pub stat: Stat,
}

/// One second of one pod without a sidecar, of the requests that one activator sent to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PodStat {
    pub key: Key,
    pub ip: IpAddr,
    /// From when a request was sent to the pod to the end of its response.
    pub stat: Stat,
}

/// One websocket text message of an activator: once a second for all workloads with requests, also
/// if there is none, and at once for one workload whose first request is held.
///
/// Items that cannot be decoded are skipped, so that a receiver of another version gets the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "DecodedReport")]
pub struct ActivatorReport {
    /// Name of the activator's pod.
    pub activator: String,
    /// Its number among the pokes of the activator, or among its other frames.
    pub sequence: u64,
    /// Whether it is a poke, which passes other frames.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_poke: bool,
    /// Whether it is the last frame of a second.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_beat: bool,
    /// The workloads with requests in this activator now or in the last period.
    pub messages: Vec<StatMessage>,
    /// The pods of these workloads whose target is learned without sidecars. A pod without a
    /// request is absent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<PodStat>,
    /// Slow wakes of requests that were answered since the last report.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slow_wakes: Vec<SlowWake>,
    /// Wakes whose first held request was answered since the last report.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wakes: Vec<WakeReport>,
    /// Requests since the last report that ended a second without requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub first_requests: Vec<FirstRequestReport>,
    /// Messages of workloads that could not be decoded.
    #[serde(skip_serializing)]
    pub skipped: usize,
}

/// An [`ActivatorReport`] as received.
#[derive(Deserialize)]
struct DecodedReport {
    activator: String,
    #[serde(default)]
    sequence: u64,
    #[serde(default)]
    is_poke: bool,
    #[serde(default)]
    is_beat: bool,
    messages: KnownItems<StatMessage>,
    #[serde(default)]
    pods: KnownItems<PodStat>,
    #[serde(default)]
    slow_wakes: KnownItems<SlowWake>,
    #[serde(default)]
    wakes: KnownItems<WakeReport>,
    #[serde(default)]
    first_requests: KnownItems<FirstRequestReport>,
}

/// A request that was held for long, for an event on the workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowWake {
    pub key: Key,
    /// Durations of the parts of one held request's path, as text for people.
    pub parts: String,
}

/// A [`Wake`] and its workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WakeReport {
    pub key: Key,
    /// What its first held request waited for.
    pub wake: Wake,
}

/// A [`FirstRequest`] and its workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstRequestReport {
    pub key: Key,
    pub request: FirstRequest,
}

// === impl ActivatorReport ===

impl ActivatorReport {
    /// Divides a report into frames of at most 1 MiB, so that receivers can bound them. Slow wakes,
    /// wakes and first requests are in the last one: senders bound their number.
    pub fn into_frames(mut self) -> Vec<Self> {
        let mut frames = Vec::new();
        while self.messages.len() + self.pods.len() > MAX_ITEMS {
            let messages = first_items(&mut self.messages, MAX_ITEMS);
            let pods = first_items(&mut self.pods, MAX_ITEMS - messages.len());
            let activator = self.activator.clone();
            frames.push(Self { activator, is_poke: self.is_poke, messages, pods, ..Self::default() });
        }
        frames.push(self);
        frames
    }
}

impl From<DecodedReport> for ActivatorReport {
    fn from(decoded: DecodedReport) -> Self {
        Self {
            activator: decoded.activator,
            sequence: decoded.sequence,
            is_poke: decoded.is_poke,
            is_beat: decoded.is_beat,
            messages: decoded.messages.items,
            pods: decoded.pods.items,
            slow_wakes: decoded.slow_wakes.items,
            wakes: decoded.wakes.items,
            first_requests: decoded.first_requests.items,
            skipped: decoded.messages.skipped,
        }
    }
}

fn first_items<T>(items: &mut Vec<T>, number: usize) -> Vec<T> {
    let rest = items.split_off(number.min(items.len()));
    std::mem::replace(items, rest)
}

// === impl Stat ===

impl Stat {
    /// Whether every value is from 0 to 10⁹. Any other stat is invalid and must be dropped.
    pub fn is_plausible(&self) -> bool {
        [
            self.average_concurrent_requests,
            self.average_proxied_concurrent_requests,
            self.request_count,
            self.proxied_request_count,
        ]
        .into_iter()
        .all(is_plausible)
            && self.app.is_none_or(|app| app.is_plausible())
    }

    /// Adds what another activator reports for the same pod and second.
    pub fn add(&mut self, other: &Self) {
        self.average_concurrent_requests += other.average_concurrent_requests;
        self.average_proxied_concurrent_requests += other.average_proxied_concurrent_requests;
        self.request_count += other.request_count;
        self.proxied_request_count += other.proxied_request_count;
        self.app = self.app.zip(other.app).and_then(|(one, other)| one.plus(other));
    }

    /// Whether the process had no request at all in the period, proxied or not.
    pub fn is_idle(&self) -> bool {
        self.average_concurrent_requests == 0.0 && self.request_count == 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stats, each with another of the fields set to `value`; the first four are Knative's.
    fn with_each(value: f64) -> [Stat; 8] {
        let of_app = |app| Stat { app: Some(app), ..Stat::default() };
        [
            Stat { average_concurrent_requests: value, ..Stat::default() },
            Stat { average_proxied_concurrent_requests: value, ..Stat::default() },
            Stat { request_count: value, ..Stat::default() },
            Stat { proxied_request_count: value, ..Stat::default() },
            of_app(AppStat { completions: value, ..AppStat::default() }),
            of_app(AppStat { seconds: value, ..AppStat::default() }),
            of_app(AppStat { errors: value, ..AppStat::default() }),
            of_app(AppStat { misses: value, ..AppStat::default() }),
        ]
    }

    #[test]
    fn one_invalid_value_makes_a_stat_implausible() {
        for good in [0.0, 0.001, 1e9] {
            assert!(with_each(good).iter().all(Stat::is_plausible), "{good}");
        }
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.001, 1.001e9] {
            assert!(!with_each(bad).iter().any(Stat::is_plausible), "{bad}");
        }
    }

    #[test]
    fn sum_of_two_activators_needs_one_objective() {
        let app = |objective_micros| AppStat { completions: 2.0, objective_micros, ..AppStat::default() };
        let stat =
            |app| Stat { average_concurrent_requests: 1.5, request_count: 4.0, app, ..Stat::default() };
        let sum = |one, other| {
            let mut sum = stat(one);
            sum.add(&stat(other));
            sum
        };
        let both = sum(Some(app(7)), Some(app(7)));
        assert_eq!((both.average_concurrent_requests, both.request_count), (3.0, 8.0));
        assert_eq!(both.app, Some(AppStat { completions: 4.0, ..app(7) }));
        assert_eq!(sum(Some(app(7)), Some(app(8))).app, None);
        assert_eq!(sum(Some(app(7)), None).app, None);
    }

    #[test]
    fn request_in_flight_or_arrived_ends_idleness() {
        let [concurrency, _, count, ..] = with_each(0.001);
        assert!(Stat::default().is_idle());
        assert!(!concurrency.is_idle(), "arrived before the period");
        assert!(!count.is_idle(), "arrived and ended within no time");
    }

    #[test]
    fn frames_of_a_large_report_are_below_1_mib_and_only_the_last_ends_the_second() {
        let key = Key::new("n".repeat(63), "w".repeat(253));
        let app = AppStat {
            completions: 1e9 / 3.0,
            seconds: 1e9 / 7.0,
            errors: 1e9 / 9.0,
            misses: 1e9 / 11.0,
            objective_micros: u64::MAX,
        };
        let stat = Stat {
            pod: "a".repeat(253),
            average_concurrent_requests: 1e9 / 3.0,
            average_proxied_concurrent_requests: 1e9 / 3.0,
            request_count: 1e9 / 3.0,
            proxied_request_count: 1e9 / 3.0,
            timestamp: i64::MAX,
            app: Some(app),
        };
        let ip = IpAddr::from([u16::MAX; 8]);
        let messages = vec![StatMessage { key: key.clone(), stat: stat.clone() }; 1000];
        let pods = vec![PodStat { key, ip, stat }; 10_000];
        let report = ActivatorReport { is_beat: true, messages, pods, ..ActivatorReport::default() };
        let frames = report.into_frames();
        let items = |frame: &ActivatorReport| (frame.messages.len(), frame.pods.len());
        let sum = frames.iter().map(items).fold((0, 0), |(m, p), (n, q)| (m + n, p + q));
        assert_eq!(sum, (1000, 10_000));
        let bytes = frames.iter().map(|frame| serde_json::to_string(frame).unwrap().len());
        assert!(bytes.clone().all(|bytes| bytes <= 1 << 20), "{:?}", bytes.max());
        let (last, others) = frames.split_last().unwrap();
        assert!(last.is_beat && !others.iter().any(|frame| frame.is_beat));
        assert_eq!(ActivatorReport::default().into_frames().len(), 1, "also without an item");
    }

    #[test]
    fn unknown_items_of_a_report_are_skipped_one_by_one() {
        let text = r#"{"activator":"a","sequence":4,"is_beat":true,
            "messages":[{"key":{"namespace":"shop","name":"web"},"stat":{"requestCount":2.0}},{"key":7},"x"],
            "wakes":[{"newer":1}],"newer":{},"first_requests":[{"newer":1},
            {"key":{"namespace":"shop","name":"web"},"request":{"client":"10.1.2.3"}}]}"#;
        let report: ActivatorReport = serde_json::from_str(text).unwrap();
        assert_eq!((report.sequence, report.is_beat, report.skipped), (4, true, 2));
        assert_eq!((report.messages[0].stat.request_count, report.wakes.len()), (2.0, 0));
        assert_eq!(report.first_requests.len(), 1);
        let again: ActivatorReport = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
        assert_eq!(again, ActivatorReport { skipped: 0, ..report });
        assert!(serde_json::from_str::<ActivatorReport>(r#"{"activator":1,"messages":[]}"#).is_err());
    }

    #[test]
    fn stat_without_app_part_reads_and_writes_as_before() {
        let old = r#"{"pod":"web-1","requestCount":3.0,"timestamp":1800000000}"#;
        let stat: Stat = serde_json::from_str(old).unwrap();
        assert_eq!((stat.request_count, stat.app), (3.0, None));
        assert!(!serde_json::to_string(&stat).unwrap().contains("app"));
        let app = AppStat { completions: 2.0, objective_micros: 200_000, ..AppStat::default() };
        let stat = Stat { app: Some(app), ..stat };
        let json = serde_json::to_string(&stat).unwrap();
        assert!(json.contains(r#""objectiveMicros":200000"#), "{json}");
        assert_eq!(serde_json::from_str::<Stat>(&json).unwrap(), stat);
    }
}
