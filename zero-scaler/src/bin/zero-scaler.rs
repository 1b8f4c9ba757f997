//! The zero-scaler's binary; the library documents it. With the subcommand `uninstall` it ends an
//! installation instead.

use clap::Parser;
use tikv_jemallocator::Jemalloc;
use zero_scaler::FIELD_MANAGER;
use zero_scaler::app;
use zero_scaler::args::{Cli, Command};
use zero_scaler::uninstall;

/// For the reason see queue-proxy's `main.rs`. It also returns the memory of complete lists to the
/// system.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Cli { command, args } = Cli::parse();
    component_base::telemetry::init(&args.telemetry)?;
    match command {
        None => app::run(args).await,
        Some(Command::Uninstall) => {
            let client = component_base::kubernetes::client(FIELD_MANAGER, env!("CARGO_PKG_VERSION")).await?;
            Ok(uninstall::run(&client, &args.system_namespace).await?)
        }
    }
}
