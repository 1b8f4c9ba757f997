//! zero-scaler: see the library for what it does.

use clap::Parser;
use tikv_jemallocator::Jemalloc;
use zero_scaler::{app, args::Args};

/// See queue-proxy's `main.rs`. Besides, it gives back what a list of everything took.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    runtime::telemetry::init(&args.telemetry)?;
    app::run(args).await
}
