//! The zero-scaler's binary; the library documents it.

use clap::Parser;
use tikv_jemallocator::Jemalloc;
use zero_scaler::{app, args::Args};

/// For the reason see queue-proxy's `main.rs`. It also returns the memory of complete lists to the
/// system.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    runtime::telemetry::init(&args.telemetry)?;
    app::run(args).await
}
