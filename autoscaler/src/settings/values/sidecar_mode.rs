//! The setting `sidecar`: whether the pods of a workload have a queue-proxy.

#[cfg(feature = "api")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::setting::Format;

/// The annotation's value for: by the pods.
const AUTO: &str = "auto";

/// Whether the pods of a workload have a queue-proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "api", derive(JsonSchema))]
pub enum SidecarMode {
    /// Each pod has a queue-proxy, which receives, limits and counts its requests.
    #[default]
    Required,
    /// Pods are as their owner wrote them. Activators are always in the request path; they limit
    /// and count.
    None,
}

// === impl SidecarMode ===

impl SidecarMode {
    /// The format of the annotation; `auto` is neither of them.
    pub(in crate::settings) const FORMAT: Format<Option<Self>> = Format {
        words: "auto, \"true\" or \"false\"",
        parse: Self::parse,
        print: |mode| Some(mode.map_or_else(|| AUTO.to_owned(), |mode| mode.is_required().to_string())),
    };

    /// Parses the value of the annotation.
    fn parse(text: &str) -> Option<Option<Self>> {
        match text {
            AUTO => Some(None),
            "true" => Some(Some(Self::Required)),
            "false" => Some(Some(Self::None)),
            _ => None,
        }
    }

    /// Whether pods have a queue-proxy. This mode is omitted when serialized.
    pub fn is_required(&self) -> bool {
        *self == Self::Required
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_auto_true_and_false_only() {
        assert_eq!(SidecarMode::parse("auto"), Some(None));
        assert_eq!(SidecarMode::parse("true"), Some(Some(SidecarMode::Required)));
        assert_eq!(SidecarMode::parse("false"), Some(Some(SidecarMode::None)));
        for bad in ["", "Auto", "False", "None", "no", "0"] {
            assert_eq!(SidecarMode::parse(bad), None, "{bad:?}");
        }
    }
}
