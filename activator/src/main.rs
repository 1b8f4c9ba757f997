//! Parses the arguments, starts the telemetry, runs the activator.

use activator::{app, args::Args};
use clap::Parser;
use tikv_jemallocator::Jemalloc;

/// See queue-proxy's `main.rs`. Besides, it gives back what a burst of held requests took.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    runtime::telemetry::init(&args.telemetry)?;
    app::run(args).await
}
