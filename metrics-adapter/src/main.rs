//! The metrics-adapter: collects request load, decides on the number of pods, and serves the
//! decisions to the HPA and the zero-scaler.

use std::process::ExitCode;

use clap::Parser;
use metrics_adapter::args::{Args, Cli, Command};
use metrics_adapter::{app, simulate};
use tikv_jemallocator::Jemalloc;

/// See queue-proxy's `main.rs`. It also returns the memory of a list of all pods to the system.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    match &cli.command {
        Some(Command::Simulate(args)) => Ok(simulate::run(args)),
        None => serve(cli.serve).map(|()| ExitCode::SUCCESS),
    }
}

#[tokio::main]
async fn serve(args: Args) -> anyhow::Result<()> {
    runtime::telemetry::init(&args.telemetry)?;
    app::run(args).await
}
