//! The table of results and their bounds.

use std::time::Duration;

use crate::churn::Churn;
use crate::run::Measured;

/// From the start of the process until its work is finished, for any number of workloads.
const START: Duration = Duration::from_secs(60);
/// Peak memory, in bytes.
const MEMORY: u64 = 300 << 20;
/// CPU time as a share of one core, while idle.
const IDLE: f64 = 0.05;
/// Reconciles and writes for one change.
const RECONCILES: u64 = 20;
const WRITES: usize = 10;
/// From the change of an activator until all slices follow: half of the time in which one that left
/// accepts connections.
const CHURN: Duration = Duration::from_secs(25);
/// Writes of one slice while all activators are replaced.
const ROLLOUT_WRITES: usize = 2;

pub(crate) const HEAD: &str = concat!(
    "  workloads  adopted after   writes  CPU time",
    "    restarted after  writes  CPU time  peak memory    idle: CPU  reconciles/s  writes  change: reconciles  writes"
);

pub(crate) const CHURN_HEAD: &str = concat!(
    "  workloads  activator joined: writes     after    one left: writes     after",
    "    all replaced: writes  of one slice  longest step"
);

pub(crate) fn churn_row(workloads: usize, churn: &Churn) -> String {
    let Churn { join, leave, rollout } = churn;
    format!(
        "{workloads:>11}{:>26}{:>10}{:>20}{:>10}{:>24}{:>14}{:>14}",
        join.total(),
        seconds(join.took),
        leave.total(),
        seconds(leave.took),
        rollout.total(),
        rollout.most(),
        seconds(rollout.took),
    )
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

pub(crate) fn row(workloads: usize, m: &Measured) -> String {
    format!(
        "{workloads:>11}{:>15}{:>9}{:>10}{:>19}{:>8}{:>10}{:>13}{:>13}{:>14.1}{:>8}{:>20}{:>8}",
        seconds(m.adoption.took),
        m.adoption.writes,
        seconds(m.adoption.cpu),
        seconds(m.restart.took),
        m.restart.writes,
        seconds(m.restart.cpu),
        format!("{} MiB", m.memory >> 20),
        format!("{:.1} %", m.idle.cpu * 100.0),
        m.idle.reconciles,
        m.idle.writes,
        m.change.reconciles,
        m.change.writes,
    )
}

/// The missed bounds, as text.
pub(crate) fn missed(workloads: usize, m: &Measured) -> Vec<String> {
    let Churn { join, leave, rollout } = &m.churn;
    let slowest = leave.took.max(rollout.took);
    let bounds = [
        (m.adoption.took > START, format!("adoption took {:?}, not {START:?}", m.adoption.took)),
        (m.restart.took > START, format!("the restart took {:?}, not {START:?}", m.restart.took)),
        (m.restart.writes > 0, format!("{} writes after the restart", m.restart.writes)),
        (m.memory > MEMORY, format!("{} MiB of memory, not {}", m.memory >> 20, MEMORY >> 20)),
        (m.idle.writes > 0, format!("{} writes while idle", m.idle.writes)),
        (
            m.idle.cpu > IDLE,
            format!("{:.1} % of a core while idle, not {:.0}", m.idle.cpu * 100.0, IDLE * 100.0),
        ),
        (m.change.reconciles == 0 || m.change.writes == 0, "a change had no effect".to_owned()),
        (m.change.reconciles > RECONCILES, format!("{} reconciles for one change", m.change.reconciles)),
        (m.change.writes > WRITES, format!("{} writes for one change", m.change.writes)),
        (join.total() > 0, format!("{} writes for an activator that joined", join.total())),
        (leave.total() == 0, "an activator that left had no effect".to_owned()),
        (rollout.most() > ROLLOUT_WRITES, format!("{} writes of one slice in a rollout", rollout.most())),
        (slowest > CHURN, format!("slices followed the activators after {slowest:?}, not {CHURN:?}")),
    ];
    bounds
        .into_iter()
        .filter(|(missed, _)| *missed)
        .map(|(_, text)| format!("{workloads} workloads: {text}"))
        .collect()
}
