//! The setting `learn-target`: what happens with the learned concurrency target of a workload.

use serde::{Deserialize, Serialize};

use crate::settings::setting::Format;

/// What happens with the learned concurrency target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LearnTarget {
    /// No target is learned.
    Off,
    /// The learned target is reported, and changes no size.
    #[default]
    Recommend,
    /// The learned target is in force.
    Apply,
    /// Apply where the user named no target, else Recommend. A value of the setting alone: the
    /// settings of a workload have the mode that it [resolves](Self::resolve) to.
    Auto,
}

// === impl LearnTarget ===

impl LearnTarget {
    pub(in crate::settings) const FORMAT: Format<Self> = Format {
        words: "Auto, Off, Recommend or Apply",
        parse: Self::parse,
        print: |mode| Some(format!("{mode:?}")),
    };

    /// The mode of a workload; `given` is whether the user named a target.
    #[must_use]
    pub fn resolve(self, given: bool) -> Self {
        match self {
            Self::Auto if given => Self::Recommend,
            Self::Auto => Self::Apply,
            mode => mode,
        }
    }

    /// Parses the value of the annotation or of the ConfigMap's key.
    fn parse(text: &str) -> Option<Self> {
        match text {
            "Off" => Some(Self::Off),
            "Recommend" => Some(Self::Recommend),
            "Apply" => Some(Self::Apply),
            "Auto" => Some(Self::Auto),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_names_that_the_status_shows() {
        for mode in [LearnTarget::Off, LearnTarget::Recommend, LearnTarget::Apply, LearnTarget::Auto] {
            let name = serde_json::to_value(mode).unwrap();
            assert_eq!(LearnTarget::parse(name.as_str().unwrap()), Some(mode));
        }
        for bad in ["", "off", "apply ", "On", "auto"] {
            assert_eq!(LearnTarget::parse(bad), None, "{bad:?}");
        }
    }
}
