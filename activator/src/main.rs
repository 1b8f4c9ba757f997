//! Parses the arguments, starts the telemetry, runs the activator.

use activator::{app, args::Args};
use clap::Parser;
use tikv_jemallocator::Jemalloc;

/// Chosen for the data path, see the `main.rs` of queue-proxy. It also returns the memory of a
/// burst to the system.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    component_base::telemetry::init(&args.telemetry)?;
    app::run(args).await
}
