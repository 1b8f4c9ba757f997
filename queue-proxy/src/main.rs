//! Reads the arguments and runs the sidecar.

use queue_proxy::{App, Args};
use tikv_jemallocator::Jemalloc;

/// The system's (glibc's) gives large buffers back and takes them again with each request once there are many connections:
/// with 1000 it costs half as much again of user CPU time. mimalloc is as quick, and rests at 11 MiB instead of 5.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

// One thread: a sidecar's share of a core is small, and a request then never moves between threads.
#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args = Args::from_environment();
    runtime::telemetry::init(&args.telemetry)?;
    let stop = runtime::shutdown::on_signal()?;
    App::bind(args).await?.run(stop).await
}
