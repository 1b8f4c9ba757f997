//! Reads the arguments and runs the sidecar.

use queue_proxy::{App, Args};

// One thread: a sidecar's share of a core is small, and a request then never moves between threads.
#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args = Args::from_environment();
    chassis::telemetry::init(&args.telemetry)?;
    let stop = chassis::shutdown::on_signal()?;
    App::bind(args).await?.run(stop).await
}
