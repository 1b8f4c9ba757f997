//! The table and its bounds.

use std::time::Duration;

use crate::run::Measured;

/// From the start of the process until everything is as it should be, for any number of workloads.
const START: Duration = Duration::from_secs(60);
/// Most memory at any moment, in bytes.
const MEMORY: u64 = 300 << 20;
/// Share of one core, at rest.
const REST: f64 = 0.05;
/// Looks at objects that one change may cause, and writes.
const LOOKS: u64 = 20;
const WRITES: usize = 10;

pub(crate) const HEAD: &str = "  workloads  adopted after   writes  CPU time  restart known after  writes  CPU time  most memory  \
     at rest: CPU   looks/s  writes  one change: looks  writes";

pub(crate) fn row(workloads: usize, m: &Measured) -> String {
    let seconds = |duration: Duration| format!("{:.1} s", duration.as_secs_f64());
    format!(
        "{workloads:>11}{:>15}{:>9}{:>10}{:>21}{:>8}{:>10}{:>13}{:>14}{:>10.1}{:>8}{:>19}{:>8}",
        seconds(m.adoption.took),
        m.adoption.writes,
        seconds(m.adoption.cpu),
        seconds(m.restart.took),
        m.restart.writes,
        seconds(m.restart.cpu),
        format!("{} MiB", m.memory >> 20),
        format!("{:.1} %", m.rest.cpu * 100.0),
        m.rest.looks,
        m.rest.writes,
        m.change.looks,
        m.change.writes,
    )
}

/// What is not as it should be, in words.
pub(crate) fn missed(workloads: usize, m: &Measured) -> Vec<String> {
    let bounds = [
        (m.adoption.took > START, format!("adoption took {:?}, not {START:?}", m.adoption.took)),
        (m.restart.took > START, format!("the restart took {:?}, not {START:?}", m.restart.took)),
        (m.restart.writes > 0, format!("{} writes after a restart", m.restart.writes)),
        (m.memory > MEMORY, format!("{} MiB of memory, not {}", m.memory >> 20, MEMORY >> 20)),
        (m.rest.writes > 0, format!("{} writes at rest", m.rest.writes)),
        (
            m.rest.cpu > REST,
            format!("{:.1} % of a core at rest, not {:.0}", m.rest.cpu * 100.0, REST * 100.0),
        ),
        (m.change.looks == 0 || m.change.writes == 0, "a change was not followed".to_owned()),
        (m.change.looks > LOOKS, format!("{} looks for one change", m.change.looks)),
        (m.change.writes > WRITES, format!("{} writes for one change", m.change.writes)),
    ];
    bounds
        .into_iter()
        .filter(|(missed, _)| *missed)
        .map(|(_, words)| format!("{workloads} workloads: {words}"))
        .collect()
}
