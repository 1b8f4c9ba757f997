//! Measures CPU time, memory and latency of the metrics-adapter by number of workloads.
//!
//! ```text
//!   objects (fake-api) ─────► metrics-adapter ─────► subscribers of decisions, HPA queries
//!   pods (datagrams, HTTP) ◄──┘  ▲
//!   an activator that pushes ────┘          everything but the adapter runs in this process
//! ```
//!
//! There is no cluster: pods are loopback addresses, and one socket answers for all pods.
//! Everything shares the cores of one machine, so the result is the adapter's own CPU time. The run
//! also checks that the adapter keeps up: each workload is scraped every second and decided on
//! every two seconds, and each query is answered in time.

mod adapter;
mod args;
mod components;
mod fake_cluster;
mod hpa_queries;
mod http_get;
mod measurement;
mod metrics_sample;
mod pods;
mod replica_restarts;

use std::process::ExitCode;

use anyhow::Result;
use bench_proxies::table::Table;
use clap::Parser;
use tokio::runtime::Runtime;

use crate::args::Args;
use crate::measurement::{COLUMNS, Measurement, WorkloadCount};
use crate::pods::Pods;

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let pods = runtime.block_on(Pods::start(args.http))?;
    let missed = if args.restarts {
        replica_restarts::run(&runtime, &args, &pods)?
    } else {
        measure_all(&runtime, &args, &pods)?
    };
    for bound in &missed {
        println!("missed: {bound}");
    }
    println!("{} bounds missed.", missed.len());
    Ok(if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn measure_all(runtime: &Runtime, args: &Args, pods: &Pods) -> Result<Vec<String>> {
    let mut table = Table::new(&COLUMNS);
    let mut missed = Vec::new();
    for count in WorkloadCount::all(&args.workloads) {
        let measurement: Measurement = measurement::measure(runtime, args, count, pods)?;
        println!("{}", measurement.summary());
        missed.extend(measurement.missed_bounds());
        table.row(measurement.cells());
    }
    println!("\n{table}");
    Ok(missed)
}
