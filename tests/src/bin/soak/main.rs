//! `make soak`: the promises that take long to test, on a whole cluster, each with its bound.
//!
//! One scenario, one file; `--only` runs some of them, and the sizes make short forms. Each prints what it sees on the way. At
//! the end there is a table; the exit code is not zero when a bound was missed. Speed is only what it is on a machine that does
//! nothing else.

mod burst;
mod crowd;
mod cycles;
mod leaders;
mod report;
mod restarts;
mod wakes;
mod writers;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use futures::future::BoxFuture;
use kube::Client;
use system_tests::installation;

use report::Report;

/// Time for all parts to be there.
const UP: Duration = Duration::from_secs(120);

/// Long tests of the whole loop, with bounds.
#[derive(Debug, Parser)]
struct Args {
    /// Only these.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Scenario>,
    #[command(flatten)]
    sizes: Sizes,
}

/// How long each scenario is. The defaults are the promises.
#[derive(Clone, Debug, clap::Args)]
struct Sizes {
    /// Ways from zero to one and back.
    #[arg(long, default_value_t = 1000)]
    cycles: usize,
    /// Workloads that take them side by side.
    #[arg(long, default_value_t = 10)]
    cyclers: usize,
    /// Bursts on a running workload, for each burst capacity.
    #[arg(long, default_value_t = 10)]
    bursts: usize,
    /// Wakes, and as many bare starts.
    #[arg(long, default_value_t = 100)]
    wakes: usize,
    /// Times that the leaders are killed.
    #[arg(long, default_value_t = 5)]
    kills: usize,
    /// Requests at a time that a sleeping workload gets.
    #[arg(long, default_value_t = 1000)]
    crowd: u32,
    /// Requests a second while our own parts are restarted and killed.
    #[arg(long, default_value_t = 200.0)]
    steady_rate: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Scenario {
    /// Zero and back, again and again, with requests at every moment of it.
    Cycles,
    /// Steady load while each part is restarted, and each leader killed.
    Restarts,
    /// A sleeping workload is asked by very many at once.
    Crowd,
    /// A running workload's load grows a hundredfold.
    Burst,
    /// The time that a wake takes beyond the pod's own start.
    Wakes,
    /// Wakes half a second after leaders were killed.
    Leaders,
}

// === impl Scenario ===

impl Scenario {
    fn run<'a>(
        self,
        client: &'a Client,
        sizes: &'a Sizes,
        report: &'a mut Report,
    ) -> BoxFuture<'a, Result<()>> {
        match self {
            Self::Cycles => Box::pin(cycles::run(client, sizes, report)),
            Self::Restarts => Box::pin(restarts::run(client, sizes, report)),
            Self::Crowd => Box::pin(crowd::run(client, sizes, report)),
            Self::Burst => Box::pin(burst::run(client, sizes, report)),
            Self::Wakes => Box::pin(wakes::run(client, sizes, report)),
            Self::Leaders => Box::pin(leaders::run(client, sizes, report)),
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match soak(Args::parse()).await {
        Ok(report) => {
            print!("\n{report}");
            if report.is_met() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            println!("\nverdict: FAILED. {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn soak(args: Args) -> Result<Report> {
    let client = runtime::kubernetes::client("soak", env!("CARGO_PKG_VERSION")).await?;
    let scenarios = if args.only.is_empty() { Scenario::value_variants() } else { &args.only };
    let mut report = Report::default();
    for scenario in scenarios {
        println!("── {scenario:?}");
        installation::until_ready(&client, UP).await?;
        report.begin(format!("{scenario:?}"));
        if let Err(error) =
            scenario.run(&client, &args.sizes, &mut report).await.with_context(|| format!("{scenario:?}"))
        {
            println!("{error:#}");
            report.broken(&error);
        }
    }
    Ok(report)
}
