//! `kubectl rouse`: shows, checks and changes workloads with the rights of the user.

use std::io;
use std::process::ExitCode;

use clap::Parser;
use cli::app;
use cli::args::Cli;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    app::run(Cli::parse(), &mut io::stdout()).await
}
