//! Parses the arguments, starts the telemetry, runs the activator.

use activator::{app, args::Args};
use clap::Parser;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    chassis::telemetry::init(&args.telemetry)?;
    app::run(args).await
}
