//! The step of a decision that set its number of pods.

/// The step of a decision that set its number of pods: the last one that changed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionRule {
    /// What the stable average needs.
    Stable,
    /// What the panic average needs; only while panicking.
    Panic,
    /// Needed more, limited by [`DeciderSpec::max_scale_up_rate`].
    ScaleUpRate,
    /// Needed less, limited by [`DeciderSpec::max_scale_down_rate`].
    ScaleDownRate,
    /// Needed less, raised to [`DeciderSpec::activation_scale`].
    ActivationScale,
    /// The largest earlier decision of this panic.
    PanicHold,
    /// The largest earlier decision within [`DeciderSpec::scale_down_delay`].
    ScaleDownDelay,
}

impl DecisionRule {
    /// Whether it holds more pods than the averages need.
    pub(super) const fn holds_pods(self) -> bool {
        matches!(self, Self::ScaleDownRate | Self::ActivationScale | Self::PanicHold | Self::ScaleDownDelay)
    }
}
