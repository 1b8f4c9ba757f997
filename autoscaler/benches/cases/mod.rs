//! Benchmark cases: criterion measures each, and a table at the end compares medians with bounds.
//!
//! Used by the benchmarks `cost` of this crate, of `learning` and of `activator`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use criterion::{Bencher, Criterion};

use crate::table::{Row, print_rows};

/// Factor that a shared machine may add before a bound counts as missed.
const NOISE: f64 = 2.0;

/// A benchmark case.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Nanoseconds; cases without a bound are only reported.
    pub(crate) bound: Option<f64>,
    pub(crate) run: fn(&mut Bencher<'_>),
}

/// Measures all cases and prints their table; fails if a bound is missed.
pub(crate) fn run(cases: &[Case]) -> ExitCode {
    // Cargo passes `--bench` for benchmarks only; as a test there is nothing to do.
    if !std::env::args().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("criterion");
    let mut criterion = Criterion::default()
        .output_directory(&directory)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_millis(1500));
    for case in cases {
        criterion.bench_function(case.name, case.run);
    }
    // The memory benchmark prints its row below this table.
    println!("{:<62}{:>12}{:>12}   result", "operation", "measured", "bound");
    let rows: Vec<_> = cases.iter().map(|case| row(case, &directory)).collect();
    print_rows(&rows)
}

fn row(case: &Case, directory: &Path) -> Row {
    Row {
        name: case.name,
        measured: median(&estimates(case, directory)),
        bound: case.bound,
        unit: "ns",
        noise: NOISE,
    }
}

/// Path of criterion's estimates of a case.
fn estimates(case: &Case, directory: &Path) -> PathBuf {
    directory.join(case.name).join("new").join("estimates.json")
}

fn median(estimates: &Path) -> f64 {
    let estimates: serde_json::Value = serde_json::from_slice(&fs::read(estimates).unwrap()).unwrap();
    estimates.pointer("/median/point_estimate").and_then(serde_json::Value::as_f64).unwrap()
}
