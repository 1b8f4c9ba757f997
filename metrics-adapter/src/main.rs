//! The metrics-adapter: collects request load, decides on the number of pods, and serves the
//! decisions to the HPA and the zero-scaler.

use clap::Parser;
use metrics_adapter::app;
use metrics_adapter::args::Args;
use tikv_jemallocator::Jemalloc;

/// See queue-proxy's `main.rs`. It also returns the memory of a list of all pods to the system.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    component_base::telemetry::init(&args.telemetry)?;
    app::run(args).await
}
