//! `make scale-controller`: what thousands of workloads cost the zero-scaler, as it is shipped.
//!
//! ```text
//!  world (HPAs, Services, Deployments, slices) ──► fake-api ◄── zero-scaler ◄── decisions, each workload's every ten seconds
//!                                                     ▲              └── probes ──┐
//!                                                     └── activator (a real one) ◄─┘
//! ```
//!
//! No cluster, so that ten thousand fit on two cores: the API is one in memory, over loopback. Half of the workloads sleep. Each
//! run has three parts: adoption (only the users' objects are there), a restart (everything is there, so nothing may be
//! written), and rest with one change in it (work follows changes, not numbers). A table tells what it took; exits non-zero when a
//! bound is missed.

mod adapter;
mod looks;
mod run;
mod verdict;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use run::{Measured, measure};

/// What the zero-scaler costs with many workloads.
#[derive(Debug, Parser)]
struct Args {
    /// The zero-scaler's binary.
    #[arg(long)]
    zero_scaler: PathBuf,
    /// The activator's.
    #[arg(long)]
    activator: PathBuf,
    /// How many workloads, one run each.
    #[arg(long, value_delimiter = ',', default_value = "100,1000,10000")]
    workloads: Vec<usize>,
    /// Where logs go.
    #[arg(long, default_value_os_t = std::env::temp_dir().join("rouse-scale-controller"))]
    logs: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(missed) if missed.is_empty() => {
            println!("\nverdict: ok");
            ExitCode::SUCCESS
        }
        Ok(missed) => {
            println!("\nverdict: FAILED. {}", missed.join("; "));
            ExitCode::FAILURE
        }
        Err(error) => {
            println!("\nverdict: FAILED. {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// All runs; the bounds that were missed.
async fn run(args: Args) -> Result<Vec<String>> {
    println!("{}", verdict::HEAD);
    let mut missed = Vec::new();
    for workloads in args.workloads {
        let measured: Measured = measure(workloads, &args.zero_scaler, &args.activator, &args.logs).await?;
        println!("{}", verdict::row(workloads, &measured));
        missed.extend(verdict::missed(workloads, &measured));
    }
    Ok(missed)
}
