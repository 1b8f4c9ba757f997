//! The report of `shadow`: both autoscalers side by side, and each decision.

use std::io::{self, Write};

use autoscaler::scaling::readable::CompactNumber;
use autoscaler::scaling::replay::{ReplayError, Shadow, ShadowReport, ShadowUsage, TraceLine};
use serde::Serialize;
use serde::ser::Serializer;

use crate::output::table::Table;

const HOUR: f64 = 3600.0;

/// A shadow with its decisions. A day has 43,200 decisions.
#[derive(Debug)]
pub(super) struct Report {
    workload: String,
    shadow: Shadow,
    decisions: Vec<Decision>,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Decision {
    /// Seconds since the start.
    t: f64,
    /// Pods wanted, before the bounds; absent without data.
    desired: Option<u32>,
    /// Pods after the decision.
    rouse: u32,
    /// Ready pods of the present autoscaler.
    present: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Json<'a> {
    workload: &'a str,
    #[serde(flatten)]
    report: ShadowReport,
    decisions: &'a [Decision],
}

// === impl Report ===

impl Report {
    pub(super) fn new(workload: String, shadow: Shadow) -> Self {
        Self { workload, shadow, decisions: Vec::new() }
    }

    pub(super) fn take(&mut self, line: TraceLine) -> Result<(), ReplayError> {
        let decision = self.shadow.take(line)?.map(|shadowed| Decision {
            t: shadowed.decision.t,
            desired: shadowed.decision.result.map(|result| result.desired),
            rouse: shadowed.size,
            present: shadowed.other_ready,
        });
        self.decisions.extend(decision);
        Ok(())
    }

    /// Writes the summary.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let report = self.shadow.report();
        let minutes = report.seconds as f64 / 60.0;
        let decisions = self.decisions.len();
        writeln!(out, "{}: {} minutes, {decisions} decisions", self.workload, CompactNumber(minutes))?;
        writeln!(out)?;
        let mut table = Table::new(["", "ROUSE", "PRESENT"]);
        let mut row = |name: &str, cell: &dyn Fn(ShadowUsage) -> String| {
            table.push([name.to_owned(), cell(report.rouse), cell(report.other)]);
        };
        row("pod-hours", &|usage| format!("{:.2}", usage.pod_seconds as f64 / HOUR));
        row("most pods", &|usage| usage.peak.to_string());
        row("seconds over the target", &|usage| usage.seconds_over_target.to_string());
        row("seconds in which requests waited for a pod", &|usage| usage.seconds_without_pod.to_string());
        row("seconds at zero", &|usage| usage.seconds_at_zero.to_string());
        table.write(out)?;
        if report.undecided > 0 {
            writeln!(out, "\n{} decisions had no data", report.undecided)?;
        }
        Ok(())
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (workload, decisions) = (self.workload.as_str(), self.decisions.as_slice());
        Json { workload, report: self.shadow.report(), decisions }.serialize(serializer)
    }
}
