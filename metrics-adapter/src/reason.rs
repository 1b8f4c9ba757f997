//! Reason: the rule that set a decision, in words. For `simulate --human` and for `/why`.

use std::fmt;
use std::time::Duration;

use autoscaler::decider::{DeciderSpec, Rule, Verdict};
use autoscaler::replay::Outcome;

use crate::readable::Number;

/// Says why a decision is what it is.
pub(crate) struct Reason<'a> {
    /// What was decided; `None` without data.
    pub(crate) verdict: Option<&'a Verdict>,
    /// By what.
    pub(crate) spec: &'a DeciderSpec,
    /// How long the panic threshold has not been exceeded, if a burst is on.
    pub(crate) calm: Option<Duration>,
    /// Whether the windows held data.
    pub(crate) heard: bool,
}

// === impl Reason ===

impl<'a> From<&'a Outcome> for Reason<'a> {
    fn from(outcome: &'a Outcome) -> Self {
        let Outcome { verdict, spec, calm, heard, .. } = outcome;
        Self { verdict: verdict.as_ref(), spec, calm: *calm, heard: *heard }
    }
}

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(verdict) = self.verdict else { return f.write_str("no data") };
        self.rule(verdict, f)?;
        if self.heard { Ok(()) } else { f.write_str(", silence read as 0") }
    }
}

impl Reason<'_> {
    fn rule(&self, verdict: &Verdict, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { desired, averages, .. } = verdict;
        let target = Number(self.spec.target);
        match verdict.rule {
            Rule::Stable => write!(f, "stable {} of {target} → {desired}", Number(averages.stable)),
            Rule::Panic => write!(f, "panic {} of {target} → {desired}", Number(averages.panic)),
            Rule::ScaleUpRate => write!(f, "limited by max-scale-up-rate {}", self.spec.max_scale_up_rate),
            Rule::ScaleDownRate => {
                write!(f, "limited by max-scale-down-rate {}", self.spec.max_scale_down_rate)
            }
            Rule::ActivationScale => f.write_str("raised to activation-scale"),
            Rule::PanicHold => self.hold(f),
            Rule::ScaleDownDelay => f.write_str("held by scale-down-delay"),
        }
    }

    fn hold(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calm = self.calm.unwrap_or_default();
        let window = self.spec.stable_window.as_secs();
        write!(f, "held by panic, calm for {} of {window} s", Number(calm.as_secs_f64()))
    }
}
