//! What the metrics-adapter takes for how many workloads: CPU time, memory, and how fast it answers.
//!
//! ```text
//!   objects (fake-api) ─────► metrics-adapter ─────► readers of decisions, queries over TLS
//!   pods (datagrams, HTTP) ◄──┘  ▲
//!   an activator that pushes ────┘          all but the adapter itself are in this process
//! ```
//!
//! No cluster: pods are addresses of the loopback network, all of which one socket answers for. Everything shares the cores of one machine; what
//! counts is the adapter's own CPU time, and that nothing is left out: each workload read each second, decided on every two, each
//! query answered in time.

mod adapter;
mod args;
mod callers;
mod counts;
mod parts;
mod pods;
mod queries;
mod restarts;
mod row;
mod world;

use std::process::ExitCode;

use anyhow::Result;
use bench_proxies::table::Table;
use clap::Parser;
use tokio::runtime::Runtime;

use crate::args::Args;
use crate::pods::Pods;
use crate::row::{HEADS, Measured, Size};

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let pods = runtime.block_on(Pods::start(args.http))?;
    let missed =
        if args.restarts { restarts::run(&runtime, &args, &pods)? } else { sizes(&runtime, &args, &pods)? };
    for bound in &missed {
        println!("missed: {bound}");
    }
    println!("{} bounds missed.", missed.len());
    Ok(if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn sizes(runtime: &Runtime, args: &Args, pods: &Pods) -> Result<Vec<String>> {
    let mut table = Table::new(&HEADS);
    let mut missed = Vec::new();
    for size in Size::all(&args.workloads) {
        let measured: Measured = row::measure(runtime, args, size, pods)?;
        println!("{}", measured.in_words());
        missed.extend(measured.missed());
        table.row(measured.cells());
    }
    println!("\n{table}");
    Ok(missed)
}
