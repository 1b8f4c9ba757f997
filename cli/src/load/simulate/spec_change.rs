//! The differences between two specs, as text.

use std::time::Duration;

use autoscaler::scaling::replay::ReplayedDecision;

use autoscaler::scaling::readable::CompactNumber;

/// The differences between the specs of two decisions; empty if they are equal.
pub(super) fn spec_change(before: &ReplayedDecision, after: &ReplayedDecision) -> String {
    let (old, new) = (&before.spec, &after.spec);
    let seconds = |window: Duration| format!("{} s", window.as_secs());
    let numbers = [
        ("target", old.target, new.target),
        ("total target", old.total, new.total),
        ("panic threshold", old.panic_threshold, new.panic_threshold),
        ("max-scale-up-rate", old.max_scale_up_rate, new.max_scale_up_rate),
        ("max-scale-down-rate", old.max_scale_down_rate, new.max_scale_down_rate),
        ("activation-scale", old.activation_scale.into(), new.activation_scale.into()),
    ];
    let windows = [
        ("stable window", before.windows.stable, after.windows.stable),
        ("panic window", before.windows.panic, after.windows.panic),
        ("scale-down-delay", old.scale_down_delay, new.scale_down_delay),
    ];
    let numbers = numbers
        .map(|(name, old, new)| (name, CompactNumber(old).to_string(), CompactNumber(new).to_string()));
    let windows = windows.map(|(name, old, new)| (name, seconds(old), seconds(new)));
    let reach = [
        (
            "target-burst-capacity",
            old.target_burst_capacity.to_string(),
            new.target_burst_capacity.to_string(),
        ),
        ("reachable", old.reachable.to_string(), new.reachable.to_string()),
    ];
    let changes: Vec<_> = (numbers.into_iter().chain(windows).chain(reach))
        .filter(|(_, old, new)| old != new)
        .map(|(name, old, new)| format!("{name} {old} → {new}"))
        .collect();
    changes.join(", ")
}
