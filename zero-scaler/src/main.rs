//! zero-scaler: see the library for what it does.

use clap::Parser;
use zero_scaler::{app, args::Args};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    chassis::telemetry::init(&args.telemetry)?;
    app::run(args).await
}
