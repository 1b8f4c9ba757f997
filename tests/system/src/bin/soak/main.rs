//! `make soak`: scenarios that are too long for the system tests, on a real cluster, each with
//! bounds.
//!
//! Each file is a scenario; `--only` selects some of them, and the lengths make short forms. A
//! scenario prints its progress, and a table follows at the end. The exit code is not zero when a
//! bound is missed. Times are meaningful only on a machine without other load.

mod args;
mod burst;
mod crowd;
mod cycles;
mod faults;
mod leaders;
mod learning;
mod report;
mod restarts;
mod size_changes;
mod wakes;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use futures::future::BoxFuture;
use kube::Client;
use system_tests::cluster::installation;

use args::{Args, Lengths, Scenario};
use report::Report;

/// Time for all components to become available.
const UP: Duration = Duration::from_secs(120);

// === impl Scenario ===

impl Scenario {
    fn run<'a>(
        self,
        client: &'a Client,
        lengths: &'a Lengths,
        report: &'a mut Report,
    ) -> BoxFuture<'a, Result<()>> {
        match self {
            Self::Cycles => Box::pin(cycles::run(client, lengths, report)),
            Self::Restarts => Box::pin(restarts::run(client, lengths, report)),
            Self::Crowd => Box::pin(crowd::run(client, lengths, report)),
            Self::Burst => Box::pin(burst::run(client, lengths, report)),
            Self::Wakes => Box::pin(wakes::run(client, lengths, report)),
            Self::AppFirstWakes => Box::pin(wakes::run_app_first(client, lengths, report)),
            Self::Leaders => Box::pin(leaders::run(client, lengths, report)),
            Self::Learning => Box::pin(learning::run(client, lengths, report)),
            Self::Faults => Box::pin(faults::run(client, lengths, report)),
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(delay) = args.delay_packets {
        return delay_packets(Duration::from_millis(delay));
    }
    match soak(args).await {
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

fn delay_packets(delay: Duration) -> ExitCode {
    let Err(error) = faults::packet_delay::run(delay);
    println!("packets cannot be delayed: {error:#}");
    ExitCode::FAILURE
}

async fn soak(args: Args) -> Result<Report> {
    let client = component_base::kubernetes::client("soak", env!("CARGO_PKG_VERSION")).await?;
    let scenarios = args.scenarios()?;
    let mut report = Report::default();
    for scenario in scenarios {
        println!("── {scenario:?}");
        installation::until_ready(&client, UP).await?;
        report.begin(format!("{scenario:?}"));
        if let Err(error) =
            scenario.run(&client, &args.lengths, &mut report).await.with_context(|| format!("{scenario:?}"))
        {
            println!("{error:#}");
            report.aborted(&error);
        }
    }
    Ok(report)
}
