//! Settings of the pods behind a Service.

use crate::contract::selector::Selector;
use crate::settings::formats::not_shown;
use crate::settings::reader::SettingReader;
use crate::settings::setting::{Format, Setting, entry};
use crate::settings::values::sidecar_mode::SidecarMode;

/// Whether pods have a queue-proxy.
pub(crate) const SIDECAR: Setting<Option<SidecarMode>> = Setting {
    key: None,
    annotation: entry("sidecar", &SidecarMode::FORMAT),
    default: None,
    meaning: "Whether pods have a queue-proxy. Default: those of a pod template with the label \
              autoscaling.rouse.dev/inject have one, others have none. Without one, activators are always in \
              the request path, and limit and count there; the Service must have no selector.",
    when: "Set it to override that, as to false to keep activators in the path of labelled pods.",
};

/// The pods of a Service without selector.
pub(crate) const SELECTOR: Setting<Option<Selector>> = Setting {
    key: None,
    annotation: entry(
        "selector",
        &Format {
            words: "label=value pairs, separated by commas",
            parse: |text| Selector::parse_labels(text).map(Some),
            print: not_shown,
        },
    ),
    default: None,
    meaning: "Labels of the pods that get the requests of a Service without selector. Default: the selector \
              that the Service had, else that of the scale target. A Service with a selector uses its own.",
    when: "Set it where the Service should lead to other pods than those of the scale target.",
};

/// The pods behind a Service.
#[derive(Clone, Debug, PartialEq)]
pub struct PodSettings {
    /// `None` leaves it to the pod template. `spec.sidecar` takes precedence.
    pub sidecar: Option<SidecarMode>,
    /// `spec.selector` takes precedence.
    pub selector: Option<Selector>,
}

// === impl PodSettings ===

impl PodSettings {
    pub(in crate::settings) fn read(reader: &mut SettingReader<'_>) -> Self {
        Self { sidecar: reader.read(&SIDECAR, None), selector: reader.read(&SELECTOR, None) }
    }
}
