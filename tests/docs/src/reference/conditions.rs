//! The page of conditions and events, and of findings.

use std::fmt::Write as _;

use autoscaler::findings::reasons::{CheckReason, Reason, ReasonDescription};

use super::table::cell;

const HEAD: &str = "\
# Conditions and events

On this page you find every reason of a condition, an event or a finding of `kubectl rouse check`,
with its meaning and its fix.

<!-- Generated from the code: make reference. -->

`kubectl get podautoscalers` shows the most important reason in the column `REASON`, and its message
with `-o wide`. `kubectl describe podautoscaler NAME` shows all conditions and events. For an HPA
that is not followed, `kubectl describe hpa NAME` shows them.

| Condition of a PodAutoscaler | True when |
|---|---|
| `Ready` | requests are answered, be it after a wake |
| `Active` | pods serve, or are wanted |
| `Degraded` | the workload works, and something should be corrected; absent otherwise |
| `HPAAccepted` | the HPA can be followed; absent without an HPA |
| `ActivatorInPath` | a probe through the Service reached an activator |
| `ScaleTargetInitialized` | the target had its initial number of ready pods once |
| `PodsCanStart` | False while a cause keeps all new pods from starting; absent otherwise |

| Condition of a ServerlessService | True when |
|---|---|
| `Ready` | the Service's requests are led to pods or activators |
| `EndpointsPopulated` | a pod is ready |
| `ActivatorEndpointsPopulated` | activators are in the Service's endpoints |
";

/// What is before the findings of `check`.
const FINDINGS: &str = "
## Findings of kubectl rouse check

[`kubectl rouse check`](kubectl-rouse.md#check) shows conditions with the fixes above. These are its
own findings, about what no part of Rouse in the cluster sees. `NAMESPACE` and `NAME` are those of
the object, `TARGET` is the workload's, such as `deployment/web`; `check` prints the real ones.

";

/// The page.
pub(super) fn render() -> String {
    let of_conditions = Reason::ALL.iter().map(|reason| reason.description());
    let (to_fix, normal): (Vec<_>, Vec<_>) = of_conditions.partition(|reason| !reason.fix.is_empty());
    let mut page = HEAD.to_owned();
    page.push_str("\n## Reasons with a fix\n\n");
    with_fixes(&mut page, "Where", to_fix);
    page.push_str("\n## Other reasons\n\n| Reason | Meaning | Where |\n|---|---|---|\n");
    for ReasonDescription { reason, place, meaning, .. } in normal {
        // Writing to a String cannot fail.
        let _ = writeln!(page, "| `{reason}` | {} | {} |", cell(meaning), cell(place));
    }
    page.push_str(FINDINGS);
    with_fixes(&mut page, "Object", CheckReason::ALL.iter().map(|reason| reason.description()));
    page
}

fn with_fixes(page: &mut String, place: &str, rows: impl IntoIterator<Item = ReasonDescription>) {
    let _ = writeln!(page, "| Reason | Meaning | Fix | {place} |\n|---|---|---|---|");
    for ReasonDescription { reason, place, meaning, fix } in rows {
        let _ = writeln!(page, "| `{reason}` | {} | {} | {} |", cell(meaning), cell(fix), cell(place));
    }
}
