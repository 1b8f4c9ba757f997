//! `make scale-controller`: the cost of thousands of workloads in the shipped zero-scaler.
//!
//! ```text
//!  world (HPAs, Services, Deployments, slices) ──► fake-api ◄── zero-scaler ◄── decisions
//!                                                     ▲              └── probes ──┐
//!                                                     └── activator (a real one) ◄─┘
//! ```
//!
//! Without a cluster, so that ten thousand workloads fit on two cores: the API server is one in
//! memory, over loopback. Half of the workloads are at zero. A run has four parts: adoption from
//! the users' objects alone; a restart with all objects in place, which must cause no write; idle
//! time with one change in it, of which the work must not depend on the number of workloads; and
//! activators that come and go. Two tables show the results. The exit code is not zero when a bound
//! is missed.

mod adapter;
mod admin;
mod bench;
mod churn;
mod namespaces;
mod run;
mod table;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use run::{DEFAULT_STREAMS, Measured, measure};

/// Measures the cost of many workloads in the zero-scaler.
#[derive(Debug, Parser)]
struct Args {
    /// Binary of the zero-scaler
    #[arg(long)]
    zero_scaler: PathBuf,
    /// Binary of the activator
    #[arg(long)]
    activator: PathBuf,
    /// Numbers of workloads, one run each
    #[arg(long, value_delimiter = ',', default_value = "100,1000,10000")]
    workloads: Vec<usize>,
    /// Measures only the connections to the API server, with this many namespaces of plain pods
    #[arg(long)]
    namespaces: Option<usize>,
    /// The API server's --http2-max-streams-per-connection, with --namespaces
    #[arg(long, default_value_t = DEFAULT_STREAMS)]
    streams: u32,
    /// Directory for logs
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

/// Runs all sizes; returns the missed bounds.
async fn run(args: Args) -> Result<Vec<String>> {
    if let Some(namespaces) = args.namespaces {
        return namespaces::measure(namespaces, args.streams, &args.zero_scaler, &args.activator, &args.logs)
            .await;
    }
    println!("{}", table::HEAD);
    let (mut missed, mut churn) = (Vec::new(), vec![table::CHURN_HEAD.to_owned()]);
    for workloads in args.workloads {
        let measured: Measured = measure(workloads, &args.zero_scaler, &args.activator, &args.logs).await?;
        println!("{}", table::row(workloads, &measured));
        churn.push(table::churn_row(workloads, &measured.churn));
        missed.extend(table::missed(workloads, &measured));
    }
    println!("\n{}", churn.join("\n"));
    Ok(missed)
}
