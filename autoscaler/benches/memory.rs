//! Memory of one workload: its collection and decider with default windows, heap included.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;

use autoscaler::contract::metric_name::MetricName;
use autoscaler::scaling::decider::{Decider, DeciderSpec};
use autoscaler::settings::AutoscalerConfig;
use autoscaler::settings::Settings;
use autoscaler::stats::Stat;
use autoscaler::stats::collection::{Collection, WindowSpec};

use table::{Row, print_rows};

mod table;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Long enough to fill every window and the maximum of the scale-down delay.
const SECONDS: u64 = 4000;
const BOUND_BYTES: f64 = 4096.0;

fn main() -> ExitCode {
    let _profiler = dhat::Profiler::builder().testing().build();
    let (settings, _) = Settings::resolve(&AutoscalerConfig::default(), &Default::default());
    let before = dhat::HeapStats::get().curr_bytes;
    let workload = black_box(Box::new(run(&settings)));
    let bytes = dhat::HeapStats::get().curr_bytes - before;
    drop(workload);
    print_rows(&[Row {
        name: "memory of a workload: collection and decider",
        measured: bytes as f64,
        bound: Some(BOUND_BYTES),
        unit: "B",
        noise: 1.0,
    }])
}

/// Records a stat every second and decides every two seconds.
fn run(settings: &Settings) -> (Collection, Decider) {
    let spec = DeciderSpec::default();
    let start = Duration::from_secs(1_600_000_000);
    let mut collection = Collection::new(WindowSpec::from(settings));
    let mut decider = Decider::new(&spec, 1, start);
    for second in 0..SECONDS {
        let now = start + Duration::from_secs(second);
        let load = (second % 97) as f64;
        let stat = Stat { average_concurrent_requests: load, request_count: 10.0 * load, ..Stat::default() };
        collection.record(now, &stat);
        if second % 2 == 0 {
            black_box(decider.decide(&spec, collection.averages(MetricName::Concurrency, now), 1, now));
        }
    }
    (collection, decider)
}
