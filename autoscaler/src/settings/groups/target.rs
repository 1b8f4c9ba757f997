//! Settings of the load that one pod should carry, and of the spare capacity beside it.

use crate::contract::NO_METRIC;
use crate::contract::metric_name::MetricName;
use crate::contract::quantity::parse_milli;
use crate::settings::formats::{PERCENT, POSITIVE, not_shown, number, shown};
use crate::settings::reader::{SettingError, SettingReader};
use crate::settings::setting::{Format, Setting, entry};
use crate::settings::values::burst_capacity::BurstCapacity;

/// Smallest target per pod.
pub(crate) const LEAST_TARGET: f64 = 0.01;
/// Default target utilization for requests per second. Knative's ConfigMap has no key for it.
const REQUESTS_PER_SECOND_UTILIZATION: f64 = 0.7;

const METRIC: Setting<MetricName> = Setting {
    key: None,
    annotation: entry(
        "metric",
        &Format {
            words: "concurrency, requests-per-second, or none on an HPA",
            // Without a metric on which the HPA scales, concurrency shows whether the workload is
            // idle. The alias `rps` of Knative is accepted as well.
            parse: |text| if text == NO_METRIC { Some(MetricName::Concurrency) } else { text.parse().ok() },
            print: |metric| Some(metric.as_str().to_owned()),
        },
    ),
    default: MetricName::Concurrency,
    meaning: "The metric that the workload is scaled on. none: the HPA scales on its own metrics, such as \
              CPU, and Rouse only wakes the workload and scales it to zero.",
    when: "Set it to none to keep an HPA on CPU.",
};

const CAPACITY: Setting<Option<f64>> = Setting {
    key: None,
    annotation: entry(
        "target",
        &Format {
            words: "0.01 or more",
            // A quantity is accepted as well, as in specs of HPAs.
            parse: |text| {
                let quantity = || parse_milli(text).ok().map(|milli| milli as f64 / 1000.0);
                let target = number(text, |_| true).or_else(quantity);
                target.filter(|target| *target >= LEAST_TARGET).map(Some)
            },
            print: not_shown,
        },
    ),
    default: None,
    meaning: "Capacity of one pod, in units of the metric. Default: the container concurrency, else the \
              target default of the cluster.",
    when: "Set it where no HPA gives a target, as with desired-replicas.",
};

const UTILIZATION: Setting<Option<f64>> = Setting {
    key: None,
    annotation: entry(
        "target-utilization-percentage",
        &Format {
            words: PERCENT.words,
            parse: |text| (PERCENT.parse)(text).map(|percent| Some(percent / 100.0)),
            print: not_shown,
        },
    ),
    default: None,
    meaning: "Target utilization: the percentage of a pod's capacity that is used as the target. Default: \
              container-concurrency-target-percentage for concurrency, 70 for requests-per-second.",
    when: "Set it to keep more or less of a pod's capacity free for bursts.",
};

const CONCURRENCY_UTILIZATION: Setting<f64> = Setting {
    key: entry(
        "container-concurrency-target-percentage",
        &Format {
            words: "above 0, at most 100",
            // As in Knative, a value up to 1 is a fraction. So 1 means 100 percent.
            parse: |text| {
                let percentage = number(text, |p| p > 0.0 && p <= 100.0)?;
                Some(if percentage > 1.0 { percentage / 100.0 } else { percentage })
            },
            print: |fraction| Some((fraction * 100.0).round().to_string()),
        },
    ),
    annotation: None,
    default: 0.7,
    meaning: "Target utilization for concurrency, in percent, or as a fraction up to 1.",
    when: "Set it to keep more or less of all pods' capacity free for bursts.",
};

const CONCURRENCY: Setting<f64> = Setting {
    key: entry("container-concurrency-target-default", &POSITIVE),
    annotation: None,
    default: 100.0,
    meaning: "Capacity of a pod without a container concurrency, in concurrent requests.",
    when: "Set it to what most of your pods can serve, where workloads have no target of their own.",
};

const REQUESTS_PER_SECOND: Setting<f64> = Setting {
    key: entry(
        "requests-per-second-target-default",
        &Format {
            words: "0.01 or more",
            parse: |text| number(text, |target| target >= LEAST_TARGET),
            print: shown,
        },
    ),
    annotation: None,
    default: 200.0,
    meaning: "Capacity of a pod, in requests per second.",
    when: "Set it to what most of your pods can serve, where workloads have no target of their own.",
};

const BURST_CAPACITY: Setting<BurstCapacity> = Setting {
    key: entry("target-burst-capacity", &BurstCapacity::FORMAT),
    annotation: entry("target-burst-capacity", &BurstCapacity::FORMAT),
    default: BurstCapacity::BySize,
    meaning: "Additional requests that the ready pods must be able to serve before activators leave the \
              request path. -1 keeps activators in the path always, 0 only while no pod is ready, auto by \
              the number and the capacity of the ready pods.",
    when: "Set it to -1 to let activators queue each burst, to 0 for the shortest path.",
};

/// The load that one pod should carry.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetSettings {
    /// `spec.metric` takes precedence.
    pub metric: MetricName,
    /// Capacity of one pod, from the annotation `target`. 0.01 or more.
    pub capacity: Option<f64>,
    /// Target utilization as a fraction, from its annotation. [0.01, 1].
    pub utilization: Option<f64>,
    /// Default target utilization for concurrency, as a fraction. (0, 1].
    pub default_concurrency_utilization: f64,
    pub default_concurrency: f64,
    pub default_requests_per_second: f64,
    pub burst_capacity: BurstCapacity,
}

// === impl TargetSettings ===

impl TargetSettings {
    pub(in crate::settings) fn read(reader: &mut SettingReader<'_>, cluster: Option<&Self>) -> Self {
        let utilization = cluster.map(|it| it.default_concurrency_utilization);
        let requests = cluster.map(|it| it.default_requests_per_second);
        Self {
            metric: reader.read(&METRIC, None),
            capacity: reader.read(&CAPACITY, None),
            utilization: reader.read(&UTILIZATION, None),
            default_concurrency_utilization: reader.read(&CONCURRENCY_UTILIZATION, utilization),
            default_concurrency: reader.read(&CONCURRENCY, cluster.map(|it| it.default_concurrency)),
            default_requests_per_second: reader.read(&REQUESTS_PER_SECOND, requests),
            burst_capacity: reader.read(&BURST_CAPACITY, cluster.map(|it| it.burst_capacity)),
        }
    }

    /// Reports a default target that is too small.
    pub(in crate::settings) fn check(&self, reader: &mut SettingReader<'_>) {
        let (share, whole) = (&CONCURRENCY_UTILIZATION, &CONCURRENCY);
        let target = self.default_concurrency_utilization * self.default_concurrency;
        if target >= LEAST_TARGET || reader.has_error(share) || reader.has_error(whole) {
            return;
        }
        let (name, percentage) = (reader.name(share), reader.text_or_default(share));
        let words = format!("at least {LEAST_TARGET} after multiplication by {name}, which is {percentage}");
        let error = SettingError::new(reader.name(whole), reader.text_or_default(whole), words);
        reader.push_error(error);
    }

    /// Target utilization: the fraction of a pod's capacity that is used as the target.
    pub fn utilization(&self, metric: MetricName) -> f64 {
        self.utilization.unwrap_or(match metric {
            MetricName::Concurrency => self.default_concurrency_utilization,
            MetricName::RequestsPerSecond => REQUESTS_PER_SECOND_UTILIZATION,
        })
    }
}
