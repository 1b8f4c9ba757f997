//! Settings of wakes: which requests start them, how long requests wait, and how long pods may
//! take.

use std::time::Duration;

use crate::settings::formats::{
    BOOLEAN, HOUR, WITHIN_AN_HOUR, duration, is_whole, not_shown, shown_duration, size,
};
use crate::settings::reader::SettingReader;
use crate::settings::setting::{Format, Setting, entry};
use crate::settings::values::no_wake::NoWakeRules;
use crate::settings::values::no_wake_response::NoWakeResponse;

/// How long pods may take to become ready.
pub const DEFAULT_PROGRESS_DEADLINE: Duration = Duration::from_secs(600);

const PROGRESS_DEADLINE: Setting<Duration> = Setting {
    key: None,
    annotation: entry(
        "progress-deadline",
        &Format {
            words: "whole seconds, longer than 0s",
            parse: |text| duration(text, |d| !d.is_zero() && is_whole(d)),
            print: shown_duration,
        },
    ),
    default: DEFAULT_PROGRESS_DEADLINE,
    meaning: "How long pods may take to become ready; after it, and 30 s more, the workload returns to zero.",
    when: "Set it to more than the app's slowest start, if that is above ten minutes.",
};

const START_PATIENCE: Setting<Duration> = Setting {
    key: entry("start-patience", &WITHIN_AN_HOUR),
    annotation: entry("start-patience", &WITHIN_AN_HOUR),
    // Longer than a first image pull or a transient crash, shorter than client timeouts.
    default: Duration::from_secs(10),
    meaning: "How long pods may fail to start before activators refuse requests instead of holding them.",
    when: "Set it to more for an app that crashes a few times before it starts, as while it waits for a \
           database.",
};

/// How long requests wait for a pod, and pods for a node. Node autoscalers make a node within one
/// to four minutes.
pub const DEFAULT_WAKE_TIMEOUT: Duration = Duration::from_secs(300);

const UNSCHEDULABLE_PATIENCE: Setting<Duration> = Setting {
    key: entry("unschedulable-patience", &WITHIN_AN_HOUR),
    annotation: entry("unschedulable-patience", &WITHIN_AN_HOUR),
    default: DEFAULT_WAKE_TIMEOUT,
    meaning: "start-patience for pods that wait for capacity: a node, a quota, or a node that does not \
              respond. A workload's wake-timeout replaces it; without wake-timeout, requests are held \
              as long where it is longer than 5m.",
    when: "Set it to less where no node is made on demand and clients should get 503 sooner, to more \
           where a node takes longer.",
};

const TIMEOUT: Setting<Option<Duration>> = Setting {
    key: None,
    annotation: entry(
        "wake-timeout",
        &Format {
            words: "whole seconds from 1s to 1h",
            parse: |text| {
                let is_timeout = |d| (Duration::from_secs(1)..=HOUR).contains(&d) && is_whole(d);
                duration(text, is_timeout).map(Some)
            },
            print: not_shown,
        },
    ),
    default: None,
    meaning: "How long activators hold a request for a pod. Default: 5m, or unschedulable-patience if that \
              is longer.",
    when: "Set it to more than the slowest start, a new node included, if that is above five minutes.",
};

const QUEUE_DEPTH: Setting<Option<u32>> = Setting {
    key: None,
    annotation: entry(
        "wake-queue-depth",
        &Format {
            words: "a whole number from 1 to 2147483647",
            parse: |text| size(text, 1).map(Some),
            print: not_shown,
        },
    ),
    default: None,
    meaning: "Requests that each activator may hold for the workload. Default: 10000.",
    when: "Set it to more where requests get 503 QueueFull, to less where they should fail sooner.",
};

/// The requests that do not wake a workload.
pub(crate) const NO_WAKE: Setting<NoWakeRules> = Setting {
    key: None,
    annotation: entry("no-wake", &NoWakeRules::FORMAT),
    default: NoWakeRules::NONE,
    meaning: "Requests that neither wake the workload nor count as load, such as requests of uptime monitors. \
              For pods with a sidecar, write it on the pod template instead.",
    when: "Set it where a monitor or a scanner keeps the workload from zero.",
};

const NO_WAKE_RESPONSE: Setting<NoWakeResponse> = Setting {
    key: None,
    annotation: entry("no-wake-response", &NoWakeResponse::FORMAT),
    default: NoWakeResponse::ASLEEP,
    meaning: "What the requests of no-wake get while there is no pod.",
    when: "Set it where a monitor expects another status or text.",
};

/// Whether browsers get a page.
pub(crate) const WAITING_PAGE: Setting<bool> = Setting {
    key: None,
    annotation: entry("waiting-page", &BOOLEAN),
    default: false,
    meaning: "Whether a browser gets a page while the workload starts, which opens the app when it responds.",
    when: "Set it for an app that people open in a browser, and that takes seconds to start.",
};

const SSE_KEEP_ALIVE: Setting<bool> = Setting {
    key: None,
    annotation: entry("sse-keep-alive", &BOOLEAN),
    default: false,
    meaning: "Whether a held request with `Accept: text/event-stream` gets the head of its response at once, and \
              then comments, so that no idle timeout ends it.",
    when: "Set it for an app that streams, such as a model server, and starts for longer than a front door's \
           idle timeout.",
};

/// Wakes, and pods that start.
#[derive(Clone, Debug, PartialEq)]
pub struct WakeSettings {
    pub progress_deadline: Duration,
    pub start_patience: Duration,
    pub unschedulable_patience: Duration,
    /// How long activators hold a request; `None` for their default. Whole seconds, 1 s to 1 h.
    pub timeout: Option<Duration>,
    /// Requests that each activator may hold; `None` for their default. 1 or more.
    pub queue_depth: Option<u32>,
    /// `spec.noWake` takes precedence.
    pub no_wake: NoWakeRules,
    pub no_wake_response: NoWakeResponse,
    /// `spec.waitingPage` takes precedence.
    pub waiting_page: bool,
    pub sse_keep_alive: bool,
}

// === impl WakeSettings ===

impl WakeSettings {
    pub(in crate::settings) fn read(reader: &mut SettingReader<'_>, cluster: Option<&Self>) -> Self {
        let timeout = reader.read(&TIMEOUT, None);
        let unschedulable = timeout.or(cluster.map(|it| it.unschedulable_patience));
        Self {
            progress_deadline: reader.read(&PROGRESS_DEADLINE, None),
            start_patience: reader.read(&START_PATIENCE, cluster.map(|it| it.start_patience)),
            unschedulable_patience: reader.read(&UNSCHEDULABLE_PATIENCE, unschedulable),
            timeout,
            queue_depth: reader.read(&QUEUE_DEPTH, None),
            no_wake: reader.read(&NO_WAKE, None),
            no_wake_response: reader.read(&NO_WAKE_RESPONSE, None),
            waiting_page: reader.read(&WAITING_PAGE, None),
            sse_keep_alive: reader.read(&SSE_KEEP_ALIVE, None),
        }
    }

    /// How long activators hold a request, if not for their default: no shorter than pods may wait
    /// for a node, unless the workload has a timeout.
    pub fn hold_timeout(&self) -> Option<Duration> {
        let patience = Some(self.unschedulable_patience).filter(|patience| *patience > DEFAULT_WAKE_TIMEOUT);
        self.timeout.or(patience)
    }
}
