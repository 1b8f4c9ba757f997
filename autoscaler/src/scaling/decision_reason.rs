//! DecisionReason: the rule behind a decision, as text for `simulate --human` and `/why`.

use std::fmt;
use std::time::Duration;

use super::decider::{DeciderSpec, DecisionRule, ScaleResult};
use super::readable::CompactNumber;
use super::replay::ReplayedDecision;

/// The data that explain a decision; displays as one short phrase.
pub struct DecisionReason<'a> {
    /// The decision; `None` without data.
    pub result: Option<&'a ScaleResult>,
    /// The settings it was made with.
    pub spec: &'a DeciderSpec,
    /// In panic: for how long the load has stayed below the panic threshold.
    pub calm: Option<Duration>,
    /// Whether the windows held data.
    pub has_data: bool,
}

// === impl DecisionReason ===

impl<'a> From<&'a ReplayedDecision> for DecisionReason<'a> {
    fn from(decision: &'a ReplayedDecision) -> Self {
        let ReplayedDecision { result, spec, calm, has_data, .. } = decision;
        Self { result: result.as_ref(), spec, calm: *calm, has_data: *has_data }
    }
}

impl fmt::Display for DecisionReason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(result) = self.result else { return f.write_str("no data") };
        self.write_rule(result, f)?;
        if self.has_data { Ok(()) } else { f.write_str(", no reports, counted as 0") }
    }
}

impl DecisionReason<'_> {
    fn write_rule(&self, result: &ScaleResult, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScaleResult { desired, averages, .. } = result;
        let target = CompactNumber(self.spec.target);
        match result.rule {
            DecisionRule::Stable => {
                write!(f, "stable {} of {target} → {desired}", CompactNumber(averages.stable))
            }
            DecisionRule::Panic => {
                write!(f, "panic {} of {target} → {desired}", CompactNumber(averages.panic))
            }
            DecisionRule::ScaleUpRate => {
                write!(f, "limited by max-scale-up-rate {}", self.spec.max_scale_up_rate)
            }
            DecisionRule::ScaleDownRate => {
                write!(f, "limited by max-scale-down-rate {}", self.spec.max_scale_down_rate)
            }
            DecisionRule::ActivationScale => f.write_str("raised to activation-scale"),
            DecisionRule::PanicHold => self.write_panic_hold(f),
            DecisionRule::ScaleDownDelay => f.write_str("held by scale-down-delay"),
        }
    }

    fn write_panic_hold(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calm = self.calm.unwrap_or_default();
        let window = self.spec.stable_window.as_secs();
        write!(f, "held by panic, calm for {} of {window} s", CompactNumber(calm.as_secs_f64()))
    }
}
