//! One run: adoption, a restart, idle time, one change, activators that come and go.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use bench_proxies::memory;
use bench_proxies::process::Process;
use tokio::time::{Instant, sleep};

use crate::bench::{Bench, Size, Start, TERMINATION, ZERO_SCALER, cpu_time};
use crate::churn::Churn;

/// Of kube-apiserver.
pub(crate) const DEFAULT_STREAMS: u32 = 100;
/// Duration of the idle time.
const IDLE: Duration = Duration::from_secs(20);

/// The results of a run.
#[derive(Debug)]
pub(crate) struct Measured {
    /// With only the users' objects in place.
    pub(crate) adoption: Start,
    /// With all objects in place.
    pub(crate) restart: Start,
    /// Peak memory of both processes, in bytes.
    pub(crate) memory: u64,
    pub(crate) idle: Idle,
    pub(crate) change: Change,
    pub(crate) churn: Churn,
}

/// The idle time.
#[derive(Debug)]
pub(crate) struct Idle {
    /// CPU time as a share of one core.
    pub(crate) cpu: f64,
    /// Reconciles a second.
    pub(crate) reconciles: f64,
    pub(crate) writes: usize,
}

/// The work for one change.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) reconciles: u64,
    pub(crate) writes: usize,
}

/// Measures a run.
///
/// # Errors
/// When a process cannot be started, or does not finish its work.
pub(crate) async fn measure(
    workloads: usize,
    zero_scaler: &Path,
    activator: &Path,
    logs: &Path,
) -> Result<Measured> {
    let mut bench =
        Bench::new(Size { workloads, plain: false, streams: DEFAULT_STREAMS }, zero_scaler, activator, logs)
            .await?;
    let (process, adoption) = bench.start("adoption").await?;
    let adopted = peak_memory(&process)?;
    process.finish(TERMINATION)?;
    bench.writes();
    let (process, restart) = bench.start("restart").await?;
    let idle = idle(&mut bench, &process).await?;
    let change = change(&mut bench).await?;
    let churn = Churn::measure(&mut bench).await?;
    let memory = peak_memory(&process)?.max(adopted);
    process.finish(TERMINATION)?;
    Ok(Measured { adoption, restart, memory, idle, change, churn })
}

/// In bytes.
pub(crate) fn peak_memory(process: &Process) -> Result<u64> {
    memory::most_resident(&process.id().to_string())
}

async fn idle(bench: &mut Bench<'_>, process: &Process) -> Result<Idle> {
    let (cpu, reconciles, began) = (cpu_time(process)?, ZERO_SCALER.reconciles().await?, Instant::now());
    sleep(IDLE).await;
    let seconds = began.elapsed().as_secs_f64();
    let reconciled = ZERO_SCALER.reconciles().await?.saturating_sub(reconciles);
    let used = cpu_time(process)?.since(&cpu).total;
    Ok(Idle {
        cpu: used.as_secs_f64() / seconds,
        reconciles: reconciled as f64 / seconds,
        writes: bench.writes().len(),
    })
}

async fn change(bench: &mut Bench<'_>) -> Result<Change> {
    let before = ZERO_SCALER.reconciles().await?;
    bench.world.change_one(&bench.api);
    let (_, writes) = bench.until_quiet(Instant::now()).await?;
    Ok(Change { reconciles: ZERO_SCALER.reconciles().await?.saturating_sub(before), writes: writes.len() })
}
