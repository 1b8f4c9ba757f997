//! The reasons of what the rules of `scaling` find.

use super::condition::Reason;
use crate::scaling::active_condition::ActiveReason;
use crate::scaling::pod_start::StartCause;
use crate::scaling::scale_to_zero::StayReason;

// === impl Reason ===

impl From<ActiveReason> for Reason {
    fn from(reason: ActiveReason) -> Self {
        match reason {
            ActiveReason::PodsReady => Self::PodsReady,
            ActiveReason::Queued => Self::Queued,
            ActiveReason::NoTraffic => Self::NoTraffic,
            ActiveReason::TimedOut => Self::TimedOut,
        }
    }
}

impl From<StayReason> for Reason {
    fn from(why: StayReason) -> Self {
        match why {
            StayReason::NotAllowed => Self::ScaleToZeroDisabled,
            StayReason::Scheduled => Self::ScheduledMinimum,
            StayReason::AtZero => Self::NoTraffic,
            StayReason::NotAtMinimum => Self::AboveMinimum,
            StayReason::NoDecision => Self::NoDecision,
            StayReason::NoActivator => Self::NoActivator,
            StayReason::ActivatorSilent => Self::ActivatorSilent,
            StayReason::Requests => Self::ReceivingTraffic,
            StayReason::IdleTooShortly => Self::WithinStableWindow,
            StayReason::ActiveTooShortly => Self::RecentlyActive,
            StayReason::Activating => Self::PodsStarting,
            StayReason::NotProxied => Self::NotProxied,
            StayReason::PathNotVerified => Self::NotVerified,
            StayReason::Grace => Self::GracePeriod,
            StayReason::OtherWriter => Self::ScaleConflict,
            StayReason::WakeBlocked => Self::WakeBlocked,
        }
    }
}

impl From<StartCause> for Reason {
    fn from(cause: StartCause) -> Self {
        match cause {
            StartCause::ImagePull => Self::ImagePull,
            StartCause::InvalidImage => Self::InvalidImage,
            StartCause::CrashLoop => Self::CrashLoop,
            StartCause::ContainerConfig => Self::ContainerConfig,
            StartCause::ContainerStart => Self::ContainerStart,
            StartCause::Unschedulable => Self::Unschedulable,
            StartCause::NodeUnresponsive => Self::NodeUnresponsive,
            StartCause::PodsNotCreated => Self::PodsNotCreated,
        }
    }
}
