//! Settings of scale-to-zero.

use std::time::Duration;

use crate::settings::formats::{BOOLEAN, WITHIN_AN_HOUR, duration, shown_duration};
use crate::settings::reader::SettingReader;
use crate::settings::setting::{Format, Setting, entry};
use crate::settings::values::reachability::Reachability;

const ENABLED: Setting<bool> = Setting {
    key: entry("enable-scale-to-zero", &BOOLEAN),
    annotation: None,
    default: true,
    meaning: "Whether any workload of the cluster may be scaled to zero.",
    when: "Set it to false to keep all workloads above zero, as while you look for a fault.",
};

const GRACE_PERIOD: Setting<Duration> = Setting {
    key: entry(
        "scale-to-zero-grace-period",
        &Format {
            words: "longer than 0s",
            parse: |text| duration(text, |d| !d.is_zero()),
            print: shown_duration,
        },
    ),
    annotation: None,
    default: Duration::from_secs(30),
    meaning: "How long activators must have been in the request path before the last pod is removed.",
    when: "Set it to more where a proxy or a load balancer follows EndpointSlices later than that.",
};

const POD_RETENTION: Setting<Duration> = Setting {
    key: entry(
        "scale-to-zero-pod-retention-period",
        &Format { words: "0s or longer", parse: |text| duration(text, |_| true), print: shown_duration },
    ),
    annotation: entry("scale-to-zero-pod-retention-period", &WITHIN_AN_HOUR),
    default: Duration::ZERO,
    meaning: "How long the last pod is kept after the workload became inactive.",
    when: "Set it where starts are slow and pauses between requests are longer than the window.",
};

const REACHABILITY: Setting<Reachability> = Setting {
    key: None,
    annotation: entry("reachability", &Reachability::FORMAT),
    default: Reachability::Reachable,
    meaning: "Whether requests can reach the workload. Unreachable ignores minReplicas and allows zero from \
              any size.",
    when: "Set it to retire a workload, such as the old half of a blue-green pair.",
};

const DELETE_VOLUMES: Setting<bool> = Setting {
    key: None,
    annotation: entry("delete-volumes-at-zero", &BOOLEAN),
    default: false,
    meaning: "Whether a StatefulSet may go to zero that has persistentVolumeClaimRetentionPolicy.whenScaled: \
              Delete, which deletes the volumes of its pods.",
    when: "Set it where the volumes have nothing but caches.",
};

/// When a workload may be scaled to zero.
#[derive(Clone, Debug, PartialEq)]
pub struct ZeroSettings {
    pub enabled: bool,
    pub grace_period: Duration,
    pub pod_retention: Duration,
    pub reachability: Reachability,
    pub delete_volumes: bool,
}

// === impl ZeroSettings ===

impl ZeroSettings {
    pub(in crate::settings) fn read(reader: &mut SettingReader<'_>, cluster: Option<&Self>) -> Self {
        Self {
            enabled: reader.read(&ENABLED, cluster.map(|it| it.enabled)),
            grace_period: reader.read(&GRACE_PERIOD, cluster.map(|it| it.grace_period)),
            pod_retention: reader.read(&POD_RETENTION, cluster.map(|it| it.pod_retention)),
            reachability: reader.read(&REACHABILITY, None),
            delete_volumes: reader.read(&DELETE_VOLUMES, None),
        }
    }
}
