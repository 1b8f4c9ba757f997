//! Settings of the timeouts of requests to pods without a sidecar, which activators apply. Sidecars
//! read annotations of the same names on pods.

use std::time::Duration;

use crate::settings::formats::{duration, shown_duration};
use crate::settings::reader::SettingReader;
use crate::settings::setting::{Format, Setting, entry};

const DAY: Duration = Duration::from_secs(24 * 3600);

const TIMEOUT: Format<Duration> = Format {
    words: "whole milliseconds from 0s to 24h",
    parse: |text| duration(text, |d| d <= DAY && d.subsec_nanos().is_multiple_of(1_000_000)),
    print: shown_duration,
};

const TOTAL: Setting<Duration> = Setting {
    key: None,
    annotation: entry("timeout", &TIMEOUT),
    // The queue-proxy's, as the next two.
    default: Duration::from_secs(300),
    meaning: "Without a sidecar: longest time of a request, from when it is sent to a pod to the end of its \
              response. 0 means no timeout.",
    when: "Set it to more than the longest stream or upload.",
};

const RESPONSE_START: Setting<Duration> = Setting {
    key: None,
    annotation: entry("response-start-timeout", &TIMEOUT),
    default: Duration::from_secs(300),
    meaning: "Without a sidecar: longest time from when a request is sent to a pod until its response \
              begins, if less than timeout. 0 means no timeout.",
    when: "Set it where responses are long, and a pod that does not respond should fail soon.",
};

const IDLE: Setting<Duration> = Setting {
    key: None,
    annotation: entry("idle-timeout", &TIMEOUT),
    default: Duration::ZERO,
    meaning: "Without a sidecar: longest time without a byte in either direction; bounds upgraded \
              connections as well. 0 means no timeout.",
    when: "Set it to end connections of clients that have gone.",
};

/// Timeouts of requests to pods without a sidecar; 0 means no timeout. At most 24 h.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeoutSettings {
    pub total: Duration,
    pub response_start: Duration,
    pub idle: Duration,
}

// === impl TimeoutSettings ===

impl TimeoutSettings {
    pub(in crate::settings) fn read(reader: &mut SettingReader<'_>) -> Self {
        Self {
            total: reader.read(&TOTAL, None),
            response_start: reader.read(&RESPONSE_START, None),
            idle: reader.read(&IDLE, None),
        }
    }
}
