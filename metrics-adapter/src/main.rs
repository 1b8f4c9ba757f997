//! The metrics-adapter: collects live requests, decides how many pods, and tells the HPA and the zero-scaler.

use std::process::ExitCode;

use clap::Parser;
use metrics_adapter::args::{Args, Cli, Command};
use metrics_adapter::{app, simulate};
use tikv_jemallocator::Jemalloc;

/// See queue-proxy's `main.rs`. Besides, it gives back what a list of all pods took.
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
