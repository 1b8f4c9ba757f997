//! Reads the arguments and runs the sidecar, or starts the drain of the running one.

use queue_proxy::{App, Args, Command, start_drain};
use tikv_jemallocator::Jemalloc;

/// With 1000 connections glibc's allocator returns large buffers to the kernel and requests them
/// again for each request, which costs half as much user CPU time again. mimalloc is as fast as
/// jemalloc, but has 11 MiB resident when idle instead of 5.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

// One thread, because a sidecar's share of a core is small. Traffic has its own worker threads.
#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args = Args::from_environment();
    if args.command == Some(Command::StartDrain) {
        return start_drain(args.admin_listen, args.pod_uid).await;
    }
    component_base::telemetry::init(&args.telemetry)?;
    let stop = component_base::shutdown::on_signal()?;
    App::bind(args).await?.run(stop).await
}
