//! The metrics-adapter: collects live requests, decides how many pods, and tells the HPA and the zero-scaler.

use clap::Parser;
use metrics_adapter::args::Args;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    chassis::telemetry::init(&args.telemetry)?;
    metrics_adapter::app::run(args).await
}
