//! Why: the rule that set a decision, in words.

use std::fmt;

use autoscaler::decider::{Rule, Verdict};
use autoscaler::replay::Outcome;

use super::readable::Number;

/// Says why an outcome is what it is.
pub(super) struct Why<'a>(pub(super) &'a Outcome);

// === impl Why ===

impl fmt::Display for Why<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(verdict) = &self.0.verdict else { return f.write_str("no data") };
        self.rule(verdict, f)?;
        if self.0.heard { Ok(()) } else { f.write_str(", silence read as 0") }
    }
}

impl Why<'_> {
    fn rule(&self, verdict: &Verdict, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { desired, averages, .. } = verdict;
        let spec = &self.0.spec;
        let target = Number(spec.target);
        match verdict.rule {
            Rule::Stable => write!(f, "stable {} of {target} → {desired}", Number(averages.stable)),
            Rule::Panic => write!(f, "panic {} of {target} → {desired}", Number(averages.panic)),
            Rule::ScaleUpRate => write!(f, "limited by max-scale-up-rate {}", spec.max_scale_up_rate),
            Rule::ScaleDownRate => write!(f, "limited by max-scale-down-rate {}", spec.max_scale_down_rate),
            Rule::ActivationScale => f.write_str("raised to activation-scale"),
            Rule::PanicHold => self.hold(f),
            Rule::ScaleDownDelay => f.write_str("held by scale-down-delay"),
        }
    }

    fn hold(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calm = self.0.calm.unwrap_or_default();
        let window = self.0.spec.stable_window.as_secs();
        write!(f, "held by panic, calm for {} of {window} s", Number(calm.as_secs_f64()))
    }
}
